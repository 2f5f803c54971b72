"""Messages as CloudEvents 1.0, in structured mode: one JSON object each."""

from __future__ import annotations

from urllib.parse import quote

import orjson

from ...schema.message.draft import TRACE_PARENT, TRACE_STATE
from ...schema.message.priority import PRIORITY_NAMES
from ...schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message

#: The media type of an event.
MEDIA_TYPE = "application/cloudevents+json"


def event_of(message: Message) -> bytes:
    """Return a message as a CloudEvent.

    Attributes that the specification has no name for are the words of `bus.jsonl`, without `_`,
    which it does not allow; `seq` is text, as its integers have 32 bits. A payload that can't be
    had stays the name of its blob, `dataref`.
    """
    event: dict[str, object] = {
        "specversion": "1.0",
        "id": message.id,
        "source": f"/agents/{quote(message.from_agent, safe='')}",
        "type": message.type,
        "time": format_ts(message.ts_ms),
        "seq": str(message.seq),
        "conversation": message.conversation,
        "priority": PRIORITY_NAMES[message.priority],
    }
    beside = {
        "to": message.to_agent,
        "inreplyto": message.in_reply_to,
        "traceparent": message.headers.get(TRACE_PARENT),
        "tracestate": message.headers.get(TRACE_STATE),
    }
    event |= {name: value for name, value in beside.items() if isinstance(value, str) and value}
    if message.payload_error is not None:
        event["dataref"] = message.payload_ref
    elif message.has_payload:
        event |= {"datacontenttype": "application/json", "data": message.payload}
    return orjson.dumps(event)
