"""The application of a server: every door of one bus; and running it until it is told to stop."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from ipaddress import ip_address
from threading import Event, Thread
from typing import Any

from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.telemetry import TelemetryConfig
from prometheus_client import disable_created_metrics
from starlette.applications import Starlette
from starlette.responses import RedirectResponse

from ..bus import tracing
from ..bus.local_bus import LocalBus
from ..schema.errors import (
    AckbusError,
    AnsweredAgainWarning,
    NotActedUponWarning,
    Refused,
    UnknownRecipientWarning,
)
from ..schema.processes import raise_open_files, start_thread
from ..schema.stop_limit import obeyed
from ..subscribers.jobs.errors import UnservedRequestWarning
from .access.access import LOOPBACK_NAMES, BusAccess, OwnOrigins, check_origin
from .access.tokens import Tokens
from .api.agents import inboxes_router as inboxes
from .api.agents import router as agents
from .api.blobs import router as blobs
from .api.conversations import router as conversations
from .api.jobs import claims_router as claims
from .api.jobs import router as jobs
from .api.leases import router as leases
from .api.messages import router as messages
from .api.queues import router as queues
from .connections import (
    MAX_BLOB_BYTES,
    MAX_BODY_BYTES,
    BodyLimit,
    ClientTimeouts,
    Server,
    listen_on,
    server_config,
    url_of,
)
from .feed import LiveFeed
from .mcp.route import McpMount
from .monitoring import Metrics, Readiness, RequestMetrics
from .monitoring import router as monitoring
from .page.files import router as page
from .problems import Problem, handle_problems
from .streams import ROUTERS as LIVE_ROUTERS
from .streams import nowhere
from .waiting import DOWNLOADS, UPLOADS, WaitingClients, bound_threads

# The routers of the JSON API, in the order in which paths are matched.

# Jobs and claims before queues: a queue's name may have slashes in it.
ROUTERS = (messages, inboxes, conversations, jobs, claims, queues, leases, agents, blobs)

# The application: every door of one bus that speaks HTTP.

#: The request headers that operations read; a browser's preflight asks whether they are allowed.
_HEADERS_READ = (
    *("Authorization", "Content-Type", "If-None-Match", "If-Range", "Last-Event-ID", "Range"),
    *("Idempotency-Key", "traceparent", "tracestate"),
)

#: Where the operations are described; /v1 itself leads there.
_DOCUMENT = "/v1/openapi.json"


def create_app(
    bus: LocalBus,
    access: BusAccess,
    *,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
    max_blob_bytes: int = MAX_BLOB_BYTES,
    patience: ClientTimeouts | None = None,
    pushpals_access: BusAccess | None = None,
) -> FastAPI:
    """Return the application that serves a bus.

    The caller keeps the bus open while the application is in use.

    Args:
        bus: what is served.
        access: authenticates requests.
        hosts: the host names that requests may use; None: any.
        origins: the origins whose pages may send requests, besides the server's own.
        max_blob_bytes: the longest blob that a client may store.
        patience: the timeouts of clients; None: the defaults.
        pushpals_access: authenticates requests in PushPals' forms; None: such requests are not
            served.
    """
    mcp = McpMount(bus.layout.directory, MAX_BODY_BYTES)
    app = _new_app(bus, mcp)
    app.state.bus = bus
    app.state.access = access
    app.state.patience = patience or ClientTimeouts()
    app.state.hang_up = lambda client: None  # set by a server that can drop a client
    app.state.metrics = Metrics(bus)
    app.state.readiness = Readiness(bus)
    app.state.protocol = None
    _add_middleware(app, hosts, origins, max_blob_bytes)
    handle_problems(app)
    for router in (page, monitoring, *ROUTERS, *LIVE_ROUTERS):
        app.include_router(router)
    app.state.mcp = mcp
    app.add_route("/v1", lambda request: RedirectResponse(_DOCUMENT))
    mcp.add_to(app)
    _document_bus(app)
    if pushpals_access is not None:
        from .pushpals.app import add_door, create_door

        add_door(app, create_door(bus, pushpals_access))
    app.include_router(nowhere)
    return app


def _new_app(bus: LocalBus, mcp: McpMount) -> FastAPI:
    """Return an application without operations; while it runs, it has a live feed of the bus."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        bound_threads()
        app.state.uploads = CapacityLimiter(UPLOADS)
        app.state.downloads = CapacityLimiter(DOWNLOADS)
        app.state.feed = feed = LiveFeed(bus)
        app.state.waiting = WaitingClients(feed)
        async with mcp.lifespan(app):
            try:
                yield
            finally:
                await feed.close()

    return FastAPI(
        title="ackbus",
        summary="A local-first message bus for coding agents.",
        version=version("ackbus"),
        servers=[{"url": "/", "description": "The server that this document comes from."}],
        redirect_slashes=False,  # a path with a slash at its end is unknown, not redirected
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        openapi_url=_DOCUMENT,
        telemetry=_telemetry(),
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )


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
    app.add_middleware(RequestMetrics, metrics=app.state.metrics)


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
    feed: LiveFeed | None = getattr(app.state, "feed", None)
    if feed is None:
        return
    feed.stop_soon()
    mcp: McpMount = app.state.mcp
    mcp.end_waiting()


