"""A clock that was wrong: what becomes of schedules when it is set right."""

from collections import Counter
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ackbus.automation.config.models import BreakerConfig, ScheduleEntry, Window
from ackbus.automation.jobs.submission import Duplicate, JobRequest, Submission, Submitted
from ackbus.automation.schedules.tables import Decisions, Schedules
from ackbus.subscribers.queues.queue_set import change_policy

from .stage import BEGIN_MS, MINUTE_MS, Stage, entry

HOUR, DAY, YEAR = 60, 24 * 60, 365 * 24 * 60
STEPS = {"an hour": HOUR, "a day": DAY, "a year": YEAR}

#: In which minute of the day everything begins.
BEGUN = datetime.fromtimestamp(BEGIN_MS / 1000, ZoneInfo("UTC"))
BEGUN_MINUTE = BEGUN.hour * 60 + BEGUN.minute


def daily(minutes: int, **fields: object) -> ScheduleEntry:
    """A rule of cron that comes so many minutes after the beginning, and each day."""
    hour, minute = divmod((BEGUN_MINUTE + minutes) % DAY, 60)
    return entry(cron=f"{minute} {hour} * * *", timezone="UTC", command="sync", **fields)


def window(begin: int, end: int) -> Window:
    """A part of the day, in minutes after the beginning."""
    return Window(start_minute=(BEGUN_MINUTE + begin) % DAY, end_minute=(BEGUN_MINUTE + end) % DAY)


def fired(stage: Stage, id: str = "default") -> list[int]:
    return [minute for verdict, minute, _ in stage.told(id) if verdict == "fired"]


def step(stage: Stage, minutes: float, again: list[ScheduleEntry] | None) -> None:
    """Sets the clock; a service that was ended meanwhile begins again with these schedules."""
    stage.clock.go(minutes)
    if again is not None:
        stage.begin()
        stage.take(*again)
    stage.tick()
    stage.work()


def live(stage: Stage, minutes: float) -> None:
    """Lets time pass, in which each schedule is looked at when it is due, and all jobs end."""
    end_ms = stage.clock.ms + round(minutes * MINUTE_MS)
    while stage.clock.ms < end_ms:
        due_ms = stage.tick()
        stage.work()
        stage.clock.ms = min(end_ms, max(due_ms or end_ms, stage.clock.ms + 1))
    stage.tick()
    stage.work()


ALL = [
    daily(30, id="daily"),
    entry(cron="*/10 * * * *", id="often", timezone="UTC", command="often"),
    entry(10, id="interval", command="interval"),
    entry(10, id="jittered", command="jittered", jitter_s=60.0),
    daily(30, id="within", only_between=window(0, 60)),
    daily(10, id="preferred", preferred_window=window(40, 55)),
    entry(at_ms=BEGIN_MS + 45 * MINUTE_MS, id="at", command="at"),
    entry(after_s=50 * 60.0, id="after", command="after"),
]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("ahead", STEPS.values(), ids=STEPS)
def test_all_schedules_run_in_the_hour_after_a_clock_was_ahead(
    stage: Stage, ahead: int, restart: bool
) -> None:
    entries = [each if each.command != "sync" else each_of(each) for each in ALL]
    stage.take(*entries, max_outstanding_polls=9)
    live(stage, 5)
    again = entries if restart else None
    step(stage, ahead, again)
    while_ahead = {each.id: set(fired(stage, each.id)) for each in entries}
    live(stage, 5)
    step(stage, -ahead - 5, again)  # it is minute 5 again
    live(stage, 60)
    for each in entries:
        times = fired(stage, each.id)
        assert len(times) == len(set(times)), each.id
        in_the_hour = [minute for minute in times if 5 <= minute <= 65]
        assert in_the_hour or while_ahead[each.id] & set(range(5, 66)), (each.id, times)
    often = fired(stage, "often")
    due = {minute for minute in range(6, 66) if (BEGUN_MINUTE + minute) % 10 == 0}
    assert due <= set(often)


def each_of(rule: ScheduleEntry) -> ScheduleEntry:
    """The same, with a command of its own."""
    return entry(**{name: getattr(rule, name) for name in _FIELDS} | {"command": rule.id})


