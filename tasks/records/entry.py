"""An entry of the queues of tasks: a message, its job and its newest claim, in PushPals' words."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.message.priority import PRIORITY_NAMES
from ...schema.message.times import format_ts
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import LOST
from .aliases import status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import ClaimRecord
    from ...subscribers.jobs.jobs import Job

#: The words of a failure that has none.
UNKNOWN_ERROR = "Unknown error"


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in one of the queues, with its job and the newest claim on it.

    Attributes:
        view: the queue.
        message, job, claim: as they are stored; claim is None before the first.
    """

    view: str
    message: Message
    job: Job
    claim: ClaimRecord | None

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.message.id

    @property
    def status(self) -> str:
        """Its state, in the words of the view."""
        return status_of(self.view, self.job.state)

    @property
    def priority(self) -> str:
        """The name of its priority."""
        return PRIORITY_NAMES[self.job.priority]

    @property
    def session(self) -> str | None:
        """The session that it belongs to, or None."""
        return self.text("sessionId")

    @property
    def holder(self) -> str | None:
        """The agent that has it, or had it last; None while it waits."""
        return None if self.job.state == states.QUEUED or self.claim is None else self.claim.group

    @property
    def is_over_badly(self) -> bool:
        """Whether it is over without success."""
        return self.job.ended_at_ms is not None and self.job.state != states.SUCCEEDED

    def payload(self) -> dict[str, Any]:
        """Return its payload; {} where that is no object."""
        found = self.message.payload
        return found if isinstance(found, dict) else {}

    def text(self, name: str) -> str | None:
        """Return a field of its payload that is text, else None."""
        found = self.payload().get(name)
        return found if isinstance(found, str) else None

    def wait_ms(self) -> int:
        """Return how long it waited for its newest claim, in milliseconds."""
        at_ms = self.job.started_at_ms or self.job.created_at_ms
        return max(0, at_ms - self.job.created_at_ms)

    def duration_ms(self) -> int | None:
        """Return how long its last attempt took; None while it is not over, or never began."""
        if self.job.ended_at_ms is None or self.job.started_at_ms is None:
            return None
        return self.job.ended_at_ms - self.job.started_at_ms

    def result(self) -> str | None:
        """Return the result of its success, as JSON text as a rule, or None."""
        is_done = self.job.state == states.SUCCEEDED and self.claim is not None
        return self.claim.result if is_done and self.claim is not None else None

    def failure(self) -> dict[str, Any] | None:
        """Return message and detail of its failure; None unless it is over badly."""
        if not self.is_over_badly:
            return None
        told = None if self.claim is None else self.claim.result
        if (
            self.claim is not None
            and self.claim.status in (states.FAILED, states.TIMED_OUT)
            and told
        ):
            try:
                found = orjson.loads(told)
            except orjson.JSONDecodeError:
                found = None
            if isinstance(found, dict) and isinstance(found.get("message"), str):
                return found
        why = self.job.error or UNKNOWN_ERROR
        if self.claim is not None and self.claim.status == LOST and ": " in why:
            message, _, detail = why.partition(": ")
            return {"message": message, "detail": detail}
        return {"message": why}

    def times(self, *, active_at_ms: int = 0) -> dict[str, str | None]:
        """Return its times as text, by the names of PushPals' columns."""
        job, claim = self.job, self.claim
        waits = job.state == states.QUEUED
        ended = _at(job.ended_at_ms)
        claim_ended_ms = 0 if claim is None else claim.ended_at_ms or 0
        updated_ms = max(
            *(job.created_at_ms, job.started_at_ms or 0, claim_ended_ms),
            *(job.ended_at_ms or 0, active_at_ms),
        )
        return {
            "enqueuedAt": _at(job.created_at_ms),
            "claimedAt": None if waits or claim is None else _at(claim.claimed_at_ms),
            "startedAt": None if waits else _at(job.started_at_ms),
            "completedAt": ended if job.state == states.SUCCEEDED else None,
            "failedAt": ended if self.is_over_badly else None,
            "createdAt": _at(job.created_at_ms),
            "updatedAt": _at(updated_ms),
        }


def _at(ms: int | None) -> str | None:
    return None if ms is None else format_ts(ms)
