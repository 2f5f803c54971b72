"""The entries of the queues of tasks, and the queues as PushPals' clients see them, by ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import orjson

from ...schema.errors import InvalidInput, Refused
from ...schema.message.canonical_json import encode
from ...schema.message.draft import PRIORITY_NAMES, Draft
from ...schema.message.names import MAX_AGENT_CHARS, MAX_SEQ, check_agent
from ...schema.message.times import format_ts
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import LOST, Outcome
from ...subscribers.jobs.errors import ClaimLost, JobNotFound
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.outcomes import carried_on
from ...subscribers.queues.job_control import JobControl
from ...subscribers.queues.queue import Queue, claim_of
from ...subscribers.views import Views
from ..steps.messages import QUEUES, TASKS
from ..steps.planning import open_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim, ClaimRecord
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


# One of the queues of tasks, as PushPals' clients see it: by ids, in their words.

#: The sender of entries that name none.
CLIENT = "pushpals"

#: How long a claim over this API lasts, in seconds: its clients renew none. Jobs have a sweep,
#: which looks at their activity, and ends before this does.
LEASE_S = 900.0
JOB_LEASE_S = 86_400.0

#: The instance of a worker that claims over this API begins so; its name and its token's follow.
_BY_DOOR, _BY_CLIENT = "pushpals/", "@"

#: Among how many of the newest jobs these are counted.
_WALKED = 100_000

#: How many entries a list has unless asked otherwise, and at most.
LIMIT, MAX_LIMIT = 200, 500

#: How many of those in line are shown.
SHOWN_IN_LINE = 10


class NotClaimed(Refused):
    """An entry can't end: there is none of its id, or it is not claimed."""


