"""The application: every door of one bus that speaks HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.telemetry import TelemetryConfig
from starlette.responses import RedirectResponse

from ..bus import tracing
from ..bus.bus import Bus
from .access.access import Access
from .access.origins import OwnOrigins
from .api.routers import ROUTERS
from .body_limit import MAX_BLOB_BYTES, MAX_BODY_BYTES, BodyLimit
from .client_timeouts import Patience
from .health import Readiness
from .health import router as health
from .live.feed import Feed
from .live.routers import ROUTERS as LIVE_ROUTERS
from .live.sockets import nowhere
from .mcp.route import McpMount
from .metrics.counters import Metrics
from .metrics.endpoint import router as metrics
from .metrics.requests import Measured
from .page.routers import ROUTERS as PAGE_ROUTERS
from .problems import Problem, handle_problems
from .threads import DOWNLOADS, UPLOADS, bound_threads
from .waiting import Waiting

#: The request headers that operations read; a browser's preflight asks whether they are allowed.
_HEADERS_READ = (
    *("Authorization", "Content-Type", "If-None-Match", "If-Range", "Last-Event-ID", "Range"),
    *("Idempotency-Key", "traceparent", "tracestate"),
)

#: Where the operations are described; /v1 itself leads there.
_DOCUMENT = "/v1/openapi.json"


def create_app(
    bus: Bus,
    access: Access,
    *,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
    max_blob_bytes: int = MAX_BLOB_BYTES,
    patience: Patience | None = None,
    pushpals: Access | None = None,
) -> FastAPI:
    """Return the application that serves a bus, which stays open as long as it is used.

    Args:
        bus: what is served.
        access: authenticates requests.
        hosts: the host names that requests may use; None: any.
        origins: the origins whose pages may send requests, besides the server's own.
        max_blob_bytes: the longest blob that a client may store.
        patience: the timeouts of clients; None: the defaults.
        pushpals: authenticates requests in PushPals' forms; None: there are none.
    """
    mcp = McpMount(bus.layout.directory, MAX_BODY_BYTES)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        bound_threads()
        app.state.uploads = CapacityLimiter(UPLOADS)
        app.state.downloads = CapacityLimiter(DOWNLOADS)
        app.state.feed = feed = Feed(bus)
        app.state.waiting = Waiting(feed)
        async with mcp.lifespan(app):
            try:
                yield
            finally:
                await feed.close()

    app = FastAPI(
        title="ackbus",
        summary="A local-first message bus for coding agents.",
        version=version("ackbus"),
        servers=[{"url": "/", "description": "The server that this document comes from."}],
        redirect_slashes=False,  # a path with a slash at its end is another path, of nothing
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url=_DOCUMENT,
        telemetry=_telemetry(),
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )
    app.state.bus = bus
    app.state.access = access
    app.state.patience = patience or Patience()
    app.state.hang_up = lambda client: None  # a server that can sets this
    app.state.metrics = Metrics(bus)
    app.state.readiness = Readiness(bus)
    app.state.protocol = None
    _add_middleware(app, hosts, origins, max_blob_bytes)
    handle_problems(app)
    for router in (*PAGE_ROUTERS, health, metrics, *ROUTERS, *LIVE_ROUTERS):
        app.include_router(router)
    app.state.mcp = mcp
    app.add_route("/v1", lambda request: RedirectResponse(_DOCUMENT))
    mcp.add_to(app)
    _document_bus(app)
    if pushpals is not None:
        from .pushpals.app import add_door, create_door

        add_door(app, create_door(bus, pushpals))
    app.include_router(nowhere)
    return app


def _add_middleware(
    app: FastAPI, hosts: Collection[str] | None, origins: Collection[str], max_blob_bytes: int
) -> None:
    """Add the middleware of every request; the last that is added runs first."""
    app.add_middleware(BodyLimit, max_blob_bytes=max_blob_bytes)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=_HEADERS_READ,
            expose_headers=["Content-Range", "ETag", "Location", "Retry-After"],
        )
    app.add_middleware(OwnOrigins, hosts=hosts, origins=origins)
    app.add_middleware(Measured, metrics=app.state.metrics)


def _telemetry() -> TelemetryConfig:
    """Return FastAPI's telemetry settings: one span a request, if this process makes spans."""
    return {
        "tracing": tracing.is_used(),
        "operation_spans": False,
        "metrics": False,
        "logs": False,
        "auto_configure": False,
    }


def end_streams(app: FastAPI) -> None:
    """End the streams and the waiting tools of an application, so that its server can stop.

    A signal handler may call it at any time, also before the application has started.
    """
    feed: Feed | None = getattr(app.state, "feed", None)
    if feed is None:
        return
    feed.stop_soon()
    mcp: McpMount = app.state.mcp
    mcp.end_waiting()


def _document_bus(app: FastAPI) -> None:
    """Add to the document the form of problems, and whether this bus asks for a token."""
    own = app.openapi

    def document() -> dict[str, Any]:
        made = own()
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = _schema_of_problems()
        _allow_no_token(made, is_optional=not app.state.access.is_required())
        return made

    app.openapi = document  # type: ignore[method-assign]


def _schema_of_problems() -> dict[str, Any]:
    """Return the schema of problems, whole: it refers to no other one."""
    made = Problem.model_json_schema()
    parts = made.pop("$defs")
    (either, nothing) = made["properties"]["errors"]["anyOf"]
    made["properties"]["errors"]["anyOf"] = [either | {"items": parts["Amiss"]}, nothing]
    return made


def _allow_no_token(document: dict[str, Any], *, is_optional: bool) -> None:
    """Say of each operation whether it may be asked for without a token."""
    for operations in document["paths"].values():
        for operation in operations.values():
            if needs := [each for each in operation.get("security", ()) if each]:
                operation["security"] = [{}, *needs] if is_optional else needs
