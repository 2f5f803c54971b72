"""Metrics of the automation, read from the tables and the log at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from threading import Lock

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...automation.attention import measures
from ...automation.attention.findings import findings
from ...automation.jobs.events import ENDED
from ...bus.bus import Bus
from ...schema.findings import GRADES
from ...subscribers.jobs.jobs import DEAD, FAILED, SUCCEEDED, TIMED_OUT
from ...subscribers.jobs.policy import AUTOMATION

#: How many plugins, and how many breakers, have metrics of their own.
MAX_LABELS = 100

#: The ends of jobs that are told apart.
_OUTCOMES = (SUCCEEDED, FAILED, TIMED_OUT, DEAD)


class AutomationState(Collector):
    """The metrics of the automation of a bus; none where no service has ever begun.

    Args:
        bus: the bus.
    """

    def __init__(self, bus: Bus) -> None:
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
        yield _gauge("up", "Whether a service runs.", is_up)
        lag_s = measures.due_lag_s(self._bus)
        yield _gauge("due_lag_seconds", "Since a schedule is due that nobody decided.", lag_s)
        failed = len(measures.failed_inits(self._bus))
        yield _gauge("failed_inits", "Plugins that could not be set up.", failed)

    def _jobs(self) -> Metric:
        """Count the jobs that have ended since the last time."""
        with self._counting:
            newest = self._bus.log.newest_seq()
            found = self._bus.read(after_seq=self._seq, upto_seq=newest, type=ENDED)
            for message in found:
                told = message.payload if message.to_agent == AUTOMATION else None
                plugin, outcome = message.from_agent, isinstance(told, dict) and told.get("status")
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
        shut = measures.shut_breakers(self._bus)
        yield _gauge("open_breakers", "Circuit breakers that are not closed.", len(shut))
        breakers = GaugeMetricFamily(
            "ackbus_automation_breaker_failures",
            "Failures in a row of commands whose circuit breakers are not closed.",
            labels=["plugin", "command"],
        )
        for each in shut[:MAX_LABELS]:
            breakers.add_metric([each.plugin, each.command], each.failure_count)
        yield breakers

    def _attention(self) -> Metric:
        """Tell how each check is; those that read the folder of configuration take too long."""
        attention = GaugeMetricFamily(
            "ackbus_automation_attention",
            "How a check is: 0 well, 1 to be looked at, 2 broken.",
            labels=["check"],
        )
        for each in findings(self._bus, files=False):
            attention.add_metric([each.check], GRADES[each.state])
        return attention


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(f"ackbus_automation_{name}", help, value=value)
