"""Events of plugins: messages that are published in the transaction that ends a job."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus import tracing
from ...schema.message.canonical_json import encode
from ...schema.message.draft import Draft
from ...schema.message.times import format_ts
from ...schema.queries import engine_of
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import SUCCEEDED
from ...subscribers.jobs.outcomes import HOPS, hops_of
from ...subscribers.jobs.policy import AUTOMATION
from ...subscribers.queues.queue import Queue
from ..config.values import SWITCH, SWITCH_EVENTS
from ..records.facts import AttemptEnd, JobLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from .endings import JobEnd
    from .submission import ConditionAnswer

#: The type of the messages; the exact type of an event, any text, is in the header of this name.
EVENT, EVENT_TYPE = "plugin.event", "event_type"

#: The type of the messages that say how a job has ended.
ENDED = "plugin.ended"

#: The header with the dedupe key that the jobs of an event inherit.
_KEY = "event_dedupe_key"


@dataclass(frozen=True, slots=True)
class EventOut:
    """A published event.

    Attributes:
        type: its exact type.
        message: how it is stored: its sender is the plugin.
    """

    type: str
    message: Message

    @property
    def payload(self) -> Any:
        """Its payload."""
        return self.message.payload

    @property
    def dedupe_key(self) -> str | None:
        """The key that its jobs inherit, or None."""
        key = self.message.headers.get(_KEY)
        return key if isinstance(key, str) else None

    def header(self) -> dict[str, object]:
        """Return the event's header as a `handle` gets it, besides the payload."""
        header: dict[str, object] = {
            "type": self.type,
            "source": self.message.from_agent,
            "timestamp": format_ts(self.message.ts_ms),
            "event_id": self.message.id,
        }
        return header | ({"dedupe_key": self.dedupe_key} if self.dedupe_key else {})


def event_draft(
    plugin: str,
    job: Message,
    event: Mapping[str, Any],
    *,
    broadcast: bool = False,
    id: str | None = None,
) -> Draft:
    """Return the message of an event in a response.

    Args:
        plugin: whose event it is.
        job: the message of its job.
        event: type, payload and dedupe_key.
        broadcast: whether everybody gets it, instead of the automation alone.
        id: of the message; None makes a new one.
    """
    headers: dict[str, object] = {EVENT_TYPE: event["type"]}
    if event.get("dedupe_key"):
        headers[_KEY] = event["dedupe_key"]
    return Draft(
        EVENT,
        event.get("payload"),
        id=id,
        from_agent=plugin,
        to_agent=None if broadcast else AUTOMATION,
        in_reply_to=job.id,
        headers=headers | tracing.child_trace(job.headers),
    )


def ended_draft(end: JobEnd, result: object) -> Draft:
    """Return the message that records the end of a job, with its result.

    Args:
        end: the end of the job.
        result: its result, or its error.
    """
    payload = {
        "plugin": end.plugin,
        "command": end.command,
        "status": end.state,
        "attempt": end.attempt,
        "error" if end.error is not None else "result": result,
    }
    return Draft(
        ENDED,
        payload,
        from_agent=end.plugin,
        to_agent=AUTOMATION,
        in_reply_to=end.message.id,
        headers=tracing.child_trace(end.message.headers),
    )


def event_out(message: Message) -> EventOut:
    """Return the event that a message is."""
    type = message.headers.get(EVENT_TYPE)
    return EventOut(type if isinstance(type, str) else message.type, message)


# Conditions of steps on record: for each a job of `core.switch`, which is over, and its event.
#
# A condition is asked in a transaction: when a step ends, or a run begins. So its job never
# waits, no worker gets it, and nothing about it can fail or be tried again. Its event is as those
# of plugins.

#: The queue of the jobs, and their one type.
QUEUE = f"plugin.{SWITCH}"
COMMAND = "handle"
TYPE = f"{QUEUE}.{COMMAND}"


def record(bus: LocalBus, job: Message, answer: ConditionAnswer, dedupe_key: str | None) -> str:
    """Store the answer of a condition, in the transaction that has published its job.

    Args:
        bus: the bus.
        job: the message of the job.
        answer: whether the condition holds.
        dedupe_key: which the jobs that follow its event inherit.

    Returns:
        The queue that has the job.
    """
    event_type = SWITCH_EVENTS[answer.holds]
    result = {"matched": answer.holds, "event": event_type}
    token = _queue(bus, job.seq).take_in_done(job.seq, AUTOMATION, result)
    payload = job.payload if job.has_payload else None
    event = {"type": event_type, "payload": payload, "dedupe_key": dedupe_key}
    draft = event_draft(SWITCH, job, event, id=answer.event_id)
    if hops := hops_of(job):  # a condition is no hop, and forgets none
        draft.headers = {**(draft.headers or {}), HOPS: hops}
    bus.log.append([draft])
    JobLog(engine_of(bus)).add(
        AttemptEnd(
            message=job,
            plugin=SWITCH,
            command=COMMAND,
            status=SUCCEEDED,
            attempt=1,
            token=token,
            stdout=encode(result).decode(),
            stderr=None,
            error=None,
        )
    )
    return QUEUE


def _queue(bus: LocalBus, seq: int) -> Queue:
    """Open the queue of conditions; the first of them makes it."""
    try:
        return Queue.open(bus, QUEUE)
    except QueueNotFound:
        return Queue.create(bus, QUEUE, f"{QUEUE}.*", start=seq, addressed=AUTOMATION, hides="all")
