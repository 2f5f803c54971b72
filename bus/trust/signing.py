"""Signatures: the signed form of a message, and signing by publishers.

A signature is the header `signature`, so it travels wherever its message goes: an HMAC-SHA-256
with a key of the sender over the content of the message, its time included, in a form that
docs/protocol.md gives for other programs.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from contextvars import ContextVar

import orjson

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import encode
from ...schema.message.draft import SIGNATURE_HEADER
from ...schema.message.limits import MAX_HEADERS_BYTES
from .keys import Keyring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...schema.message.draft import Row
    from ...schema.message.message import Message
    from .keys import Key

#: The first element of what is signed, and the first part of a signature: the version of the form.
FORM, VERSION = "ackbus-signature-1", "v1"

#: The agents to sign for, where a program publishes for others; None: all with keys here.
_only: ContextVar[tuple[str, ...] | None] = ContextVar("ackbus_signs_only_for", default=None)


def sign_only_for(agent: str | None) -> None:
    """Restrict signing in this task, and in its threads, to one agent, or to none.

    A server acts for its clients: signing under a name that a client merely claims is forgery.

    Args:
        agent: the authenticated agent; None: there is none.
    """
    _only.set(() if agent is None else (agent,))


class Signer:
    """Signs for the agents whose keys this user has; others' messages stay as they are."""

    def __init__(self) -> None:
        self._keys = Keyring()
        self._found: dict[str, Key | None] = {}

    def sign(self, rows: Iterable[Row]) -> None:
        """Put a signature into the headers of rows that are about to be stored.

        Raises:
            BusUnusable: the key of a sender can't be read, or others can read it.
            InvalidInput: the headers have no room for a signature.
        """
        only = _only.get()
        for row in rows:
            if only is not None and row.from_agent not in only:
                continue
            key = self._key_of(row.from_agent)
            if key is not None:
                _sign(row, key)

    def _key_of(self, agent: str) -> Key | None:
        if agent not in self._found:
            self._found[agent] = self._keys.newest(agent)
        return self._found[agent]


def _sign(row: Row, key: Key) -> None:
    headers = orjson.loads(row.headers) if row.headers else {}
    headers.pop(SIGNATURE_HEADER, None)
    payload = row.payload_ref or (None if row.payload is None else _name_of(row.payload.encode()))
    headers[SIGNATURE_HEADER] = sign(_form(row, payload, headers), key)
    data = encode(headers, "headers")
    if len(data) > MAX_HEADERS_BYTES:
        raise InvalidInput(
            f"the headers are {len(data)} bytes of JSON with the signature; the limit is"
            f" {MAX_HEADERS_BYTES}"
        )
    row.headers = data.decode()


def sign(form: bytes, key: Key) -> str:
    """Return the signature of a form."""
    return f"{VERSION}.{key.id}.{hmac.new(key.secret, form, hashlib.sha256).hexdigest()}"


def is_right(signature: str, message: Message, key: Key) -> bool:
    """Whether a key's signature is that of a message as it is stored, or was in an older form."""
    return any(
        hmac.compare_digest(signature.encode(), sign(form_of(message, write), key).encode())
        for write in (encode, _encode_without_plus)
    )


def form_of(message: Message, write: Callable[[object], bytes] = encode) -> bytes:
    """Return the bytes of a stored message that are signed.

    Args:
        message: the message.
        write: makes canonical JSON of a value.
    """
    headers = {name: value for name, value in message.headers.items() if name != SIGNATURE_HEADER}
    # The payload that readers take goes first: without the table's CHECK a row could have both.
    payload = _name_of_payload(message, write) or message.payload_ref
    return _form(message, payload, headers, write)


def _encode_without_plus(value: object) -> bytes:
    """Return canonical JSON with `1e16` for `1e+16`, as orjson below 3.11.7 wrote it."""
    return re.sub(rb'("(?:[^"\\]|\\.)*")|(?<=e)\+', rb"\1", encode(value))


def _form(
    of: Row | Message,
    payload: str | None,
    headers: dict[str, object],
    write: Callable[[object], bytes] = encode,
) -> bytes:
    return write(
        [
            FORM,
            of.id,
            of.ts_ms,
            of.from_agent,
            of.to_agent,
            of.type,
            of.correlation_id,
            of.in_reply_to,
            of.priority,
            headers,
            payload,
        ]
    )


def _name_of_payload(message: Message, write: Callable[[object], bytes]) -> str | None:
    """Return the name that a payload has, or would have, as a blob."""
    raw = message.raw_payload
    if raw is None:
        return None
    # The canonical form is hashed, as an import and the archive each spell a payload their way.
    return _name_of(write(message.payload) if message.payload_error is None else raw.encode())


def _name_of(data: bytes) -> str:
    return f"sha256-{hashlib.sha256(data).hexdigest()}"
