"""The message of a publisher: `Draft`, and the checked and encoded `MessageRow` made from it."""

from __future__ import annotations

from enum import IntEnum

from ..arguments import check_types, checked
from ..errors import InvalidInput, shown
from . import canonical_json as json
from . import lazy_orjson as orjson
from .names import (
    INLINE_PAYLOAD_BYTES,
    MAX_HEADERS_BYTES,
    MAX_PAYLOAD_BYTES,
    check_agent,
    check_id,
    check_recipient,
    check_type,
    new_id,
)
from .times import MAX_TS_MS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from .message import Message

# The urgency of a message, as a number and by name.


class Priority(IntEnum):
    """The urgency of a message; queues may hand out lower numbers first."""

    INTERACTIVE = 0
    NORMAL = 1
    BACKGROUND = 2


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


# Several recipients: a message for each of them, in one conversation.

#: The most recipients of one message: a broadcast, which is stored once, reaches more.
MAX_RECIPIENTS = 100


def for_each(draft: Draft, recipients: Iterable[str]) -> list[Draft]:
    """Return a draft for each recipient; see `Draft.to_each`."""
    names = list(recipients)
    for name in names:
        check_recipient(name)
    names = list(dict.fromkeys(names))
    if not names:
        raise InvalidInput("the list of recipients is empty: to reach everyone, name no recipient")
    if len(names) > MAX_RECIPIENTS:
        raise InvalidInput(
            f"{len(names)} recipients are more than {MAX_RECIPIENTS}: name none to reach everyone"
        )
    if draft.to_agent is not None:
        raise InvalidInput("a message has a recipient, or several, not both")
    from copy import copy

    first_id = draft.id or new_id()
    drafts = [copy(draft) for _ in names]
    for copied, name in zip(drafts, names, strict=True):
        copied.to_agent = name
        if copied is drafts[0]:
            copied.id = first_id
            continue
        copied.id = draft.id and f"{draft.id}:{name}"
        if draft.in_reply_to is None:
            copied.correlation_id = draft.correlation_id or first_id
    return drafts


#: The headers by which a sender asks queues for a delay or a key.
AVAILABLE_AT, DEDUPE_KEY, DEDUPE_WINDOW = "available_at_ms", "dedupe_key", "dedupe_window_ms"
#: Those by which it asks for one worker, or says what becomes of a job whose worker is lost.
FOR_WORKER, ON_LOST = "for_worker", "on_lost"

#: The header that a signature stands in; docs/protocol.md says how it is made.
SIGNATURE_HEADER = "signature"

#: The headers of W3C trace context.
TRACE_PARENT, TRACE_STATE = "traceparent", "tracestate"

#: The headers that are no content: of a time, a key, or one of several attempts to publish.
_NO_CONTENT = (SIGNATURE_HEADER, TRACE_PARENT, TRACE_STATE)


class _Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"


#: The payload of a message that carries none; `None` is the JSON value null.
ABSENT: Final = _Absent()


