"""Webhooks in: signatures, and deliveries, each stored as the job, run or event it becomes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from ..schema.errors import InvalidInput, NotFound
from ..schema.message.canonical_json import decode, encode
from ..schema.message.draft import Draft
from ..schema.message.names import MAX_ID_CHARS, MAX_TYPE_CHARS
from ..subscribers.jobs.policy import AUTOMATION
from .config.values import SWITCH, key_of
from .jobs.events import EVENT, EVENT_TYPE
from .jobs.plugin_run import HANDLE, check_event_type
from .jobs.submission import AGENTS, JobRequest, Submission
from .routes.flow import id_of
from .routes.router import Router
from .routes.runs import RunTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from ..bus.local_bus import LocalBus
    from .config.models import Config, WebhookEndpoint
    from .config.values import PartOf

# Signatures of webhooks: HMAC-SHA256 over the raw body, in the forms that senders use.
#
# | form | what is signed | the header | |---|---|---| | plain | the body | the signature, in hex
# or base64, after a prefix | | standard | id.time.body | words ``v1,BASE64``; id and time are in
# headers beside it | | stripe | time.body | ``t=TIME,v1=HEX``, with any number of ``v1`` |

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
    value = headers.get(name.lower(), "").strip()
    if not value:
        raise BadSignature(f"the header {name} is missing")
    return value


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
    signatures = tuple(_bytes_of(texts))
    if not signatures:
        raise BadSignature("the signature has another form")
    return signatures


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


# Trials: a request that a sender with the secret of an endpoint would send.


def trial(
    endpoint: WebhookEndpoint, body: bytes | None, *, delivery: str, now_s: float
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a signed request.

    Args:
        endpoint: where it is to go.
        body: the body; None: a JSON object with the parts that the endpoint reads from bodies.
        delivery: the id of the delivery.
        now_s: the time, in seconds of the epoch.
    """
    parts = {endpoint.delivery_id: delivery, endpoint.event_type_from: "test"}
    if body is None:
        body = encode({"test": True} | _of(parts, "body"))
    headers = {"Content-Type": "application/json"} | _of(parts, "header")
    return headers | sign(endpoint, body, id=delivery, now_s=now_s), body


def _of(parts: dict[PartOf | None, str], where: str) -> dict[str, str]:
    return {part.name: text for part, text in parts.items() if part and part.where == where}


#: The type of the event for a `handle`, if the endpoint names none.
RECEIVED = "webhook.received"

#: The entry of a job's origin, and the header of an event, that names the endpoint.
WEBHOOK = "webhook"

#: The type of the content of forms, and the field of theirs that has the JSON.
_FORM, _FIELD = "application/x-www-form-urlencoded", "payload"

#: The keys of a body that is an event already, as Ductile's own examples send it.
_EVENT_KEYS = {"type", "payload", "source", "timestamp", "event_id", "dedupe_key"}


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """A delivery that is stored.

    Attributes:
        job_id: of its first job; None: it is an event that begins nothing.
        is_repeated: whether it was there before.
    """

    job_id: str | None
    is_repeated: bool = False


