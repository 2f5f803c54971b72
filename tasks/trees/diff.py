"""The changes that a task has made so far, or that it was done with."""

from __future__ import annotations

from dataclasses import dataclass

from ...git.branches.changes import counts_of, start_of, text_of
from ...git.branches.repositories import Place
from ...schema.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...git.branches.changes import FileChange
    from ..records.task import Task


@dataclass(frozen=True, slots=True)
class TaskDiff:
    """The commits between which a task's changes are.

    Attributes:
        place: its repository.
        start, head: the commits.
    """

    place: Place
    start: str
    head: str

    @classmethod
    def of(cls, task: Task) -> TaskDiff:
        """Return the changes of a task: of its branch, or of what it was done with.

        Raises:
            NotFound: neither is there any more.
        """
        place = Place.around(task.repository)
        head = place.git.commit(f"refs/heads/{task.branch}")
        if head is None and task.head is not None:
            head = place.git.commit(task.head)
        if head is None:
            raise NotFound(f"task {task.task!r} has no branch {task.branch} any more")
        start = None if task.commit_id else start_of(place, task.target, head)
        return cls(place, start or task.base, head)

    def text(self) -> str:
        """Return them as a patch."""
        return text_of(self.place, self.start, self.head)

    def files(self) -> list[FileChange]:
        """Return the files that changed."""
        return counts_of(self.place, self.start, self.head)
