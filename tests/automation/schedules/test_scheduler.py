"""The scheduler decides about each nominal time once, through crashes and steps of the clock."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ackbus import Bus
from ackbus.automation.config.models import (
    BreakerConfig,
    Config,
    PluginConfig,
    ScheduleEntry,
    Window,
)
from ackbus.automation.config.values import Frozen
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted
from ackbus.automation.schedules import firing as firing_module
from ackbus.automation.schedules.firing import ScheduleControl, times_until
from ackbus.automation.schedules.tables import Decision, Decisions, Schedules
from ackbus.schema.errors import NotFound
from ackbus.schema.queries import file_of
from ackbus.subscribers.queues.queue_set import remove_queue

from .stage import BEGIN_MS, MINUTE_MS, Stage, entry


@pytest.mark.requirement("D-35", "D-41", "R-23")
def test_a_job_begins_at_each_interval_and_its_time_stands_in_the_row(stage: Stage) -> None:
    stage.take(entry(5))
    assert stage.tick() == BEGIN_MS + 5 * MINUTE_MS
    assert stage.work() == 1
    for _ in range(4):  # ticks in between draw nothing anew
        assert stage.tick(1) == BEGIN_MS + 5 * MINUTE_MS
    stage.tick(1)
    assert stage.work() == 1
    assert stage.told() == [("fired", 0, 1), ("fired", 5, 1)]


@pytest.mark.requirement("D-37")
def test_schedules_of_a_plugin_have_their_own_times_commands_and_payloads(stage: Stage) -> None:
    other = entry(7, id="other", command="sync", payload=Frozen({"full": True}))
    stage.take(entry(5), other)
    stage.tick()
    claims = stage.claims()
    assert sorted((c.message.type, repr(c.message.payload)) for c in claims) == [
        ("plugin.feed.poll", "{}"),
        ("plugin.feed.sync", "{'full': True}"),
    ]


@pytest.mark.requirement("D-47")
@pytest.mark.parametrize(("policy", "jobs"), [("skip", 0), ("run_once", 1), ("run_all", 3)])
def test_missed_times_are_caught_up_by_the_policy(stage: Stage, policy: str, jobs: int) -> None:
    stage.take(entry(5, catch_up=policy, if_running="queue"), max_outstanding_polls=9)
    stage.tick()
    stage.work()
    before = stage.jobs()
    stage.clock.go(17)  # 5, 10 and 15 go by while nothing runs
    stage.begin()
    stage.take(entry(5, catch_up=policy, if_running="queue"), max_outstanding_polls=9).tick()
    assert stage.jobs() - before == jobs
    decided = stage.told()[1:]
    assert sum(count for _, _, count in decided) == 3
    assert sum(verdict == "fired" for verdict, _, _ in decided) == jobs
    stage.tick(3)  # minute 20, on the old grid
    assert stage.told()[-1] == ("fired", 20, 1)
    assert len(stage.missed) == (0 if policy == "run_all" else 1)


def test_a_run_of_missed_times_is_one_decision(stage: Stage) -> None:
    """A day of a five-minute schedule: not 288 rows, and no flood of jobs."""
    stage.take(entry(5)).tick()
    stage.work()
    stage.tick(24 * 60 + 0.5)
    assert stage.told()[1:] == [("missed", 5, 287), ("fired", 24 * 60, 1)]


@pytest.mark.parametrize(
    ("made", "days", "a_day"),
    [({"every_s": 1.0}, 1, 24 * 60 * 60), ({"cron": "* * * * *"}, 10, 24 * 60)],
    ids=["interval", "cron"],
)
def test_a_run_of_missed_times_of_any_length_is_told_from_its_first(
    stage: Stage, made: dict[str, object], days: int, a_day: int
) -> None:
    stage.take(entry(**made)).tick()
    stage.tick(days * 24 * 60)
    (missed,) = stage.missed
    assert missed.count == days * a_day - 1  # and the one that is due now runs
    step_ms = 24 * 60 * MINUTE_MS // a_day
    assert (missed.nominal_ms, missed.until_ms) == (BEGIN_MS + step_ms, stage.clock.ms - step_ms)


def test_others_write_while_the_missed_times_are_counted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year of minutes takes seconds: no transaction is open meanwhile."""
    stage.take(entry(cron="* * * * *")).tick()
    with Bus.open(stage.bus.layout.directory, write_timeout_s=0.05) as other:

        def counted(*args: Any) -> Iterator[int]:
            other.publish("note", from_agent="other")
            yield from times_until(*args)

        before = other.log.newest_seq()
        monkeypatch.setattr(firing_module, "times_until", counted)
        stage.tick(60)
        assert other.log.newest_seq() == before + 2  # the note, and the job
    assert [each[0] for each in stage.told()] == ["missed", "fired"]


