"""The files that tasks change on their branches, and that others have reserved."""

from __future__ import annotations

from dataclasses import dataclass

from ...git.branches.meeting import changed_files
from ...git.repository import CommandFailed
from .forecast import heads_of
from .lookout import Lookout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ...bus.bus import Bus
    from ...bus.reservations.reservations import Conflict
    from ..records.task import Task

    #: The changed files of tasks, by the names of these.
    Changed = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reserved:
    """A file that a task changes, and that another agent has reserved.

    Attributes:
        task: the name of the task.
        conflict: the file, and the reservation.
    """

    task: str
    conflict: Conflict

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        path = self.conflict.path.encode(errors="backslashreplace").decode()
        return {"task": self.task, "path": path, "held": self.conflict.held.record()}


def reserved_by_others(
    bus: Bus, tasks: Iterable[Task], lookout: Lookout | None = None
) -> list[Reserved]:
    """Return the files that tasks change on their branches and that others have reserved.

    A path counts from the root of its repository, as for the guard.

    Args:
        bus: an open bus.
        tasks: the tasks.
        lookout: looks into the repositories, and notes those into which it may not.

    Raises:
        GitFailed: git is not installed.
    """
    tasks = list(tasks)
    return compare(bus, tasks, changed_by(tasks, lookout or Lookout(bus)))


def changed_by(tasks: Iterable[Task], lookout: Lookout) -> Changed:
    """Return the files that each task changes on its branch since that left its target."""
    tasks = list(tasks)
    found: dict[str, tuple[str, ...]] = {}
    for folder, heads in heads_of(tasks, lookout).items():
        repository = lookout.into(folder)
        if repository is None:
            continue
        here = [task for task in tasks if task.task in heads and task.repository == folder]
        targets = repository.commits([f"refs/heads/{task.target}" for task in here])
        bases = repository.commits([task.base for task in here])
        # A target that is gone: then since the branch began.
        begun = {
            task.task: target or base
            for task, target, base in zip(here, targets, bases, strict=True)
        }
        here = [task for task in here if begun[task.task]]
        try:
            changes = changed_files(
                repository, [(begun[task.task] or "", heads[task.task]) for task in here]
            )
        except CommandFailed:  # an object is missing
            continue
        for task, changed in zip(here, changes, strict=True):
            found[task.task] = tuple(sorted(changed))
    return found


def compare(bus: Bus, tasks: Iterable[Task], changed: Changed) -> list[Reserved]:
    """Return which of the changed files of tasks others have reserved."""
    return [
        Reserved(task.task, conflict)
        for task in tasks
        if task.task in changed
        for conflict in bus.reservations.against(changed[task.task], task.worker)
    ]
