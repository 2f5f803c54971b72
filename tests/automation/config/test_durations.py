"""Forms of values: durations, sizes, windows, weekdays, points in time."""

import pytest

from ackbus.automation.config.models import Window, window_of
from ackbus.automation.config.value_forms import (
    duration_or_zero_s,
    duration_s,
    interval_s,
    point_ms,
    size_bytes,
    weekday,
)

DAY = 86_400.0


@pytest.mark.requirement("D-38", "D-39")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("5m", 300), ("15m", 900), ("30m", 1800), ("2h", 7200), ("7m", 420), ("13h", 46_800)),
        *(("hourly", 3600), ("daily", DAY), ("weekly", 7 * DAY), ("monthly", 30 * DAY)),
        *(("3d", 3 * DAY), ("2w", 14 * DAY), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25)),
    ],
)
def test_intervals_have_their_seconds(text: str, seconds: float) -> None:
    assert interval_s(text) == seconds


@pytest.mark.requirement("D-39")
@pytest.mark.parametrize(
    "text", ["invalid", "-5m", "0s", "0", "xd", "5", "", "5 m", "m5", "5M", "yearly", "999999999w"]
)
def test_other_intervals_are_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write a positive duration such as 5m") as refused:
        interval_s(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["hourly", "0s", "-1s", "1"])
def test_a_duration_is_positive_and_has_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match="write one such as 90s"):
        duration_s(text)


def test_a_pause_may_be_nothing() -> None:
    assert [duration_or_zero_s(text) for text in ("0", "0s", "5s")] == [0, 0, 5]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1MB", 1 << 20), ("64KB", 65_536), ("1 gb", 1 << 30), ("100", 100), ("2MiB", 2 << 20)],
)
def test_sizes_count_by_1024(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["0", "-1MB", "1XB", "MB", "", "1.5MB", "9999999999999GB"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a positive size"):
        size_bytes(text)


@pytest.mark.requirement("D-43")
def test_windows_may_wrap_over_midnight() -> None:
    assert window_of("08:00-22:00") == Window(start_minute=480, end_minute=1320)
    assert window_of("22:00-06:00") == Window(start_minute=1320, end_minute=360)
    assert window_of("00:00 - 23:59") == Window(start_minute=0, end_minute=1439)


@pytest.mark.requirement("D-43")
@pytest.mark.parametrize(
    "text", ["08:00-08:00", "8:00-22:00", "24:00-06:00", "08:60-09:00", "08:00", "", "a-b"]
)
def test_a_window_of_another_form_or_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        window_of(text)


@pytest.mark.requirement("D-45")
def test_weekdays_have_names_and_the_numbers_of_cron() -> None:
    assert [weekday(each) for each in ("sunday", "sun", "0", "7")] == [0, 0, 0, 0]
    assert [weekday(each) for each in ("saturday", "Sat", "6")] == [6, 6, 6]
    with pytest.raises(ValueError, match="write a name such as saturday"):
        weekday("8")


@pytest.mark.requirement("D-38")
def test_a_point_in_time_is_rfc_3339() -> None:
    assert point_ms("1970-01-01T00:00:01Z") == 1000
    assert point_ms("2026-03-15T14:00:00.250+11:00") == point_ms("2026-03-15T03:00:00.250Z")
    assert point_ms("1969-12-31T23:59:59Z") == -1000


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-03-15", "2026-03-15T14:00:00", "2026-02-30T00:00:00Z", "1770000000"]
)
def test_other_points_in_time_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a point in time"):
        point_ms(text)
