"""The options of inboxes, queues and workers, and the words of states, for type checkers."""

from __future__ import annotations

from typing import Literal, TypedDict

#: The states of a conversation, as its request is answered.
AnswerState = Literal["pending", "success", "failure", "timed_out", "answered"]

#: The states of a job.
JobState = Literal["queued", "running", "succeeded", "failed", "timed_out", "dead", "cancelled"]

#: The states of a message in an inbox: it waits; the cursor passed it; it was set aside after
#: failures; it was taken as the answer to a request; it was archived unread.
ReadState = Literal["unread", "acknowledged", "parked", "received", "passed_over"]

#: The reason why a queued job waits: for a worker, its time, or others with its key.
JobGate = Literal["open", "time", "key"]

#: The statuses with which a worker ends a claim, and the statuses of every claim.
EndStatus = Literal["completed", "failed", "timed_out"]
ClaimStatus = Literal["active", "lost", EndStatus]

#: Where a new reader begins: with all that the log holds, with what comes, or with a seq.
Start = Literal["beginning", "now"] | int


class InboxOptions(TypedDict, total=False):
    """The options of `Inbox`."""

    own_broadcasts: bool
    with_work: bool
    max_deliveries: int
    retry_pause_s: float
    recheck_s: float | None


class WorkerOptions(TypedDict, total=False):
    """The options of `Worker`."""

    group: str | None
    instance: str | None
    concurrency: int
    lease_s: float
    success_type: str | None
    failure_type: str | None
    answers: bool
    beats: bool
    warn_hops: int
    max_hops: int


class PolicyRules(TypedDict, total=False):
    """The rules of a queue: fields of `Policy`."""

    ordering: Literal["fifo", "priority"]
    ageing_s: float
    retry: Literal["contract", "failures", "asked"]
    max_attempts: int
    backoff_s: float
    on_lost: Literal["requeue", "fail", "dead"]
    max_running: int | None
    max_running_per_key: int
    dedupe_window_s: float
    hides: Literal["exact", "all", "none"]
    addressed: str | None
