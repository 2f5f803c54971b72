"""Every rule, in every zone, where its clocks are set: against a walk over all minutes.

The walk knows nothing of how a rule is computed: it looks at a clock each minute.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import pytest

from ackbus.automation.schedules.recurrence import CronRule

from ...sizes import size
from .next_times import next_after

MINUTE = timedelta(minutes=1)

#: In which years clocks are looked at, and how long before and after a change.
BEGIN, END = datetime(2019, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
AROUND = timedelta(days=2)

#: Rules that were wrong once, with their zone and a time within the days around.
ONCE_WRONG = [
    ("* 3 * * *", "Pacific/Chatham", "2027-04-03T14:00"),
    ("*/5 * * * *", "Pacific/Chatham", "2027-04-03T14:00"),
    ("*/15 * * * *", "America/St_Johns", "2005-10-30T02:00"),
    ("0 0 * * *", "America/St_Johns", "2005-10-30T02:00"),
    ("*/5 1 * * 5", "Africa/Cairo", "2026-04-23T22:00"),
    ("0 */2 * * 5", "Africa/Cairo", "2026-04-23T22:00"),
    ("*/15 0 * * 0", "Atlantic/Azores", "2026-03-29T01:00"),
    ("0 */2 * * *", "Australia/Lord_Howe", "2026-04-04T15:00"),
    ("30 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:30"),
    ("0 12 30 12 *", "Pacific/Apia", "2011-12-30T10:00"),
    ("*/30 * 30,31 12 *", "Pacific/Apia", "2011-12-30T10:00"),
    ("0 2 * * *", "Antarctica/Troll", "2026-03-29T01:00"),
]


@cache
def changes(zone: ZoneInfo) -> list[datetime]:
    """The hours of some years in which a zone's clocks are set."""
    found, day = [], BEGIN
    before = day.astimezone(zone).utcoffset()
    while day < END:
        hours = [day + timedelta(hours=hours) for hours in (6, 12, 18, 24)]
        day = hours[-1]
        if (after := day.astimezone(zone).utcoffset()) != before:
            found.append(next(h for h in hours if h.astimezone(zone).utcoffset() != before))
            before = after
    return found


def field(noise: random.Random, least: int, most: int) -> str:
    """A field of a rule, of any form."""
    low = noise.randint(least, most)
    high, step = noise.randint(low, most), noise.randint(1, most)
    forms = ("*", "*", f"*/{step}", str(low), f"{low}-{high}", f"{low}-{high}/{step}")
    return noise.choice([*forms, f"{low}/{step}", f"{high},{low}"])


def rule(noise: random.Random) -> str:
    """A rule that comes on most days, or on few."""
    minute, hour = field(noise, 0, 59), field(noise, 0, 5)
    if noise.random() < 0.7:
        return f"{minute} {hour} * * *"
    while True:
        days, months, weekdays = field(noise, 1, 31), field(noise, 1, 12), field(noise, 0, 7)
        # One that never comes, on 31 April say, is refused.
        if min(values(days, 1, 31)) <= 28 or not (days[0] == "*" or weekdays[0] == "*"):
            return f"{minute} {hour} {days} {months} {weekdays}"


def values(text: str, least: int, most: int) -> set[int]:
    """The values that a field stands for."""
    found: set[int] = set()
    for term in text.split(","):
        part, _, step = term.partition("/")
        low, _, high = part.partition("-")
        if part == "*":
            begin, end = least, most
        else:
            begin, end = int(low), int(high or (most if step else low))
        found.update(range(begin, end + 1, int(step or 1)))
    return found


def walked(text: str, begin: datetime, end: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """The times of a rule between two others."""
    parts = text.split()
    minutes, hours, days, months, weekdays = (
        values(part, *bounds)
        for part, bounds in zip(parts, ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7)), strict=True)
    )
    both = parts[2][0] == "*" or parts[4][0] == "*"

    def fits(clock: datetime) -> bool:
        if clock.minute not in minutes or clock.hour not in hours or clock.month not in months:
            return False
        weekday = clock.isoweekday()
        of_month, of_week = clock.day in days, weekday in weekdays or weekday % 7 in weekdays
        return of_month and of_week if both else of_month or of_week

    is_by_clock = parts[0][0] != "*" and parts[1][0] != "*"
    # A clock that was set back shows what it has shown before.
    moment = begin - timedelta(days=2)
    latest = moment.astimezone(zone).replace(tzinfo=None)
    while moment < end:
        moment += MINUTE
        clock = moment.astimezone(zone).replace(tzinfo=None)
        if is_by_clock:
            comes = False
            while latest < clock:
                latest += MINUTE
                comes = comes or fits(latest)
        else:
            comes = fits(clock)
        if comes and begin < moment <= end:
            yield moment


def computed(text: str, begin: datetime, end: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """The same, as the rule says."""
    after_ms = round(begin.timestamp() * 1000)
    for at_ms in CronRule(text).times_after(after_ms, zone):
        assert at_ms > after_ms
        after_ms = at_ms
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        if moment > end:
            return
        yield moment


def check(text: str, zone_name: str, middle: datetime) -> None:
    """The rule agrees with the walk around a moment."""
    zone, begin, end = ZoneInfo(zone_name), middle - AROUND, middle + AROUND
    expected = list(walked(text, begin, end, zone))
    assert list(computed(text, begin, end, zone)) == expected, (text, zone_name, begin)
    one_by_one, rule, after_ms = [], CronRule(text), round(begin.timestamp() * 1000)
    for _ in expected[:20]:
        next_ms = next_after(rule, after_ms, zone)
        assert next_ms is not None
        one_by_one.append(datetime.fromtimestamp(next_ms / 1000, UTC))
        after_ms = next_ms
    assert one_by_one == expected[:20], (text, zone_name, begin)


@pytest.mark.parametrize(("text", "zone", "middle"), ONCE_WRONG)
def test_times_that_were_wrong_once(text: str, zone: str, middle: str) -> None:
    """D-44."""
    check(text, zone, datetime.fromisoformat(middle).replace(tzinfo=UTC))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(size(sample=2, whole=40)))
def test_every_rule_agrees_with_a_walk_over_minutes(part: int) -> None:
    """D-44: promise 1 of the automation, over all zones that set their clocks."""
    noise = random.Random(f"cron {part}")
    zones = [name for name in sorted(available_timezones()) if "/" in name or name == "UTC"]
    tried = 0
    while tried < size(sample=15, whole=250):
        zone = noise.choice(zones)
        middles = changes(ZoneInfo(zone))
        if not middles and noise.random() < 0.9:
            continue
        text = rule(noise)
        middle = noise.choice(middles or [BEGIN + timedelta(days=noise.randint(3, 4000))])
        check(text, zone, middle + timedelta(minutes=noise.randint(-600, 600)))
        tried += 1
