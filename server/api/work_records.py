"""The JSON of queues, jobs and claims, as responses document it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from ..records import MessageRecord


class PolicyRecord(BaseModel):
    """The rules of a queue."""

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


class QueueRecord(BaseModel):
    """A queue."""

    queue: str = Field(description="Its name.")
    type: str = Field(description="The pattern of the types that it takes in.")
    filled_seq: int = Field(description="The seq up to which it has looked at the log.")
    created_at: str
    paused_at: str | None = Field(None, description="Since when nothing is claimed from it.")
    policy: PolicyRecord


class SpreadRecord(BaseModel):
    """The distribution of durations, in milliseconds; null where there is no sample."""

    p50_ms: int | None
    p95_ms: int | None
    avg_ms: float | None
    sample_size: int


class QueueStatsRecord(QueueRecord):
    """The statistics of a queue: the object that `bus queue show --json` prints."""

    at: str = Field(description="When this was so.")
    state: Literal["open", "paused", "stuck", "saturated"]
    is_saturated: bool
    stuck: str | None = Field(description="Why it can't take in more of the log.")
    waiting: int
    delayed: int
    held: int
    running: int
    failed: int
    timed_out: int
    dead: int
    oldest_wait_ms: int | None
    longest_run_ms: int | None
    window_s: float
    covered_s: float
    ended: int
    completed: int
    failures: int
    timeouts: int
    lost: int
    rate_per_s: float
    success_rate: float | None
    timeout_rate: float | None
    wait: SpreadRecord
    run: SpreadRecord


class QueueStatsList(BaseModel):
    """The queues, by name."""

    queues: list[QueueStatsRecord]


class JobRecord(BaseModel):
    """A job: a message in a queue, and its state."""

    queue: str
    seq: int = Field(description="The message.")
    type: str | None = Field(None, description="Of its message, in lists.")
    state: Literal["queued", "running", "succeeded", "failed", "timed_out", "dead", "cancelled"]
    gate: Literal["open", "time", "key"] = Field(description="What a queued job waits for.")
    attempt: int
    max_attempts: int
    available_at: str
    priority: str
    dedupe_key: str | None = None
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    error: str | None = None
    for_worker: str | None = Field(None, description="The one worker group that may claim it.")


class JobList(BaseModel):
    """Jobs, the newest first; queued ones alone in line."""

    jobs: list[JobRecord]


class ActRecord(BaseModel):
    """An act of a person on a job."""

    at: str
    who: str = Field(description="An agent, `token NAME`, or `user@host`.")
    act: Literal["cancel", "retry"]
    seq: int
    detail: str | None = None


class ClaimRecord(BaseModel):
    """An attempt at a job."""

    token: int = Field(description="Its identity: a later claim has a larger one.")
    state: Literal["live_active", "expired_active", "terminal"]
    status: Literal["active", "completed", "failed", "timed_out", "lost"]
    queue: str
    seq: int
    attempt: int
    group: str = Field(description="The class of workers that has it.")
    worker: str = Field(description="The one process or thread of it.")
    available_at: str
    claimed_at: str
    until: str = Field(description="When its lease ended, or ends unless it is renewed.")
    ended_at: str | None = None
    exit_code: int | None = None
    error: str | None = None
    stderr: str | None = None
    result: Any = Field(None, description="As it was given: text, or any JSON value.")
    logs: Any = None


class JobInFull(JobRecord):
    """A job with its message, every attempt at it, and the acts of people on it."""

    message: MessageRecord
    attempts: list[ClaimRecord]
    acts: list[ActRecord]


class ClaimInFull(ClaimRecord):
    """A claim with its message."""

    message: MessageRecord


class ClaimedRecord(BaseModel):
    """The right to work on a message until the lease runs out."""

    queue: str
    token: int = Field(description="Names the claim; a later claim has a larger one.")
    attempt: int = Field(description="Which attempt this is, from 1.")
    max_attempts: int
    dedupe_key: str | None = None
    group: str
    worker: str
    claimed_at: str
    until: str = Field(description="When it is lost unless it was renewed.")
    message: MessageRecord = Field(description="A large payload stays a reference to its blob.")


class ClaimedList(BaseModel):
    """Claimed jobs; empty when there is none."""

    claims: list[ClaimedRecord]
