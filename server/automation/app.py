"""The application of the API."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version

from fastapi import FastAPI

from ...bus.local_bus import LocalBus
from ..access.access import OwnOrigins
from ..connections import MAX_BODY_BYTES, BodyLimit, ClientTimeouts
from ..feed import LiveFeed
from ..monitoring import Metrics, Readiness
from ..problems import ProblemStyle, handle_problems
from ..waiting import bound_threads
from .access import ConfigFollower, RunningService, ServiceAccess
from .operations import describe, open_routes
from .operations import discovery_router as discovery
from .operations import documents_router as openapi
from .operations import events_router as events
from .operations import health_router as health
from .operations import router as operations
from .operations import schedules_router as schedules
from .triggers import WaitingCallers
from .triggers import jobs_router as jobs
from .triggers import router as triggers

#: Where the operations are described.
_DOCUMENT = "/openapi.json"

#: The operations, by their groups.
ROUTERS = (
    *(health, open_routes, openapi, discovery),
    *(triggers, jobs, events, schedules, operations),
)


def create_api(
    bus: LocalBus,
    service: RunningService,
    reload: Callable[[], list[str]],
    *,
    patience: ClientTimeouts | None = None,
) -> FastAPI:
    """Return the application that serves the API of a service.

    Args:
        bus: of the service; it stays open as long as the application is used.
        service: it has a configuration in force from the first request on.
        reload: makes the service read its configuration again; returns when it is in force, with
            the settings that count only from the next start on.
        patience: the timeouts of clients; None: the defaults.
    """
    app = FastAPI(
        title="ackbus automation",
        summary="Triggers, jobs and events of a service of automation.",
        version=version("ackbus"),
        servers=[{"url": "/", "description": "The service that this document comes from."}],
        redirect_slashes=False,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url=_DOCUMENT,
        generate_unique_id_function=lambda route: route.name,
        lifespan=_lifespan,
    )
    app.state.bus = bus
    app.state.reload = reload
    app.state.current = current = ConfigFollower(bus, service)
    app.state.access = ServiceAccess(bus, current)
    app.state.patience = patience or ClientTimeouts()
    app.state.readiness = Readiness(bus)
    app.state.bridge = WaitingCallers(bus)
    app.state.metrics = Metrics(bus)
    app.add_middleware(BodyLimit, max_blob_bytes=MAX_BODY_BYTES)
    app.add_middleware(OwnOrigins, hosts=None)  # each request shows a token, whatever its Host says
    handle_problems(app, ProblemStyle(invalid=HTTPStatus.BAD_REQUEST, has_error=True))
    for router in ROUTERS:
        app.include_router(router)
    describe(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    bound_threads()
    app.state.began_at = time.monotonic()
    app.state.feed = feed = LiveFeed(app.state.bus)
    try:
        yield
    finally:
        await feed.close()


def end_waiting(app: FastAPI) -> None:
    """End the waiting requests of an application, from any thread, so that its server can stop."""
    bridge: WaitingCallers = app.state.bridge
    bridge.close()
    feed: LiveFeed | None = getattr(app.state, "feed", None)
    if feed is not None:
        feed.stop_soon()
