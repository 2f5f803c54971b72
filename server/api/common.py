"""Parameters, dependencies and responses that the operations of the API share."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal, get_args, get_origin

import anyio
import orjson
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from ...blobs.store import CHUNK_BYTES
from ...bus import tracing
from ...bus.local_bus import LocalBus
from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import decode
from ...schema.message.names import MAX_SEQ
from ...subscribers.jobs.claims import Claim, ClaimRecord
from ...subscribers.jobs.jobs import Job
from ...subscribers.jobs.policy import Policy
from ...subscribers.queues.statistics import QueueStats, Spread
from ..access.access import GuardedRouter, TheClient, principal_of
from ..access.table import SERVER, AccessTable
from ..problems import documented
from ..records import HEADER, IdempotencyKey, MessageRecord, with_fields_of
from ..waiting import Waiter, WaitingClients

#: How many records a page has, unless the client says so; and at most.
PAGE, MAX_PAGE = 100, 1000


async def next_piece(chunks: AsyncIterator[bytes], patience_s: float) -> bytes:
    """Return the next MiB of a body, or what is left of it: nothing at its end.

    Each piece has the same timeout: otherwise a slow body would hold its place without end.

    Raises:
        HTTPException: it takes too long.
    """
    piece = bytearray()
    with anyio.move_on_after(patience_s):
        async for chunk in chunks:
            piece += chunk
            if len(piece) >= CHUNK_BYTES:
                break
        return bytes(piece)
    raise HTTPException(HTTPStatus.REQUEST_TIMEOUT)


class _StrictRequest(Request):
    """A request whose JSON is read as strictly as the bus reads JSON, and comes in time."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            chunks, patience = self.stream(), self.app.state.patience
            pieces = []
            while piece := await next_piece(chunks, patience.stalled_s):
                pieces.append(piece)
            self._body = b"".join(pieces)
        return self._body

    async def json(self) -> Any:
        return decode(await self.body(), "the body")


class _StrictRoute(APIRoute):
    """A route that checks the principal before the body, and refuses unknown parameters.

    FastAPI reads and decodes the body first: that work is done for admitted clients only. A
    mistyped parameter would be a filter without effect.

    A slash in a name is written `%2F`: otherwise a mistyped path, or one that ends in a slash,
    would be another name.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a path has the same number of parts as this one, and matches each of them."""
        path: bytes = scope["raw_path"]
        if path.endswith(b"/") or path.count(b"/") != self.path.count("/"):
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        names = _query_names(self.dependant)
        single = names - _query_names(self.dependant, of_lists=True)
        takes_key = any(dependency.call is the_key for dependency in self.dependant.dependencies)

        async def strictly(request: Request) -> Response:
            principal_of(request)
            unknown = sorted(request.query_params.keys() - names)
            if unknown:
                takes = ", ".join(sorted(names)) or "none"
                raise InvalidInput(f"there is no parameter {unknown[0][:80]!a}; it takes {takes}")
            twice = sorted(name for name in single if len(request.query_params.getlist(name)) > 1)
            if twice:
                raise InvalidInput(f"parameter {twice[0]!r} is given more than once")
            _check_key(request, takes_key)
            if self.body_field is not None:
                _check_is_json(request)
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


def _check_key(request: Request, is_taken: bool) -> None:
    """Refuse an idempotency key where it would have no effect, and more than one."""
    keys = request.headers.getlist(HEADER)
    if keys and not is_taken:
        raise InvalidInput(f"{HEADER} is for operations that publish; leave it out here")
    if len(keys) > 1:
        raise InvalidInput(f"{HEADER} is given more than once")


def _check_is_json(request: Request) -> None:
    """Refuse a body that is not sent as JSON: pages of other sites can send other bodies freely."""
    sent = request.headers.get("Content-Type", "")
    kind = sent.partition(";")[0].strip().lower()
    if re.fullmatch(r"application/(\S+\+)?json", kind) is None and _has_body(request):
        why = f"send JSON, with Content-Type: application/json, not {sent[:80]!a}"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE) from InvalidInput(why)


def _has_body(request: Request) -> bool:
    return (
        "Transfer-Encoding" in request.headers or request.headers.get("Content-Length", "0") != "0"
    )


def _query_names(dependant: Dependant, *, of_lists: bool = False) -> set[str]:
    """Return the names of an operation's query parameters, those of its dependencies included."""
    names = {
        field.alias
        for field in dependant.query_params
        if not of_lists or _is_list(field.field_info.annotation)
    }
    for dependency in dependant.dependencies:
        names |= _query_names(dependency, of_lists=of_lists)
    return names


def _is_list(kind: object) -> bool:
    return get_origin(kind) is list or any(map(_is_list, get_args(kind)))


def new_router(tag: str, prefix: str = "/v1", door: AccessTable = SERVER) -> APIRouter:
    """Return a router for the operations of one group, which need what their table says."""
    return GuardedRouter(door, prefix=prefix, tags=[tag], route_class=_StrictRoute)


async def the_bus(request: Request) -> LocalBus:
    """Return the bus that the application serves."""
    bus: LocalBus = request.app.state.bus
    return bus


async def the_trace(request: Request) -> dict[str, str]:
    """Return the trace context of a request, for the messages that it publishes.

    It is empty where the request is a span of this process: the bus then stores the current span,
    which belongs to that trace.
    """
    return {} if tracing.current_trace() else tracing.given_trace(request.headers)


WaitS = Annotated[
    float, Query(ge=0, le=30, description="How long to wait for it, in seconds, at most 30.")
]


async def the_key(
    client: TheClient,
    header: Annotated[
        str | None,
        Header(
            alias=HEADER,
            description="Makes the ids of what is published, together with token and agent: the"
            " same request under it publishes nothing twice.",
        ),
    ] = None,
) -> IdempotencyKey:
    """Return the idempotency key of a request."""
    return IdempotencyKey.parse(header, client.name)


