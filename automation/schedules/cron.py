"""Cron expressions of five fields, by the rules of Debian's cron.

A time at fixed hours that the clock skips comes once, right after the gap, and one that it repeats
comes once, the first time. A rule whose minutes or hours begin with `*` follows real time: what the
clock skips does not come, and what it repeats comes twice. Where the day of the month or of the
week begins with `*`, both must fit; else one of them is enough.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from datetime import date

from ..config.cron_form import cron_fields
from .offsets import DAY_S, HOUR_S, MINUTE_S, stretches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

    from .offsets import Stretch

#: The last year whose times can be followed by others that a bus can store.
_LAST_YEAR = 9998

#: The number of 1 January 1970, from which days are counted here, in Python's calendar.
_EPOCH_DAY = date(1970, 1, 1).toordinal()


class CronRule:
    """A cron expression that is right.

    Raises:
        InvalidInput: it is wrong; the error names the field and its value.
    """

    __slots__ = ("_fields", "_times", "text")

    def __init__(self, text: str) -> None:
        self._fields = cron_fields(text)
        self.text = self._fields.text
        # The times of a day, in seconds of its clock.
        self._times = [
            hour * HOUR_S + minute * MINUTE_S
            for hour in self._fields.hours
            for minute in self._fields.minutes
        ]

    def times_after(self, at_ms: int, zone: tzinfo) -> Iterator[int]:
        """Yield the times after another, in epoch milliseconds, each later than the one before.

        They end with the year 9998.
        """
        at = at_ms // 1000
        in_order = self._by_real_time if self._fields.follows_real_time else self._by_clock
        for moment in in_order(at, zone):
            if moment > at:
                at = moment
                yield at * 1000

    def _by_clock(self, after: int, zone: tzinfo) -> Iterator[int]:
        """Yield for each time of the clock when the clock first shows it, or a later one."""
        for day in self._days_from(after // DAY_S - 1):
            begin = day * DAY_S
            around = stretches(begin - DAY_S, begin + 2 * DAY_S, zone)
            for time in self._times:
                yield _first_shown(begin + time, around)

    def _by_real_time(self, after: int, zone: tzinfo) -> Iterator[int]:
        """Yield the moments at which the clock shows a time of the rule, from a day on."""
        next_day = after // DAY_S
        for day in self._days_from(next_day - 1):
            # The clock's day lies within three days of UTC. Its moments are not in the order of its
            # days: a clock that is set back over midnight shows the end of a day again.
            for day_of_utc in range(max(next_day, day - 1), day + 2):
                begin = day_of_utc * DAY_S
                for stretch in stretches(begin, begin + DAY_S, zone):
                    yield from self._moments_in(stretch, after)
                next_day = day_of_utc + 1

    def _moments_in(self, stretch: Stretch, after: int) -> Iterator[int]:
        begin = max(stretch.begin, after + 1) + stretch.offset
        end = stretch.end + stretch.offset
        for day in range(begin // DAY_S, -(-end // DAY_S)):
            if self._has_day(day):
                midnight = day * DAY_S
                for time in self._times[bisect_left(self._times, begin - midnight) :]:
                    if midnight + time >= end:
                        break
                    yield midnight + time - stretch.offset

    def _days_from(self, first: int) -> Iterator[int]:
        """Yield the days of the rule in order, counted from 1970, to the last year."""
        begin = date.fromordinal(first + _EPOCH_DAY)
        for year in range(begin.year, _LAST_YEAR + 1):
            for month in self._fields.months:
                if (year, month) >= (begin.year, begin.month):
                    yield from (day for day in self._days_of(year, month) if day >= first)

    def _days_of(self, year: int, month: int) -> Iterable[int]:
        monday_is_0, length = monthrange(year, month)
        first = date(year, month, 1).toordinal() - _EPOCH_DAY
        all_days = range(1, length + 1)
        for number in self._fields.days if self._fields.needs_both_days else all_days:
            if number in all_days and self._fits(number, (monday_is_0 + number) % 7):
                yield first + number - 1

    def _has_day(self, day: int) -> bool:
        there = date.fromordinal(day + _EPOCH_DAY)
        return there.month in self._fields.months and self._fits(there.day, there.isoweekday() % 7)

    def _fits(self, day_of_month: int, weekday: int) -> bool:
        of_month, of_week = day_of_month in self._fields.days, weekday in self._fields.weekdays
        return of_month and of_week if self._fields.needs_both_days else of_month or of_week


def _first_shown(time: int, around: Iterable[Stretch]) -> int:
    """Return when a clock first shows a time, or a later one where it skips that."""
    for stretch in around:
        if time < stretch.end + stretch.offset:
            return max(stretch.begin, time - stretch.offset)
    raise AssertionError("the stretches go on for a day after the time")