class NotJson:
    """The payload of a message that another program stored as text that is not JSON.

    It is kept in the row as it is, so that an import has what was exported.

    Raises:
        InvalidInput: the text is JSON, and so an ordinary payload.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        try:
            json.decode_stored(text)
        except orjson.JSONDecodeError:
            self.text = text
        else:
            raise InvalidInput("its payload is JSON, although it says that it is not")


class Draft:
    """A message that is about to be published.

    Args:
        type: dotted routing word, such as `task.done`.
        payload: any JSON value, or `NotJson`; leave it out for a message without a payload.
        from_agent: who sends.
        to_agent: who is to receive; None broadcasts.
        id: identity for safe retries; None draws a UUIDv7.
        in_reply_to: id of the message that this answers; it must be in the log.
        correlation_id: the conversation; None takes the parent's, or begins a new one.
        priority: `Priority`, or 0, 1, 2.
        headers: JSON object of metadata.
        payload_ref: name of a blob that is in the store already, instead of `payload`: the
            collector leaves it alone from then on. Readers decode it when it is JSON of a
            bounded size; others fetch its bytes by this name.
        ts_ms: epoch milliseconds; None takes the present.

    The fields are checked when the draft is published, not here.
    """

    __slots__ = (
        "correlation_id",
        "from_agent",
        "headers",
        "id",
        "in_reply_to",
        "payload",
        "payload_ref",
        "priority",
        "to_agent",
        "ts_ms",
        "type",
    )

    def __init__(
        self,
        type: str,
        payload: object = ABSENT,
        *,
        from_agent: str,
        to_agent: str | None = None,
        id: str | None = None,
        in_reply_to: str | None = None,
        correlation_id: str | None = None,
        priority: int = Priority.NORMAL,
        headers: Mapping[str, object] | None = None,
        payload_ref: str | None = None,
        ts_ms: int | None = None,
    ) -> None:
        self.type = type
        self.payload = payload
        self.from_agent = from_agent
        self.to_agent = to_agent
        self.id = id
        self.in_reply_to = in_reply_to
        self.correlation_id = correlation_id
        self.priority = priority
        self.headers = headers
        self.payload_ref = payload_ref
        self.ts_ms = ts_ms

    @checked
    def to_each(self, recipients: Iterable[str]) -> list[Draft]:
        """Return a message for each of several recipients, for `Bus.publish_many`.

        They are one conversation. The first keeps the id; the others have it with `:` and the name
        of their recipient, if it was given, so that publishing them again stores nothing.

        Args:
            recipients: their names; a name that comes twice counts once.

        Raises:
            InvalidInput: there is none, or one that can't be a name; or the draft has another.
        """
        return for_each(self, recipients)

    def prepare(self, now_ms: int) -> MessageRow:
        """Check every field and return the row to store; writes nothing.

        Raises:
            InvalidInput: a field breaks its rule.
        """
        try:
            ts_ms = self._check(now_ms)
            return MessageRow(self, ts_ms, self._encode_payload(), self._encode_headers())
        except InvalidInput:
            check_types(Draft.__init__, self)  # names the argument, where its type is wrong
            raise

    def _check(self, now_ms: int) -> int:
        """Check the fields beside payload and headers, and return the time."""
        check_type(self.type)
        check_agent(self.from_agent, "sender")
        if self.to_agent is not None:
            check_recipient(self.to_agent)
        if self.id is not None:
            check_id(self.id)
        if self.in_reply_to is not None:
            check_id(self.in_reply_to, "id to reply to")
        if self.correlation_id is not None:
            check_id(self.correlation_id, "conversation")
        if self.payload_ref is not None and type(self.payload_ref) is not str:
            raise InvalidInput(f"payload_ref must be text, not {type(self.payload_ref).__name__}")
        if type(self.priority) is bool or self.priority not in (0, 1, 2):
            raise InvalidInput(f"priority must be 0, 1 or 2, not {shown(self.priority)}")
        ts_ms = now_ms if self.ts_ms is None else self.ts_ms
        if type(ts_ms) is not int or not 0 <= ts_ms <= MAX_TS_MS:
            raise InvalidInput(f"ts_ms must be epoch milliseconds, not {shown(ts_ms)}")
        return ts_ms

    def _encode_payload(self) -> bytes | None:
        if self.payload is ABSENT:
            return None
        if self.payload_ref is not None:
            raise InvalidInput("a message has a payload or a payload_ref, not both")
        if isinstance(self.payload, NotJson):
            data = self.payload.text.encode()
        else:
            data = json.encode(self.payload)
        if len(data) > MAX_PAYLOAD_BYTES:
            raise InvalidInput(
                f"the payload is {len(data)} bytes of JSON; the limit is {MAX_PAYLOAD_BYTES}."
                " Store it with 'bus blob put' and publish its name with --payload-ref"
            )
        return data

    def _encode_headers(self) -> str | None:
        if self.headers is None:
            return None
        if not hasattr(self.headers, "keys"):
            raise InvalidInput(f"headers must be a dict, not {shown(self.headers)}")
        if not (headers := dict(self.headers)):
            return None
        data = json.encode(headers, "headers")
        if len(data) > MAX_HEADERS_BYTES:
            raise InvalidInput(
                f"the headers are {len(data)} bytes of JSON; the limit is {MAX_HEADERS_BYTES}"
            )
        return data.decode()


class MessageRow:
    """A draft whose fields have been checked and encoded: what is about to be a stored row.

    `large_payload` holds the JSON that must become a blob before the row is stored.
    """

    __slots__ = (
        "correlation_id",
        "from_agent",
        "headers",
        "id",
        "in_reply_to",
        "large_payload",
        "payload",
        "payload_ref",
        "priority",
        "to_agent",
        "ts_ms",
        "type",
    )

    def __init__(
        self, draft: Draft, ts_ms: int, payload: bytes | None, headers: str | None
    ) -> None:
        self.id = draft.id or new_id()
        self.ts_ms = ts_ms
        self.from_agent = draft.from_agent
        self.to_agent = draft.to_agent
        self.type = draft.type
        self.correlation_id = draft.correlation_id
        self.in_reply_to = draft.in_reply_to
        self.payload_ref = draft.payload_ref
        self.priority = int(draft.priority)
        self.headers = headers
        self.payload: str | None = None
        self.large_payload: bytes | None = None
        if payload is None:
            return
        if len(payload) > INLINE_PAYLOAD_BYTES and not isinstance(draft.payload, NotJson):
            self.large_payload = payload
        else:
            self.payload = payload.decode()

    def values(self) -> tuple[object, ...]:
        """Return the values of all columns but `seq`, in the order of `COLUMNS`."""
        return (
            self.id,
            self.ts_ms,
            self.from_agent,
            self.to_agent,
            self.type,
            self.correlation_id,
            self.in_reply_to,
            self.payload,
            self.payload_ref,
            self.priority,
            self.headers,
        )

    def differs_from(self, stored: Message) -> list[str]:
        """Return the names of the fields, but for the time, in which a stored message differs."""
        names = ("from_agent", "to_agent", "type", "correlation_id", "in_reply_to", "priority")
        fields = [name for name in names if getattr(self, name) != getattr(stored, name)]
        if not self._has_payload_of(stored):
            fields.append("payload")
        if not _same_json(_content_of(self.headers), _content_of(stored.raw_headers)):
            fields.append("headers")
        return fields

    def _has_payload_of(self, stored: Message) -> bool:
        if stored.raw_payload is None:
            return self.payload is None and self.payload_ref == stored.payload_ref
        # Another program may have stored in the row what would have become a blob here.
        large = self.large_payload
        return _same_json(self.payload if large is None else large.decode(), stored.raw_payload)


def _content_of(headers: str | None) -> str:
    """Return headers without those that are no content."""
    if not headers or not any(f'"{name}"' in headers for name in _NO_CONTENT):
        return headers or "{}"
    try:
        fields = orjson.loads(headers)
    except orjson.JSONDecodeError:
        return headers
    for name in _NO_CONTENT:
        fields.pop(name, None)
    return json.encode(fields).decode()


def _same_json(text: str | None, other: str | None) -> bool:
    if text == other:
        return True
    if text is None or other is None:
        return False
    try:
        # Text written by another program may have other spacing and the same meaning.
        return json.encode(orjson.loads(text)) == json.encode(orjson.loads(other))
    except orjson.JSONDecodeError:
        return False