def test_catching_up_has_a_cap_and_an_age(stage: Stage) -> None:
    everything = {"catch_up": "run_all", "if_running": "queue"}
    stage.take(entry(5, catch_up_max=4, **everything), max_outstanding_polls=99).tick()
    stage.tick(300.5)
    assert [each for each in stage.told() if each[0] == "missed"] == [("missed", 5, 55)]
    assert stage.jobs() == 1 + 4 + 1
    young = entry(5, id="young", catch_up_age_s=600.0, **everything)
    stage.take(young, max_outstanding_polls=99).tick()
    stage.tick(300.5)
    fired = [minute for verdict, minute, _ in stage.told("young") if verdict == "fired"]
    assert fired[1:] == [300 + 295, 300 + 300]


@pytest.mark.requirement("D-48")
@pytest.mark.parametrize(
    ("policy", "states"),
    [
        ("skip", ["queued"]),
        ("queue", ["queued", "queued"]),
        ("cancel", ["cancelled", "queued"]),
    ],
)
def test_overlap_goes_by_the_policy(stage: Stage, policy: str, states: list[str]) -> None:
    stage.take(entry(5, if_running=policy, command="sync")).tick()
    stage.tick(5)
    found = file_of(stage.bus).rows("SELECT state FROM jobs ORDER BY seq")
    assert [state for (state,) in found] == states
    assert [verdict for verdict, _, _ in stage.told()] == [
        "fired",
        "skipped" if policy == "skip" else "fired",
    ]


def by_another(stage: Stage, command: str) -> None:
    request = JobRequest(plugin="feed", command=command, submitted_by="cli")
    assert isinstance(Submission(stage.bus).submit(request), Submitted)


def open_breaker(stage: Stage) -> str:
    stage.work(ok=False)
    by_another(stage, "poll")
    (running,) = stage.claims()
    assert running.message.headers["submitted_by"] == "cli"
    return "the circuit breaker is open"


def full_queue(stage: Stage) -> str:
    assert len(stage.claims()) == 1
    stage.queue.jobs.limit(1)
    by_another(stage, "handle")
    return "queue 'plugin.feed' is full"


def job_there(stage: Stage) -> str:
    stage.work()
    stage.clock.go(5)
    stage.by_hand.backfill("feed", "default", stage.clock.ms, stage.clock.ms)
    assert len(stage.claims()) == 1
    stage.clock.go(-5)
    return "job "


@pytest.mark.parametrize("make", [open_breaker, full_queue, job_there])
def test_no_job_is_cancelled_where_none_begins(stage: Stage, make: Callable[[Stage], str]) -> None:
    stage.take(entry(5, if_running="cancel"), circuit_breaker=BreakerConfig(threshold=1)).tick()
    reason = make(stage)
    stage.tick(5)
    assert stage.told() == [("fired", 0, 1), ("skipped", 5, 1)]
    assert stage.reasons()[-1].startswith(reason)
    states = file_of(stage.bus).rows("SELECT state FROM jobs ORDER BY seq")
    assert ("running",) in states
    assert ("cancelled",) not in states


def test_cancelled_jobs_leave_their_places_to_the_next(stage: Stage) -> None:
    """A queue and a poll guard that are full of them are not full."""
    stage.take(entry(5, if_running="cancel")).tick()
    stage.queue.jobs.limit(1)
    stage.tick(5)
    assert stage.told() == [("fired", 0, 1), ("fired", 5, 1)]


