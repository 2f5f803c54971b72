"""How late does a scheduled task begin, beside other schedulers, and what does a tick cost?

Twenty schedules of about half a second each, for some seconds in each round; what was due in the
first moments, when everything starts, does not count. Of the bus it is the time to the claim of
the job, of the others the time to the first line of the task. The tick is over 1,000 schedules:
with none due, and with one due, which is decided and gives a job.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from measure import Contender, at_most, compare, options, percentiles, record, spreads, summary
from plugin_jobs import due_and_claimed, folder, serving
from schedule_peers import Pairs, Watch, apscheduler, celery, huey

from ackbus import Bus
from ackbus.automation.config.models import Config, PluginConfig, ScheduleEntry
from ackbus.automation.config.values import Frozen
from ackbus.automation.jobs.submission import Submission
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.schedules.scheduler import Scheduler
from ackbus.subscribers.queues.queue import Queue

#: How many schedules there are, in the comparison and for a tick.
COMPARED, MANY = 20, 1000

#: How long each scheduler is watched in a round, and how much of it does not count, in seconds.
WATCHED_S, STARTED_S = 5.0, 1.5

#: How many ticks are in a round.
TICKS = 50


def ackbus(every_s: Sequence[float], seconds: float) -> Pairs:
    """The service of a bus, which runs a program for each job."""
    plugins = {
        f"p{number}": f", schedules: [{{every: {round(each_s * 1000)}ms}}]"
        for number, each_s in enumerate(every_s)
    }
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as place:
        config = folder(Path(place, "config"), plugins)
        with serving(Path(place, "bus"), config) as bus:
            since_ms = bus.now_ms()
            time.sleep(seconds)
            return due_and_claimed(bus, list(plugins), since_ms)


def watching(watch: Watch, every_s: Sequence[float], found: list[float]) -> Contender:
    """Watch a scheduler; the lateness of each task is added to the list."""

    def run() -> float:
        pairs = watch(every_s, STARTED_S + WATCHED_S)
        first = min((due for due, _ in pairs), default=0.0) + STARTED_S
        found.extend(began - due for due, began in pairs if due >= first)
        return 0.0

    return run


class Ticks:
    """A scheduler of many schedules, whose ticks are made by hand, on a clock of its own."""

    def __init__(self, directory: Path) -> None:
        self.now_ms = 1_800_000_000_000
        self.bus = Bus.init(directory, clock=lambda: self.now_ms)
        plugins = {each.plugin: _plugin(each) for each in map(_hourly, range(MANY))}
        for name in plugins:
            queue = f"plugin.{name}"
            Queue.create(self.bus, queue, f"{queue}.*", hides="all", addressed="automation")
        self.scheduler = Scheduler(self.bus, Submission(self.bus), Breakers.of(self.bus))
        config = Config(directory=directory, plugins=Frozen(plugins))
        self.scheduler.store(config)
        self.scheduler.use_config(config)
        self.scheduler.tick()  # all begin at once; then each has a second of its own
        self.now_ms += 3_599_000

    def ticking(self, step_ms: int) -> Contender:
        """Ticks, between which the clock goes on; seconds for each."""

        def run() -> float:
            took = 0.0
            for _ in range(TICKS):
                self.now_ms += step_ms
                started = time.perf_counter()
                self.scheduler.tick()
                took += time.perf_counter() - started
            return took / TICKS

        return run


def _hourly(number: int) -> ScheduleEntry:
    return ScheduleEntry(plugin=f"p{number}", every_s=3600.0 + number, hash="h")


def _plugin(entry: ScheduleEntry) -> PluginConfig:
    many = {"max_outstanding_polls": MANY}
    return PluginConfig(name=entry.plugin, uses="p", schedules=(entry,), **many)


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    logging.disable(logging.CRITICAL)
    every_s = [0.5 + 0.017 * number for number in range(COMPARED)]
    others = {
        "APScheduler, in memory": apscheduler(stored=False),
        "APScheduler, SQLite": apscheduler(stored=True),
        "huey, SQLite": huey,
        "Celery beat, Redis": celery,
    }
    watches = {"ackbus": ackbus} | others
    late: dict[str, list[float]] = {name: [] for name in watches}
    compare(
        {name: watching(watch, every_s, late[name]) for name, watch in watches.items()},
        settings.rounds,
    )
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as scratch:
        ticks = Ticks(Path(scratch))
        with ticks.bus:
            costs = compare(
                {"none due": ticks.ticking(0), "one due": ticks.ticking(1000)}, settings.rounds
            )
    targets = [
        at_most("due to claimed, p99", 50, summary([percentiles(late["ackbus"])["p99_ms"]]), "ms"),
        at_most(f"a tick over {MANY} schedules", 0.005, summary(costs["one due"]), "s"),
    ]
    results = {
        "due to begun": {name: percentiles(found) for name, found in late.items() if found},
        "a tick": spreads(costs),
    }
    record("schedules: due to begun, and a tick", results, settings, targets=targets)


if __name__ == "__main__":
    main()