def _document_bus(app: FastAPI) -> None:
    """Add to the document the form of problems, and whether this bus asks for a token."""
    default_document = app.openapi

    def document() -> dict[str, Any]:
        schema = default_document()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas["Problem"] = _schema_of_problems()
        _allow_no_token(schema, is_optional=not app.state.access.is_required())
        return schema

    app.openapi = document  # type: ignore[method-assign]


def _schema_of_problems() -> dict[str, Any]:
    """Return the schema of problems, whole: it refers to no other one."""
    schema = Problem.model_json_schema()
    parts = schema.pop("$defs")
    errors = schema["properties"]["errors"]
    (list_schema, null_schema) = errors["anyOf"]
    errors["anyOf"] = [list_schema | {"items": parts["Amiss"]}, null_schema]
    return schema


def _allow_no_token(document: dict[str, Any], *, is_optional: bool) -> None:
    """Document whether operations may be used without a token."""
    for operations in document["paths"].values():
        for operation in operations.values():
            if needs := [need for need in operation.get("security", ()) if need]:
                operation["security"] = [{}, *needs] if is_optional else needs


# The HTTP listeners of a service: each serves an application beside the service's own loop.
#
# An address is bound before the service begins, so that the service does not start without it;
# requests are answered as soon as jobs can run, and until the service has ended.


@dataclass(frozen=True)
class ServedApp:
    """An application, and where it is to be served.

    Attributes:
        name: for people and the log.
        listen: the address, HOST:PORT as in a configuration; the port 0 takes a free one.
        app: the application; its `state.hang_up` becomes the way to drop a client.
        patience: the timeouts of clients.
        on_stop: ends what waits in the application, from any thread, so that it can stop.
    """

    name: str
    listen: str
    app: Starlette
    patience: ClientTimeouts = field(default_factory=ClientTimeouts)
    on_stop: Callable[[], object] = lambda: None


