"""Cron expressions: what is refused, and when they fire, against a plain model over zones."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ackbus.automation.schedules.recurrence import CronRule
from ackbus.schema.errors import InvalidInput

from ...sizes import size
from .next_times import next_after

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Australia/Lord_Howe")


def at(text: str, zone: str, fold: int = 0) -> int:
    """A local time in epoch milliseconds."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return round(moment.timestamp() * 1000)


def fires(rule: str, zone: str, begin: str, count: int) -> list[str]:
    """The next local times of a rule, with their offsets."""
    after, found = at(begin, zone) - 1, []
    for _ in range(count):
        next_ms = next_after(CronRule(rule), after, ZoneInfo(zone))
        assert next_ms is not None
        assert next_ms > after
        found.append(datetime.fromtimestamp(next_ms / 1000, ZoneInfo(zone)).isoformat())
        after = next_ms
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("* * * *", "has 4 fields, and not five"),
        ("0 * * * * *", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("61 * * * *", "minute '61' is not 0 to 59"),
        ("0 24 * * *", "hour '24' is not 0 to 23"),
        ("0 0 0 * *", "day-of-month '0' is not 1 to 31"),
        ("0 0 * 13 *", "month '13' is not 1 to 12"),
        ("0 0 * * 8", "day-of-week '8' is not 0 to 7"),
        ("10-5 * * * *", "minute '10-5' is not"),
        ("*/0 * * * *", r"minute '\*/0' is not"),
        ("0 0 L * *", "day-of-month 'L' is not"),
        ("0 0 LW * *", "day-of-month 'LW' is not"),
        ("0 0 * * 5L", "day-of-week '5L' is not"),
        ("0 0 * * 5#2", "day-of-week '5#2' is not"),
        ("0 0 ? * *", r"day-of-month '\?' is not"),
        ("0 0 31 2 *", "never comes: month '2' has no day '31'"),
        ("* * 31 apr,jun */2", "never comes: month 'apr,jun' has no day '31'"),
        ("@annually", "write 0 0 1 1 "),
        ("@reboot", "'after: 1s' runs once after each start"),
        ("5,, * * * *", "minute '5,,' is not 0 to 59"),
        ("1-2-3 * * * *", "minute '1-2-3' is not 0 to 59"),
        ("0 0 * jan-13 *", "month 'jan-13' is not 1 to 12"),
        ("٣ * * * *", "minute '.u0663' is not 0 to 59"),
    ],
)
def test_a_wrong_expression_names_its_field(text: str, said: str) -> None:
    """D-38: five fields and nothing else; no forms that no document of cron has."""
    with pytest.raises(InvalidInput, match=said):
        CronRule(text)


def test_names_of_months_and_days_are_words() -> None:
    """`jul` and `feb` have an l in them, and are no extensions."""
    assert fires("0 0 1 jul,feb *", "UTC", "2026-01-01T00:00", 2) == [
        "2026-02-01T00:00:00+00:00",
        "2026-07-01T00:00:00+00:00",
    ]
    assert fires("0 9 * * mon-fri", "UTC", "2026-11-28T00:00", 1) == ["2026-11-30T09:00:00+00:00"]


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("41-41/3", {41}),
        ("0-0/3", {0}),
        ("50/4", {50, 54, 58}),
        ("10-20/5,7", {7, 10, 15, 20}),
        ("*/59", {0, 59}),
    ],
)
def test_steps_go_over_their_range_alone(field: str, minutes: set[int]) -> None:
    times = fires(f"{field} 3 * * *", "UTC", "2026-01-01T00:00", len(minutes) + 1)
    assert {int(time[14:16]) for time in times[:-1]} == minutes
    assert times[-1].startswith("2026-01-02")


@pytest.mark.requirement("D-44")
def test_a_fixed_time_in_a_gap_comes_once_right_after_it() -> None:
    """D-44: as Debian's cron; Berlin goes from 2:00 to 3:00 on 29 March 2026."""
    assert fires("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert fires("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:00:00+02:00",
    ]


