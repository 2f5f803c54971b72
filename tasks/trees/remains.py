"""The remains of a tree whose making was cut off before its task was recorded.

Nobody has it: its maker has no lease, no task, and no process there. Whoever has the lease on the
name goes on with it where it fits, and else removes it; commits and files are kept first.
"""

from __future__ import annotations

import logging

from ...git.trees.occupants import occupants_of
from ...git.trees.removal import Removal
from ...git.trees.tree_locks import NameTaken
from ...schema.errors import Refused, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...git.trees.tree_list import Tree
    from ...git.trees.work_trees import WorkTrees
    from ..records.task import NewTask

_log = logging.getLogger("ackbus.tasks.trees")


def clear_remains(trees: WorkTrees, new: NewTask, bus: str) -> None:
    """Remove what another making of a task has left, unless this one can go on with it.

    The caller has the lease on the task, which has no row. What is kept is told to the log.

    Args:
        trees: of the repository.
        new: the task that is to be made.
        bus: the directory of its bus.

    Raises:
        NameTaken: it was finished, and nothing says that it is of this bus.
        Refused: a process works in it, or it has what can't be kept.
        TreeBusy: a process is making it.
    """
    tree = trees.of(new.task)
    if tree is None or _fits(tree, new, bus):
        return
    if tree.is_made and (tree.note is None or tree.note.bus != bus):
        raise NameTaken(
            f"task {new.task!r} has a tree already, at {tree.path}, on branch"
            f" {shown(tree.branch)}, which this bus did not make; choose another name"
        )
    if pids := occupants_of(tree.path):
        raise Refused(f"process {pids[0]} works in {tree.path}; end it, then try again")
    branch = tree.note.branch if tree.note is not None else None
    removed = Removal(trees).remove(new.task, branch, keeps_files=True)
    for kept in removed.kept:
        _log.warning("task %s: %s is kept at %s", new.task, kept.commit[:12], kept.ref)


def _fits(tree: Tree, new: NewTask, bus: str) -> bool:
    """Whether the making of a tree can go on as that of a new task."""
    note = tree.note
    if note is None:
        return tree.branch in (None, new.branch) and tree.head in (None, new.base)
    is_of_another = tree.is_made and note.bus not in (None, bus)
    return (note.branch, note.base) == (new.branch, new.base) and not is_of_another