_FIELDS = ("id", "cron", "timezone", "only_between", "preferred_window")


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("back", STEPS.values(), ids=STEPS)
def test_all_schedules_go_on_after_a_clock_was_behind(
    stage: Stage, back: int, restart: bool
) -> None:
    entries = [entry(10, id="interval", command="interval"), ALL[1]]
    stage.take(*entries)
    live(stage, 5)
    again = entries if restart else None
    step(stage, -back, again)
    live(stage, 30)
    step(stage, back, again)
    before = {each.id: len(fired(stage, each.id)) for each in entries}
    live(stage, 30)
    for each in entries:
        times = fired(stage, each.id)
        assert len(times) == len(set(times))
        assert len(times) - before[each.id] >= 2
        assert sum(-back + 5 <= minute <= -back + 35 for minute in times) >= 2


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_time_that_fired_while_the_clock_was_ahead_never_fires_again(
    stage: Stage, restart: bool
) -> None:
    rule = daily(30)
    stage.take(rule).tick()
    step(stage, 29, None)
    live(stage, 5)
    assert fired(stage) == [30]
    step(stage, -20, [rule] if restart else None)
    live(stage, DAY + 60)
    assert fired(stage) == [30, DAY + 30]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_missed_times_are_reopened_once_with_the_reason(stage: Stage, restart: bool) -> None:
    rule = daily(30)
    stage.take(rule).tick()
    step(stage, 3 * DAY, None)
    assert stage.told() == [("missed", 30, 3)]
    again = [rule] if restart else None
    for _ in range(3):  # nothing is reopened twice for one step of the clock
        step(stage, -3 * DAY if stage.clock.ms > BEGIN_MS + DAY * MINUTE_MS else 0, again)
    assert stage.told() == [("missed", 30, 3), ("reopened", 30, 3)]
    why = "the clock was set back; this was missed while it was ahead: no service ran in time"
    assert stage.reasons()[-1].startswith(why)
    live(stage, 2 * DAY)
    assert stage.told()[2:] == [("fired", 30, 1), ("fired", DAY + 30, 1)]
    turns = [
        (each.nominal_ms, each.verdict)
        for each in Decisions.of(stage.bus).about("feed", "default", limit=99)
    ]
    assert max(Counter(turns).values()) == 1


def test_clock_that_is_ahead_again_and_again_heals_each_time(stage: Stage) -> None:
    stage.take(daily(30)).tick()
    for _ in range(3):
        step(stage, DAY, None)
        step(stage, -DAY, None)
    live(stage, 40)
    assert fired(stage) == [30]
    assert [verdict for verdict, _, _ in stage.told()].count("reopened") == 3


def test_times_outside_of_a_window_of_a_clock_that_was_ahead_are_reopened(stage: Stage) -> None:
    """They are inside, when the clock comes there by itself: the window is another one now."""
    shut = daily(30, only_between=window(60, 120))
    stage.take(shut).tick()
    step(stage, 29, None)
    live(stage, 5)
    assert stage.told() == [("skipped", 30, 1)]
    step(stage, -20, None)
    assert stage.told()[-1] == ("reopened", 30, 1)
    live(stage, 30)
    assert [verdict for verdict, _, _ in stage.told()] == ["skipped", "reopened", "skipped"]


@pytest.mark.parametrize("ahead", [6 * HOUR, DAY, YEAR])
def test_what_a_preferred_window_holds_back_comes_in_the_next_one(stage: Stage, ahead: int) -> None:
    """Its nominal time is over when the clock is set back, and its due time is not."""
    held = daily(-60, preferred_window=window(120, 180))
    stage.clock.go(-90)
    stage.take(held).tick()
    stage.tick(90)
    assert stage.told() == []
    step(stage, ahead, None)
    step(stage, -ahead, None)
    live(stage, 125)
    assert fired(stage)[-1:] == [-60], stage.told()


def test_what_came_in_its_window_while_the_clock_was_ahead_does_not_come_twice(
    stage: Stage,
) -> None:
    held = entry(
        cron="*/5 * * * *", timezone="UTC", command="sync", preferred_window=window(120, 121)
    )
    stage.take(held).tick()
    step(stage, 119, None)
    live(stage, 3)
    (first,) = fired(stage)
    step(stage, -60, None)
    live(stage, 100)
    assert fired(stage) == [first]
    live(stage, DAY)
    assert len(fired(stage)) == 2


def test_single_time_that_was_missed_while_the_clock_was_ahead_comes(stage: Stage) -> None:
    single = entry(at_ms=BEGIN_MS + 30 * MINUTE_MS)
    stage.take(single).tick()
    step(stage, DAY, None)
    assert stage.told() == [("missed", 30, 1)]
    step(stage, -DAY, [single])
    live(stage, 60)
    assert fired(stage) == [30]
    step(stage, DAY, [single])
    step(stage, -DAY, [single])
    live(stage, 120)
    assert fired(stage) == [30]


def test_schedule_that_began_while_the_clock_was_ahead_goes_by_the_right_one(stage: Stage) -> None:
    entries = [entry(after_s=600.0), entry(60, id="hourly", command="hourly"), daily(30, id="d")]
    stage.clock.go(YEAR)
    stage.take(*entries).tick()
    step(stage, -YEAR, entries)
    live(stage, 90)
    assert fired(stage)[-1] == 10
    assert [minute for minute in fired(stage, "hourly") if minute < YEAR] == [60]
    assert fired(stage, "d") == [30]


