"""The application of PushPals' forms, and its place in that of the server."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import Scope

from ...bus.bus import Bus
from ...schema.errors import AckbusError, InvalidInput
from ...tasks.control.entries import NotClaimed
from ...tasks.control.events import nobody
from ...tasks.control.jobs import JobQueue
from ...tasks.control.sweep import Sweep
from ..access.access import Access
from ..access.errors import TooManyRequests, Unauthorized
from ..problems import status_of
from .common import answer
from .routers import FAMILIES, ROUTERS


class Door(Mount):
    """The application at the paths of PushPals alone: all others are the server's own."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the first part of a path is one of PushPals'."""
        if scope["path"].split("/", 2)[1:2][0] not in FAMILIES:
            return Match.NONE, {}
        return super().matches(scope)


def create_door(bus: Bus, access: Access) -> FastAPI:
    """Return the application, which shares the life of the server's.

    Args:
        bus: what is served.
        access: authenticates requests.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.bus = bus
    app.state.access = access
    app.state.tell = nobody
    app.state.sweep = Sweep(bus, JobQueue(bus, lambda *event: app.state.tell(*event)))
    for kind in (AckbusError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _refused)
    for router in ROUTERS:
        app.include_router(router)
    return app


def add_door(app: FastAPI, door: FastAPI) -> None:
    """Put the application of PushPals' forms into that of the server, behind all its paths."""
    app.router.routes.append(Door("/", app=door))


async def _refused(request: Request, error: Exception) -> Response:
    """Return an error in the form of PushPals: `ok` is false, and `message` says why."""
    if request.method == "OPTIONS":  # a browser asks before it sends: the server has answered that
        return Response(status_code=HTTPStatus.NO_CONTENT)
    headers: dict[str, str] = {}
    status, message = HTTPStatus.INTERNAL_SERVER_ERROR, "an error in the server; see its output"
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        message = "Not found" if status == HTTPStatus.NOT_FOUND else status.phrase
    elif isinstance(error, AckbusError):
        status = _status(error)
        message = str(error)
    elif isinstance(error, RequestValidationError):
        status, message = HTTPStatus.BAD_REQUEST, _first(error)
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
        message = f"Unauthorized: {error}"
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        wait_s = error.retry_after_s if isinstance(error, TooManyRequests) else 1
        headers["Retry-After"] = str(math.ceil(wait_s))
    return answer({"ok": False, "message": message}, status, headers)


def _status(error: AckbusError) -> HTTPStatus:
    if isinstance(error, InvalidInput | NotClaimed):
        return HTTPStatus.BAD_REQUEST
    return status_of(error)


def _first(error: RequestValidationError) -> str:
    found: dict[str, Any] = error.errors()[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
