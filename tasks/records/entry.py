"""An entry of the queues of tasks: a message, its job and its newest claim, in PushPals' words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType

import orjson

from ...schema.message.draft import PRIORITY_NAMES
from ...schema.message.times import format_ts
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import LOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import ClaimRecord
    from ...subscribers.jobs.jobs import Job
    from ...subscribers.options import JobState

# The words of other systems for the states and priorities of this one: one table.
#
# Stored is the bus's own word. The views of the schema say the same in SQL; a test compares them.

_ENDED_BADLY: tuple[JobState, ...] = ("failed", "timed_out", "dead", "cancelled")

_REQUESTS: dict[JobState, str] = {
    "queued": "pending",
    "running": "claimed",
    "succeeded": "completed",
    **dict.fromkeys(_ENDED_BADLY, "failed"),
}

#: By the view: the word for each state of a job.
STATES: Mapping[str, Mapping[JobState, str]] = MappingProxyType(
    {
        "requests": _REQUESTS,
        "jobs": _REQUESTS,
        "completions": {**_REQUESTS, "succeeded": "processed"},
        "merge queue": {
            "queued": "queued",
            "running": "running",
            "succeeded": "success",
            **dict.fromkeys(_ENDED_BADLY, "failed"),
            "cancelled": "skipped",
        },
        "plugins": {
            "queued": "queued",
            "running": "running",
            "succeeded": "succeeded",
            "failed": "failed",
            "timed_out": "timed_out",
            "dead": "dead",
            "cancelled": "dead",
        },
    }
)

#: The words of PushPals for the statuses of a worker's heartbeat.
WORKERS = MappingProxyType({"working": "busy", "blocked": "busy", "stopped": "offline"})

#: The statuses of a worker that PushPals knows; any other word counts as the first.
WORKER_STATUSES = ("idle", "busy", "error", "offline")


def status_of(view: str, state: JobState) -> str:
    """Return a view's word for the state of a job."""
    return STATES[view][state]


def states_of(view: str, status: str) -> tuple[JobState, ...]:
    """Return the states that a view's word stands for; none for a word that it does not have."""
    return tuple(state for state, word in STATES[view].items() if word == status)


def statuses(view: str) -> tuple[str, ...]:
    """Return the words of a view, in the order of the states."""
    return tuple(dict.fromkeys(STATES[view].values()))


def worker_status(status: object) -> str:
    """Return PushPals' word for the status of a heartbeat."""
    word = WORKERS.get(status, status) if isinstance(status, str) else None
    return word if word in WORKER_STATUSES else WORKER_STATUSES[0]


def priority_of(word: object) -> int:
    """Return the priority that a word stands for; what is missing or unknown is normal."""
    text = word.strip().lower() if isinstance(word, str) else ""
    return PRIORITY_NAMES.index(text) if text in PRIORITY_NAMES else 1


#: The text of a failure that has none of its own.
UNKNOWN_ERROR = "Unknown error"


@dataclass(frozen=True, slots=True)
class QueueEntry:
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
        """Return its payload; {} if the payload is not an object."""
        payload = self.message.payload
        return payload if isinstance(payload, dict) else {}

    def text(self, name: str) -> str | None:
        """Return a field of its payload that is text, else None."""
        value = self.payload().get(name)
        return value if isinstance(value, str) else None

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
        result = None if self.claim is None else self.claim.result
        if (
            self.claim is not None
            and self.claim.status in (states.FAILED, states.TIMED_OUT)
            and result
        ):
            try:
                failure = orjson.loads(result)
            except orjson.JSONDecodeError:
                failure = None
            if isinstance(failure, dict) and isinstance(failure.get("message"), str):
                return failure
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


# Budgets and estimates of requests and jobs, by their priority.

#: By priority, interactive first, in milliseconds: how long a job that is ahead in line takes as a
#: rule; also the default budget of waiting.
SLOTS_MS = (20_000, 90_000, 240_000)
#: How long a job may run, by priority.
EXECUTION_MS = (300_000, 900_000, 1_800_000)
#: How long a job may take to finish after its time to run.
FINALIZATION_MS = 120_000

#: The shortest budget that is given.
MIN_BUDGET_MS = 1_000
#: The longest budget: ten years, as everywhere.
_MAX_BUDGET_MS = 315_360_000_000

_WHOLE = re.compile(r"\s*\+?(\d{1,15})")


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budgets of a job, in milliseconds.

    Attributes:
        queue_wait_ms: how long it may wait for a worker.
        execution_ms: how long it may run.
        finalization_ms: how long it may take to finish after its time to run.
    """

    queue_wait_ms: int
    execution_ms: int
    finalization_ms: int

    @classmethod
    def of(cls, payload: Mapping[str, Any], priority: int) -> Budgets:
        """Return the budgets that a payload asks for, itself or in `params.planning`.

        A budget that is missing, or that is not a positive number, has its default.
        """
        params = payload.get("params")
        planning = params.get("planning") if isinstance(params, dict) else None
        nested = planning if isinstance(planning, dict) else {}

        def budget(name: str, default_ms: int) -> int:
            return _budget_ms(payload.get(name)) or _budget_ms(nested.get(name)) or default_ms

        return cls(
            budget("queueWaitBudgetMs", SLOTS_MS[priority]),
            budget("executionBudgetMs", EXECUTION_MS[priority]),
            budget("finalizationBudgetMs", FINALIZATION_MS),
        )


def eta_ms(priority: int, place: int | None) -> int | None:
    """Return after how long a place in line is reached, as a rule; None without a place."""
    return None if place is None else SLOTS_MS[priority] * (place - 1)


def _budget_ms(value: object) -> int | None:
    """Return a budget in its bounds; None for what is no positive number."""
    if isinstance(value, str):
        match = _WHOLE.match(value)
        value = int(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
        return None
    return min(max(MIN_BUDGET_MS, int(value)), _MAX_BUDGET_MS)
