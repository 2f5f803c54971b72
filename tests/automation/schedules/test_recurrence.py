"""Nominal times, jitter and windows of schedules."""

import random
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ackbus.automation.config.models import ScheduleEntry, Window
from ackbus.automation.schedules.recurrence import (
    due_time,
    first_nominal,
    is_within,
    moved_into,
    next_nominal,
    reason_to_skip,
    zone_of,
)
from ackbus.schema.errors import InvalidInput

HOUR_MS = 3_600_000
NOW_MS = 1_780_000_000_000


def entry(**fields: object) -> ScheduleEntry:
    return ScheduleEntry(**{"plugin": "feed", "hash": "h"} | fields)  # type: ignore[arg-type]


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return round(moment.timestamp() * 1000)


def test_an_interval_begins_at_once_and_goes_on_from_its_run() -> None:
    """D-39: months have 30 days."""
    monthly = entry(every_s=30 * 86_400.0)
    assert first_nominal(monthly, NOW_MS) == NOW_MS
    assert next_nominal(monthly, NOW_MS) == NOW_MS + 30 * 24 * HOUR_MS


def test_single_times_come_once() -> None:
    """D-38, D-50: at, and after the start of the service."""
    assert first_nominal(entry(at_ms=7), NOW_MS) == 7
    assert first_nominal(entry(after_s=5.0), NOW_MS) == NOW_MS + 5000
    assert next_nominal(entry(at_ms=7), 7) is None
    assert next_nominal(entry(after_s=5.0), NOW_MS) is None


@pytest.mark.requirement("D-42")
def test_jitter_is_in_its_band_and_its_mean_near_zero() -> None:
    """D-42: a thousand times, from -jitter/2 to +jitter/2."""
    jittered = entry(every_s=3600.0, jitter_s=600.0)
    chance = random.Random(7)
    offsets = [due_time(jittered, NOW_MS, chance.random()) - NOW_MS for _ in range(1000)]
    assert -300_000 <= min(offsets) < -280_000
    assert 280_000 < max(offsets) <= 300_000
    assert abs(sum(offsets) / 1000) < 20_000


def test_only_intervals_have_jitter() -> None:
    assert due_time(entry(cron="0 * * * *", jitter_s=600.0), NOW_MS, 0.9) == NOW_MS


DAY = Window(start_minute=8 * 60, end_minute=10 * 60)
NIGHT = Window(start_minute=22 * 60, end_minute=6 * 60)


@pytest.mark.parametrize(
    ("window", "clock", "within"),
    [
        (DAY, "08:00", True),
        (DAY, "09:59", True),
        (DAY, "10:00", False),
        (DAY, "07:59", False),
        (NIGHT, "22:00", True),
        (NIGHT, "23:59", True),
        (NIGHT, "00:00", True),
        (NIGHT, "05:59", True),
        (NIGHT, "06:00", False),
        (NIGHT, "12:00", False),
    ],
)
def test_windows_hold_also_over_midnight(window: Window, clock: str, within: bool) -> None:
    """D-43: the end of a window is outside."""
    assert is_within(window, datetime.fromisoformat(f"2026-05-01T{clock}")) is within


@pytest.mark.requirement("R-22", "X-27")
def test_a_preferred_window_moves_a_time_to_its_start() -> None:
    """R-22: a run planned for 3:00 with an hour of jitter starts at 8:00; jitter can't leave it."""
    preferred = entry(
        every_s=86_400.0, jitter_s=3600.0, preferred_window=DAY, timezone="Europe/Berlin"
    )
    for chance in (0.0, 0.5, 1.0):
        planned = at("2026-05-01T03:00", "Europe/Berlin")
        assert due_time(preferred, planned, chance) == at("2026-05-01T08:00", "Europe/Berlin")
        late = due_time(preferred, at("2026-05-01T09:50", "Europe/Berlin"), chance)
        moment = datetime.fromtimestamp(late / 1000, ZoneInfo("Europe/Berlin"))
        assert is_within(DAY, moment)


def test_a_window_whose_start_the_clock_skips_begins_after_the_gap() -> None:
    window = Window(start_minute=2 * 60 + 30, end_minute=4 * 60)
    berlin = ZoneInfo("Europe/Berlin")
    moved = moved_into(window, at("2026-03-29T00:30", "Europe/Berlin"), berlin)
    assert datetime.fromtimestamp(moved / 1000, berlin).isoformat() == "2026-03-29T03:30:00+02:00"


@pytest.mark.parametrize("day", [6, 0])
def test_days_of_the_week_are_left_out(day: int) -> None:
    """D-45: 28 November 2026 is a Saturday, here; in UTC it is still Friday."""
    local = "2026-11-28T05:00" if day == 6 else "2026-11-29T05:00"
    moment = at(local, "Australia/Sydney")
    left_out = entry(every_s=60.0, not_on=frozenset([day]), timezone="Australia/Sydney")
    name = {6: "Saturday", 0: "Sunday"}[day]
    assert reason_to_skip(left_out, moment) == f"not on {name}"
    monday = at("2026-11-30T05:00", "Australia/Sydney")
    assert reason_to_skip(left_out, monday) is None


@pytest.mark.requirement("D-43")
def test_a_window_says_why() -> None:
    """D-43."""
    bound = entry(every_s=60.0, only_between=NIGHT, timezone="UTC")
    told = reason_to_skip(bound, at("2026-05-01T12:00"))
    assert told == "only between 22:00 and 06:00"


@pytest.mark.requirement("D-44")
def test_an_unknown_zone_is_refused() -> None:
    """D-44."""
    with pytest.raises(InvalidInput, match="there is no time zone 'Mars/Base'"):
        zone_of("Mars/Base")
    with pytest.raises(InvalidInput):
        zone_of("../../etc/passwd")
    assert zone_of(None).key
