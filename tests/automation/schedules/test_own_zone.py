"""The machine's own time zone: each form of TZ, and no UTC in silence."""

from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from zoneinfo import TZPATH

import pytest

from ackbus.automation.config import value_forms
from ackbus.automation.config.models import ScheduleEntry
from ackbus.automation.config.validation import check_timezone
from ackbus.automation.schedules.recurrence import reason_to_skip, zone_of
from ackbus.schema.errors import InvalidInput

from ..conftest import Folder

BERLIN, UTC = (1, 2), (0, 0)
BAD = [
    "Europe/Berlni",
    "Europe",
    "/etc/passwd",
    "/nope",
    "CET-1CEST,bad",
    "Foo",
    "../../etc/passwd",
    "right/Europe/Berlin",  # by clocks that count leap seconds: Python shows it two hours ahead
    ":right/UTC",
    "/usr/share/zoneinfo/right/Europe/Berlin",
]


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("", UTC),
        ("UTC0", UTC),
        ("Europe/Berlin", BERLIN),
        (":Europe/Berlin", BERLIN),
        ("CET-1CEST,M3.5.0,M10.5.0/3", BERLIN),
        ("CET-1CEST", BERLIN),
        ("<+03>-3", (3, 3)),
        ("EST5EDT", (-5, -4)),
    ],
)
def test_each_form_of_tz_is_read(
    text: str, hours: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", text)
    moments = [datetime(2026, month, 15, tzinfo=zone_of(None)) for month in (1, 7)]
    assert [each.utcoffset() for each in moments] == [timedelta(hours=each) for each in hours]


@pytest.mark.parametrize("text", BAD)
def test_zone_that_cannot_be_read_is_never_utc(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", text)
    with pytest.raises(InvalidInput, match="no time zone that can be read"):
        zone_of(None)
    assert reason_to_skip(ScheduleEntry(plugin="a", every_s=60.0), 0) is None  # no clock counts


def test_localtime_that_is_a_copy_is_read_and_one_that_is_no_zone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    for name, data in (("copy", None), ("bad", b"TZif"), ("long", b"x" * 2_000_000)):
        path = tmp_path / name
        rule = value_forms._of_rule
        monkeypatch.setattr(value_forms, "_LOCALTIME", str(path))
        value_forms._own_zone.cache_clear()
        if data is None:
            path.write_bytes(_file_of("CET-1CEST,M3.5.0,M10.5.0/3"))
            assert datetime(2026, 7, 15, tzinfo=zone_of(None)).utcoffset() == timedelta(hours=2)
            assert rule("UTC0", "k").key == "k"
        else:
            path.write_bytes(data)
            with pytest.raises(InvalidInput):
                zone_of(None)
    monkeypatch.setattr(value_forms, "_LOCALTIME", str(tmp_path / "absent"))
    value_forms._own_zone.cache_clear()
    assert zone_of(None).key == "UTC"
    value_forms._own_zone.cache_clear()


def _file_of(rule: str) -> bytes:
    """A file of a zone with a rule alone."""
    block = b"TZif2" + bytes(15) + bytes([0] * 19 + [1] + [0, 0, 0, 4]) + bytes(6) + b"UTC\0"
    return block + block + b"\n" + rule.encode() + b"\n"


def test_schedule_that_goes_by_an_unreadable_clock_is_refused(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlni")
    rows = '[{every: 5m}, {id: a, cron: "0 8 * * *", timezone: UTC}%s]'
    config = "plugins:\n  echo:\n    enabled: true\n    schedules: "
    folder.write(config=config + rows % "" + "\n").load()
    folder.write(config=config + rows % ', {id: b, cron: "0 8 * * *"}' + "\n")
    (told,) = folder.told()
    assert "schedules[2]" in told
    assert "TZ='Europe/Berlni'" in told


def test_a_copy_that_counts_leap_seconds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header tells; the rest is a zone that could be read."""
    data = bytearray(read_zone("Europe/Berlin"))
    copy = tmp_path / "zone"
    monkeypatch.setenv("TZ", str(copy))
    copy.write_bytes(data)
    assert zone_of(None).key == str(copy)
    data[31] = 27
    copy.write_bytes(data)
    monkeypatch.setenv("TZ", f":{copy}")
    with pytest.raises(InvalidInput, match="no time zone that can be read"):
        zone_of(None)


@pytest.mark.parametrize("name", ["right/Europe/Berlin", "right/UTC"])
def test_zones_with_leap_seconds_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        check_timezone(name)
    with pytest.raises(InvalidInput, match="there is no time zone"):
        zone_of(name)


def read_zone(name: str) -> bytes:
    """The file of a zone, of the system or of the package tzdata."""
    for folder in TZPATH:
        if (path := Path(folder, name)).exists():
            return path.read_bytes()
    return (resources.files("tzdata.zoneinfo") / name).read_bytes()
