"""The changes that a task has made so far, or that it was done with."""

from __future__ import annotations

from dataclasses import dataclass

from ...git.branches.changes import counts_of, start_of, text_of
from ...git.trusted import TrustedRepositories
from ...schema.errors import NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...git.branches.changes import FileChange
    from ...git.sealed import SealedRepository
    from ..records.task import Task


@dataclass(frozen=True, slots=True)
class TaskDiff:
    """The commits between which a task's changes are.

    Attributes:
        git: its repository, sealed.
        start, head: the commits.
    """

    git: SealedRepository
    start: str
    head: str

    @classmethod
    def of(cls, bus: Bus, task: Task) -> TaskDiff:
        """Return the changes of a task: of its branch, or of what it was done with.

        Raises:
            NotTrusted: its repository may not be looked into.
            NotFound: neither is there any more.
        """
        git = TrustedRepositories(bus.layout.directory).sealed(task.repository)
        of_branch, pinned, base = git.commits(
            [f"refs/heads/{task.branch}", task.head or "", task.base]
        )
        head = of_branch or pinned
        if head is None:
            raise NotFound(f"task {task.task!r} has no branch {task.branch} any more")
        start = (None if task.commit_id else start_of(git, task.target, head)) or base
        if start is None:
            raise NotFound(f"the commit at which task {task.task!r} began is not there any more")
        return cls(git, start, head)

    def text(self) -> str:
        """Return them as a patch."""
        return text_of(self.git, self.start, self.head)

    def files(self) -> list[FileChange]:
        """Return the files that changed."""
        return counts_of(self.git, self.start, self.head)
