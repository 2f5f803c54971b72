"""Parts of days in which a schedule may run."""

from __future__ import annotations

from datetime import timedelta

from ...schema.paging import NoProgress
from .zones import local_time, zone_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from ..config.snapshot import ScheduleEntry, Window

#: How many days on a window begins at the latest: a zone may skip one, or repeat one.
_MOST_DAYS = 4

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def is_within(window: Window, moment: datetime) -> bool:
    """Whether a local time is in a window; its end is not."""
    minute = moment.hour * 60 + moment.minute
    if window.start_minute < window.end_minute:
        return window.start_minute <= minute < window.end_minute
    return minute >= window.start_minute or minute < window.end_minute


def moved_into(window: Window, at_ms: int, zone: tzinfo) -> int:
    """Return a time, or the next start of the window where the time is outside.

    A start that the clock skips is the first minute after the gap.
    """
    moment = local_time(at_ms, zone)
    if is_within(window, moment):
        return at_ms
    start = divmod(window.start_minute, 60)
    day = moment.replace(hour=start[0], minute=start[1], second=0, microsecond=0, fold=0)
    begin_ms = at_ms
    for _ in range(_MOST_DAYS):
        begin_ms = round(day.timestamp() * 1000)
        if begin_ms > at_ms:
            return begin_ms
        day += timedelta(days=1)
    raise NoProgress("starts of a window", at_ms, begin_ms)


def why_not(entry: ScheduleEntry, at_ms: int) -> str | None:
    """Return why a schedule does not run at a time, by its days and its window; None if it may."""
    if not entry.not_on and entry.only_between is None:
        return None  # no clock counts
    moment = local_time(at_ms, zone_of(entry.timezone))
    weekday = moment.isoweekday() % 7
    if weekday in entry.not_on:
        return f"not on {_WEEKDAYS[weekday]}"
    window = entry.only_between
    if window is not None and not is_within(window, moment):
        return f"only between {_clock(window.start_minute)} and {_clock(window.end_minute)}"
    return None


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
