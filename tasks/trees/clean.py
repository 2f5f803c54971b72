"""Clean: remove the trees and branches of tasks that are over, and lose nothing.

Removed is what landed, and what is kept at a ref; all else stays and is named. A tree under a
live lease, or in which a process works, is never touched. One whose making was cut off before it
had a task is removed by its name alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from ...git.branches.patches import has_elsewhere
from ...git.branches.repositories import Place
from ...git.repository import GitFailed
from ...git.trees.occupants import occupants_of
from ...git.trees.removal import Removal
from ...git.trees.work_trees import WorkTrees
from ...schema.arguments import with_checked_arguments
from ...schema.errors import Refused, TimedOut
from ..records.task import FINAL, Task
from ..steps.errors import TaskNotFound
from ..steps.tasks import Tasks
from .leftovers import repositories_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...bus.bus import Bus
    from ...git.trees.removal import Removed
    from ...git.trees.tree_list import Tree

#: How long a process that makes a tree is waited for, in seconds.
_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The outcome of cleaning one task.

    Attributes:
        task: its name.
        path, branch: its tree and its branch.
        is_removed: whether they are gone.
        refs: what keeps commits and files that nothing else has.
        reason: why something stays, or None.
    """

    task: str
    path: str
    branch: str
    is_removed: bool
    refs: Sequence[str] = ()
    reason: str | None = None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "task": self.task,
            "outcome": "removed" if self.is_removed else "kept",
            "path": self.path,
            "branch": self.branch,
            "refs": list(self.refs),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A tree whose making was cut off: nobody was given it, and whoever makes one has its lock.

    Attributes:
        name: of the task that it was for.
        trees, tree: where it is.
    """

    name: str
    trees: WorkTrees
    tree: Tree

    def clean(self, *, is_dry: bool) -> Cleaned:
        """Remove it with the branch that was made for it; files of half a checkout are kept too."""
        branch = None if self.tree.note is None else self.tree.note.branch
        cleaned = partial(Cleaned, self.name, self.tree.path, branch or "")
        if pids := occupants_of(self.tree.path):
            return cleaned(False, (), f"process {pids[0]} works in it; end it first")
        removal = Removal(self.trees)
        try:
            if is_dry:
                removal.check(self.name, keeps_files=True)
                return cleaned(True)
            removed = removal.remove(self.name, branch, keeps_files=True)
        except (Refused, GitFailed, TimedOut) as error:
            return cleaned(False, (), str(error))
        return cleaned(removed.reason is None, [kept.ref for kept in removed.kept], removed.reason)


@with_checked_arguments
class Clean:
    """Cleans after tasks that are over.

    Args:
        bus: an open bus.
        folder: in a repository where trees without a task are looked for besides those of tasks.
    """

    def __init__(self, bus: Bus, folder: str = os.curdir) -> None:
        self._bus = bus
        self._folder = folder
        self._tasks = Tasks(bus)

    def clean(
        self, names: Sequence[str] = (), *, keeps_files: bool = False, is_dry: bool = False
    ) -> list[Cleaned]:
        """Clean after tasks. Safe to repeat.

        Args:
            names: of tasks, and of trees that were never finished; none: all tasks whose state is
                final.
            keeps_files: whether files that are not committed are kept at a ref; else they keep
                their tree from being removed.
            is_dry: whether nothing is changed, but said.

        Raises:
            TaskNotFound: there is no task of a name, and no tree that was never finished.
        """
        wanted = [self._find(name) for name in names] or [
            task for task in self._tasks.list(states=FINAL) if task.cleaned_at_ms is None
        ]
        return [
            self._one(each, keeps_files, is_dry)
            if isinstance(each, Task)
            else each.clean(is_dry=is_dry)
            for each in wanted
        ]

    def _find(self, name: str) -> Task | _Unfinished:
        try:
            return self._tasks.get(name)
        except TaskNotFound:
            for place in repositories_of(self._bus, self._folder):
                trees = WorkTrees(place, wait_s=_WAIT_S)
                tree = trees.of(name)
                if tree is not None and not tree.is_made:
                    return _Unfinished(name, trees, tree)
            raise

    def _one(self, task: Task, keeps_files: bool, is_dry: bool) -> Cleaned:
        if (reason := self._use_of(task)) is not None:
            return Cleaned(task.task, task.path, task.branch, False, (), reason)
        try:
            removal = Removal(WorkTrees(Place.around(task.repository)))
            if is_dry:
                removal.check(task.task, keeps_files=keeps_files)
                return Cleaned(task.task, task.path, task.branch, True)
            removed = self._removed(task, removal, keeps_files)
        except (Refused, GitFailed, TimedOut) as error:
            return Cleaned(task.task, task.path, task.branch, False, (), str(error))
        if removed.reason is None and task.cleaned_at_ms is None:
            self._tasks.mark_cleaned(task.task)
        refs = [kept.ref for kept in removed.kept]
        is_removed = removed.reason is None
        return Cleaned(task.task, task.path, task.branch, is_removed, refs, removed.reason)

    def _use_of(self, task: Task) -> str | None:
        """Return why a tree must stay, or None."""
        held = self._tasks.holder(task)
        if held is not None:
            return f"{held.holder} has the lease on it"
        if task.unproven:
            return "the task is unproven"
        if task.state not in FINAL:
            return f"the task is {task.state}"
        if not os.path.isdir(task.repository):
            return f"its repository {task.repository} is not there"
        if pids := occupants_of(task.path):
            return f"process {pids[0]} works in it"
        return None

    def _removed(self, task: Task, removal: Removal, keeps_files: bool) -> Removed:
        landed = [task.head] if task.head and self._has_landed(task, removal.place) else []
        return removal.remove(task.task, task.branch, landed=landed, keeps_files=keeps_files)

    def _has_landed(self, task: Task, place: Place) -> bool:
        """Whether the commit by which a task landed still is in the history of another branch."""
        if task.state != "COMPLETED" or task.commit_id is None:
            return False
        return has_elsewhere(place, task.commit_id, task.branch)
