"""The records of a task: its row, and the terms of a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...git.trees.tree_list import safe_name
from ...schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The words of tasks, for type checkers.

#: The state of a task's newest attempt.
TaskState = Literal[
    "ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED", "COMPLETED", "CANCELLED", "FAILED"
]

#: Whose approval a task needs before it is integrated: nobody's, anybody's, or that of an agent
#: other than its worker.
Review = Literal["none", "required", "other"]

#: The meaning of a lost holder: another attempt, or the end of the task.
OnLost = Literal["requeue", "fail"]

#: The states in their order, those that are final last.
STATES: tuple[TaskState, ...] = (
    *("ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED"),
    *("COMPLETED", "CANCELLED", "FAILED"),
)
LIVE, FINAL = STATES[:4], STATES[4:]

#: The states in which a worker has the task under a lease, unless the task is blocked.
HELD: tuple[TaskState, ...] = ("ASSIGNED", "WORKING")

#: The names of the priorities, each at its number.
PRIORITIES = ("interactive", "normal", "background")

#: How many attempts a task has unless its maker says otherwise.
MAX_ATTEMPTS = 3

#: How long the lease of a task lasts unless it is renewed, in seconds: an hour.
LEASE_S = 3600.0

#: The prefixes of the names of leases: of those on tasks, and of those on targets, which
#: integrators have.
TASK_LEASE, TARGET_LEASE = "task.", "integrate."


@dataclass(frozen=True, slots=True)
class Blocked:
    """A question that a worker waits for.

    Attributes:
        question: for people.
        reason: why the worker can't go on, or None.
        since_ms: when it was asked, in epoch milliseconds.
        deadline_ms: when the task fails for want of an answer; None: never.
    """

    question: str
    reason: str | None
    since_ms: int
    deadline_ms: int | None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        deadline = None if self.deadline_ms is None else format_ts(self.deadline_ms)
        return {
            "question": self.question,
            "reason": self.reason,
            "since": format_ts(self.since_ms),
            "deadline": deadline,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTerms:
    """The terms of a new task without its branch and its tree; the fields are as for `NewTask`."""

    task: str
    worker: str
    prompt: object = None
    review: Review = "required"
    reviewer: str | None = None
    priority: int = 1
    max_attempts: int = MAX_ATTEMPTS
    on_lost: OnLost = "requeue"
    depends_on: tuple[str, ...] = ()
    from_queue: bool = False
    correlation_id: str | None = None
    in_reply_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask(TaskTerms):
    """A task to record.

    Attributes:
        task: its name: of 1 to 200 letters, digits, `.`, `_` and `-`; the first is a letter or a
            digit.
        worker: the agent that is to work on it.
        branch, path: its branch, without `refs/heads/`, and the real path of its work tree.
        repository: the git directory that the work trees of its repository share.
        base_ref, base: from which ref the branch starts, and the id of that commit.
        target: the branch that the work is for.
        prompt: what is to be done: text, or any JSON; the payload of a job that it came from.
        review: whose approval it needs before it is integrated.
        reviewer: the agent that is asked for the review; None: the requester.
        priority: 0 interactive, 1 normal, 2 background.
        max_attempts: after how many attempts it fails for good.
        on_lost: what follows when its holder is lost: another attempt (`requeue`), or the end of
            the task (`fail`).
        depends_on: tasks that must have landed before it can begin.
        from_queue: whether it came from the queue of jobs, to which its next attempts go too.
        correlation_id: the conversation that it belongs to; None: its own, named as the task.
        in_reply_to: the message that asks for it, or None.
    """

    branch: str
    path: str
    repository: str
    base_ref: str
    base: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task, with the state of its newest attempt.

    Attributes:
        task, worker, branch, path, repository, base_ref, base, target, prompt, review, reviewer,
            priority, max_attempts, on_lost, depends_on, from_queue, correlation_id: as for
            `NewTask`.
        attempt: the number of its newest attempt, from 1.
        state: the state of that attempt.
        head: the commit that is done, or None.
        token: the fencing token of the newest lease on it.
        requester: the agent that made it.
        reason: why it is in this state, or why the attempt before it ended; None: nothing to say.
        blocked: the question that its worker waits for, or None.
        commit_id: the commit by which it has landed, or None.
        last_seq: the place in the log of the newest change of its state.
        created_at_ms, changed_at_ms: when it was made, and when it last changed, in epoch
            milliseconds.
        cleaned_at_ms: when its work tree was removed, or None.
        unproven: whether its row was lost and made again of messages, which nobody has confirmed:
            until then it is only shown, and may be cancelled.
    """

    task: str
    attempt: int
    state: TaskState
    worker: str
    branch: str
    path: str
    repository: str
    base_ref: str
    base: str
    target: str
    head: str | None
    token: int
    review: Review
    reviewer: str | None
    requester: str
    priority: int
    max_attempts: int
    on_lost: OnLost
    depends_on: tuple[str, ...]
    from_queue: bool
    prompt: Any
    reason: str | None
    blocked: Blocked | None
    commit_id: str | None
    correlation_id: str
    last_seq: int
    created_at_ms: int
    changed_at_ms: int
    cleaned_at_ms: int | None
    unproven: bool = False

    @property
    def is_live(self) -> bool:
        """Whether its state is not final."""
        return self.state in LIVE

    @property
    def lease_name(self) -> str:
        """The name of the lease on it."""
        return lease_of(self.task)

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "task": self.task,
            "attempt": self.attempt,
            "worker": self.worker,
            "branch": self.branch,
            "path": self.path,
            "base": self.base,
            "state": self.state,
            "token": self.token,
            "target": self.target,
            "head": self.head,
            "commit": self.commit_id,
            "review": self.review,
            "reviewer": self.reviewer,
            "requester": self.requester,
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "depends_on": list(self.depends_on),
            "reason": self.reason,
            "blocked": None if self.blocked is None else self.blocked.record(),
            "base_ref": self.base_ref,
            "repository": self.repository,
            "conversation": self.correlation_id,
            "seq": self.last_seq,
            "created": format_ts(self.created_at_ms),
            "changed": format_ts(self.changed_at_ms),
            "cleaned": None if self.cleaned_at_ms is None else format_ts(self.cleaned_at_ms),
            "unproven": self.unproven,
        }


def lease_of(task: str) -> str:
    """Return the name of the lease on a task."""
    return TASK_LEASE + task


def lease_of_target(repository: str, target: str) -> str:
    """Return the name of the lease of a target: one integrator works on it at a time."""
    import hashlib

    shown = target if target.isprintable() and len(target) < 200 else safe_name(target)
    digest = hashlib.sha256(repository.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{TARGET_LEASE}{shown}@{digest}"
