"""A message as it is stored, and its JSON form.

`Message` is read far more often than anything else here, so it holds the stored text and decodes
headers and payload only when they are asked for.
"""

from __future__ import annotations

from ..arguments import with_checked_arguments
from ..errors import SHOWN_CHARS, BlobAltered, BlobMissing, BusUnusable, InvalidInput
from . import lazy_orjson as orjson
from .canonical_json import decode_stored
from .draft import ABSENT, PRIORITY_NAMES, Draft, Priority
from .names import MAX_PAYLOAD_BYTES
from .times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any, Protocol

    class PayloadSource(Protocol):
        """The source of payloads that are not in the row: the blob store."""

        def read_up_to(self, ref: str, max_bytes: int) -> bytes | None:
            """Return a blob's bytes, checked against its name; None when there are more."""


#: The stored fields, in the order of the columns.
_FIELDS = (
    "seq",
    "id",
    "ts_ms",
    "from_agent",
    "to_agent",
    "type",
    "correlation_id",
    "in_reply_to",
    "raw_payload",
    "payload_ref",
    "priority",
    "raw_headers",
)

#: Sets a field of a message in spite of its `__setattr__`.
_set = object.__setattr__


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


class _Open:
    """A message while it is made: its fields can be set."""

    __slots__ = (
        "_blobs",
        "_decoded",
        "_line",
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


@with_checked_arguments
class Message(_Open):
    """A stored message. It never changes, so it may be kept and shared.

    Setting a field is an AttributeError. Objects and arrays in a payload are kept, and shared by
    all who hold the message: copy one before you change it.

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

    __slots__ = ()

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
    attempt: int
    token: int | None
    _blobs: PayloadSource
    _decoded: tuple[Any, str | None] | None
    _line: bytes | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a message can't be changed: {name} is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a message can't be changed: {name} is read-only")

    def __copy__(self) -> Message:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Message:
        """Copy what can be changed, the objects in the payload, and share the blob store."""
        copied = message_of(tuple(getattr(self, name) for name in _FIELDS), self._blobs, self._line)
        delivered(copied, self.attempt, self.token)
        return copied

    @property
    def ts(self) -> datetime:
        """The time of publishing, in UTC, to the millisecond."""
        from datetime import UTC, datetime, timedelta

        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.ts_ms)

    def reply(
        self,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str | None = None,
        headers: Mapping[str, object] | None = None,
    ) -> Draft:
        """Return a draft that answers the message: to its sender, in its conversation.

        Args:
            type, payload, headers: as for `Draft`.
            from_agent: who answers; None: the agent that the message was for.

        Raises:
            InvalidInput: a broadcast is answered, and `from_agent` is None.
        """
        sender = self.to_agent if from_agent is None else from_agent
        if sender is None:
            raise InvalidInput("a broadcast is for no one agent: name who answers in from_agent")
        return Draft(
            type,
            payload,
            from_agent=sender,
            to_agent=self.from_agent,
            in_reply_to=self.id,
            headers=headers,
        )

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
        return (self._decoded or self._decode())[0]

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
        return (self._decoded or self._decode())[1]

    def _decode(self) -> tuple[Any, str | None]:
        decoded = self._read_payload()
        _set(self, "_decoded", decoded)
        return decoded

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
            return _with_payload(fields, self.raw_payload)
        return orjson.dumps(fields)

    def to_json(self) -> bytes:
        """Return the same object with its payload read in, as the commands show it.

        A payload that was not asked for before is not kept: printing many costs the memory of one.
        """
        payload, error = self._decoded or self._read_payload()
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
        stored = self.raw_payload if self.payload_ref is None else self.payload_ref
        payload = "" if stored is None else f" {stored[:SHOWN_CHARS]}"
        cut = "…" if stored is not None and len(stored) > SHOWN_CHARS else ""
        return (
            f"<Message {self.seq} {self.type} {self.from_agent} →"
            f" {self.to_agent or 'all'} id={self.id}{payload}{cut}>"
        )


def message_of(row: tuple[Any, ...], blobs: PayloadSource, line: bytes | None = None) -> Message:
    """Make a message of its columns; `line` is its line of `bus.jsonl`, where that is known."""
    opened: Any = _Open()
    (
        opened.seq,
        opened.id,
        opened.ts_ms,
        opened.from_agent,
        opened.to_agent,
        opened.type,
        opened.correlation_id,
        opened.in_reply_to,
        opened.raw_payload,
        opened.payload_ref,
        opened.priority,
        opened.raw_headers,
    ) = row
    opened._blobs = blobs
    opened._decoded = None
    opened._line = line
    opened.attempt = 1
    opened.token = None
    opened.__class__ = Message  # costs less than to set each field past `__setattr__`
    message: Message = opened
    return message


def delivered(message: Message, attempt: int, token: int | None = None) -> None:
    """Note on a message which delivery it is, and under which claim."""
    _set(message, "attempt", attempt)
    _set(message, "token", token)


def _with_payload(fields: dict[str, object], raw: str) -> bytes:
    """Return the line of some fields and a payload, which stands there as it is stored.

    Programs with their own SQL can store text that is not JSON, or JSON over several lines.
    """
    try:
        value = decode_stored(raw)
    except orjson.JSONDecodeError:
        return orjson.dumps({**fields, "payload": raw, "payload_error": "decode_failed"})
    if "\n" in raw or "\r" in raw:
        return orjson.dumps({**fields, "payload": value})
    return b"%b%b%b}" % (orjson.dumps(fields)[:-1], _PAYLOAD, raw.encode())


# Messages from their lines of `bus.jsonl`: the way back from `Message.to_line`.

#: The bytes before the payload, which is the last field of a line.
_PAYLOAD = b',"payload":'


def message_of_line(line: bytes, blobs: PayloadSource) -> Message:
    """Return the message that a line tells of; `to_line` gives the line back, byte for byte.

    Args:
        line: a line that `Message.to_line` has made, without its newline.
        blobs: where large payloads are.

    Raises:
        ValueError, KeyError: it is another line.
    """
    fields: dict[str, Any] = orjson.loads(line)
    row = (
        fields["seq"],
        fields["id"],
        _ts_ms(fields["ts"]),
        fields["from"],
        fields.get("to"),
        fields["type"],
        fields.get("correlation_id"),
        fields.get("in_reply_to"),
        _raw_payload(fields),
        fields.get("payload_ref"),
        PRIORITY_NAMES.index(fields.get("priority", PRIORITY_NAMES[Priority.NORMAL])),
        _raw_headers(fields),
    )
    return message_of(row, blobs, line)


def payload_as_stored(line: bytes) -> str | None:
    """Return the text of the payload in a line, spaced as it is there; None when it has none.

    Raises:
        ValueError, KeyError: it is another line.
    """
    fields: dict[str, Any] = orjson.loads(line)
    if fields.get("payload_error") == "decode_failed" or "payload" not in fields:
        return _raw_payload(fields)
    start = line.find(_PAYLOAD)  # the same words may stand in the headers before it
    while start >= 0:
        try:
            if orjson.loads(line[:start] + b"}").keys() == fields.keys() - {"payload"}:
                return line[start + len(_PAYLOAD) : -1].decode()
        except orjson.JSONDecodeError:
            pass
        start = line.find(_PAYLOAD, start + 1)
    return _raw_payload(fields)


def _ts_ms(text: str) -> int:
    if not text.endswith("Z"):
        return int(text)  # one that RFC 3339 can't show
    from datetime import datetime  # slow to load, and most commands read no lines

    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def _raw_payload(fields: dict[str, Any]) -> str | None:
    if "payload" not in fields:
        return None
    payload = fields["payload"]
    if fields.get("payload_error") == "decode_failed":
        return str(payload)  # it was not JSON, and stands there as text
    return orjson.dumps(payload).decode()


def _raw_headers(fields: dict[str, Any]) -> str | None:
    headers = fields.get("headers")
    return None if headers is None else orjson.dumps(headers).decode()