@pytest.mark.requirement("D-49", "X-35")
def test_the_poll_guard_is_the_upper_bound(stage: Stage) -> None:
    stage.take(entry(5, if_running="queue"), max_outstanding_polls=2).tick()
    stage.tick(5)
    stage.tick(5)
    assert [verdict for verdict, _, _ in stage.told()] == ["fired", "fired", "skipped"]
    assert "max_outstanding_polls 2" in stage.reasons()[-1]
    stage.work()
    stage.tick(5)
    assert stage.told()[-1][0] == "fired"


@pytest.mark.requirement("D-50")
@pytest.mark.parametrize("single", [{"at_ms": BEGIN_MS + 3 * MINUTE_MS}, {"after_s": 180.0}])
def test_a_single_time_comes_once_also_after_a_restart(
    stage: Stage, single: dict[str, object]
) -> None:
    stage.take(entry(**single))
    assert stage.tick() == BEGIN_MS + 3 * MINUTE_MS
    assert stage.tick(3) is None
    for _ in range(2):
        stage.begin()
        stage.take(entry(**single))
        assert stage.tick(10) is None
    stage.take()  # gone, and there again
    stage.take(entry(**single))
    assert stage.tick(10) is None
    assert stage.told() == [("fired", 3, 1)]


@pytest.mark.requirement("D-43", "D-45")
def test_times_outside_of_the_window_are_skipped_with_the_reason(stage: Stage) -> None:
    hour = datetime.fromtimestamp(BEGIN_MS / 1000, ZoneInfo("UTC")).hour
    shut = Window(start_minute=(hour + 2) % 24 * 60, end_minute=(hour + 4) % 24 * 60)
    stage.take(entry(5, only_between=shut, timezone="UTC")).tick()
    assert stage.told() == [("skipped", 0, 1)]
    assert stage.reasons()[0].startswith("only between")
    stage.tick(5)
    assert stage.told() == [("skipped", 0, 1), ("skipped", 5, 1)]
    assert stage.jobs() == 0


@pytest.mark.requirement("D-75", "D-76", "D-77")
def test_an_open_breaker_keeps_polls_back_until_one_probe(stage: Stage) -> None:
    rule = BreakerConfig(threshold=3, reset_after_s=1800.0)
    stage.take(entry(5), circuit_breaker=rule).tick()
    for _ in range(2):
        stage.work(ok=False)
        stage.tick(5)
    stage.work(ok=False)
    stage.tick(5)
    assert stage.reasons()[-1] == "the circuit breaker is open"
    for _ in range(5):
        stage.tick(5)
    assert stage.told()[-1][0] == "fired"  # the probe
    stage.tick(5)
    assert stage.told()[-1][0] == "skipped"
    assert stage.work(ok=True) == 1
    stage.tick(5)
    assert stage.told()[-1][0] == "fired"


def test_a_failing_poll_waits_for_its_interval(stage: Stage) -> None:
    """It isn't due at every tick because nothing has succeeded yet."""
    stage.take(entry(60)).tick()
    stage.work(ok=False)
    for _ in range(10):
        stage.tick(5)
    assert stage.told() == [("fired", 0, 1)]


def test_pausing_runs_nothing_and_resuming_not_at_once(stage: Stage) -> None:
    stage.take(entry(5)).tick()
    stage.work()
    stage.by_hand.pause("feed", "default")
    assert stage.tick(33) is None
    stage.by_hand.resume("feed", "default")
    stage.tick()
    assert stage.told() == [("fired", 0, 1), ("skipped", 5, 6)]
    assert stage.reasons()[-1] == "it was paused"
    stage.tick(5)
    assert stage.told()[-1] == ("fired", 38, 1)
    with pytest.raises(NotFound, match="no schedule 'nope'"):
        stage.by_hand.pause("feed", "nope")


def test_an_edited_schedule_neither_replays_nor_stops(stage: Stage) -> None:
    stage.take(entry(60)).tick()
    stage.work()
    stage.clock.go(10)
    stage.take(entry(30)).tick()
    assert stage.told() == [("fired", 0, 1)]
    stage.tick(20)
    assert stage.told()[-1] == ("fired", 30, 1)
    stage.work()
    stage.take(entry(cron="0 0 * * *", timezone="UTC")).tick()
    next_ms = Schedules.of(stage.bus).next_due()
    assert next_ms is not None
    assert next_ms > stage.clock.ms


