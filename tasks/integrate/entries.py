"""Entries of the integrator's queue, and their results."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..records.task import LIVE, Task
from ..records.task_table import TaskTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Literal

    from ...bus.local_bus import LocalBus
    from ...git.branches.candidates import Candidate
    from ...git.branches.repositories import RepositoryPlace
    from ...git.repository import Repository
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim
    from ..records.task import TaskState

    #: The end of an entry. `proposed`: somebody else is asked to move the target.
    #: `would_land`: it merges in a dry run; `not_known`: a dry run can't tell, as it runs no merge
    #: driver.
    OutcomeKind = Literal[
        "landed",
        "conflict",
        "check_failed",
        "requeued",
        "rejected",
        "proposed",
        "would_land",
        "not_known",
    ]


@dataclass(frozen=True, slots=True)
class LandingEntry:
    """A commit that waits to be integrated.

    Attributes:
        message: the completion.
        claim: the claim on it; None where nothing is claimed.
        task, attempt: the task and its attempt; None for a branch without a task.
        branch: the name of the branch.
        head: the commit; None where the completion names none.
        repository, target: where it is to land; None: wherever its integrator works.
        title: its subject, or None.
        session: the session of PushPals' clients that it belongs to, or None.
    """

    message: Message
    claim: Claim | None
    task: str | None
    attempt: int | None
    branch: str
    head: str | None
    repository: str | None
    target: str | None
    title: str | None
    session: str | None = None

    @classmethod
    def of(cls, message: Message, claim: Claim | None = None) -> LandingEntry:
        """Return the entry of a completion, of a task or in PushPals' form."""
        payload = message.payload if isinstance(message.payload, dict) else {}
        attempt = payload.get("attempt")
        head = _text(payload, "head") or _text(payload, "commitSha")
        return cls(
            message=message,
            claim=claim,
            task=_text(payload, "task"),
            attempt=attempt if isinstance(attempt, int) else None,
            branch=_text(payload, "branch") or head or "?",
            head=head,
            repository=_text(payload, "repository"),
            target=_text(payload, "target"),
            title=_text(payload, "prTitle") or _text(payload, "message"),
            session=_text(payload, "sessionId"),
        )

    @property
    def name(self) -> str:
        """Its task, or its branch."""
        return self.task or self.branch

    @property
    def words(self) -> str:
        """The message of a merge commit."""
        subject = f"Merge {self.name}" if self.title is None else self.title
        return f"{subject}\n" if self.task is None else f"{subject}\n\nTask: {self.task}\n"

    @property
    def tries(self) -> int:
        """The number of times that it was claimed."""
        return 1 if self.claim is None else self.claim.attempt

    def about(self) -> dict[str, object]:
        """Return the fields of every message about it."""
        return {
            "task": self.task,
            "attempt": self.attempt,
            "branch": self.branch,
            "head": self.head,
            "completion": self.message.id,
        }


@dataclass(frozen=True, slots=True)
class MergedEntry:
    """An entry with its candidate.

    Attributes:
        entry: the entry.
        head: the whole id of its commit.
        candidate: the commit to which the target would move; it contains all before it in its
            batch.
        patch_id: git's id of what it changes.
    """

    entry: LandingEntry
    head: str
    candidate: Candidate
    patch_id: str


@dataclass(frozen=True, slots=True)
class LandingResult:
    """The result of an entry.

    Attributes:
        entry: the entry.
        outcome: what became of it.
        commit: the commit by which it has landed, or None.
        files: the files that conflict.
        reason: why, for people; "" if the target was moved for it and it has landed.
        others: the tasks that last changed the files, by file.
    """

    entry: LandingEntry
    outcome: OutcomeKind
    commit: str | None = None
    files: tuple[str, ...] = ()
    reason: str = ""
    others: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "task": self.entry.task,
            "outcome": self.outcome,
            "commit": self.commit,
            "files": list(self.files),
            "branch": self.entry.branch,
            "head": self.entry.head,
            "reason": self.reason or None,
            "others": dict(self.others),
        }


def _text(payload: dict[str, Any], name: str) -> str | None:
    value = payload.get(name)
    return value if isinstance(value, str) and value else None


# The owners of an entry's commits: commits of a task that is not approved land with no other entry.
#
# A task's own commits are those of its branch's first-parent line beyond its base: what its
# worker merged into it from elsewhere is not its own. A commit with the same change and another
# id is another commit.

#: The states of tasks whose work was given up: no plain branch lands it, but a task whose review
#: approved a head with it does.
_GIVEN_UP: tuple[TaskState, ...] = ("CANCELLED", "FAILED")


class Ownership:
    """Finds the commits in entries of one repository that a task keeps from landing.

    Args:
        bus: the bus.
        place: the repository.
        git: reads its commits, and perhaps others that are kept aside; None: the repository's own.
    """

    def __init__(
        self, bus: LocalBus, place: RepositoryPlace, git: Repository | None = None
    ) -> None:
        self._table = TaskTable.of(bus)
        self._repository = place.common_dir
        self._git = git or place.git

    def obstacle(self, entry: LandingEntry, onto: str) -> str | None:
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
                return f"branch {task.branch} is that of {_described(task)}"
        if head is None or not tasks:
            return None
        new_commits = set(self._ids(head, onto=[onto]))
        for task in tasks if new_commits else ():
            unapproved = new_commits.intersection(self._unlanded(task, onto))
            if unapproved:
                return f"it contains {min(unapproved)[:12]} of {_described(task)}"
        return None

    def _tasks(self, entry: LandingEntry) -> Iterator[Task]:
        """Yield the other tasks of the repository whose commits might be in an entry."""
        states = LIVE if entry.task is not None else LIVE + _GIVEN_UP
        for task in self._table.find(states=states):
            if task.repository == self._repository and task.task != entry.task:
                yield task

    def _unlanded(self, task: Task, onto: str) -> list[str]:
        """Return the own commits of a task that the target does not have.

        Of an approved task only the commits after the approval are returned.
        """
        git = self._git
        names = [task.head] if task.head else []
        if task.is_live or task.cleaned_at_ms is None:
            names.append(f"refs/heads/{task.branch}")
        tips = [commit for commit in git.commits(names) if commit is not None]
        starts = [task.base, *([task.head] if _may_land(task) and task.head else [])]
        bases = [commit for commit in git.commits(starts) if commit is not None]
        return self._ids("--first-parent", *tips, onto=[onto, *bases]) if tips else []

    def _ids(self, *what: str, onto: Iterable[str]) -> list[str]:
        """Return the ids of commits, without those that `onto` contains."""
        return self._git.run("rev-list", *what, "--not", *onto).decode().split()


def _may_land(task: Task) -> bool:
    return task.state == "APPROVED" and not task.unproven


def _is_approved(task: Task, head: str | None) -> bool:
    """Whether a task is approved at exactly this head: later commits of its branch are not."""
    return head is not None and task.head == head and _may_land(task)


def _described(task: Task) -> str:
    how = f"{task.state}, but unproven" if task.unproven else task.state
    return f"task {task.task!r}, which is {how}, in attempt {task.attempt}"