class Listeners:
    """The listeners of some applications, from `start` to the end of the `with` block.

    Args:
        apps: what is served; their addresses are taken at once.

    Raises:
        AckbusError: an address can't be had; none is taken then.
    """

    def __init__(self, apps: Iterable[ServedApp]) -> None:
        self._listeners: list[_Listener] = []
        try:
            for served in apps:
                self._listeners.append(_Listener(served))
        except BaseException:
            self.close()
            raise

    @property
    def urls(self) -> dict[str, str]:
        """The URL of each application, by its name."""
        return {listener.served.name: listener.url for listener in self._listeners}

    def start(self) -> None:
        """Answer requests from now on; earlier ones have waited.

        Raises:
            AckbusError: an application can't be served; its log says why.
        """
        for listener in self._listeners:
            listener.start()

    def close(self) -> None:
        """End the requests that run, and free the addresses. Safe to repeat."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.stop_soon()
        for listener in listeners:
            listener.close()

    def __enter__(self) -> Listeners:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Listener:
    """One application: its socket, and the thread that serves it."""

    def __init__(self, served: ServedApp) -> None:
        self.served = served
        host, _, port = served.listen.rpartition(":")
        host = host.strip("[]")
        self._socket = listen_on(host, int(port))
        self.url = url_of(host, self._socket)
        self._settled = Event()
        config = server_config(served.app, served.patience)
        self._server = Server(config, self._settled.set, served.on_stop, served.patience)
        served.app.state.hang_up = self._server.hang_up
        self._thread: Thread | None = None

    def start(self) -> None:
        self._thread = start_thread(self._serve, f"{self.served.name} listener")
        self._settled.wait()
        if not self._server.started:
            raise AckbusError(f"{self.served.name} can't be served on {self.served.listen}")

    def stop_soon(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._server.stop()
            self.served.on_stop()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        try:
            # uvicorn raises SystemExit when the application can't start.
            with suppress(SystemExit):
                self._server.run(sockets=[self._socket])
        finally:
            self._settled.set()


@dataclass(frozen=True)
class Options:
    """The options of a server.

    Attributes:
        host: the address to listen on.
        port: the port; 0 takes a free one.
        max_rate: requests a second that a principal may make; None: no limit.
        origins: the origins whose pages may send requests, besides the server's own.
        max_blob_bytes: the longest blob that a client may store.
        patience: the timeouts of clients.
        pushpals: whether to answer in PushPals' forms too.
        pushpals_is_open: whether requests in PushPals' forms need no token.
    """

    host: str
    port: int
    max_rate: float | None = None
    origins: Collection[str] = ()
    max_blob_bytes: int = MAX_BLOB_BYTES
    patience: ClientTimeouts = field(default_factory=ClientTimeouts)
    pushpals: bool = False
    pushpals_is_open: bool = False

    @property
    def is_of_this_machine(self) -> bool:
        """Whether the address is reachable from this machine only."""
        if self.host in LOOPBACK_NAMES:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def serve(
    bus: LocalBus, options: Options, *, on_ready: Callable[[str], object] = lambda url: None
) -> None:
    """Serve a bus until SIGINT or SIGTERM. Blocks; call it from the main thread.

    Args:
        bus: the bus to serve.
        options: the options of the server.
        on_ready: called with the URL as soon as requests are answered.

    Raises:
        InvalidInput: an origin is invalid.
        Refused: other machines can reach the address, and there is no token.
        AckbusError: the server can't listen on the address.
    """
    for origin in options.origins:
        check_origin(origin)
    is_public = not options.is_of_this_machine
    if is_public and not Tokens.of(bus).are_needed():
        raise Refused(f"others can reach {options.host}: make a token first, 'bus token create'")
    pushpals_access = _access_of_pushpals(bus, options) if options.pushpals else None
    # The response to the publisher has the warning; the server's own output need not.
    warnings.simplefilter("ignore", AnsweredAgainWarning)
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    warnings.simplefilter("ignore", NotActedUponWarning)
    warnings.simplefilter("ignore", UnservedRequestWarning)
    raise_open_files()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # else each counter has a second one, of when it began
    logging.getLogger("uvicorn.error").addFilter(_is_of_server)
    app = create_app(
        bus,
        BusAccess(bus, required=is_public, max_rate=options.max_rate),
        hosts=None if is_public else {*LOOPBACK_NAMES, options.host},
        origins=options.origins,
        max_blob_bytes=options.max_blob_bytes,
        patience=options.patience,
        pushpals_access=pushpals_access,
    )
    with listen_on(options.host, options.port) as listener:
        config = server_config(app, options.patience)
        url = url_of(options.host, listener)
        server = Server(config, lambda: on_ready(url), lambda: end_streams(app), options.patience)
        app.state.hang_up = server.hang_up
        # uvicorn raises the signals again when it ends; this handler takes them.
        with obeyed(lambda number, frame: server.stop(), signal.SIGINT, signal.SIGTERM):
            server.run(sockets=[listener])


def _access_of_pushpals(bus: LocalBus, options: Options) -> BusAccess:
    """Return what authenticates requests in PushPals' forms; they need tokens unless it is open.

    Raises:
        Refused: there is no token, and `pushpals_is_open` is not set; or it is set, and other
            machines can reach the address.
    """
    if options.pushpals_is_open and not options.is_of_this_machine:
        raise Refused(f"others can reach {options.host}: --open is for this machine alone")
    if not options.pushpals_is_open and not Tokens.of(bus).are_needed():
        raise Refused("--pushpals needs a token, 'bus token create'; or --open, on this machine")
    return BusAccess(bus, required=not options.pushpals_is_open, max_rate=options.max_rate)


def _is_of_server(record: logging.LogRecord) -> bool:
    """Whether a log record is about the server, not a traceback about a client's data."""
    return record.msg != "Invalid UTF-8 sequence received from client."
