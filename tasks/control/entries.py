"""One of the queues of tasks, as PushPals' clients see it: by ids, in their words."""

from __future__ import annotations

import re
from functools import cached_property

from ...schema.errors import InvalidInput, Refused
from ...schema.message.canonical_json import encode
from ...schema.message.draft import PRIORITY_NAMES, Draft
from ...schema.message.names import MAX_AGENT_CHARS, MAX_SEQ, check_agent
from ...schema.message.times import format_ts
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.errors import ClaimLost, JobNotFound
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.outcomes import carried_on
from ...subscribers.queues.job_control import JobControl
from ...subscribers.queues.queue import Queue, claim_of
from ...subscribers.views import Views
from ..records.entry import UNKNOWN_ERROR, QueueEntry, eta_ms, states_of, status_of
from ..steps.messages import QUEUES, TASKS
from ..steps.planning import open_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...subscribers.jobs.claims import Claim
    from ...subscribers.jobs.jobs import Job

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

    def in_line(self, limit: int = SHOWN_IN_LINE) -> list[dict[str, Any]]:
        """Return the first of those that may be claimed, in line, with places and estimates."""
        views = Views.of(self.bus)
        jobs = JobControl(self.queue).list(states.QUEUED, limit=limit)
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


def _at(ms: int | None) -> str | None:
    return None if ms is None else format_ts(ms)


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
