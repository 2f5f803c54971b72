"""The counters of this server, which begin at zero with each start."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client import generate_latest as generate

from ...bus.bus import Bus
from .automation import AutomationState
from .state import BusState

#: The upper ends of the times that requests take, in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """The metrics of one server. Safe to use from any thread.

    Args:
        bus: the bus that it serves.
    """

    def __init__(self, bus: Bus) -> None:
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
        registry.register(BusState(bus))
        registry.register(AutomationState(bus))

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