def test_running_by_hand_leaves_the_times_as_they_are(stage: Stage) -> None:
    stage.take(entry(5)).tick()
    stage.work()
    stage.clock.go(2)
    assert stage.by_hand.run_now("feed", "default").reason == "by hand"
    assert stage.by_hand.run_now("feed", "default").job_id
    assert stage.work() == 2
    assert stage.tick() == BEGIN_MS + 5 * MINUTE_MS


def test_backfilling_begins_what_did_not_run_once(stage: Stage) -> None:
    stage.take(entry(5)).tick()
    stage.tick(31)
    assert stage.told()[1:] == [("missed", 5, 5), ("skipped", 30, 1)]
    span = ("feed", "default", BEGIN_MS + 5 * MINUTE_MS, BEGIN_MS + 25 * MINUTE_MS)
    assert [job for _, job in stage.by_hand.backfill(*span, dry_run=True)] == [None] * 5
    begun = stage.by_hand.backfill(*span)
    assert len({job for _, job in begun}) == 5
    assert [job for _, job in stage.by_hand.backfill(*span)] == [None] * 5
    assert stage.jobs() == 1 + 5


def test_a_clock_set_back_repeats_nothing_and_stops_nothing(stage: Stage) -> None:
    """Promise 1."""
    stage.take(entry(5), entry(cron="*/10 * * * *", id="cron", timezone="UTC")).tick()
    for _ in range(12):
        stage.tick(5)
        stage.work()
    before = stage.told("cron")
    stage.clock.go(-60)
    next_ms = stage.tick()
    assert next_ms is not None
    assert next_ms <= stage.clock.ms + 5 * MINUTE_MS + 1000
    for _ in range(14):
        stage.tick(5)
        stage.work()
    fired = [minute for verdict, minute, _ in stage.told("cron") if verdict == "fired"]
    assert len(fired) == len(set(fired))
    assert {minute for _, minute, _ in before} < set(fired)  # also what was skipped before


def test_a_clock_set_back_twice_meets_times_that_are_decided_and_goes_on(stage: Stage) -> None:
    """An interval that was brought nearer comes upon times of an earlier pass of the clock."""
    stage.take(entry(5)).tick()
    for _ in range(13):
        stage.work()
        stage.tick(5)  # until minute 65
    stage.clock.go(-30)
    stage.tick()
    for _ in range(8):
        stage.work()
        stage.tick(5)  # from minute 40 on, a millisecond later than before
    stage.clock.go(-60)
    stage.clock.ms += 1
    stage.tick()
    for _ in range(14):
        stage.work()
        stage.clock.go(5)
        next_ms = stage.tick()
        assert next_ms is not None
        assert next_ms <= stage.clock.ms + 5 * MINUTE_MS + 1000
    times = [each.nominal_ms for each in Decisions.of(stage.bus).about("feed", "default", limit=99)]
    assert len(times) == len(set(times)) > 13 + 8 + 10
    assert stage.jobs() == len(times)


