"""Monitoring: whether the server works, its counters, and metrics of its bus."""

from __future__ import annotations

import asyncio
import collections
import os
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from threading import Lock

import anyio
import anyio.to_thread
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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..automation import attention as measures
from ..automation.attention import findings
from ..automation.jobs.events import ENDED
from ..bus.heartbeats import Liveness
from ..bus.local_bus import LocalBus
from ..export.jsonl.writer import Position
from ..schema.errors import BusUnusable
from ..schema.findings import GRADES
from ..subscribers.inboxes.failed_deliveries import Cursors, Deliveries
from ..subscribers.jobs.claims import Claims
from ..subscribers.jobs.jobs import DEAD, FAILED, SUCCEEDED, TIMED_OUT, Jobs
from ..subscribers.jobs.policy import AUTOMATION
from ..subscribers.overview.agents import unread_of
from ..subscribers.queues.queues import QueueInfo, Queues
from .access.access import GuardedRouter
from .access.table import SERVER
from .problems import documented, refusal

#: How long the bus may keep a write waiting before it counts as busy, in seconds.
_WRITE_S = 1.0
#: How long the whole check may take, in seconds: a disk that hangs must not hang the client.
CHECK_S = 5.0

router = GuardedRouter(SERVER, tags=["health"])


class Health(BaseModel):
    """The answer of a working store."""

    ok: bool
    newest_seq: int = Field(description="The newest seq of the log, as the store says now.")
    protocolVersion: str | None = Field(None, description="Of PushPals' forms, if it has them.")


