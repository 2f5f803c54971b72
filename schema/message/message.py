"""A message as it is stored, and its JSON form.

`Message` is read far more often than anything else here, so it holds the stored text and decodes
headers and payload only when they are asked for.
"""

from __future__ import annotations

from enum import IntEnum

import orjson

from ..errors import BlobAltered, BlobMissing, BusUnusable, InvalidInput, shown
from .canonical_json import decode_stored
from .limits import MAX_PAYLOAD_BYTES
from .times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class PayloadSource(Protocol):
        """The source of payloads that are not in the row: the blob store."""

        def read_up_to(self, ref: str, max_bytes: int) -> bytes | None:
            """Return a blob's bytes, checked against its name; None when there are more."""


class Priority(IntEnum):
    """The urgency of a message; queues may hand out lower numbers first."""

    INTERACTIVE = 0
    NORMAL = 1
    BACKGROUND = 2


class Receipt:
    """The result of publishing.

    Attributes:
        seq: the message's place in the log.
        id: its identity.
        duplicate: True when the same message was already there, and nothing was stored.
    """

    __slots__ = ("duplicate", "id", "seq")

    def __init__(self, seq: int, id: str, duplicate: bool = False) -> None:
        self.seq, self.id, self.duplicate = seq, id, duplicate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Receipt) and (self.seq, self.id, self.duplicate) == (
            other.seq,
            other.id,
            other.duplicate,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Receipt(seq={self.seq}, id={self.id!r}, duplicate={self.duplicate})"


class Message:
    """A stored message. It never changes, so it may be kept and shared.

    Attributes:
        seq: its place in the log.
        id: its identity.
        ts_ms: when it was published, in epoch milliseconds.
        from_agent: who sent it.
        to_agent: who it is for; None is a broadcast.
        type: its routing word.
        correlation_id: its conversation; None for a root, whose own id names the conversation.
        in_reply_to: the id of the message that it answers, or None.
        priority: 0 interactive, 1 normal, 2 background.
        payload_ref: the name of the blob with its payload, or None.
        raw_payload, raw_headers: the stored JSON text, or None.
        attempt: which delivery this is, counted from 1; only inboxes and queues set it.
        token: the fencing token of the claim under which it is handled; only queues set it.
    """

    __slots__ = (
        "_blobs",
        "_decoded",
        "_line",
        "_payload",
        "_payload_error",
        "attempt",
        "correlation_id",
        "from_agent",
        "id",
        "in_reply_to",
        "payload_ref",
        "priority",
        "raw_headers",
        "raw_payload",
        "seq",
        "to_agent",
        "token",
        "ts_ms",
        "type",
    )

    seq: int
    id: str
    ts_ms: int
    from_agent: str
    to_agent: str | None
    type: str
    correlation_id: str | None
    in_reply_to: str | None
    raw_payload: str | None
    payload_ref: str | None
    priority: int
    raw_headers: str | None

    def __init__(
        self, row: tuple[Any, ...], blobs: PayloadSource, line: bytes | None = None
    ) -> None:
        """Make a message of its columns; `line` is its line of `bus.jsonl`, where that is known."""
        (
            self.seq,
            self.id,
            self.ts_ms,
            self.from_agent,
            self.to_agent,
            self.type,
            self.correlation_id,
            self.in_reply_to,
            self.raw_payload,
            self.payload_ref,
            self.priority,
            self.raw_headers,
        ) = row
        self._blobs = blobs
        self._decoded = False
        self._line = line
        self.attempt = 1
        self.token: int | None = None

    @property
    def conversation(self) -> str:
        """The conversation that it belongs to: its own id when it began one."""
        return self.correlation_id or self.id

    @property
    def headers(self) -> dict[str, Any]:
        """Its metadata; empty when it has none."""
        if not self.raw_headers:
            return {}
        try:
            headers: dict[str, Any] = decode_stored(self.raw_headers)
            return headers
        except orjson.JSONDecodeError:
            # SQLite lets text pass as JSON that is none here, such as half a surrogate pair.
            return {"decode_failed": self.raw_headers}

    @property
    def payload(self) -> Any:
        """The payload as a JSON value.

        None stands for null, for no payload (`has_payload` tells), and for one that can't be
        had (`payload_error` tells). A large payload is read from its blob at the first use.
        """
        if not self._decoded:
            self._decode()
        return self._payload

    @property
    def has_payload(self) -> bool:
        """Whether it was published with a payload, null included."""
        return self.raw_payload is not None or self.payload_ref is not None

    @property
    def payload_error(self) -> str | None:
        """Why the payload can't be had: None when it can.

        `blob_missing`, `blob_altered`, `blob_unreadable` (the system refuses it), `decode_failed`
        (it is not JSON), or `too_large`: a blob that no payload can be. `Bus.blobs` has the bytes
        of the last two.
        """
        if not self._decoded:
            self._decode()
        return self._payload_error

    def _decode(self) -> None:
        self._payload, self._payload_error = self._read_payload()
        self._decoded = True

    def _read_payload(self) -> tuple[Any, str | None]:
        """Return the payload, and why it can't be had."""
        try:
            if self.raw_payload is not None:
                return decode_stored(self.raw_payload), None
            if self.payload_ref is None:
                return None, None
            data = self._blobs.read_up_to(self.payload_ref, MAX_PAYLOAD_BYTES)
            return (None, "too_large") if data is None else (decode_stored(data), None)
        except orjson.JSONDecodeError:
            return None, "decode_failed"
        except (BlobMissing, InvalidInput):  # what is no blob's name names no blob
            return None, "blob_missing"
        except BlobAltered:
            return None, "blob_altered"
        except BusUnusable:
            return None, "blob_unreadable"

    def to_line(self) -> bytes:
        """Return its line of `bus.jsonl`, without the newline; large payloads stay references."""
        if self._line is not None:
            return self._line
        fields = self._envelope()
        if self.payload_ref is not None:
            fields["payload_ref"] = self.payload_ref
        elif self.raw_payload is not None:
            fields.update(_payload_as_stored(self.raw_payload))
        return orjson.dumps(fields)

    def to_json(self) -> bytes:
        """Return the same object with its payload read in, as the commands show it.

        A payload that was not asked for before is not kept: printing many costs the memory of one.
        """
        payload, error = (
            (self._payload, self._payload_error) if self._decoded else self._read_payload()
        )
        fields = self._envelope()
        if self.has_payload and error is None:
            fields["payload"] = payload
        if self.payload_ref is not None:
            fields["payload_ref"] = self.payload_ref
        if error is not None:
            fields["payload_error"] = error
        return orjson.dumps(fields)

    def _envelope(self) -> dict[str, object]:
        """Return all but the payload, in the documented order, without what is absent."""
        fields: dict[str, object] = {
            "seq": self.seq,
            "id": self.id,
            "ts": format_ts(self.ts_ms),
            "from": self.from_agent,
        }
        if self.to_agent is not None:
            fields["to"] = self.to_agent
        fields["type"] = self.type
        if self.correlation_id is not None:
            fields["correlation_id"] = self.correlation_id
        if self.in_reply_to is not None:
            fields["in_reply_to"] = self.in_reply_to
        if self.priority != Priority.NORMAL:
            fields["priority"] = PRIORITY_NAMES[self.priority]
        if self.raw_headers:
            fields["headers"] = self.headers
        return fields

    def __repr__(self) -> str:
        return (
            f"<Message {self.seq} {self.type} {self.from_agent} →"
            f" {self.to_agent or 'all'} id={self.id}>"
        )


#: The names of the priorities in JSON and on the command line, by number.
PRIORITY_NAMES = tuple(priority.name.lower() for priority in Priority)


def parse_priority(value: object) -> Priority:
    """Return the priority that a name or a number stands for.

    Raises:
        InvalidInput: it stands for none.
    """
    if isinstance(value, str) and value in PRIORITY_NAMES:
        return Priority(PRIORITY_NAMES.index(value))
    if type(value) is int and 0 <= value <= 2:
        return Priority(value)
    raise InvalidInput(f"priority must be {', '.join(PRIORITY_NAMES)}, not {shown(value)}")


def _payload_as_stored(raw: str) -> dict[str, object]:
    """Return the payload fields of a line.

    Programs with their own SQL can store text that is not JSON, or JSON over several lines.
    """
    try:
        value = decode_stored(raw)
    except orjson.JSONDecodeError:
        return {"payload": raw, "payload_error": "decode_failed"}
    return {"payload": orjson.Fragment(raw) if "\n" not in raw and "\r" not in raw else value}