def test_a_fixed_time_that_the_clock_repeats_comes_once() -> None:
    """D-44: Berlin has 2:00 to 3:00 twice on 25 October 2026."""
    assert fires("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    second = at("2026-10-25T02:10", "Europe/Berlin", fold=1)
    after = next_after(CronRule("30 2 * * *"), second, ZoneInfo("Europe/Berlin"))
    assert after == at("2026-10-26T02:30", "Europe/Berlin")


def test_a_rule_of_all_hours_follows_real_time() -> None:
    """Each hour has its turn in both hours that a clock shows as 2."""
    assert fires("15 * * * *", "Europe/Berlin", "2026-10-25T01:30", 3) == [
        "2026-10-25T02:15:00+02:00",
        "2026-10-25T02:15:00+01:00",
        "2026-10-25T03:15:00+01:00",
    ]
    assert fires("15 * * * *", "Europe/Berlin", "2026-03-29T01:10", 2) == [
        "2026-03-29T01:15:00+01:00",
        "2026-03-29T03:15:00+02:00",
    ]


@pytest.mark.parametrize(
    ("rule", "spring", "autumn"),
    [
        ("15 * * * *", 23, 25),
        ("*/15 2 * * *", 0, 8),
        ("0,15,30,45 2 * * *", 1, 4),
        ("30 2 * * *", 1, 1),
    ],
)
def test_the_rule_of_the_documents_where_clocks_are_set(
    rule: str, spring: int, autumn: int
) -> None:
    """D-44: the table of automate.md, in Berlin."""
    zone = ZoneInfo("Europe/Berlin")
    for day, expected in (("2026-03-29", spring), ("2026-10-25", autumn)):
        begin_ms, end_ms = at(f"{day}T00:00", "Europe/Berlin"), at(f"{day}T23:59", "Europe/Berlin")
        times = CronRule(rule).times_after(begin_ms - 1, zone)
        of_day = list(takewhile(lambda time_ms, end_ms=end_ms: time_ms <= end_ms, times))
        assert len(of_day) == expected


def test_sydney_at_its_change_of_clocks() -> None:
    """D-44: Sydney goes from 2:00 to 3:00 on 4 October 2026."""
    assert fires("0 9 * * 1-5", "Australia/Sydney", "2026-10-02T10:00", 2) == [
        "2026-10-05T09:00:00+11:00",
        "2026-10-06T09:00:00+11:00",
    ]


def test_days_of_month_and_week_join_as_in_debian() -> None:
    """One of them is enough, unless one begins with a star."""
    either = fires("0 0 13 * 5", "UTC", "2026-11-01T00:00", 4)
    assert [day[8:10] for day in either] == ["06", "13", "20", "27"]
    both = fires("0 0 */2 * 1", "UTC", "2026-11-01T00:00", 2)
    assert [day[8:10] for day in both] == ["09", "23"]


def test_a_rule_without_an_end_ends() -> None:
    assert next_after(CronRule("0 0 1 1 *"), at("9998-01-01T00:00", "UTC"), UTC) is None


# Against a plain model ---------------------------------------------------------------------------

numbers = st.integers


@st.composite
def fields(draw: st.DrawFn, least: int, most: int) -> tuple[str, set[int]]:
    """A field of an expression, and what it stands for."""
    kind = draw(st.sampled_from(["*", "one", "list", "range", "step"]))
    whole = set(range(least, most + 1))
    one = draw(numbers(least, most))
    if kind == "*":
        return "*", whole
    if kind == "one":
        return str(one), {one}
    if kind == "list":
        other = draw(numbers(least, most))
        return f"{one},{other}", {one, other}
    end = draw(numbers(one, most))
    if kind == "range":
        return f"{one}-{end}", set(range(one, end + 1))
    step = draw(numbers(2, most))
    return f"*/{step}", set(range(least, most + 1, step))


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, list[set[int]]]:
    found = [draw(fields(*bounds)) for bounds in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))]
    return " ".join(text for text, _ in found), [values for _, values in found]


def model(text: str, values: list[set[int]], begin: datetime, zone: ZoneInfo) -> Iterator[int]:
    """The times of a rule by looking at each minute of some weeks."""
    minutes, hours, days, months, weekdays = values
    parts = text.split()
    joins_all = parts[2].startswith("*") or parts[4].startswith("*")
    is_fixed = not (parts[0].startswith("*") or parts[1].startswith("*"))

    def fits(moment: datetime) -> bool:
        of_month, of_week = moment.day in days, moment.isoweekday() % 7 in weekdays
        day = of_month and of_week if joins_all else of_month or of_week
        return moment.minute in minutes and moment.hour in hours and day and moment.month in months

    for minute in range(60 * 24 * 9):
        if is_fixed:  # by the clock on the wall
            naive = begin.replace(tzinfo=None) + timedelta(minutes=minute)
            if fits(naive):
                real = naive.replace(tzinfo=zone)
                while real.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != naive:
                    naive += timedelta(minutes=1)  # in a gap
                    real = naive.replace(tzinfo=zone)
                yield round(real.timestamp() * 1000)
        else:
            real = begin.astimezone(UTC) + timedelta(minutes=minute)
            if fits(real.astimezone(zone)):
                yield round(real.timestamp() * 1000)


CHANGES = [
    datetime(2026, 3, 26, tzinfo=UTC),
    datetime(2026, 10, 22, tzinfo=UTC),
    datetime(2026, 4, 2, tzinfo=UTC),
    datetime(2026, 10, 1, tzinfo=UTC),
    datetime(2026, 10, 30, tzinfo=UTC),
    datetime(2026, 3, 5, tzinfo=UTC),
    datetime(2027, 12, 28, tzinfo=UTC),
]


@pytest.mark.slow
@settings(max_examples=size(sample=30, whole=1000), deadline=None)
@given(rules(), st.sampled_from(ZONES), st.sampled_from(CHANGES), numbers(0, 60 * 24 * 5))
@example(("30 2 * * *", [{30}, {2}, set(range(1, 32)), set(range(1, 13)), set(range(7))]),
         "Europe/Berlin", CHANGES[0], 0)  # fmt: skip
def test_times_are_those_of_the_model(
    rule: tuple[str, list[set[int]]], zone_name: str, change: datetime, minute: int
) -> None:
    """Promise 1: over zones and their changes, each next time is later, and none is left out."""
    text, values = rule
    zone = ZoneInfo(zone_name)
    begin = (change + timedelta(minutes=minute)).astimezone(zone)
    begin_ms = round(begin.timestamp() * 1000)
    expected = sorted({each for each in model(text, values, begin, zone) if each > begin_ms})
    assume(expected)
    end_ms = round((begin + timedelta(days=8)).timestamp() * 1000)
    try:
        cron = CronRule(text)
    except InvalidInput:
        assume(False)
    found, after = [], begin_ms
    while (next_ms := next_after(cron, after, zone)) is not None and next_ms < end_ms:
        assert next_ms > after
        found.append(next_ms)
        after = next_ms
        if len(found) > 50:
            break
    assert found == [each for each in expected if each < end_ms][: len(found)]
    assert len(found) > 50 or len(found) == len([e for e in expected if e < end_ms])
    assert list(islice(cron.times_after(begin_ms, zone), len(found))) == found
