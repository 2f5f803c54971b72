"""Cron expressions of five fields, by the rules of Debian's cron.

A time at fixed hours that the clock skips comes once, right after the gap, and one that it repeats
comes once. A rule whose minutes or hours begin with `*` follows real time. Where the day of the
month or of the week begins with `*`, both must fit; else one of them is enough.
"""

from __future__ import annotations

from datetime import timedelta

from cronsim import CronSim

from ..config.cron_form import check_cron
from .zones import local_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

#: The last year whose times can be followed by others that a bus can store.
_LAST_YEAR = 9950

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000


class CronRule:
    """A cron expression that is right.

    Raises:
        InvalidInput: it is wrong; the error names the field and its value.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = check_cron(text)

    def next_after(self, at_ms: int, zone: tzinfo) -> int | None:
        """Return the next time after another, in epoch milliseconds; None when there is none."""
        return next(self.times_after(at_ms, zone), None)

    def times_after(self, at_ms: int, zone: tzinfo) -> Iterator[int]:
        """Yield the times after another, in epoch milliseconds."""
        begin = local_time(at_ms, zone)
        while begin.year <= _LAST_YEAR:
            times = CronSim(self.text, begin)
            for found in times:
                found_ms = round(found.timestamp() * 1000)
                # A fixed hour that the clock repeats comes in its first form, which may lie before.
                if found_ms <= at_ms:
                    continue
                at_ms = found_ms if times.fixup_tz else _first_of_hour(times, found_ms, at_ms, zone)
                yield at_ms
                if at_ms < found_ms or found.year > _LAST_YEAR:
                    break
            else:
                return
            begin = local_time(at_ms, zone)


def _first_of_hour(times: CronSim, found_ms: int, at_ms: int, zone: tzinfo) -> int:
    """Return the first time of a rule in the hour before one that was found, or that one.

    The library looks at hours from their first minute on. Where a clock is set by half an hour, as
    on Lord Howe Island, an hour has no such minute once.
    """
    first_ms = max(found_ms - _HOUR_MS, at_ms - at_ms % _MINUTE_MS + _MINUTE_MS)
    if _offset(found_ms - 25 * _HOUR_MS, zone) == _offset(found_ms, zone):  # no clock was set
        return found_ms
    for each_ms in range(first_ms, found_ms, _MINUTE_MS):
        moment = local_time(each_ms, zone)
        is_time = moment.minute in times.minutes and moment.hour in times.hours
        if is_time and moment.month in times.months and times.match_day(moment.date()):
            return each_ms
    return found_ms


def _offset(at_ms: int, zone: tzinfo) -> timedelta | None:
    return local_time(at_ms, zone).utcoffset()