async def the_waiter(request: Request, wait_s: WaitS = 0) -> Waiter:
    """Return the waiter of a request, which waits up to `wait_s` seconds."""
    waiting: WaitingClients = request.app.state.waiting
    return Waiter(waiting, request, wait_s)


TheBus = Annotated[LocalBus, Depends(the_bus)]
TheWaiter = Annotated[Waiter, Depends(the_waiter)]
TheKey = Annotated[IdempotencyKey, Depends(the_key)]
TheTrace = Annotated[dict[str, str], Depends(the_trace)]

After = Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only what comes after this seq.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]
OfType = Annotated[
    str | None, Query(min_length=1, max_length=255, description="A pattern, like `task.*`.")
]
OfAgent = Annotated[str | None, Query(min_length=1, description="From or to this agent.")]
OfConversation = Annotated[
    str | None, Query(min_length=1, description="The id of its first message, as a rule.")
]
AgentName = Annotated[str, Path(min_length=1, max_length=128, description="An agent.")]
QueueName = Annotated[str, Path(min_length=1, max_length=255, description="A queue.")]
Seq = Annotated[int, Path(ge=1, le=MAX_SEQ, description="The seq of a message.")]


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that an operation documents: the common ones, and these."""
    return documented(400, 401, 403, 404, 408, 415, 422, 429, 500, 503, *more)


def published(record: Any, again: str) -> dict[int | str, dict[str, Any]]:
    """Return the responses, besides 201, of an operation that publishes and is safe to repeat.

    Args:
        record: the model of the response with status 200, which a repeated request gets.
        again: a sentence that describes it.
    """
    return {200: {"model": record, "description": again}, **problems(409, 413)}


def has_tag(if_none_match: str | None, tag: str) -> bool:
    """Whether an `If-None-Match` header names an entity tag."""
    tags = (part.strip().removeprefix("W/") for part in (if_none_match or "").split(","))
    return any(part in (tag, "*") for part in tags)


def json_response(
    body: bytes, headers: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    """Return a response with encoded JSON."""
    return Response(body, status, headers, media_type="application/json")


def json_of(value: object, status: int = 200) -> Response:
    """Return a response with a value as JSON; in it may be `orjson.Fragment`."""
    return json_response(orjson.dumps(value), status=status)


def json_array(items: Iterable[bytes]) -> bytes:
    """Return the JSON array of encoded values."""
    return b"[" + b",".join(items) + b"]"


# The JSON of queues, jobs and claims, as responses document it.


@with_fields_of(Policy)
class PolicyRecord(BaseModel):
    """The rules of a queue."""


class QueueRecord(BaseModel):
    """A queue."""

    queue: str = Field(description="Its name.")
    type: str = Field(description="The pattern of the types that it takes in.")
    filled_seq: int = Field(description="The seq up to which it has looked at the log.")
    created_at: str
    paused_at: str | None = Field(None, description="Since when nothing is claimed from it.")
    policy: PolicyRecord


@with_fields_of(Spread)
class SpreadRecord(BaseModel):
    """The distribution of durations, in milliseconds; null where there is no sample."""


@with_fields_of(
    QueueStats,
    "info",
    at="When this was so.",
    stuck="Why it can't take in more of the log.",
)
class QueueStatsRecord(QueueRecord):
    """The statistics of a queue: the object that `bus queue show --json` prints."""

    state: Literal["open", "paused", "stuck", "saturated"]
    is_saturated: bool
    wait: SpreadRecord
    run: SpreadRecord


class QueueStatsList(BaseModel):
    """The queues, by name."""

    queues: list[QueueStatsRecord]


@with_fields_of(
    Job,
    omits_none=True,
    seq="The message.",
    gate="What a queued job waits for.",
    for_worker="The one worker group that may claim it.",
)
class JobRecord(BaseModel):
    """A job: a message in a queue, and its state."""

    type: str | None = Field(None, description="Of its message, in lists.")
    priority: str


class JobList(BaseModel):
    """Jobs, the newest first; queued ones alone in line."""

    jobs: list[JobRecord]


class ActRecord(BaseModel):
    """An act of a person on a job."""

    at: str
    who: str = Field(description="An agent, `token NAME`, or `user@host`.")
    act: Literal["cancel", "retry"]
    seq: int
    detail: str | None = None


@with_fields_of(
    ClaimRecord,
    omits_none=True,
    token="Its identity: a later claim has a larger one.",
    group="The class of workers that has it.",
    worker="The one process or thread of it.",
    until="When its lease ended, or ends unless it is renewed.",
)
class AttemptRecord(BaseModel):
    """An attempt at a job."""

    state: Literal["live_active", "expired_active", "terminal"]
    result: Any = Field(None, description="As it was given: text, or any JSON value.")
    logs: Any = None


class JobInFull(JobRecord):
    """A job with its message, every attempt at it, and the acts of people on it."""

    message: MessageRecord
    attempts: list[AttemptRecord]
    acts: list[ActRecord]


class ClaimInFull(AttemptRecord):
    """A claim with its message."""

    message: MessageRecord


@with_fields_of(
    Claim,
    omits_none=True,
    token="Names the claim; a later claim has a larger one.",
    attempt="Which attempt this is, from 1.",
    until="When it is lost unless it was renewed.",
)
class ClaimedRecord(BaseModel):
    """The right to work on a message until the lease runs out."""

    message: MessageRecord = Field(description="A large payload stays a reference to its blob.")


class ClaimedList(BaseModel):
    """Claimed jobs; empty when there is none."""

    claims: list[ClaimedRecord]
