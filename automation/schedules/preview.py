"""The coming times of a schedule, as they would be without jobs in their way."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.message.times import format_ts
from .recurrence import due_time, next_nominal
from .windows import why_not
from .zones import local_time, zone_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from ..config.snapshot import ScheduleEntry

#: How many times in a row outside of the days and windows of a schedule end the look.
_MAX_OUTSIDE = 100_000


@dataclass(frozen=True, slots=True)
class Coming:
    """A coming time of a schedule.

    Attributes:
        at: in UTC, RFC 3339 to the second.
        local: as clocks in its zone show it, with the offset.
    """

    at: str
    local: str


def coming(entry: ScheduleEntry, from_ms: int, first_ms: int | None = None) -> Iterator[Coming]:
    """Yield the times at which a schedule runs, without its jitter.

    Args:
        entry: the schedule.
        from_ms: only times after this one.
        first_ms: the nominal time that stands next; None: the first after `from_ms`.
    """
    zone = zone_of(entry.timezone)
    nominal_ms = first_ms
    if nominal_ms is None:
        nominal_ms = entry.at_ms if entry.at_ms is not None else next_nominal(entry, from_ms)
    outside, last_ms = 0, -1
    while nominal_ms is not None and outside < _MAX_OUTSIDE:
        due_ms = due_time(entry, nominal_ms, 0.5)
        if due_ms <= from_ms or due_ms == last_ms or why_not(entry, due_ms, zone) is not None:
            outside += 1
        else:
            outside, last_ms = 0, due_ms
            yield _shown(due_ms, zone)
        nominal_ms = next_nominal(entry, nominal_ms)


def _shown(at_ms: int, zone: tzinfo) -> Coming:
    local = local_time(at_ms, zone).isoformat(timespec="seconds")
    return Coming(format_ts(at_ms).replace(".000Z", "Z"), local)
