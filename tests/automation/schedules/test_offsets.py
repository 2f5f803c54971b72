"""Offsets of time zones: how few are asked for, and that this leaves no change out."""

import importlib.resources
import itertools
import struct
import zoneinfo
from pathlib import Path

import pytest

from ackbus.automation.config.models import ScheduleEntry
from ackbus.automation.schedules import recurrence
from ackbus.automation.schedules.recurrence import upcoming

RULES = ["0 0 29 2 *", "0 0 29 2 */7", "* * * * *", "30 2 * * *", "0 */2 * * 5", "0 0 1 1 */7"]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize("cron", RULES)
def test_thousand_times_of_any_rule_ask_for_few_offsets(
    cron: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes two of a microsecond: `bus schedule next --count 1000` stays under 100 ms."""
    recurrence.offset_periods.cache_clear()
    asked = itertools.count()
    ask = recurrence._offset
    monkeypatch.setattr(recurrence, "_offset", lambda *args: (next(asked), ask(*args))[1])
    entry = ScheduleEntry(plugin="", cron=cron, timezone=zone)
    times = list(itertools.islice(upcoming(entry, 1_780_000_000_000), 1000))
    assert len(times) > 250
    assert next(asked) < 4_000


def test_no_zone_sets_its_clocks_twice_within_a_span_that_is_looked_at_once() -> None:
    """By the tables of the zones themselves; after these come rules with two changes a year."""
    least_s = min(
        (after - before, name)
        for name in zoneinfo.available_timezones() - {"localtime"}
        for before, after in itertools.pairwise(changes(name))
        if after > -recurrence.LONGEST_SPAN_S
    )
    assert least_s[0] > recurrence.LONGEST_SPAN_S, least_s


def changes(name: str) -> list[int]:
    """The seconds at which a zone sets its clocks, by its file of the IANA database."""
    paths = (Path(base, name) for base in zoneinfo.TZPATH)
    path = next((path for path in paths if path.is_file()), None)
    packed = importlib.resources.files("tzdata") / "zoneinfo" / name
    data = packed.read_bytes() if path is None else path.read_bytes()
    isut, isstd, leap, count, kinds, chars = struct.unpack(">6l", data[20:44])
    begin = 88 + count * 5 + kinds * 6 + chars + leap * 8 + isstd + isut  # of the second table
    count, kinds = struct.unpack(">2l", data[begin - 12 : begin - 4])
    times = struct.unpack(f">{count}q", data[begin : begin + 8 * count])
    indexes = data[begin + 8 * count : begin + 9 * count]
    types = data[begin + 9 * count : begin + 9 * count + 6 * kinds]
    found = [struct.unpack(">l", types[6 * index : 6 * index + 4])[0] for index in indexes]
    return (
        [
            at
            for at, (old, new) in zip(times[1:], itertools.pairwise(found), strict=True)
            if old != new
        ]
        if count
        else []
    )
