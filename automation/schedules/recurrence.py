"""The nominal times of a schedule, and when each is due."""

from __future__ import annotations

from functools import lru_cache

from ...schema.errors import AckbusError
from ...schema.message.times import MAX_TS_MS
from ...schema.paging import further
from .cron import CronRule
from .windows import moved_into
from .zones import zone_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from ..config.snapshot import ScheduleEntry


#: The most time between the first times of two equal intervals, in milliseconds: even one of
#: days begins soon.
_LONGEST_PHASE_MS = 60_000


class NoNextTime(AckbusError):
    """The next time of a rule can't be computed."""


def first_nominal(entry: ScheduleEntry, begun_at_ms: int) -> int | None:
    """Return the first nominal time of a schedule that is seen for the first time.

    An interval begins at once; a single time is the one that it names, also in the past.

    Args:
        entry: the schedule.
        begun_at_ms: when the service began to know it, in epoch milliseconds.
    """
    if entry.at_ms is not None:
        return entry.at_ms
    if entry.after_s is not None:
        return begun_at_ms + round(entry.after_s * 1000)
    return begun_at_ms if entry.every_s is not None else next_nominal(entry, begun_at_ms)


def phases_ms(entries: Iterable[ScheduleEntry]) -> dict[tuple[str, str], int]:
    """Return how long after its time each interval begins, by plugin and id, in milliseconds.

    Equal intervals of one command don't begin together: one would meet the job of the other.
    """
    equal: dict[tuple[str, str, float], list[ScheduleEntry]] = {}
    for entry in entries:
        if entry.every_s is not None:
            equal.setdefault((entry.plugin, entry.command, entry.every_s), []).append(entry)
    return {
        (entry.plugin, entry.id): round(place * min(_LONGEST_PHASE_MS, 1000 * every_s / len(group)))
        for (_, _, every_s), group in equal.items()
        for place, entry in enumerate(group)
    }


def next_nominal(entry: ScheduleEntry, after_ms: int) -> int | None:
    """Return the nominal time after another; None for a schedule that runs once, or never again.

    Raises:
        NoNextTime: it can't be computed.
    """
    found = next(nominals_after(entry, after_ms), None)
    return None if found is None else further("times of a schedule", after_ms, found)


def nominals_after(entry: ScheduleEntry, after_ms: int) -> Iterator[int]:
    """Yield the nominal times after another, in order.

    Raises:
        NoNextTime: one can't be computed.
    """
    if entry.every_s is not None:
        every_ms = max(1, round(entry.every_s * 1000))
        yield from range(after_ms + every_ms, MAX_TS_MS + 1, every_ms)
    elif entry.cron is not None:
        yield from _times_of_rule(entry.cron, after_ms, zone_of(entry.timezone))


def _times_of_rule(text: str, after_ms: int, zone: tzinfo) -> Iterator[int]:
    try:
        yield from _rule(text).times_after(after_ms, zone)
    except (OverflowError, ValueError) as error:  # a stored time of a year that no calendar has
        why = f"cron {text!a} has no time after {after_ms} in {zone} to be computed"
        raise NoNextTime(why) from error


def due_time(entry: ScheduleEntry, nominal_ms: int, chance: float) -> int:
    """Return when a nominal time is due: with its jitter, moved into its preferred window.

    Args:
        entry: the schedule.
        nominal_ms: the nominal time.
        chance: a random number, 0 to 1, drawn once for this time.
    """
    width_ms = round(entry.jitter_s * 1000) if entry.every_s is not None else 0
    due_ms = max(0, nominal_ms + round((chance - 0.5) * width_ms))
    window = entry.preferred_window
    return due_ms if window is None else moved_into(window, due_ms, zone_of(entry.timezone))


@lru_cache(maxsize=4096)
def _rule(text: str) -> CronRule:
    return CronRule(text)
