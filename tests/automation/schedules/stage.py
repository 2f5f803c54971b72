"""A bus with a plugin whose schedules are decided by hand, at the times of a clock that is set."""

from typing import Literal

from ackbus import Bus, Claim, Queue
from ackbus.automation.config.models import Config, PluginConfig, ScheduleEntry, ServiceConfig
from ackbus.automation.config.values import Frozen
from ackbus.automation.jobs.submission import Submission
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.schedules.firing import ScheduleControl
from ackbus.automation.schedules.scheduler import Scheduler
from ackbus.automation.schedules.tables import Decision, Decisions
from ackbus.schema.queries import file_of
from ackbus.subscribers.queues.queue_set import QueueSet

MINUTE_MS = 60_000
BEGIN_MS = 1_780_000_000_000 - 1_780_000_000_000 % MINUTE_MS


class Clock:
    """The clock of the bus."""

    def __init__(self) -> None:
        self.ms = BEGIN_MS

    def __call__(self) -> int:
        return self.ms

    def go(self, minutes: float) -> None:
        self.ms += round(minutes * MINUTE_MS)


class Stage:
    """A bus with a plugin `feed`, whose schedules are decided by hand."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.bus, self.clock = bus, clock
        self.queue = self.make_queue("feed")
        self.missed: list[Decision] = []
        self.begin()

    def make_queue(self, plugin: str, start: Literal["beginning", "now"] = "beginning") -> Queue:
        """Make the queue of a plugin."""
        name = f"plugin.{plugin}"
        return Queue.create(
            self.bus, name, f"{name}.*", start=start, addressed="automation", hides="all"
        )

    def begin(self) -> None:
        """Begin as a new process does."""
        submission = Submission(self.bus)
        self.breakers = Breakers.of(self.bus)
        self.scheduler = Scheduler(
            self.bus,
            submission,
            self.breakers,
            on_missed=lambda entry, decision: self.missed.append(decision),
        )
        self.scheduler._chance = lambda: 0.5

    def take(self, *entries: ScheduleEntry, **fields: object) -> "Stage":
        plugin = PluginConfig(name="feed", uses="feed", schedules=entries, **fields)  # type: ignore[arg-type]
        breakers = {"feed": plugin.circuit_breaker}
        self.breakers.use_rules(breakers)
        config = Config(
            directory=self.bus.layout.directory,  # type: ignore[arg-type]
            plugins=Frozen({"feed": plugin}),
            service=ServiceConfig(tick_interval_s=60.0),
        )
        self._use(config)
        self.by_hand = ScheduleControl(self.bus, Submission(self.bus), config)
        return self

    def take_all(self, *entries: ScheduleEntry) -> "Stage":
        """Take one schedule each of several plugins."""
        plugins = {
            each.plugin: PluginConfig(name=each.plugin, uses=each.plugin, schedules=(each,))
            for each in entries
        }
        directory = self.bus.layout.directory
        self._use(Config(directory=directory, plugins=Frozen(plugins)))  # type: ignore[arg-type]
        return self

    def _use(self, config: Config) -> None:
        self.scheduler.store(config)
        self.scheduler.use_config(config)

    def tick(self, minutes: float = 0) -> int | None:
        self.clock.go(minutes)
        return self.scheduler.tick()

    def told(self, id: str = "default", plugin: str = "feed") -> list[tuple[str, int, int]]:
        """Each decision, the first first: what, in which minute, how many."""
        found = Decisions.of(self.bus).about(plugin, id, limit=1000)
        return [
            (each.verdict, (each.nominal_ms - BEGIN_MS) // MINUTE_MS, each.count)
            for each in reversed(found)
        ]

    def reasons(self, id: str = "default") -> list[str]:
        return [each.reason for each in Decisions.of(self.bus).about("feed", id, limit=1000)][::-1]

    def work(self, *, ok: bool = True) -> int:
        """End all jobs that can be claimed; return how many."""
        done = 0
        while claims := self.claims():
            for claim in claims:
                if ok:
                    self.queue.complete(claim)
                else:
                    self.queue.fail(claim, "no", retry=False)
                command = claim.message.type.rpartition(".")[2]
                self.breakers.note("feed", command, ok, claim.message.id, "scheduler")
                done += 1
        return done

    def claims(self) -> list[Claim]:
        """Claim as the service does."""
        return QueueSet(self.bus, ["plugin.feed"]).claim("w", group="automation", limit=9)

    def jobs(self) -> int:
        """The number of jobs."""
        rows = file_of(self.bus).rows("SELECT count(*) FROM jobs")
        return int(rows[0][0])


def entry(minutes: float | None = None, **fields: object) -> ScheduleEntry:
    every_s = None if minutes is None else minutes * 60.0
    entry = ScheduleEntry(**{"plugin": "feed", "every_s": every_s} | fields)  # type: ignore[arg-type]
    times = repr((entry.every_s, entry.cron, entry.at_ms, entry.after_s))
    return entry.model_copy(update={"hash": entry.hash or times})
