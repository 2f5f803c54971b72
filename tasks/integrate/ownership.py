"""Whose commits an entry has: what belongs to a task that is not approved lands by no other way.

A task's own commits are those of its branch's first-parent line beyond its base: what its worker
merged into it from elsewhere is not its own. A commit with the same change and another id is
another commit.
"""

from __future__ import annotations

from ..records.task import LIVE, Task
from ..records.task_table import TaskTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...bus.bus import Bus
    from ...git.branches.repositories import Place
    from ...git.repository import Repository
    from ..options import TaskState
    from .entries import Entry

#: The states of tasks whose work was given up: no plain branch lands it, but a task whose review
#: approved a head with it does.
_GIVEN_UP: tuple[TaskState, ...] = ("CANCELLED", "FAILED")


class Ownership:
    """Says of entries of one repository what a task keeps from landing.

    Args:
        bus: the bus.
        place: the repository.
        git: reads its commits, and perhaps others that are kept aside; None: the repository's own.
    """

    def __init__(self, bus: Bus, place: Place, git: Repository | None = None) -> None:
        self._table = TaskTable.of(bus)
        self._repository = place.common_dir
        self._git = git or place.git

    def obstacle(self, entry: Entry, onto: str) -> str | None:
        """Return which commits of an entry may not land, with their task; None: all may.

        Args:
            entry: the entry.
            onto: the commit that the target is at.
        """
        git = self._git
        head = None if entry.head is None else git.commit(entry.head)
        tasks = [task for task in self._tasks(entry) if not _is_approved(task, head)]
        for task in tasks:
            if entry.task is None and task.is_live and entry.branch == task.branch:
                return f"branch {task.branch} is that of {_said(task)}"
        if head is None or not tasks:
            return None
        beyond = set(self._ids(head, onto=[onto]))
        for task in tasks if beyond else ():
            own = beyond.intersection(self._own(task, onto))
            if own:
                return f"it contains {min(own)[:12]} of {_said(task)}"
        return None

    def _tasks(self, entry: Entry) -> Iterator[Task]:
        """Yield the other tasks of the repository whose commits might be in an entry."""
        states = LIVE if entry.task is not None else LIVE + _GIVEN_UP
        for task in self._table.find(states=states):
            if task.repository == self._repository and task.task != entry.task:
                yield task

    def _own(self, task: Task, onto: str) -> list[str]:
        """Return the own commits of a task that the target has not.

        Of an approved task those are what came after the approval.
        """
        git = self._git
        names = [task.head] if task.head else []
        if task.is_live or task.cleaned_at_ms is None:
            names.append(f"refs/heads/{task.branch}")
        tips = [commit for commit in git.commits(names) if commit is not None]
        before = [task.base, *([task.head] if _may_land(task) and task.head else [])]
        known = [commit for commit in git.commits(before) if commit is not None]
        return self._ids("--first-parent", *tips, onto=[onto, *known]) if tips else []

    def _ids(self, *what: str, onto: Iterable[str]) -> list[str]:
        """Return the ids of commits, without those that others contain."""
        return self._git.run("rev-list", *what, "--not", *onto).decode().split()


def _may_land(task: Task) -> bool:
    return task.state == "APPROVED" and not task.unproven


def _is_approved(task: Task, head: str | None) -> bool:
    """Whether a task is approved at a head itself; not what its branch has beyond that."""
    return head is not None and task.head == head and _may_land(task)


def _said(task: Task) -> str:
    how = f"{task.state}, but unproven" if task.unproven else task.state
    return f"task {task.task!r}, which is {how}, in attempt {task.attempt}"
