"""What the operations of the API share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.routing import APIRoute

from ...bus import Bus, tracing
from ...schema import MAX_SEQ, InvalidInput, decode
from ..access import needs
from ..principals import Principal, Scope
from ..problems import documented
from ..waiting import Waiting

#: How many records a page has, unless the client says so; and at most.
PAGE, MAX_PAGE = 100, 1000


class _StrictRequest(Request):
    """A request whose JSON is read as strictly as the bus reads JSON."""

    async def json(self) -> Any:
        return decode(await self.body(), "the body")


class _StrictRoute(APIRoute):
    """A route that ignores nothing of a query either: a slip would be a filter that filters not."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = {each.alias for each in self.dependant.query_params}

        async def strictly(request: Request) -> Response:
            unknown = sorted(request.query_params.keys() - known)
            if unknown:
                takes = ", ".join(sorted(known)) or "none"
                raise InvalidInput(f"there is no parameter {unknown[0][:80]!a}; it takes {takes}")
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


def new_router(tag: str) -> APIRouter:
    """Return a router for the operations of one group."""
    return APIRouter(prefix="/v1", tags=[tag], route_class=_StrictRoute)


async def the_bus(request: Request) -> Bus:
    """Return the bus that the application serves."""
    bus: Bus = request.app.state.bus
    return bus


async def the_waiting(request: Request) -> Waiting:
    """Return what lets clients of the application wait."""
    waiting: Waiting = request.app.state.waiting
    return waiting


async def the_trace(request: Request) -> dict[str, str]:
    """Return the trace context of a request, for the messages that it publishes.

    Where the request is a span of this process, there is none: the bus itself stores the span that
    a message is published under, which is a part of it.
    """
    return {} if tracing.current_trace() else tracing.given_trace(request.headers)


TheBus = Annotated[Bus, Depends(the_bus)]
TheWaiting = Annotated[Waiting, Depends(the_waiting)]
TheTrace = Annotated[dict[str, str], Depends(the_trace)]

MessageReader = Annotated[Principal, Depends(needs(Scope.MESSAGES_RO))]
MessageWriter = Annotated[Principal, Depends(needs(Scope.MESSAGES_RW))]
WorkReader = Annotated[Principal, Depends(needs(Scope.WORK_RO))]
WorkWriter = Annotated[Principal, Depends(needs(Scope.WORK_RW))]
Admin = Annotated[Principal, Depends(needs(Scope.ADMIN))]

After = Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only what comes after this seq.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]
WaitS = Annotated[
    float, Query(ge=0, le=30, description="How long to wait for it, in seconds, at most 30.")
]
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
    """Return the problems that an operation may end in, for its documentation.

    Those that any may end in are among them.
    """
    return documented(400, 401, 403, 404, 422, 429, 500, 503, *more)


def json_response(
    body: bytes, headers: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    """Return a response with JSON that is encoded already."""
    return Response(body, status, headers, media_type="application/json")


def json_of(value: object, status: int = 200) -> Response:
    """Return a response with a value as JSON; in it may be `orjson.Fragment`."""
    return json_response(orjson.dumps(value), status=status)


def json_array(items: Iterable[bytes]) -> bytes:
    """Return the array of values that are encoded already."""
    return b"[" + b",".join(items) + b"]"
