"""Messages from their lines of `bus.jsonl`: the way back from `Message.to_line`."""

from __future__ import annotations

from datetime import datetime

import orjson

from .message import Message, message_of
from .priority import PRIORITY_NAMES, Priority

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .message import PayloadSource

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
    """Return the text of the payload in such a line, spaced as it is there; None when it has none.

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
