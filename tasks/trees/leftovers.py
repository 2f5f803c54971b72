"""Leftovers of tasks in their repositories: for doctor, which names what can be cleaned."""

from __future__ import annotations

import os

from ...git.branches.repositories import Place
from ...git.one_look import one_look
from ...git.repository import GitFailed, LookCut
from ...git.trees.leftovers import Leftover, find_leftovers
from ...git.trees.work_trees import WorkTrees
from ...git.trusted import TrustedRepositories
from ..records.task import FINAL
from ..steps.tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...git.trees.tree_list import Tree
    from ..records.task import Task

#: How long a process that makes a tree is waited for, in seconds: somebody waits for the answer.
_WAIT_S = 5.0


@one_look()
def leftovers_of(bus: Bus) -> list[Leftover]:
    """Return what tasks have left in the repositories that the bus knows of."""
    tasks = {task.task: task for task in Tasks(bus).list()}
    found = []
    for place in repositories_of(bus):
        trees = WorkTrees(place, wait_s=_WAIT_S, is_looking=True)
        found += find_leftovers(trees)
        found += [each for tree in trees.all() if (each := _of_task(tree, tasks))]
    return found


def repositories_of(bus: Bus, *folders: str) -> list[Place]:
    """Return the repositories of all tasks, that in which the bus is, and those around folders.

    Those of tasks are left out in which git may not be started.
    """
    trusted = TrustedRepositories(bus.layout.directory, *folders)
    named = sorted({task.repository for task in Tasks(bus).list()})
    places = []
    for path in named:
        if os.path.isdir(path) and trusted.has(path):
            places.append(Place.around(path))
    for folder in (bus.layout.directory, *folders):
        try:
            places.append(Place.around(folder))
        except LookCut:
            raise
        except GitFailed:  # it is in none
            continue
    return list(dict.fromkeys(places))


def not_looked_into(bus: Bus) -> list[str]:
    """Return the repositories of live tasks in which git may not be started."""
    trusted = TrustedRepositories(bus.layout.directory)
    named = sorted({task.repository for task in Tasks(bus).list(is_live=True)})
    return [path for path in named if not trusted.has(path)]


def _of_task(tree: Tree, tasks: dict[str, Task]) -> Leftover | None:
    """Return a finished tree as a leftover if no task needs it, or None."""
    if tree.note is None or not tree.note.is_made:
        return None
    task = tasks.get(tree.note.task)
    if task is None:
        says = f"{tree.path} is of task {tree.note.task!r}, which this bus does not know"
        return Leftover("unknown_task", tree.path, says, tree.note.task)
    if task.state in FINAL and not task.unproven:
        says = f"{tree.path} is of task {task.task!r}, which is {task.state}; 'bus task clean'"
        return Leftover("over", tree.path, says, task.task)
    return None
