"""Measures of an automation, for its findings and metrics.

They are taken without the packages that read a configuration, and whether or not a service runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.directory.lock_holders import holders, is_known
from ...schema.message.times import format_ts
from ...subscribers.jobs.jobs import Jobs
from ..jobs.plugin_queues import queues_of_plugins
from ..records.breakers import CLOSED, Breakers
from ..records.fence import Fence
from ..records.inits import Inits
from ..records.takings import Takings
from ..schedules.tables import Decisions, Schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.directory.lock_holders import Holder
    from ..records.breakers import Breaker
    from ..records.inits import Init
    from ..records.takings import Taking

#: How old the last beat of a service may be, in seconds: it beats each minute.
MAX_BEAT_AGE_S = 180.0

#: After how many times in a row at which it did not fire a schedule starves.
STARVES_AFTER = 5

#: How many schedules that starve are told at most.
MAX_STARVING = 100

#: How many due schedules are counted.
_MAX_DUE = 1_000

#: Missed times are told for so long, in milliseconds: a day.
MISSED_FOR_MS = 86_400_000

#: Among how many of the newest decisions missed times are looked for.
_MAX_WALKED = 10_000

#: The states of jobs in the counts of queues: those that wait, and those that run.
_WAITING, _RUNNING = ("open", "time", "key"), "running"

#: The state of a failed init.
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Starving:
    """A schedule that does not fire when it is due.

    Attributes:
        plugin, id: the schedule.
        kept_back: how many of its times in a row something kept back.
        last_fired_ms: when it fired last, in epoch milliseconds, or None.
        reason: why it did not fire the last time.
    """

    plugin: str
    id: str
    kept_back: int
    last_fired_ms: int | None
    reason: str

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.plugin}.{self.id} did not fire {self.kept_back} times: {self.reason}"

    def record(self) -> dict[str, object]:
        """Return its JSON object; the time is RFC 3339."""
        last = None if self.last_fired_ms is None else format_ts(self.last_fired_ms)
        return {
            "plugin": self.plugin,
            "id": self.id,
            "kept_back": self.kept_back,
            "last_fired": last,
            "reason": self.reason,
        }


def has_automation(bus: Bus) -> bool:
    """Whether a service has ever begun on a bus."""
    return Fence.of(bus).row().token > 0


def running_service(bus: Bus) -> Holder | int | None:
    """Return the process of the service of a bus: by its lock, where the system tells who has it.

    Else by its own note, as long as it beats.
    """
    if is_known():
        return next(iter(holders(bus.layout.automation_lock)), None)
    row, age_s = Fence.of(bus).row(), beat_age_s(bus)
    return row.pid if age_s is not None and age_s < MAX_BEAT_AGE_S else None


def beat_age_s(bus: Bus) -> float | None:
    """Return the seconds since the service was last seen; None where it ended by itself."""
    row = Fence.of(bus).row()
    if row.pid is None or row.beat_at_ms is None:
        return None
    return max(0, bus.now_ms() - row.beat_at_ms) / 1000


def due_schedules(bus: Bus) -> int:
    """Return how many schedules are due that nobody has decided about, 1,000 at most."""
    return len(Schedules.of(bus).due(bus.now_ms(), _MAX_DUE))


def due_lag_s(bus: Bus) -> float:
    """Return the seconds since which a schedule is due; 0 where none is."""
    due_ms = Schedules.of(bus).next_due()
    return 0.0 if due_ms is None else max(0, bus.now_ms() - due_ms) / 1000


def missed_times(bus: Bus) -> dict[str, int]:
    """Return how many times of each schedule, as PLUGIN.ID, were recorded as missed in a day."""
    since_ms = bus.now_ms() - MISSED_FOR_MS
    return Decisions.of(bus).missed_since(since_ms, _MAX_WALKED)


def starving_schedules(bus: Bus, limit: int = MAX_STARVING) -> list[Starving]:
    """Return the schedules that something kept back `STARVES_AFTER` times in a row or more.

    Times outside of their days and windows don't count, and a paused schedule doesn't starve.

    Args:
        bus: an open bus.
        limit: how many there are at most; those that were kept back the most times come first.
    """
    found = Schedules.of(bus).starving(STARVES_AFTER, limit)
    return [
        Starving(each.plugin, each.id, each.kept_back, each.last_fired_ms, why)
        for each, why in found
    ]


def shut_breakers(bus: Bus) -> list[Breaker]:
    """Return the circuit breakers that are not closed."""
    return [each for each in Breakers.of(bus).states() if each.state != CLOSED]


def failed_inits(bus: Bus) -> list[Init]:
    """Return the plugins that could not be set up."""
    return [each for each in Inits.of(bus).all().values() if each.state == _FAILED]


def last_taking(bus: Bus) -> Taking:
    """Return what came of the last configuration: the plugins left out, and why one was refused."""
    return Takings.of(bus).last()


def hash_in_force(bus: Bus) -> str | None:
    """Return the hash of the configuration that the service goes by, or went by at its end."""
    return Fence.of(bus).row().config_hash


def live_counts(bus: Bus) -> dict[str, tuple[int, int]]:
    """Return how many jobs of each plugin wait, and how many run, where there are any."""
    jobs, found = Jobs.of(bus), {}
    for info in queues_of_plugins(bus):
        counts = jobs.counts(info)
        waiting = sum(counts.get(state, 0) for state in _WAITING)
        if waiting or counts.get(_RUNNING):
            found[info.name] = (waiting, counts.get(_RUNNING, 0))
    return found
