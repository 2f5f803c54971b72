"""The counters of this server, which begin at zero with each start."""

from __future__ import annotations

import time

from fastapi import Request, Response
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
)
from prometheus_client import generate_latest as generate
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..bus.local_bus import LocalBus
from .access.access import GuardedRouter
from .access.table import SERVER
from .bus_metrics import AutomationCollector, BusCollector
from .problems import documented

#: The upper ends of the times that requests take, in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """The metrics of one server. Safe to use from any thread.

    Args:
        bus: the bus that it serves.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "ackbus_http_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "ackbus_http_request_seconds",
            "From a request to the beginning of its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._clients = Gauge(
            "ackbus_stream_clients", "Clients that follow now.", ("kind",), registry=registry
        )
        self._delivered = Counter(
            "ackbus_stream_events", "Events that clients took.", ("kind",), registry=registry
        )
        self._dropped = Counter(
            "ackbus_stream_dropped",
            "Clients that were dropped: the server's log says why.",
            ("kind",),
            registry=registry,
        )
        ProcessCollector(registry=registry)
        registry.register(BusCollector(bus))
        registry.register(AutomationCollector(bus))

    def streams(self, kind: str) -> StreamCounts:
        """Return the counters of the streams of a kind: `sse` or `websocket`."""
        return StreamCounts(
            self._clients.labels(kind), self._delivered.labels(kind), self._dropped.labels(kind)
        )

    def text(self) -> bytes:
        """Return all metrics as text, reading the bus now. Blocks."""
        return generate(self._registry)


class StreamCounts:
    """Counts the clients of one kind of stream, and what they get."""

    def __init__(self, clients: Gauge, delivered: Counter, dropped: Counter) -> None:
        self.came, self.went = clients.inc, clients.dec
        self.delivered, self.dropped = delivered.inc, dropped.inc


# Counting and timing requests.

#: The label of requests to unknown paths: clients must not be able to create labels.
_OTHER = "other"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class RequestMetrics:
    """Counts every HTTP request by its method, route and status, and times it by its route.

    Args:
        app: the application behind it.
        metrics: the counters.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        is_answered = False

        async def watched(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                self._count(scope, message["status"], begin)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if not is_answered:  # a defect is answered by middleware outside of this one
                self._count(scope, 500, begin)
            raise

    def _count(self, scope: Scope, status: int, begin: float) -> None:
        route = getattr(scope.get("route"), "path_format", _OTHER)
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        self._metrics.requests.labels(method, route, status).inc()
        self._metrics.request_seconds.labels(route).observe(time.perf_counter() - begin)


# The endpoint that Prometheus scrapes.

router = GuardedRouter(SERVER, tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "Metrics, for Prometheus."},
        **documented(401, 403, 429, 503),
    },
)
def metrics(request: Request) -> Response:
    """Return the metrics of the bus and of this server, in Prometheus's text format."""
    exposed: Metrics = request.app.state.metrics
    return Response(
        exposed.text(), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE_PLAIN_0_0_4
    )
