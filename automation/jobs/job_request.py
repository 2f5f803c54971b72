"""Requests for jobs of plugins, and what the queue makes of one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...schema.message.message import Message

#: The producers of jobs.
SubmittedBy = Literal["scheduler", "webhook", "route", "cli", "api"]

#: The name under which each of them publishes.
AGENTS: dict[str, str] = {
    "scheduler": "scheduler",
    "webhook": "webhook",
    "route": "router",
    "cli": "cli",
    "api": "api",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a condition: whether it holds, and the id of the event that says so."""

    holds: bool
    event_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job that is wanted.

    Attributes:
        plugin, command: what is to run.
        payload: any JSON value.
        submitted_by: who asks.
        dedupe_key: what the job is about; jobs of one key, plugin and command run one by one.
        dedupe_ttl_s: for how long a success keeps it out, instead of the service's own; such a
            request is kept out by a job that waits or runs, too.
        event: of a `handle`: type, source, timestamp, event_id and dedupe_key of the event.
        context_id: the context of its pipeline.
        parent: the message that it follows: it joins its conversation.
        parent_job_id, source_event_id: where it comes from, by ids.
        origin: `pipeline`, `step`, `schedule`, `nominal`, `alarm`, as far as they apply.
        id: of the job; one that is derived makes a repetition harmless.
        answer: of a condition, whose job is over by that; None of all other jobs.
        behind: the id of the event of a condition that the job follows: its parent, once stored.
    """

    plugin: str
    command: str
    payload: object = None
    submitted_by: SubmittedBy
    dedupe_key: str | None = None
    dedupe_ttl_s: float | None = None
    event: Mapping[str, object] | None = None
    context_id: str | None = None
    parent: Message | None = None
    parent_job_id: str | None = None
    source_event_id: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    answer: Answer | None = None
    behind: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was taken in.

    Attributes:
        job_id, seq: of its message.
        queue: where it waits.
    """

    job_id: str
    seq: int
    queue: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A job that was kept out.

    Attributes:
        job_id, seq: of the job that was there.
        dedupe_key: which both have; "" where they have the same id.
    """

    job_id: str
    seq: int
    dedupe_key: str
