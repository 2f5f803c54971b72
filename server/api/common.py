"""What the operations of the API share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute

from ...bus import Bus, tracing
from ...schema import MAX_SEQ, TRACE_PARENT, decode

#: How many records a page has, unless the client says so; and at most.
PAGE, MAX_PAGE = 100, 1000


class _StrictRequest(Request):
    """A request whose JSON is read as strictly as the bus reads JSON."""

    async def json(self) -> Any:
        return decode(await self.body(), "the body")


class _StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return strictly


def new_router(tag: str) -> APIRouter:
    """Return a router for the operations of one group."""
    return APIRouter(prefix="/v1", tags=[tag], route_class=_StrictRoute)


async def the_bus(request: Request) -> Bus:
    """Return the bus that the application serves."""
    bus: Bus = request.app.state.bus
    return bus


TheBus = Annotated[Bus, Depends(the_bus)]
After = Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only what comes after this seq.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]


def json_response(body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with JSON that is encoded already."""
    return Response(body, headers=headers, media_type="application/json")


def json_array(items: Iterable[bytes]) -> bytes:
    """Return the array of values that are encoded already."""
    return b"[" + b",".join(items) + b"]"


def with_trace(
    headers: Mapping[str, object] | None, request: Request
) -> Mapping[str, object] | None:
    """Return the headers of a message with the trace of the request that publishes it.

    A message that names one keeps it. Where this process makes spans, the bus itself stores the
    one that it is published under, which is a part of the request's.
    """
    trace = {} if tracing.is_used() else tracing.given_trace(request.headers)
    if not trace or TRACE_PARENT in (headers or {}):
        return headers
    return {**(headers or {}), **trace}