class Readiness:
    """Checks whether a bus can be read and written. Only the event loop may use it.

    Args:
        bus: the bus that is served.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._directory = bus.layout.directory
        self._path = bus.layout.database
        self._file = _identity(self._path)
        self._asking: asyncio.Task[int] | None = None

    async def check(self) -> int:
        """Ask the store, or join a check that is running.

        One check runs at a time, in a thread apart from those of the operations: it needs no
        token, and each check competes with the writers.

        Returns:
            The newest seq.

        Raises:
            AckbusError: the bus can't be read or can't be written.
        """
        if self._asking is None or self._asking.done():
            beside = anyio.CapacityLimiter(1)
            ask = anyio.to_thread.run_sync(self._ask, abandon_on_cancel=True, limiter=beside)
            self._asking = asyncio.ensure_future(ask)
        return await asyncio.shield(self._asking)

    def _ask(self) -> int:
        """Open the bus as a new process does, and take the write lock.

        An open connection goes on with a file that was moved or deleted, so it proves nothing.
        """
        with LocalBus.open(self._directory, write_timeout_s=_WRITE_S) as bus:
            if _identity(self._path) != self._file:
                raise BusUnusable(
                    f"{self._path} is no longer the file that is served; start the server again"
                )
            with bus.transaction():
                return bus.log.newest_seq()


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


@router.head("/healthz", response_model=Health, include_in_schema=False)
@router.get(
    "/healthz",
    response_model=Health,
    response_model_exclude_none=True,
    responses=documented(503),
)
async def healthz(request: Request) -> Health | Response:
    """Whether the bus can be read and written: asks the store, not the process."""
    readiness: Readiness = request.app.state.readiness
    with anyio.move_on_after(CHECK_S):
        protocol: str | None = request.app.state.protocol
        return Health(ok=True, newest_seq=await readiness.check(), protocolVersion=protocol)
    return not_answering(request)


def not_answering(request: Request) -> Response:
    """Return the problem that the bus is slow to answer."""
    return refusal(request, 503, "timed-out", f"the bus has not answered for {CHECK_S:g} s")


# The counters of this server, which begin at zero with each start.

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


# Metrics of the bus and its automation, read from the tables at each scrape.
#
# A scrape must cost little however long the log is, and have few labels however many agents and
# queues there are, so every query here has a bound.

#: How many plugins, and how many breakers, have metrics of their own.
MAX_LABELS = 100

#: The outcomes of jobs that have a label of their own.
_OUTCOMES = (SUCCEEDED, FAILED, TIMED_OUT, DEAD)


class AutomationCollector(Collector):
    """The metrics of the automation of a bus; none where no service has ever begun.

    Args:
        bus: the bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        #: Ends of jobs are counted from here on.
        self._seq = bus.log.newest_seq()
        self._ended: collections.Counter[tuple[str, str]] = collections.Counter()
        #: Two that ask at once would both count the same ends.
        self._counting = Lock()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics as of now."""
        if not measures.has_automation(self._bus):
            return
        yield from self._service()
        yield self._jobs()
        yield from self._breakers()
        yield self._attention()

    def _service(self) -> Iterator[Metric]:
        is_up = measures.running_service(self._bus) is not None
        yield _automation_gauge("up", "Whether a service runs.", is_up)
        lag_s = measures.due_lag_s(self._bus)
        yield _automation_gauge(
            "due_lag_seconds", "Since a schedule is due that nobody decided.", lag_s
        )
        failed = len(measures.failed_inits(self._bus))
        yield _automation_gauge("failed_inits", "Plugins that could not be set up.", failed)

    def _jobs(self) -> Metric:
        """Count the jobs that have ended since the last time."""
        with self._counting:
            newest = self._bus.log.newest_seq()
            messages = self._bus.read(after_seq=self._seq, upto_seq=newest, type=ENDED)
            for message in messages:
                payload = message.payload if message.to_agent == AUTOMATION else None
                plugin = message.from_agent
                outcome = isinstance(payload, dict) and payload.get("status")
                if outcome in _OUTCOMES and self._has_room(plugin):
                    self._ended[plugin, str(outcome)] += 1
            self._seq = newest
        jobs = CounterMetricFamily(
            "ackbus_automation_jobs",
            "Jobs that ended since the server began.",
            labels=["plugin", "outcome"],
        )
        for (plugin, outcome), count in sorted(self._ended.items()):
            jobs.add_metric([plugin, outcome], count)
        return jobs

    def _has_room(self, plugin: str) -> bool:
        plugins = {name for name, _ in self._ended}
        return plugin in plugins or len(plugins) < MAX_LABELS

    def _breakers(self) -> Iterator[Metric]:
        shut = measures.open_breakers(self._bus)
        yield _automation_gauge("open_breakers", "Circuit breakers that are not closed.", len(shut))
        breakers = GaugeMetricFamily(
            "ackbus_automation_breaker_failures",
            "Failures in a row of commands whose circuit breakers are not closed.",
            labels=["plugin", "command"],
        )
        for breaker in shut[:MAX_LABELS]:
            breakers.add_metric([breaker.plugin, breaker.command], breaker.failure_count)
        yield breakers

    def _attention(self) -> Metric:
        """Measure the state of each check, but for slow ones, which read the folder."""
        attention = GaugeMetricFamily(
            "ackbus_automation_attention",
            "How a check is: 0 well, 1 to be looked at, 2 broken.",
            labels=["check"],
        )
        for finding in findings(self._bus, files=False):
            attention.add_metric([finding.check], GRADES[finding.state])
        return attention


def _automation_gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"ackbus_automation_{name}", help, value=value)


#: Up to how many messages an inbox is counted.
MAX_UNREAD = 1000
#: Up to how many parked messages are counted.
MAX_PARKED = 100_000


class BusCollector(Collector):
    """The metrics of a bus.

    Args:
        bus: the bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._claims = Claims.of(bus)
        #: Claims are counted from here on.
        self._token = self._claims.newest_token()
        self._claimed: collections.Counter[int] = collections.Counter()
        self._retried: collections.Counter[int] = collections.Counter()
        #: Two that ask at once would both count the same claims.
        self._counting = Lock()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics as of now."""
        newest = self._bus.log.newest_seq()
        yield _counter("messages", "Messages published since the bus was made.", newest)
        yield from self._files(newest)
        yield from self._inboxes()
        yield from self._queues(newest)
        yield from self._agents()
        yield _gauge("leases", "Leases that are held.", len(self._bus.leases.list()))

    def _files(self, newest: int) -> Iterator[Metric]:
        layout = self._bus.layout
        behind = newest - Position.of(self._bus).get()
        yield _gauge("export_behind", "Messages that are not in bus.jsonl yet.", behind)
        yield _gauge("database_bytes", "The size of bus.db.", _size(layout.database))
        yield _gauge("wal_bytes", "The size of its WAL.", _size(f"{layout.database}-wal"))

    def _inboxes(self) -> Iterator[Metric]:
        readers = Cursors.of(self._bus)
        positions = readers.seen()
        yield _gauge("inboxes", "Agents that joined or acknowledged.", len(positions))
        unread = GaugeMetricFamily(
            "ackbus_inbox_unread",
            f"Messages that wait for an agent; {MAX_UNREAD:,} stands for more.",
            labels=["agent"],
        )
        cursors = GaugeMetricFamily(
            "ackbus_inbox_cursor", "The seq that an agent acknowledged last.", labels=["agent"]
        )
        latest = sorted(positions, key=lambda agent: positions[agent][1], reverse=True)
        for agent in latest[:MAX_LABELS]:
            unread.add_metric([agent], unread_of(self._bus, agent, MAX_UNREAD) or 0)
            cursors.add_metric([agent], positions[agent][0])
        yield from (unread, cursors)
        parked = Deliveries.of(self._bus).count_parked(MAX_PARKED)
        yield _gauge("parked", "Messages that failed too often in inboxes.", parked)

    def _queues(self, newest: int) -> Iterator[Metric]:
        queues = Queues(self._bus).list()
        yield _gauge("queues", "Queues.", len(queues))
        shown = queues[:MAX_LABELS]
        states = GaugeMetricFamily(
            "ackbus_queue_jobs",
            "Jobs: open, time and key wait; failed, timed_out and dead ended badly.",
            labels=["queue", "state"],
        )
        behind = GaugeMetricFamily(
            "ackbus_queue_behind", "Messages that a queue has not looked at.", labels=["queue"]
        )
        waits = GaugeMetricFamily(
            "ackbus_queue_oldest_wait_seconds", "Of jobs that could be claimed.", labels=["queue"]
        )
        jobs, now_ms = Jobs.of(self._bus), self._bus.now_ms()
        for queue in shown:
            for state, count in jobs.counts(queue).items():
                states.add_metric([queue.name, state], count)
            behind.add_metric([queue.name], newest - queue.filled_seq)
            since_ms = jobs.oldest_available_ms(queue, now_ms)
            waits.add_metric([queue.name], max(0, now_ms - (since_ms or now_ms)) / 1000)
        yield from (states, behind, waits)
        yield from self._attempts(shown)

    def _attempts(self, queues: Iterable[QueueInfo]) -> Iterator[Metric]:
        """Count the claims since the last time."""
        with self._counting:
            self._token, counts = self._claims.count_since(self._token)
            for queue_id, claimed, retried in counts:
                self._claimed[queue_id] += claimed
                self._retried[queue_id] += retried
        claims = CounterMetricFamily(
            "ackbus_queue_claims", "Claims since the server began.", labels=["queue"]
        )
        retries = CounterMetricFamily(
            "ackbus_queue_retries", "Those that tried a job again.", labels=["queue"]
        )
        for queue in queues:
            claims.add_metric([queue.name], self._claimed[queue.id])
            retries.add_metric([queue.name], self._retried[queue.id])
        yield from (claims, retries)

    def _agents(self) -> Iterator[Metric]:
        beats = sorted(self._bus.heartbeats.list(), key=lambda beat: beat.age_s)
        by_liveness = collections.Counter(beat.liveness for beat in beats)
        agents = GaugeMetricFamily(
            "ackbus_agents", "Agents by what their last beat says.", labels=["liveness"]
        )
        for liveness in Liveness:
            agents.add_metric([liveness], by_liveness[liveness])
        ages = GaugeMetricFamily(
            "ackbus_heartbeat_age_seconds", "Since an agent's last beat.", labels=["agent"]
        )
        for beat in islice(beats, MAX_LABELS):
            ages.add_metric([beat.agent], beat.age_s)
        yield from (agents, ages)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"ackbus_{name}", help, value=value)


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(f"ackbus_{name}", help, value=value)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
