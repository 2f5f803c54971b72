"""A message in full, for people."""

from __future__ import annotations

from json import dumps

from ...schema.message.priority import PRIORITY_NAMES, Priority
from ...schema.message.times import format_ts
from . import output
from .answering import answer_of, how_to_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...blobs.store import BlobStore
    from ...bus.bus import Bus
    from ...schema.message.message import Message


def print_in_full(message: Message, bus: Bus) -> None:
    """Print the present fields of a message, and its payload."""
    error, answer = message.payload_error, answer_of(bus, message, message.to_agent)
    fields = {
        "seq": message.seq,
        "id": message.id,
        "time": format_ts(message.ts_ms),
        "from": message.from_agent,
        "to": message.to_agent or "all",
        "type": message.type,
        "conversation": message.conversation,
        "reply to": message.in_reply_to,
        "priority": _unusual_priority(message),
        "headers": dumps(message.headers, ensure_ascii=False) if message.headers else None,
        "blob": message.payload_ref,
        "answered as": None if answer is None else answer.seq,
        "answer by": how_to_answer(message) if answer is None else None,
        "payload": None if error is None else _complaint(message, error, bus.blobs),
    }
    for name, value in fields.items():
        if value is not None:
            output.line(f"{name + ':':<14}{value}")
    text = _full_text(message)
    if text is not None:
        output.line("")
        for part in text.split("\n"):
            output.line(part)


def _unusual_priority(message: Message) -> str | None:
    return None if message.priority == Priority.NORMAL else PRIORITY_NAMES[message.priority]


def _full_text(message: Message) -> str | None:
    """Return the whole payload as text, or None when there is none to show."""
    if message.payload_error is not None:
        return message.raw_payload  # what is not JSON; None when it is in a blob
    if isinstance(message.payload, str) or not message.has_payload:
        text: str | None = message.payload
        return text
    return dumps(message.payload, indent=2, ensure_ascii=False)


def _complaint(message: Message, error: str, blobs: BlobStore) -> str:
    """Return the note about a payload that is not shown, and how to get it."""
    ref = message.payload_ref
    if ref is None or error in ("blob_missing", "blob_altered"):
        return f"[{error}]"
    return f"[{error}] [{output.blob_note(ref, blobs)}]; get it with bus blob get {ref}"
