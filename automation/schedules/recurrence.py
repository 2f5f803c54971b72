"""The nominal times of a schedule: cron expressions, intervals, windows, zones."""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfoNotFoundError

from ...schema.errors import AckbusError, InvalidInput
from ...schema.message.times import MAX_TS_MS, format_ts
from ...schema.paging import NoProgress, further
from ..config.value_forms import cron_fields, named_zone, own_zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo
    from zoneinfo import ZoneInfo

    from ..config.models import ScheduleEntry, Window

# The offsets of a time zone from UTC, and when they change.
#
# Times are whole seconds since 1970: real ones in UTC, those of a clock as the clock shows them.

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400

#: The longest span that is looked at once, in seconds. No zone has set its clocks twice within that
#: since 1970: the least time in between was 6.9 days.
LONGEST_SPAN_S = 6 * DAY_S

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class OffsetPeriod:
    """A stretch of real time in which a zone keeps its offset.

    Attributes:
        begin, end: in real time; the end is not within.
        offset: what its clock is ahead of UTC.
    """

    begin: int
    end: int
    offset: int


@lru_cache(maxsize=4096)
def offset_periods(begin: int, end: int, zone: tzinfo) -> tuple[OffsetPeriod, ...]:
    """Return the stretches of a time in order, without a gap: one, where clocks aren't set.

    Args:
        begin, end: a span of real time of `LONGEST_SPAN_S` at the most.
        zone: the zone.
    """
    offset, end_offset = _offset(begin, zone), _offset(end, zone)
    change = end if offset == end_offset else _change_between(begin, end, offset, zone)
    if change == end:  # there the next span begins
        return (OffsetPeriod(begin, end, offset),)
    return OffsetPeriod(begin, change, offset), OffsetPeriod(change, end, end_offset)


def _change_between(before: int, after: int, offset: int, zone: tzinfo) -> int:
    """Return the first second at which a zone has no longer an offset."""
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(middle, zone) == offset:
            before = middle
        else:
            after = middle
    return after


def _offset(at: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(at, zone).utcoffset()
    assert offset is not None  # it is aware of its zone
    return offset // _SECOND


# Cron expressions of five fields, by the rules of Debian's cron.
#
# A time at fixed hours that the clock skips comes once, right after the gap, and one that it
# repeats comes once, the first time. A rule whose minutes or hours begin with `*` follows real
# time: what the clock skips does not come, and what it repeats comes twice. Where the day of the
# month or of the week begins with `*`, both must fit; else one of them is enough.

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
        """Yield the moment of each time of the rule, from a day on, as `_first_shown` says."""
        for day in self._days_from(after // DAY_S - 1):
            begin = day * DAY_S
            around = offset_periods(begin - DAY_S, begin + 2 * DAY_S, zone)
            for time in self._times:
                yield _first_shown(begin + time, around)

    def _by_real_time(self, after: int, zone: tzinfo) -> Iterator[int]:
        """Yield each moment at which the clock shows a time of the rule, from a day on, in order.

        Days of the clock are not in order: one that is set back over midnight shows the end of a
        day again. So this walks over days of UTC, each once: those that the clock's days with times
        of the rule may touch, which are three for each.
        """
        next_day = after // DAY_S
        for day in self._days_from(next_day - 1):
            for day_of_utc in range(max(next_day, day - 1), day + 2):
                begin = day_of_utc * DAY_S
                for stretch in offset_periods(begin, begin + DAY_S, zone):
                    yield from self._moments_in(stretch, after)
                next_day = day_of_utc + 1

    def _moments_in(self, stretch: OffsetPeriod, after: int) -> Iterator[int]:
        """Yield the moments in a stretch, later than `after`, that are times of the rule."""
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
        date_of_day = date.fromordinal(day + _EPOCH_DAY)
        is_in_month = date_of_day.month in self._fields.months
        return is_in_month and self._fits(date_of_day.day, date_of_day.isoweekday() % 7)

    def _fits(self, day_of_month: int, weekday: int) -> bool:
        of_month, of_week = day_of_month in self._fields.days, weekday in self._fields.weekdays
        return of_month and of_week if self._fields.needs_both_days else of_month or of_week


def _first_shown(time: int, around: Iterable[OffsetPeriod]) -> int:
    """Return the moment when a clock first shows a time; where it skips it, the end of the gap."""
    for stretch in around:
        if time < stretch.end + stretch.offset:
            return max(stretch.begin, time - stretch.offset)
    raise AssertionError("the stretches go on for a day after the time")


# Time zones by their names, and the machine's own; times as clocks there show them.


def local_time(at_ms: int, zone: tzinfo) -> datetime:
    """Return a time as clocks in a zone show it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)


def zone_of(name: str | None) -> ZoneInfo:
    """Return a time zone; None is the machine's own, and UTC where that has none.

    Raises:
        InvalidInput: there is no zone of this name, or the machine's own can't be read.
    """
    return own_zone() if name is None else _named(name)


@lru_cache(maxsize=256)
def _named(name: str) -> ZoneInfo:
    try:
        return named_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f"there is no time zone {name!a}; give one like Europe/Berlin"
        ) from error


# Parts of days in which a schedule may run.

#: After how many days a window has begun again at the latest: a zone may skip or repeat a day.
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


def reason_to_skip(entry: ScheduleEntry, at_ms: int) -> str | None:
    """Return why a schedule does not run at a time, by its days and its window; None if it may."""
    if not entry.not_on and entry.only_between is None:
        return None  # without a look at its zone, which may be unreadable
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


#: The first times of equal intervals are spread over the interval, or over this where it is longer,
#: in milliseconds: so an interval of days begins soon, too.
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
    """Return how much later the first time of each interval is, by plugin and id, in milliseconds.

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
    nominal_ms = next(nominals_after(entry, after_ms), None)
    return None if nominal_ms is None else further("times of a schedule", after_ms, nominal_ms)


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


# The coming times of a schedule, as they would be without jobs in their way.

#: How many times in a row outside of the days and windows of a schedule end the look.
_MAX_OUTSIDE = 100_000


@dataclass(frozen=True, slots=True)
class UpcomingTime:
    """A coming time of a schedule.

    Attributes:
        at: in UTC, RFC 3339 to the second.
        local: as clocks in its zone show it, with the offset.
    """

    at: str
    local: str


def upcoming(
    entry: ScheduleEntry, from_ms: int, first_ms: int | None = None
) -> Iterator[UpcomingTime]:
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
        if due_ms <= from_ms or due_ms == last_ms or reason_to_skip(entry, due_ms) is not None:
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


def _shown(at_ms: int, zone: tzinfo) -> UpcomingTime:
    local = local_time(at_ms, zone).isoformat(timespec="seconds")
    return UpcomingTime(format_ts(at_ms).replace(".000Z", "Z"), local)