class Entries:
    """The entries of one queue, which is made when it is first needed.

    Args:
        bus: an open bus.
        name: `requests`, `jobs` or `completions`.
    """

    def __init__(self, bus: LocalBus, name: str) -> None:
        self.bus = bus
        self.name = name

    @cached_property
    def queue(self) -> Queue:
        """The queue."""
        return open_queue(self.bus, self.name)

    def add(
        self,
        payload: Mapping[str, Any],
        *,
        agent: str | None = None,
        priority: int = 1,
        parent: str | None = None,
        headers: Mapping[str, object] | None = None,
        trace: Mapping[str, str] | None = None,
    ) -> tuple[QueueEntry, int | None]:
        """Publish an entry, and return it with its place in line.

        Args:
            payload, agent, priority, headers: of the message; without an agent the API is the
                sender.
            parent: the id of what it follows from; where the log has that, it joins its
                conversation and its trace.
            trace: the trace context of the caller, which goes before the parent's.
        """
        queue = self.queue
        with self.bus.transaction():
            before = None if parent is None else self.bus.get(parent)
            carried = {} if before is None else carried_on(before)
            draft = Draft(
                QUEUES[self.name],
                dict(payload),
                from_agent=agent or CLIENT,
                to_agent=TASKS,
                in_reply_to=None if before is None else before.id,
                priority=priority,
                headers={**carried, **(trace or {}), **(headers or {})} or None,
            )
            (receipt,) = self.bus.log.append([draft])
            queue.take_in([receipt.seq])
            place = Views.of(self.bus).place(queue.info, receipt.seq)
            return self._entry(receipt.seq), place

    def get(self, id: str) -> QueueEntry | None:
        """Return an entry by its id, or None."""
        message = self.bus.get(id)
        if message is None:
            return None
        queue = self.queue
        queue.fill()
        try:
            return self._entry(message.seq)
        except JobNotFound:
            return None

    def claim(self, agent: str, *, client: str | None = None) -> QueueEntry | None:
        """Claim the first entry in line for an agent, its own first; None when there is none.

        Args:
            agent: for whom.
            client: the name of the token that makes the claim, or None.
        """
        check_agent(agent)
        lease_s = JOB_LEASE_S if self.name == "jobs" else LEASE_S
        claims = self.queue.claim(_instance(agent, client), group=agent, lease_s=lease_s)
        return self._entry(claims[0].message.seq) if claims else None

    def held(self, id: str, agent: str | None = None) -> tuple[QueueEntry, Claim]:
        """Return an entry that is claimed, and its claim; in the caller's transaction.

        Args:
            id: of the entry.
            agent: the agent that must have the entry; None: any.

        Raises:
            NotClaimed: there is no such entry, or it is not claimed, or not by this agent.
        """
        entry = self.get(id)
        is_held = entry is not None and entry.job.state == states.RUNNING
        if entry is None or not is_held or entry.claim is None:
            kind = self.name.removesuffix("s").capitalize()
            how = "" if entry is None else f" (it is {entry.status})"
            raise NotClaimed(f"{kind} not found or not in claimed state{how}")
        if agent is not None and agent != entry.claim.group:
            raise NotClaimed(f"{id} is not in claimed state by {agent}: {entry.claim.group} has it")
        return entry, claim_of(self.bus, entry.claim.token)[1]

    def end(
        self, id: str, outcome: Outcome, *, agent: str | None = None, replies: Sequence[Draft] = ()
    ) -> QueueEntry:
        """End an entry that is claimed, and return it as it is then.

        Raises:
            NotClaimed: as for `held`; or its claim was lost just now.
        """
        with self.bus.transaction():
            entry, claim = self.held(id, agent)
            try:
                self.queue.end(claim, outcome, replies)
            except ClaimLost as lost:
                raise NotClaimed(f"{id} is not in claimed state any more: {lost}") from lost
            return self._entry(entry.message.seq)

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return how many entries there are of each status, and of each priority how many are open.

        Open are those that are pending or claimed.
        """
        self.queue.fill()
        by_status = dict.fromkeys(map(self._word, states.STATES), 0)
        by_priority = dict.fromkeys(PRIORITY_NAMES, 0)
        for state, priority, count in Views.of(self.bus).counts(self.queue.info, _WALKED):
            by_status[status_of(self.name, state)] += count  # type: ignore[arg-type]
            if state in (states.QUEUED, states.RUNNING):
                by_priority[PRIORITY_NAMES[priority]] += count
        return by_status, by_priority

    def in_line(self) -> list[dict[str, Any]]:
        """Return the first of those that may be claimed, in line, with places and estimates."""
        views = Views.of(self.bus)
        jobs = JobControl(self.queue).list(states.QUEUED, limit=SHOWN_IN_LINE)
        waiting = [
            self._entry(job.seq, job) for job in jobs if views.place(self.queue.info, job.seq)
        ]
        return [
            {
                "id": entry.id,
                "sessionId": entry.session,
                "priority": entry.priority,
                "enqueuedAt": _at(entry.job.created_at_ms),
                "position": position,
                "etaMs": eta_ms(entry.job.priority, position),
            }
            for position, entry in enumerate(waiting, 1)
        ]

    def list(self, status: str | None = None, limit: int = LIMIT) -> list[QueueEntry]:
        """Return entries, the newest first.

        Raises:
            InvalidInput: there is no such status.
        """
        job_states: tuple[Any, ...] = ()
        if status is not None:
            job_states = states_of(self.name, status)
            if not job_states:
                raise InvalidInput("Invalid status filter")
        control = JobControl(self.queue)
        jobs = control.list(*job_states, limit=limit, before_seq=MAX_SEQ + 1)
        return [self._entry(job.seq, job) for job in jobs]

    def at(self, seq: int) -> QueueEntry:
        """Return the entry of a message.

        Raises:
            JobNotFound: the queue has no such job.
        """
        return self._entry(seq)

    def _word(self, state: Any) -> str:
        return status_of(self.name, state)

    def _entry(self, seq: int, job: Job | None = None) -> QueueEntry:
        info = self.queue.info
        stored_job = job or Jobs.of(self.bus).get(info, seq)
        message = self.bus.log.at(seq)
        assert message is not None  # the log keeps every message that is a job
        claim = Views.of(self.bus).newest_claim(info, seq)
        return QueueEntry(self.name, message, stored_job, claim)


def _instance(agent: str, client: str | None) -> str:
    """Return the instance of a worker that claims over this API, with the client's name at its end.

    The name of a token has no @, and what comes before it is cut to the length of an instance.
    """
    by = "" if client is None else f"{_BY_CLIENT}{client}"
    return f"{_BY_DOOR}{agent}"[: MAX_AGENT_CHARS - len(by)] + by


def is_of_client(instance: str, client: str) -> bool:
    """Whether a claim was made over this API with the token of this name."""
    return is_api_claim(instance) and instance.rpartition(_BY_CLIENT)[2] == client


def is_api_claim(instance: str) -> bool:
    """Whether a claim was made over this API, whose clients renew no claims."""
    return instance.startswith(_BY_DOOR)


def failed(message: str, detail: str = "") -> Outcome:
    """Return the outcome of an entry that fails for good; without a message, the default one."""
    why, more = message or UNKNOWN_ERROR, detail
    failure = {"message": why, "detail": more} if more else {"message": why}
    error = f"{why}: {more}" if more else why
    return Outcome(status=states.FAILED, error=error, result=json_text(failure), retry=False)


def json_text(value: object) -> str:
    """Return a value as JSON text."""
    return encode(value).decode()


# Values of PushPals' clients, read as leniently as its own server reads them.

_NUMBER = re.compile(r"\s*([+-]?[0-9]+)")

#: More digits than any number here has; further digits are cut off.
_MAX_DIGITS = 19


def whole_number(text: str | None) -> int | None:
    """Return the whole number that a text begins with: 12 of `12abc`; None without one."""
    match = _NUMBER.match(text or "")
    return None if match is None else int(match[1][:_MAX_DIGITS])


def limit_of(text: str | None, default: int = LIMIT) -> int:
    """Return the limit of a client, from 1 to 500; the default if it is no number."""
    limit = whole_number(text)
    return default if limit is None else min(max(1, limit), MAX_LIMIT)


def text_of(value: object) -> str:
    """Return a field as text without blanks at its ends, "" for one that is missing.

    A number or a truth value is its JSON text, so that an id may come as a number; so is a list
    or an object.
    """
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value.strip() if isinstance(value, str) else json_text(value)


def json_or_none(value: object) -> str | None:
    """Return a value as JSON text; None for what counts as none: null, false, 0 and ""."""
    is_none = value is None or (isinstance(value, bool | int | float | str) and not value)
    return None if is_none else json_text(value)