class WebhookDeliveries:
    """Stores signed requests as jobs, runs or events, by one configuration.

    Args:
        bus: an open bus.
        config: the configuration.
        plugins: the names of those that run.
    """

    def __init__(self, bus: LocalBus, config: Config, plugins: Collection[str]) -> None:
        self._bus = bus
        self._plugins = plugins
        self._router = Router(bus, config, plugins)

    def take(
        self, endpoint: WebhookEndpoint, headers: Mapping[str, str], body: bytes, signed: Signed
    ) -> StoredDelivery:
        """Store a request whose signature is right; all of it is committed before this returns.

        Args:
            endpoint: where it came in.
            headers: by names in lower case.
            body: as it came; an empty one is null.
            signed: what its signature says.

        Raises:
            InvalidInput: the body is no JSON and no form with JSON, or a part is missing.
            NotFound: the plugin or the pipeline is not there, for now.
            LimitReached: the queue is full.
        """
        request = _Request(endpoint, headers, _payload(headers, body))
        delivery = request.delivery(signed)
        id = None if delivery is None else id_of(f"{WEBHOOK} {endpoint.path}\n{delivery}")
        with self._bus.transaction():
            if id is not None and self._bus.log.get(id) is not None:
                return StoredDelivery(self._first_job(id), is_repeated=True)
            if endpoint.plugin is not None:
                return StoredDelivery(self._job(endpoint.plugin, request, id))
            return StoredDelivery(self._run(request, id))

    def _job(self, plugin: str, request: _Request, id: str | None) -> str:
        if plugin not in self._plugins:
            raise NotFound(f"the plugin {plugin!r} does not run; see 'bus plugin list'")
        endpoint = request.endpoint
        is_handle = endpoint.command == HANDLE
        payload, event = request.event() if is_handle else (request.payload, None)
        job_request = JobRequest(
            id=id,
            plugin=plugin,
            command=endpoint.command,
            payload=payload,
            submitted_by="webhook",
            event=event,
            origin={WEBHOOK: endpoint.name},
        )
        return Submission(self._bus).submit(job_request).job_id

    def _run(self, request: _Request, id: str | None) -> str | None:
        """Publish an event, and submit the first jobs of the pipelines that it begins."""
        endpoint = request.endpoint
        if endpoint.pipeline is not None:
            jobs = self._router.begin(
                endpoint.pipeline, request.payload, submitted_by="webhook", event_id=id
            )
        else:
            event_type = request.event_type()
            draft = Draft(
                EVENT,
                request.payload,
                id=id,
                from_agent=AGENTS["webhook"],
                to_agent=AUTOMATION,
                headers={EVENT_TYPE: event_type, WEBHOOK: endpoint.name},
            )
            (receipt,) = self._bus.log.append([draft])
            event = self._bus.get(receipt.seq)
            assert event is not None
            jobs = self._router.triggered_by(event, event_type, submitted_by="webhook")
        submission = Submission(self._bus)
        for job in jobs:
            submission.submit(replace(job, origin={**job.origin, WEBHOOK: endpoint.name}))
        first = next((job for job in jobs if job.answer is None), jobs[0] if jobs else None)
        return None if first is None else first.id

    def _first_job(self, id: str) -> str | None:
        """Return the job of a delivery that was stored before."""
        message = self._bus.log.get(id)
        if message is None or message.type != EVENT:
            return id
        jobs = RunTree.of(self._bus, id).jobs
        first = next((job for job in jobs if job.plugin != SWITCH), jobs[0] if jobs else None)
        return None if first is None else first.message.id


def _payload(headers: Mapping[str, str], body: bytes) -> object:
    """Return the JSON of a body, or of the one field of a form, as GitHub sends it.

    The type of the content is not signed, so that a body that is JSON is read as JSON anyway.
    """
    if not body:
        return None
    try:
        return decode(body, "the body")
    except InvalidInput:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _FORM:
            raise
    try:
        ((name, text),) = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=1, errors="strict"
        )
    except ValueError:  # of bytes, of other fields, of none
        name = text = ""
    if name != _FIELD:
        raise InvalidInput(f"the body is a form, and not of one field {_FIELD!r} with JSON")
    return decode(text, f"{_FIELD} of the form")


class _Request:
    """A request, and what an endpoint makes of its parts."""

    def __init__(
        self, endpoint: WebhookEndpoint, headers: Mapping[str, str], payload: object
    ) -> None:
        self.endpoint = endpoint
        self.payload = payload
        self._headers = headers

    def delivery(self, signed: Signed) -> str | None:
        """Return what names the delivery, None where nothing does.

        A part that is named, else an id that is signed; where a time is signed, the signature
        itself: the same one again is a replay.
        """
        if self.endpoint.delivery_id is not None:
            return self._part(self.endpoint.delivery_id, MAX_ID_CHARS)
        return signed.id or (signed.digest if signed.is_dated else None)

    def event_type(self) -> str:
        """Return the type of the event."""
        source = self.endpoint.event_type_from
        parts = [self.endpoint.event_type, source and self._part(source, MAX_TYPE_CHARS)]
        type = ".".join(part for part in parts if part) or RECEIVED
        check_event_type(type)
        return type

    def event(self) -> tuple[object, dict[str, object]]:
        """Return the payload of a `handle`, and the header of the event.

        A body that is an event itself, with a payload, is taken for it; any other is the payload.
        """
        event_header: dict[str, object] = {
            "type": self.event_type(),
            "source": f"webhook:{self.endpoint.path}",
        }
        body = self.payload
        if not isinstance(body, dict) or "payload" not in body or body.keys() - _EVENT_KEYS:
            return body, event_header
        type = body.get("type")
        if isinstance(type, str) and type and event_header["type"] == RECEIVED:
            check_event_type(type)
            event_header["type"] = type
        return body["payload"], event_header

    def _part(self, part: PartOf, max_chars: int) -> str:
        if part.where == "header":
            value: object = self._headers.get(part.name.lower())
        else:
            value = self.payload.get(part.name) if isinstance(self.payload, dict) else None
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if not 0 < len(text) <= max_chars or not text.isprintable():
            raise InvalidInput(f"{part} is no text of 1 to {max_chars} printable characters")
        return text
