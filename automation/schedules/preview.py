"""The coming times of a schedule, as they would be without jobs in their way."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.message.times import format_ts
from .recurrence import due_time, nominals_after
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
    outside, last_ms = 0, -1
    for nominal_ms in _nominals(entry, from_ms, first_ms):
        due_ms = due_time(entry, nominal_ms, 0.5)
        if due_ms <= from_ms or due_ms == last_ms or why_not(entry, due_ms) is not None:
            outside += 1
            if outside == _MAX_OUTSIDE:
                return
        else:
            outside, last_ms = 0, due_ms
            yield _shown(due_ms, zone)


def _nominals(entry: ScheduleEntry, from_ms: int, first_ms: int | None) -> Iterator[int]:
    """Yield the nominal times of a schedule, from the one that stands next on."""
    if first_ms is None and entry.at_ms is None:
        yield from nominals_after(entry, from_ms)
        return
    begin_ms = entry.at_ms if first_ms is None else first_ms
    assert begin_ms is not None  # it has either
    yield begin_ms
    yield from nominals_after(entry, begin_ms)


def _shown(at_ms: int, zone: tzinfo) -> Coming:
    local = local_time(at_ms, zone).isoformat(timespec="seconds")
    return Coming(format_ts(at_ms).replace(".000Z", "Z"), local)
