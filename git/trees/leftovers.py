"""Leftovers of the work trees of tasks. Nothing is changed here."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ...schema.process_table import is_running
from .tree_list import admin_folders, read_lock
from .tree_names import CHECK_MARK, is_check, is_marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .tree_list import Tree
    from .work_trees import WorkTrees

#: A process in the reason of a lock, as other tools write it.
_PID = re.compile(r"\bpid[ :=]*([1-9][0-9]{0,9})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that nobody may need any more.

    Attributes:
        kind: `folder`, `stub`, `unfinished`, `deleted`, `index_lock`, `dead_lock`,
            or `check`.
        path: where it is.
        says: what it is, and what can be done.
        task: the task whose tree it is, or None.
    """

    kind: str
    path: str
    says: str
    task: str | None = None


def find_leftovers(trees: WorkTrees) -> list[Leftover]:
    """Return what was left in a repository, and in the folder of its trees."""
    known = trees.read()
    return [
        *_strange_folders(trees.folder, {os.path.realpath(tree.path) for tree in known}),
        *_stubs(trees.place.common_dir),
        *(found for tree in known for found in _of_tree(tree)),
        *_check_trees(trees, known),
    ]


def _strange_folders(folder: str, known: set[str]) -> Iterator[Leftover]:
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(folder, name)
        if name != ".gitignore" and os.path.realpath(path) not in known:
            says = f"{path} is no work tree that git knows; look at it, then delete it by hand"
            yield Leftover("folder", path, says)


def _stubs(common_dir: str) -> Iterator[Leftover]:
    for admin in admin_folders(common_dir):
        if is_marked(read_lock(admin)) and not os.path.lexists(os.path.join(admin, "gitdir")):
            says = f"{admin} was left by a kill, and has nothing; spawn the task again or delete it"
            yield Leftover("stub", admin, says)


def _check_trees(trees: WorkTrees, known: list[Tree]) -> Iterator[Leftover]:
    for tree in known:
        reason = tree.lock or ""
        if is_check(reason) and not trees.locks.is_integrated(reason.removeprefix(CHECK_MARK)):
            says = f"{tree.path} was left by an integrator that was killed; the next one removes it"
            yield Leftover("check", tree.path, says)


def _of_tree(tree: Tree) -> Iterator[Leftover]:
    task = tree.note.task if tree.note else None
    if not tree.is_ours:
        if (pid := _dead_process(tree.lock)) is not None:
            says = f"{tree.path} is locked for process {pid}, which is gone; 'git worktree unlock'"
            yield Leftover("dead_lock", tree.path, says)
        return
    if not tree.is_made:
        says = f"{tree.path} was never finished; spawn the task again, or clean it by its name"
        yield Leftover("unfinished", tree.path, says, task)
    elif not tree.is_there:
        says = f"{tree.path} was deleted by hand; spawn the task again, or clean it"
        yield Leftover("deleted", tree.path, says, task)
    if os.path.lexists(lock := os.path.join(tree.admin, "index.lock")):
        says = f"{lock} is there: a git is at work in {tree.path}, or was killed there"
        yield Leftover("index_lock", lock, says, task)


def _dead_process(reason: str | None) -> int | None:
    """Return the process that a lock is for by its reason, if there is none of that id."""
    match = _PID.search(reason or "")
    if match is None or is_running(int(match[1])):
        return None
    return int(match[1])
