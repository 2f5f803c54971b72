"""Metrics of the bus and its automation, read from the tables at each scrape.

A scrape must cost little however long the log is, and have few labels however many agents and
queues there are, so every query here has a bound.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from threading import Lock

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..automation import attention as measures
from ..automation.attention import findings
from ..automation.jobs.events import ENDED
from ..bus.heartbeats import Liveness
from ..bus.local_bus import LocalBus
from ..export.jsonl.writer import Position
from ..schema.findings import GRADES
from ..subscribers.inboxes.failed_deliveries import Cursors, Deliveries
from ..subscribers.jobs.claims import Claims
from ..subscribers.jobs.jobs import DEAD, FAILED, SUCCEEDED, TIMED_OUT, Jobs
from ..subscribers.jobs.policy import AUTOMATION
from ..subscribers.overview.agents import unread_of
from ..subscribers.queues.queues import QueueInfo, Queues

# Metrics of the automation, read from the tables and the log at each scrape.

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
        self._ended: Counter[tuple[str, str]] = Counter()
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
        self._claimed: Counter[int] = Counter()
        self._retried: Counter[int] = Counter()
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
        by_liveness = Counter(beat.liveness for beat in beats)
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
