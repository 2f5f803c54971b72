"""The application of PushPals' forms, and its place in that of the server."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import Scope

from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError
from ...tasks.control.jobs import JobQueue, Sweep
from ...tasks.control.sessions import PROTOCOL_VERSION, Sessions
from ..access.access import BusAccess
from .common import refused
from .routers import autonomy_router as autonomy
from .routers import completions_router as completions
from .routers import jobs_router as jobs
from .routers import requests_router as requests
from .routers import system_router as system
from .routers import workers_router as workers
from .streams import router as message
from .streams import router as sessions
from .streams import router as streams

# The groups of operations, and the first parts of their paths.

ROUTERS = (
    *(requests, jobs, completions, workers, autonomy, message, system),
    *(sessions, streams),
)

#: The first parts of all their paths.
FAMILIES = frozenset(
    {"requests", "jobs", "completions", "workers", "autonomy", "message", "system"}
    | {"sessions", "approvals"}
)


class PushPalsMount(Mount):
    """The application at the paths of PushPals alone: all others are the server's own."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the first part of a path is one of PushPals'."""
        if scope["path"].split("/", 2)[1:2][0] not in FAMILIES:
            return Match.NONE, {}
        return super().matches(scope)


def create_door(bus: LocalBus, access: BusAccess) -> FastAPI:
    """Return the application, which shares the life of the server's.

    Args:
        bus: what is served.
        access: authenticates requests.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.bus = bus
    app.state.access = access
    app.state.sessions = sessions = Sessions(bus)
    app.state.tell = sessions.tell
    app.state.sweep = Sweep(bus, JobQueue(bus, sessions.tell))
    for kind in (AckbusError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, refused)
    for router in ROUTERS:
        app.include_router(router)
    return app


def add_door(app: FastAPI, door: FastAPI) -> None:
    """Put the application of PushPals' forms into that of the server, behind all its paths."""
    door.state.server = app
    for shared in ("metrics", "patience"):
        setattr(door.state, shared, getattr(app.state, shared))
    door.state.hang_up = lambda client: app.state.hang_up(client)
    app.state.protocol = PROTOCOL_VERSION
    app.router.routes.append(PushPalsMount("/", app=door))
