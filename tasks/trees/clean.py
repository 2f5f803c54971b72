"""Clean: remove the trees and branches of tasks that are over, and lose nothing.

Removed is what landed, and what is kept at a ref; all else stays and is named. A tree under a
live lease, or in which a process works, is never touched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...git.branches.patches import has_elsewhere
from ...git.branches.repositories import Place
from ...git.repository import GitFailed
from ...git.trees.occupants import occupants_of
from ...git.trees.removal import Removal
from ...git.trees.work_trees import WorkTrees
from ...schema.errors import Refused, TimedOut
from ..records.task import FINAL
from ..steps.tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...bus.bus import Bus
    from ...git.trees.removal import Removed
    from ..records.task import Task


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


class Clean:
    """Cleans after tasks that are over.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._tasks = Tasks(bus)

    def clean(
        self, names: Sequence[str] = (), *, keeps_files: bool = False, is_dry: bool = False
    ) -> list[Cleaned]:
        """Clean after tasks. Safe to repeat.

        Args:
            names: of tasks; none: all whose state is final.
            keeps_files: whether files that are not committed are kept at a ref; else they keep
                their tree from being removed.
            is_dry: whether nothing is changed, but said.

        Raises:
            TaskNotFound: there is no task of a name.
        """
        if names:
            tasks = [self._tasks.get(name) for name in names]
        else:
            tasks = self._tasks.list(states=FINAL)
        wanted = [task for task in tasks if names or task.cleaned_at_ms is None]
        return [self._one(task, keeps_files, is_dry) for task in wanted]

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
