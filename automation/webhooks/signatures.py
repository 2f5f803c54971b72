"""Signatures of webhooks: HMAC-SHA256 over the raw body, in the forms that senders use.

| form | what is signed | the header |
|---|---|---|
| plain | the body | the signature, in hex or base64, after a prefix |
| standard | id.time.body | words ``v1,BASE64``; id and time are in headers beside it |
| stripe | time.body | ``t=TIME,v1=HEX``, with any number of ``v1`` |
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass

from ..config.signing_keys import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..config.webhooks import WebhookEndpoint

#: The prefix that a plain signature may have where none is set.
USUAL_PREFIX = "sha256="

#: The ends of the names of the headers of the standard form.
_SIGNATURE, _ID, _TIMESTAMP = "-signature", "-id", "-timestamp"

_HEX = re.compile(r"[0-9a-fA-F]{64}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{43}=")
_TIME = re.compile(r"[0-9]{1,12}")


class BadSignature(Exception):
    """The signature of a request is not right; its text is for the log alone."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A request whose signature is right.

    Attributes:
        digest: of what was signed, in hex.
        id: of the delivery, where it is signed too.
        is_dated: whether a time was signed.
    """

    digest: str
    id: str | None = None
    is_dated: bool = False


@dataclass(frozen=True, slots=True)
class _Claim:
    """The claims of the headers of a request.

    Attributes:
        before: what is signed before the body.
        signatures: any of them may be the right one.
        id: of the delivery.
        time: in seconds of the epoch.
    """

    before: bytes
    signatures: tuple[bytes, ...]
    id: str | None = None
    time: int | None = None


def verify(
    endpoint: WebhookEndpoint, headers: Mapping[str, str], body: bytes, now_s: float
) -> Signed:
    """Check the signature of a request.

    Every signature is compared with every secret, in constant time.

    Args:
        endpoint: its form and secrets.
        headers: those of the request, by names in lower case.
        body: its bytes, as they came.
        now_s: the time, in seconds of the epoch.

    Raises:
        BadSignature: there is none, or no right one, or its time is outside of the window.
    """
    claim = _CLAIMS[endpoint.signature_format](endpoint, headers)
    signed = claim.before + body
    is_right = False
    for key in _keys(endpoint):
        right = _hmac(key, signed)
        for signature in claim.signatures:
            is_right |= hmac.compare_digest(right, signature)
    if not is_right:
        raise BadSignature("the signature does not match")
    if claim.time is not None and abs(now_s - claim.time) > endpoint.replay_window_s:
        raise BadSignature(f"it was signed {round(now_s - claim.time)} seconds ago")
    digest = hashlib.sha256(signed).hexdigest()
    return Signed(digest, claim.id, is_dated=claim.time is not None)


def sign(endpoint: WebhookEndpoint, body: bytes, *, id: str, now_s: float) -> dict[str, str]:
    """Return the headers that a sender with the endpoint's secret sends with a body.

    Args:
        endpoint: its form and its newest secret.
        body: the bytes.
        id: of the delivery; the standard form signs it.
        now_s: the time, in seconds of the epoch.
    """
    header, time = endpoint.signature_header, str(int(now_s))
    key = next(_keys(endpoint))
    if endpoint.signature_format == "standard":
        beside = _beside(header)
        signature = standard_signature([key], id, time, body)
        return {header: signature, beside[0]: id, beside[1]: time}
    if endpoint.signature_format == "stripe":
        return {header: f"t={time},v1={_hmac(key, f'{time}.'.encode() + body).hex()}"}
    prefix = USUAL_PREFIX if endpoint.signature_prefix is None else endpoint.signature_prefix
    return {header: prefix + _hmac(key, body).hex()}


def standard_signature(keys: Iterable[bytes], id: str, time: str, body: bytes) -> str:
    """Return the signature of the standard form: one with each key, any of which may be known."""
    signed = f"{id}.{time}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(_hmac(key, signed)).decode()}" for key in keys)


def _plain(endpoint: WebhookEndpoint, headers: Mapping[str, str]) -> _Claim:
    text = _header(headers, endpoint.signature_header)
    prefix = endpoint.signature_prefix
    if prefix is None:
        text = text.removeprefix(USUAL_PREFIX)
    elif not text.startswith(prefix):
        raise BadSignature("the signature has another prefix")
    else:
        text = text[len(prefix) :]
    return _Claim(b"", _decoded([text]))


def _standard(endpoint: WebhookEndpoint, headers: Mapping[str, str]) -> _Claim:
    text = _header(headers, endpoint.signature_header)
    id, time = (_header(headers, name) for name in _beside(endpoint.signature_header))
    words = (word.partition(",") for word in text.split(" "))
    signatures = _decoded([value for version, _, value in words if version == "v1"])
    return _Claim(f"{id}.{time}.".encode("latin-1"), signatures, id, _seconds(time))


def _stripe(endpoint: WebhookEndpoint, headers: Mapping[str, str]) -> _Claim:
    text = _header(headers, endpoint.signature_header)
    parts = [part.strip().partition("=") for part in text.split(",")]
    time = next((value for name, _, value in parts if name == "t"), "")
    signatures = _decoded([value for name, _, value in parts if name == "v1"])
    return _Claim(f"{time}.".encode("latin-1"), signatures, time=_seconds(time))


_CLAIMS = {"plain": _plain, "standard": _standard, "stripe": _stripe}


def _header(headers: Mapping[str, str], name: str) -> str:
    found = headers.get(name.lower(), "").strip()
    if not found:
        raise BadSignature(f"the header {name} is missing")
    return found


def _beside(header: str) -> tuple[str, str]:
    """Return the names of the headers with id and time, beside one ending in ``-signature``."""
    begin = header[: -len(_SIGNATURE)]
    return begin + _ID, begin + _TIMESTAMP


def _seconds(text: str) -> int:
    if not _TIME.fullmatch(text):
        raise BadSignature("its time is no number of seconds")
    return int(text)


def _decoded(texts: list[str]) -> tuple[bytes, ...]:
    """Return signatures as bytes, those of them that have the form of one."""
    found = tuple(_bytes_of(texts))
    if not found:
        raise BadSignature("the signature has another form")
    return found


def _bytes_of(texts: list[str]) -> Iterator[bytes]:
    for text in texts:
        if _HEX.fullmatch(text):
            yield binascii.unhexlify(text)
        elif _BASE64.fullmatch(text):
            yield base64.b64decode(text)


def _keys(endpoint: WebhookEndpoint) -> Iterator[bytes]:
    for secret in (endpoint.secret, endpoint.previous_secret):
        if secret is not None:
            yield key_of(secret.reveal(), endpoint.signature_format)


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
