"""Events of plugins: messages that are published in the transaction that ends a job."""

from __future__ import annotations

from dataclasses import dataclass

from ...bus import tracing
from ...schema.message.draft import Draft
from ...schema.message.times import format_ts
from ...subscribers.jobs.policy import AUTOMATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...schema.message.message import Message
    from .endings import JobEnd

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
        """Return what a `handle` is told of it, besides the payload."""
        told: dict[str, object] = {
            "type": self.type,
            "source": self.message.from_agent,
            "timestamp": format_ts(self.message.ts_ms),
            "event_id": self.message.id,
        }
        return told | ({"dedupe_key": self.dedupe_key} if self.dedupe_key else {})


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
    """Return the message of a job that is over: so that its result is in the log, and is found.

    Args:
        end: the end of the job.
        result: what it has returned, or why it failed.
    """
    told = {
        "plugin": end.plugin,
        "command": end.command,
        "status": end.state,
        "attempt": end.attempt,
        "error" if end.error is not None else "result": result,
    }
    return Draft(
        ENDED,
        told,
        from_agent=end.plugin,
        to_agent=AUTOMATION,
        in_reply_to=end.message.id,
        headers=tracing.child_trace(end.message.headers),
    )


def event_out(message: Message) -> EventOut:
    """Return the event that a message is."""
    type = message.headers.get(EVENT_TYPE)
    return EventOut(type if isinstance(type, str) else message.type, message)
