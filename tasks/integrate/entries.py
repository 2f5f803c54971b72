"""Entries of the integrator's queue, and their results."""

from __future__ import annotations

from dataclasses import dataclass, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from ...git.branches.candidates import Candidate
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim

    #: The end of an entry. `proposed`: somebody else is asked to move the target.
    #: `would_land`: it merges, and was only looked at; `not_known`: what is not run where one
    #: looks would merge it.
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
class Entry:
    """A commit that waits to be integrated.

    Attributes:
        message: the completion.
        claim: the claim on it; None where nothing is claimed.
        task, attempt: whose; None for a branch without a task.
        branch: its name.
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
    def of(cls, message: Message, claim: Claim | None = None) -> Entry:
        """Return the entry of a completion, of a task or in PushPals' form."""
        told = message.payload if isinstance(message.payload, dict) else {}
        attempt = told.get("attempt")
        head = _text(told, "head") or _text(told, "commitSha")
        return cls(
            message=message,
            claim=claim,
            task=_text(told, "task"),
            attempt=attempt if isinstance(attempt, int) else None,
            branch=_text(told, "branch") or head or "?",
            head=head,
            repository=_text(told, "repository"),
            target=_text(told, "target"),
            title=_text(told, "prTitle") or _text(told, "message"),
            session=_text(told, "sessionId"),
        )

    @property
    def name(self) -> str:
        """Its task, or its branch."""
        return self.task or self.branch

    @property
    def words(self) -> str:
        """The message of a merge commit."""
        subject = f"Merge {self.branch}" if self.title is None else self.title
        return f"{subject}\n" if self.task is None else f"{subject}\n\nTask: {self.task}\n"

    @property
    def tries(self) -> int:
        """The number of times that it was claimed."""
        return 1 if self.claim is None else self.claim.attempt

    def about(self) -> dict[str, object]:
        """Return what every message about it says."""
        return {
            "task": self.task,
            "attempt": self.attempt,
            "branch": self.branch,
            "head": self.head,
            "completion": self.message.id,
        }


@dataclass(frozen=True, slots=True)
class Made:
    """An entry with its candidate.

    Attributes:
        entry: the entry.
        head: the whole id of its commit.
        candidate: what the target would move to, of the last of a batch; it contains all before.
        patch_id: git's id of what it changes.
    """

    entry: Entry
    head: str
    candidate: Candidate
    patch_id: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an entry.

    Attributes:
        entry: the entry.
        outcome: what became of it.
        commit: the commit by which it has landed, or None.
        files: those that conflict.
        reason: why, for people; "" where it was moved there and has landed.
        others: the tasks that last changed the files, by file.
    """

    entry: Entry
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


def _text(told: dict[str, Any], name: str) -> str | None:
    value = told.get(name)
    return value if isinstance(value, str) and value else None
