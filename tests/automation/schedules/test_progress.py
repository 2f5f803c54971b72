"""Each next time of a rule is later than the last, in every zone, and found in few steps."""

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from ackbus.automation.schedules import recurrence
from ackbus.automation.schedules.firing import last_times
from ackbus.automation.schedules.recurrence import CronRule, NoNextTime, next_nominal
from ackbus.schema.queries import file_of
from tests.automation.schedules.stage import BEGIN_MS, Stage, entry
from tests.sizes import sampled

from .next_times import next_after

RULES = (
    "* 3 * * *",
    "*/5 1-3 * * *",
    "*/15 * * * *",
    "7 */2 * * *",
    "30 0-4 * * *",
    "0,15,59 2 * * *",
    "* 23,0 * * *",
    "*/20 * 31 * *",
    "0 0 1 */3 *",
)

HOUR_S = 3600


def offset(at_s: int, zone: ZoneInfo) -> timedelta | None:
    return datetime.fromtimestamp(at_s, UTC).astimezone(zone).utcoffset()


@lru_cache(maxsize=1)
def zones() -> list[str]:
    return sorted(zoneinfo.available_timezones() - {"localtime"})


def changes(zone: ZoneInfo) -> list[int]:
    """The seconds at which the clock of a zone is set, of some years."""
    found = []
    for year in (1883, 1915, 1945, 1970, 1993, 2005, 2011, 2027):
        begin = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
        for month in range(begin, begin + 366 * 24 * HOUR_S, 30 * 24 * HOUR_S):
            low, high = month, month + 30 * 24 * HOUR_S
            if offset(low, zone) == offset(high, zone):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (
                    (middle, high) if offset(middle, zone) == offset(low, zone) else (low, middle)
                )
            found.append(high)
    return found


def fits(rule: CronRule, moment: datetime) -> bool:
    fields = rule._fields
    return (
        moment.second == 0
        and moment.minute in fields.minutes
        and moment.hour in fields.hours
        and moment.month in fields.months
        and rule._has_day(moment.toordinal() - date(1970, 1, 1).toordinal())
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", sampled(range(120), every=120))
def test_times_at_every_change_of_a_clock_go_on(number: int) -> None:
    """Clocks are set by 20 minutes, at 3:45, by a day: no real time is left out."""
    for name in zones()[number::120]:
        zone = ZoneInfo(name)
        for change in changes(zone):
            begin_s = change - 2 * HOUR_S
            for text in RULES:
                rule = CronRule(text)
                times = list(islice(rule.times_after(begin_s * 1000, zone), 6))
                assert times == sorted(set(times)), (name, text, begin_s)
                assert times[0] > begin_s * 1000
                if rule._fields.follows_real_time:
                    end_s = min(times[-1] // 1000, change + 3 * HOUR_S)
                    minutes = range(begin_s + 1, end_s + 1)
                    expected = [
                        at_s
                        for at_s in minutes
                        if at_s % 60 in (0, *_seconds(change, zone))
                        and fits(rule, datetime.fromtimestamp(at_s, UTC).astimezone(zone))
                    ]
                    assert [each // 1000 for each in times if each <= end_s * 1000] == expected


def _seconds(change: int, zone: ZoneInfo) -> set[int]:
    """The seconds of an hour in UTC at which minutes begin by a clock around its change."""
    around = (offset(change - 1, zone), offset(change, zone))
    return {-int(each.total_seconds()) % 60 for each in around if each is not None}


def test_rare_days_are_found() -> None:
    """29 February on a Sunday, by real time: after 2026 in 2032."""
    found = next_after(CronRule("* * 29 2 */8"), BEGIN_MS, ZoneInfo("Pacific/Chatham"))
    assert found is not None
    assert (
        str(datetime.fromtimestamp(found / 1000, ZoneInfo("Pacific/Chatham")).date())
        == "2032-02-29"
    )


@pytest.mark.parametrize("at_ms", [-(2**62), -(10**15), 10**16, 2**62])
def test_a_stored_time_that_is_none_is_an_error(at_ms: int) -> None:
    rule = entry(cron="59 * * * *", timezone="Europe/Berlin")
    with pytest.raises(NoNextTime, match=rf"cron '59 .*' has no time after {at_ms} .*Berlin"):
        next_nominal(rule, at_ms)


def test_a_rule_that_can_not_be_computed_stops_no_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets a decision with the reason, and no next time; the others run on."""
    stage.take(entry(cron="*/5 * * * *", id="bad", timezone="UTC"), entry(5, id="good"))

    def fail(rule: CronRule, at_ms: int, zone: object) -> Iterator[int]:
        raise NoNextTime("it has no time to be computed")

    monkeypatch.setattr(recurrence.CronRule, "times_after", fail)
    stage.tick(6)
    assert stage.told("bad")[-1][0] == "skipped"
    assert stage.reasons("bad")[-1] == "it has no time to be computed"
    assert stage.told("good")[-1][0] == "fired"
    stage.work()
    stage.tick(10)
    assert len(stage.told("bad")) == 1
    assert len(stage.told("good")) > 1


def test_one_that_can_not_be_computed_at_the_start_is_taken_without_a_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(rule: CronRule, at_ms: int, zone: object) -> Iterator[int]:
        raise NoNextTime("it has no time to be computed")

    with monkeypatch.context() as patch:
        patch.setattr(recurrence.CronRule, "times_after", fail)
        stage.take(entry(cron="*/5 * * * *", id="bad", timezone="UTC"), entry(5, id="good"))
    stage.tick()
    assert stage.told("good")
    assert stage.told("bad") == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE schedules SET plugin = CAST(x'ff66656564' AS TEXT) WHERE schedule_id = 'bad'",
        "UPDATE schedules SET schedule_id = CAST(x'ff' AS TEXT) WHERE schedule_id = 'bad'",
        "UPDATE schedules SET due_ms = -9e18, next_nominal_ms = -9e18 WHERE schedule_id = 'bad'",
        "UPDATE schedules SET due_ms = 0, next_nominal_ms = 0 WHERE schedule_id = 'bad'",
        "UPDATE schedules SET next_nominal_ms = 9e18, due_ms = 0 WHERE schedule_id = 'bad'",
    ],
)
def test_a_row_that_no_service_stores_stops_no_other(stage: Stage, change: str) -> None:
    """A tick ends, and the other schedule is decided about."""
    stage.take(entry(cron="*/5 * * * *", id="bad", timezone="UTC"), entry(5, id="good"))
    connection = file_of(stage.bus).connection
    connection.execute("PRAGMA ignore_check_constraints = 1")
    connection.execute(change.replace("9e18", str(9 * 10**18)))
    connection.execute("PRAGMA ignore_check_constraints = 0")
    following = stage.tick(6)
    assert stage.told("good")[-1][0] == "fired"
    assert following is not None
    assert following > stage.clock.ms


def test_a_long_absence_is_counted_in_few_steps() -> None:
    """Every minute since 1970 would be 30 million."""
    rule = entry(cron="* * * * *", timezone="UTC")
    come, count = last_times(rule, 0, BEGIN_MS, 10_000)
    assert (len(come), come[-1]) == (10_000, BEGIN_MS)
    assert 20_000 < count < 40_000
