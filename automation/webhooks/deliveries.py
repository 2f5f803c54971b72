"""Deliveries: signed requests, each stored as the job, the run or the event that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from ...schema.errors import InvalidInput, NotFound
from ...schema.message.canonical_json import decode
from ...schema.message.draft import Draft
from ...schema.message.limits import MAX_ID_CHARS, MAX_TYPE_CHARS
from ...subscribers.jobs.policy import AUTOMATION
from ..config.flows import SWITCH
from ..jobs.events import EVENT, EVENT_TYPE
from ..jobs.job_request import AGENTS, JobRequest
from ..jobs.plugin_run import HANDLE, check_event_type
from ..jobs.submission import Submission
from ..routes.derived_ids import id_of
from ..routes.router import Router
from ..routes.tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ...bus.bus import Bus
    from ..config.snapshot import Config
    from ..config.webhooks import PartOf, WebhookEndpoint
    from .signatures import Signed

#: The type of the event that a `handle` is told of, where the endpoint names none.
RECEIVED = "webhook.received"

#: The entry of a job's origin, and the header of an event, that names the endpoint.
WEBHOOK = "webhook"

#: The type of the content of forms, and the field of theirs that has the JSON.
_FORM, _FIELD = "application/x-www-form-urlencoded", "payload"

#: The keys of a body that is an event already, as Ductile's own examples send it.
_EVENT_KEYS = {"type", "payload", "source", "timestamp", "event_id", "dedupe_key"}


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery that is stored.

    Attributes:
        job_id: of its first job; None: it is an event that begins nothing.
        is_repeated: whether it was there before.
    """

    job_id: str | None
    is_repeated: bool = False


class Deliveries:
    """Takes signed requests in, by one configuration.

    Args:
        bus: an open bus.
        config: the configuration.
        plugins: the names of those that run.
    """

    def __init__(self, bus: Bus, config: Config, plugins: Collection[str]) -> None:
        self._bus = bus
        self._plugins = plugins
        self._router = Router(bus, config, plugins)

    def take(
        self, endpoint: WebhookEndpoint, headers: Mapping[str, str], body: bytes, signed: Signed
    ) -> Taken:
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
                return Taken(self._first_job(endpoint, id), is_repeated=True)
            if endpoint.plugin is not None:
                return Taken(self._job(endpoint.plugin, request, id))
            return Taken(self._run(request, id))

    def _job(self, plugin: str, request: _Request, id: str | None) -> str:
        if plugin not in self._plugins:
            raise NotFound(f"the plugin {plugin!r} does not run; see 'bus plugin list'")
        endpoint = request.endpoint
        is_handle = endpoint.command == HANDLE
        payload, event = request.event() if is_handle else (request.payload, None)
        wanted = JobRequest(
            id=id,
            plugin=plugin,
            command=endpoint.command,
            payload=payload,
            submitted_by="webhook",
            event=event,
            origin={WEBHOOK: endpoint.name},
        )
        return Submission(self._bus).submit(wanted).job_id

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

    def _first_job(self, endpoint: WebhookEndpoint, id: str) -> str | None:
        """Return the job of a delivery that was stored before."""
        message = self._bus.log.get(id)
        if message is None or message.type != EVENT:
            return id
        jobs = Tree.of(self._bus, id).jobs
        first = next((job for job in jobs if job.plugin != SWITCH), jobs[0] if jobs else None)
        return None if first is None else first.message.id


def _payload(headers: Mapping[str, str], body: bytes) -> object:
    """Return what a body says: its JSON, or that of the one field of a form, as GitHub sends it.

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
        """Return the payload of a `handle`, and what else it is told of the event.

        A body that is an event itself, with a payload, is taken for it; any other is the payload.
        """
        told: dict[str, object] = {
            "type": self.event_type(),
            "source": f"webhook:{self.endpoint.path}",
        }
        body = self.payload
        if not isinstance(body, dict) or "payload" not in body or body.keys() - _EVENT_KEYS:
            return body, told
        type = body.get("type")
        if isinstance(type, str) and type and told["type"] == RECEIVED:
            check_event_type(type)
            told["type"] = type
        return body["payload"], told

    def _part(self, part: PartOf, max_chars: int) -> str:
        if part.where == "header":
            found: object = self._headers.get(part.name.lower())
        else:
            found = self.payload.get(part.name) if isinstance(self.payload, dict) else None
        text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
        if not 0 < len(text) <= max_chars or not text.isprintable():
            raise InvalidInput(f"{part} is no text of 1 to {max_chars} printable characters")
        return text