def test_clock_of_the_last_year_ends_no_schedule(stage: Stage) -> None:
    """There are no times after it, until it is set right."""
    entries = [daily(30), entry(10, id="interval", command="interval")]
    stage.take(*entries).tick()
    stage.work()
    last_ms = 253_402_300_799_000
    stage.clock.ms, now_ms = last_ms, stage.clock.ms
    stage.tick()
    stage.work()
    stage.clock.ms = now_ms
    stage.tick()
    assert None not in [each.next_nominal_ms for each in Schedules.of(stage.bus).all()]
    live(stage, 40)
    assert 30 in fired(stage)
    assert len([minute for minute in fired(stage, "interval") if 5 < minute < 60]) >= 3


def test_paused_schedule_that_is_resumed_after_the_clock_was_set_back_goes_on(
    stage: Stage,
) -> None:
    stage.take(daily(30)).tick()
    stage.by_hand.pause("feed", "default")
    step(stage, DAY, None)
    stage.by_hand.resume("feed", "default")
    stage.by_hand.pause("feed", "default")
    step(stage, -DAY, None)
    stage.by_hand.resume("feed", "default")
    live(stage, 40)
    assert fired(stage) == [30]


def test_breaker_that_opened_while_the_clock_was_ahead_lets_a_probe_through(stage: Stage) -> None:
    rule = BreakerConfig(threshold=1, reset_after_s=1800.0)
    stage.take(entry(5), circuit_breaker=rule)
    step(stage, DAY, None)
    stage.tick(5)
    stage.work(ok=False)
    stage.tick(5)
    assert stage.reasons()[-1] == "the circuit breaker is open"
    step(stage, -DAY, None)
    live(stage, 5)
    assert stage.told()[-1][0] == "fired"


def test_healthy_clock_changes_nothing_at_a_restart(stage: Stage) -> None:
    entries = [each_of(each) if each.command == "sync" else each for each in ALL]
    stage.take(*entries, max_outstanding_polls=9)
    for _ in range(20):
        live(stage, 5)
        before = Schedules.of(stage.bus).all()
        stage.begin()
        stage.take(*entries, max_outstanding_polls=9)
        assert Schedules.of(stage.bus).all() == before


NEVER = entry(at_ms=BEGIN_MS + 10 * YEAR * MINUTE_MS, id="never", command="never")


def fail_one(stage: Stage, pause: int) -> None:
    """Fail a job, which is to be tried again after a pause in minutes."""
    change_policy(stage.bus, "plugin.feed", by="test", retry="failures", max_attempts=4)
    Submission(stage.bus).submit(JobRequest(plugin="feed", command="now", submitted_by="cli"))
    (claim,) = stage.claims()
    stage.queue.fail(claim, "no", retry=True, after_s=pause * 60)
    assert stage.claims() == []


def retried_after(stage: Stage, pause: int) -> bool:
    """Whether the one job that has failed is tried after its pause, in minutes, and not before."""
    early = stage.claims()
    stage.clock.go(pause - 1)
    early += stage.claims()
    stage.clock.go(2)
    return not early and len(stage.claims()) == 1


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("ahead", STEPS.values(), ids=STEPS)
def test_a_job_that_failed_by_a_clock_that_was_ahead_is_tried_after_its_pause(
    stage: Stage, ahead: int, restart: bool
) -> None:
    stage.take(NEVER)
    stage.clock.go(ahead)
    fail_one(stage, pause=5)
    stage.tick()
    stage.clock.go(-ahead)
    if restart:
        stage.begin()
        stage.take(NEVER)
    stage.tick()
    assert retried_after(stage, 5)


@pytest.mark.parametrize("ahead", [0, HOUR, DAY])
def test_a_pause_by_a_right_clock_stays_as_it_is(stage: Stage, ahead: int) -> None:
    """Also where the clock is ahead afterwards, for less than the pause lasts, and is set back."""
    stage.take(NEVER)
    fail_one(stage, pause=2 * DAY)
    for minutes in (ahead, -ahead):
        stage.clock.go(minutes)
        stage.tick()
    assert retried_after(stage, 2 * DAY)


@pytest.mark.parametrize("ahead", STEPS.values(), ids=STEPS)
def test_a_success_by_a_clock_that_was_ahead_keeps_its_key_for_the_window_from_now(
    stage: Stage, ahead: int
) -> None:
    change_policy(stage.bus, "plugin.feed", by="test", dedupe_window_s=30 * 60)
    stage.take(NEVER)
    request = JobRequest(plugin="feed", command="now", submitted_by="cli", dedupe_key="k")
    stage.clock.go(ahead)
    Submission(stage.bus).submit(request)
    assert stage.work() == 1
    for minutes in (0, -ahead):
        stage.clock.go(minutes)
        stage.tick()
    found = []
    for minutes in (0, 29, 2):
        stage.clock.go(minutes)
        found.append(type(Submission(stage.bus).submit(request)))
    assert found == [Duplicate, Duplicate, Submitted]
