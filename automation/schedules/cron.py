"""Cron expressions of five fields, by the rules of Debian's cron.

A time at fixed hours that the clock skips comes once, right after the gap, and one that it repeats
comes once. A rule whose minutes or hours begin with `*` follows real time. Where the day of the
month or of the week begins with `*`, both must fit; else one of them is enough.

The library parses the fields. The times are found here: where a clock is set by a part of an hour,
or at a part of one, the library goes back to the first copy of an hour for ever.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cronsim import CronSim

from ...schema.errors import AckbusError
from ...schema.paging import further
from ..config.cron_form import check_cron
from .zones import local_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

#: The last year whose times can be followed by others that a bus can store.
_LAST_YEAR = 9950

#: How far a rule is followed to its next time, in years: 29 February may take 8, on one weekday 40.
_MOST_YEARS = 50

#: How many steps the way to a next time may have: the longest to be met have some ten thousand.
_MOST_STEPS = 100_000

#: The longest gap that a clock may skip, in minutes: Samoa left out a day.
_LONGEST_GAP = 2 * 24 * 60

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class NoNextTime(AckbusError):
    """The next time of a rule can't be computed."""


class CronRule:
    """A cron expression that is right.

    Raises:
        InvalidInput: it is wrong; the error names the field and its value.
    """

    __slots__ = ("_fields", "_is_fixed", "text")

    def __init__(self, text: str) -> None:
        self.text = check_cron(text)
        self._fields = CronSim(self.text, datetime(2026, 1, 1, tzinfo=UTC))
        minutes, hours, *_ = self.text.split()
        self._is_fixed = not (minutes.startswith("*") or hours.startswith("*"))

    def next_after(self, at_ms: int, zone: tzinfo) -> int | None:
        """Return the next time after another, in epoch milliseconds; None when there is none.

        Raises:
            NoNextTime: it can't be computed.
        """
        try:
            begin = local_time(at_ms, zone)
            if begin.year > _LAST_YEAR:
                return None
            found = (self._by_wall if self._is_fixed else self._by_time)(begin, zone)
        except (OverflowError, ValueError) as error:  # years that no calendar here has
            raise self._lost(at_ms, zone) from error
        if found is None:
            return None
        return further(f"times of cron {self.text!a} in {zone}", at_ms, _ms(found))

    def times_after(self, at_ms: int, zone: tzinfo) -> Iterator[int]:
        """Yield the times after another, in epoch milliseconds.

        Raises:
            NoNextTime: one can't be computed.
        """
        while (found := self.next_after(at_ms, zone)) is not None:
            yield found
            at_ms = found

    def _lost(self, at_ms: int, zone: tzinfo) -> NoNextTime:
        return NoNextTime(f"cron {self.text!a} has no time after {at_ms} in {zone} to be computed")

    # In real time ------------------------------------------------------------------------------

    def _by_time(self, begin: datetime, zone: tzinfo) -> datetime | None:
        """Return the first minute of a clock, in real time, that fits."""
        moment = _later(begin.replace(microsecond=0), _to_minute(begin), zone)
        for _ in range(_MOST_STEPS):
            if moment.year > min(_LAST_YEAR, begin.year + _MOST_YEARS):
                return None
            steps = self._steps(moment)
            if not steps:
                return moment
            ahead = (_later(moment, step, zone) for step in steps)
            # Over a time at which the clock is set only the shortest step leads.
            same = (each for each in ahead if each.utcoffset() == moment.utcoffset())
            moment = next(same, None) or _later(moment, steps[-1], zone)
        raise self._lost(_ms(begin), zone)

    def _steps(self, moment: datetime) -> list[timedelta]:
        """Return steps over time that does not fit, the longest first; none where it fits."""
        if moment.second:  # the clock was set by seconds, as it was before there were zones
            return [_to_minute(moment)]
        to_hour = _HOUR - moment.minute * _MINUTE
        to_day = _DAY - moment.hour * _HOUR - moment.minute * _MINUTE
        if moment.month not in self._fields.months:
            to_month = _next_month(moment) - moment.replace(tzinfo=None, fold=0)
            return [to_month, to_day, to_hour, _MINUTE]
        if not self._fields.match_day(moment.date()):
            return [to_day, to_hour, _MINUTE]
        if moment.hour not in self._fields.hours:
            return [to_hour, _MINUTE]
        return [] if moment.minute in self._fields.minutes else [_MINUTE]

    # By the clock on the wall --------------------------------------------------------------------

    def _by_wall(self, begin: datetime, zone: tzinfo) -> datetime | None:
        """Return the first time that a wall clock shows, and that fits; of two the first."""
        wall = begin.replace(tzinfo=None, fold=0, second=0, microsecond=0)
        for fitting in self._walls(wall):
            found = _real(fitting, zone)
            if found is None:
                raise self._lost(_ms(begin), zone)
            if found > begin.astimezone(UTC):
                return found
        return None

    def _walls(self, begin: datetime) -> Iterator[datetime]:
        """Yield what a wall clock shows when it fits, in order, from a time on."""
        hours, minutes = sorted(self._fields.hours), sorted(self._fields.minutes)
        day = begin.replace(hour=0, minute=0)
        while day.year <= min(_LAST_YEAR, begin.year + _MOST_YEARS):
            if day.month not in self._fields.months:
                day = _next_month(day)
                continue
            if self._fields.match_day(day.date()):
                times = (day.replace(hour=h, minute=m) for h in hours for m in minutes)
                yield from (each for each in times if each >= begin)
            day += _DAY


def _later(moment: datetime, step: timedelta, zone: tzinfo) -> datetime:
    return (moment.astimezone(UTC) + step).astimezone(zone)


def _to_minute(moment: datetime) -> timedelta:
    return timedelta(seconds=60 - moment.second)


def _next_month(moment: datetime) -> datetime:
    """Return the first midnight of the next month, as a wall clock shows it."""
    first = moment.replace(day=1, hour=0, minute=0, second=0, tzinfo=None, fold=0)
    return first.replace(year=moment.year + moment.month // 12, month=moment.month % 12 + 1)


def _real(wall: datetime, zone: tzinfo) -> datetime | None:
    """Return when a wall clock shows a time, or the first minute after the gap that it is in."""
    for _ in range(_LONGEST_GAP):
        found = wall.replace(tzinfo=zone).astimezone(UTC)
        if found.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
            return found
        wall += _MINUTE
    return None


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