def test_times_that_were_decided_before_a_schedule_was_removed_are_passed(stage: Stage) -> None:
    """It is configured again after the clock was set back, and nobody is there for some minutes."""
    stage.clock.go(10 - BEGIN_MS // MINUTE_MS % 10)
    cron = entry(cron="*/10 * * * *", timezone="UTC")
    stage.take(cron)
    for _ in range(6):
        stage.tick(10)
        stage.work()
    before = stage.told()
    stage.take()
    stage.clock.go(-60)
    stage.take(cron)
    stage.tick(35)  # three of these times are decided, and three of the next six
    assert stage.told() == before
    stage.tick(60)
    stage.tick(5)
    after = stage.told()[len(before) :]
    assert [(verdict, count) for verdict, _, count in after] == [("missed", 3), ("fired", 1)]
    times = [each.nominal_ms for each in Decisions.of(stage.bus).about("feed", "default", limit=99)]
    assert len(times) == len(set(times)) == 8


def test_a_clock_set_forward_a_day_floods_nothing(stage: Stage) -> None:
    stage.take(entry(5, catch_up="run_once")).tick()
    stage.work()
    stage.tick(24 * 60)
    assert stage.jobs() == 2


def test_a_tick_that_is_undone_is_decided_again(stage: Stage) -> None:
    """A decision and its job are one transaction."""
    stage.take(entry(5))

    def fail(*args: object, **fields: object) -> None:
        raise RuntimeError("cut off")

    decisions = stage.scheduler._starts._decisions
    decide = decisions.add
    decisions.add = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(RuntimeError):
        stage.tick()
    assert stage.jobs() == 0
    decisions.add = decide  # type: ignore[method-assign]
    stage.tick()
    assert (stage.jobs(), stage.told()) == (1, [("fired", 0, 1)])


def test_two_schedulers_decide_each_time_once(stage: Stage) -> None:
    """The lock of the service keeps a second one away; the rows would, too."""
    stage.take(entry(5))
    first = stage.scheduler
    stage.begin()
    stage.take(entry(5))
    for _ in range(10):
        first.tick()
        stage.scheduler.tick()
        stage.work()
        stage.clock.go(5)
    assert stage.told() == [("fired", 5 * n, 1) for n in range(10)]


def test_a_disabled_plugin_has_no_schedule(stage: Stage) -> None:
    stage.take(entry(5)).tick()
    stage.work()
    stage.take(entry(5), enabled=False)
    assert stage.tick(30) is None
    assert stage.told() == [("fired", 0, 1)]


def test_a_schedule_of_a_disabled_plugin_is_not_run_by_hand(stage: Stage) -> None:
    """Also while the service, which has not taken the configuration yet, goes on with it."""
    stage.take(entry(5)).tick()
    plugin = PluginConfig(name="feed", uses="feed", enabled=False, schedules=(entry(5),))
    config = Config(directory=stage.bus.layout.directory, plugins=Frozen({"feed": plugin}))  # type: ignore[arg-type]
    assert config.schedules() == {}
    with pytest.raises(NotFound, match="no schedule 'default'"):
        ScheduleControl(stage.bus, Submission(stage.bus), config).run_now("feed", "default")
    assert stage.jobs() == 1


@pytest.fixture
def other(stage: Stage) -> ScheduleEntry:
    """A schedule of another plugin, whose queue is there."""
    stage.make_queue("other")
    return entry(5, plugin="other")


@pytest.mark.parametrize("first", ["feed", "other"])
def test_a_full_queue_keeps_no_other_schedule_back(
    stage: Stage, other: ScheduleEntry, first: str
) -> None:
    """Neither those that are decided before it nor those after it."""
    both = sorted([entry(5, command="sync"), other], key=lambda each: each.plugin != first)
    stage.queue.jobs.limit(1)
    by_another(stage, "handle")
    stage.take_all(*both).tick()
    assert stage.told() == [("skipped", 0, 1)]
    assert stage.reasons()[0].startswith("queue 'plugin.feed' is full")
    assert stage.told(plugin="other") == [("fired", 0, 1)]
    stage.work()
    stage.tick(5)
    assert stage.told()[-1] == ("fired", 5, 1)


def test_a_queue_that_was_removed_keeps_no_other_schedule_back(
    stage: Stage, other: ScheduleEntry
) -> None:
    stage.take_all(entry(5), other).tick()
    stage.work()
    remove_queue(stage.bus, "plugin.feed")
    stage.tick(5)
    assert stage.told()[1:] == [("skipped", 5, 1)]
    assert stage.reasons()[1].startswith("there is no plugin 'feed' in use")
    assert [minute for _, minute, _ in stage.told(plugin="other")] == [0, 5]
    stage.make_queue("feed", start="now")
    stage.tick(5)
    assert stage.told()[2:] == [("fired", 10, 1)]
    assert [claim.message.type for claim in stage.claims()] == ["plugin.feed.poll"]


def test_missed_times_are_decided_also_where_nobody_can_be_told(stage: Stage) -> None:
    stage.take(entry(5)).tick()
    stage.work()

    def refuse(entry: ScheduleEntry, decision: Decision) -> None:
        stage.bus.publish("told", {}, from_agent="test")
        raise NotFound("there is no plugin 'alarm' in use")

    stage.scheduler._on_missed = refuse
    stage.tick(15.5)
    assert stage.told()[1:] == [("missed", 5, 2), ("fired", 15, 1)]
    assert not list(stage.bus.log.read(type="told"))
