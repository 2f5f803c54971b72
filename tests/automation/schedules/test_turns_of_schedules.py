"""Schedules of one command take turns, and those that never fire are told."""

import random
from collections.abc import Callable
from itertools import product

import pytest

from ackbus.automation import attention
from ackbus.automation.attention import checks_of
from ackbus.automation.config.models import BreakerConfig, ScheduleEntry, Window
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted
from ackbus.automation.records.facts import Fence
from ackbus.automation.schedules.tables import Schedules
from ackbus.automation.status import status_of
from ackbus.schema.queries import file_of

from ...sizes import sampled, size
from .stage import BEGIN_MS, MINUTE_MS, Stage, entry


def live(stage: Stage, minutes: float, job_minutes: float, step: float = 0.5) -> None:
    """Lets time pass, in which each job takes so long, as if one worker did them."""
    end_ms = stage.clock.ms + round(minutes * MINUTE_MS)
    begun_ms: int | None = None
    claims = []
    while stage.clock.ms < end_ms:
        stage.tick()
        if begun_ms is not None and stage.clock.ms >= begun_ms + job_minutes * MINUTE_MS:
            for claim in claims:
                stage.queue.complete(claim)
            begun_ms = None
            stage.scheduler.give_turns()
        if begun_ms is None and (claims := stage.claims()):
            begun_ms = stage.clock.ms
        stage.clock.go(step)
    stage.work()
    for claim in claims if begun_ms is not None else ():
        stage.queue.complete(claim)


def fired(stage: Stage, id: str) -> list[int]:
    return [minute for verdict, minute, _ in stage.told(id) if verdict == "fired"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "job_minutes", "command"),
    sampled(product([2, 3], [0.5, 2, 4, 5, 6, 12], ["poll", "sync"]), every=5),
)
def test_equal_schedules_of_one_command_fire_as_often_as_one_another(
    stage: Stage, command: str, job_minutes: float, count: int
) -> None:
    stage.take(*[entry(5, id=name, command=command) for name in "abc"[:count]])
    live(stage, 120, job_minutes)
    times = [len(fired(stage, name)) for name in "abc"[:count]]
    assert min(times) >= 2
    assert min(times) > max(times) / 2  # one whose own job runs when it is due is skipped


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(size(sample=3, whole=8)))
def test_no_schedule_of_a_command_starves_whatever_the_others_are(stage: Stage, seed: int) -> None:
    """Rules, intervals and policies at random: each fires, and no job overlaps another."""
    draw = random.Random(seed)
    made: list[Callable[[str], ScheduleEntry]] = [
        lambda id: entry(draw.choice([1, 2, 5]), id=id, if_running=draw.choice(["skip", "queue"])),
        lambda id: entry(cron="*/10 * * * *", timezone="UTC", id=id),
        lambda id: entry(at_ms=BEGIN_MS + 20 * MINUTE_MS, id=id),
        lambda id: entry(after_s=600.0, id=id),
    ]
    entries = [draw.choice(made)(f"s{n}") for n in range(4)] + [made[0]("last")]
    stage.take(*entries)
    live(stage, 150, draw.choice([1, 3, 7]))
    for each in entries:
        assert fired(stage, each.id), (each, stage.told(each.id))
        minutes = [(minute, n) for verdict, minute, n in stage.told(each.id)]
        assert len(minutes) == len(set(minutes))


def test_schedule_waits_for_the_job_of_another_and_goes_first_when_that_is_over(
    stage: Stage,
) -> None:
    stage.take(entry(5, id="a"), entry(5, id="b")).tick()
    stage.tick(1)
    assert (stage.told("a"), stage.told("b")) == ([("fired", 0, 1)], [])
    (known,) = Schedules.of(stage.bus).waiting(stage.clock.ms)
    assert (known.id, known.waiting_ms) == ("b", BEGIN_MS + MINUTE_MS)
    stage.work()
    stage.begin()  # a new process knows it
    stage.take(entry(5, id="a"), entry(5, id="b")).tick()
    assert stage.told("b") == [("fired", 1, 1)]
    assert stage.reasons("b") == ["its turn has come"]
    stage.tick(5)
    assert stage.told("a")[1:] == []  # it waits for the job of b
    stage.work()
    assert stage.scheduler.give_turns()
    assert stage.told("a")[1:] == [("fired", 5, 1)]


def test_time_that_waits_is_skipped_when_the_next_one_comes(stage: Stage) -> None:
    stage.take(entry(5, id="a"), entry(5, id="b")).tick()
    for _ in range(11):
        stage.tick(1)
    assert stage.told("b") == [("skipped", 1, 1), ("skipped", 6, 1)]
    assert stage.reasons("b") == ["its turn did not come before its next time"] * 2
    stage.by_hand.pause("feed", "b")
    assert stage.told("b")[2:] == [("skipped", 11, 1)]
    stage.work()
    assert not stage.scheduler.give_turns()


def test_time_that_waits_outside_of_its_window_is_skipped(stage: Stage) -> None:
    minute = BEGIN_MS // MINUTE_MS % (24 * 60)
    window = Window(start_minute=minute, end_minute=(minute + 3) % (24 * 60))
    stage.take(entry(60, id="a"), entry(60, id="b", only_between=window, timezone="UTC")).tick()
    stage.tick(1)
    stage.clock.go(4)
    stage.work()
    stage.tick()
    assert [each[0] for each in stage.told("b")] == ["skipped"]
    assert stage.reasons("b")[0].startswith("only between")


@pytest.mark.parametrize("policy", ["skip", "queue", "cancel"])
@pytest.mark.parametrize("command", ["poll", "sync"])
def test_all_missed_times_are_caught_up_whatever_runs(
    stage: Stage, policy: str, command: str
) -> None:
    """Also where the policy and the poll guard let one job of new times be there."""
    rule = entry(5, catch_up="run_all", catch_up_max=4, if_running=policy, command=command)
    stage.take(rule).tick()
    stage.clock.go(33)  # 5 to 30 go by while nothing runs
    stage.begin()
    stage.take(rule).tick()
    assert stage.told()[1:] == [("missed", 5, 2), *(("fired", n, 1) for n in (15, 20, 25, 30))]
    assert stage.reasons()[2:] == ["catch-up"] * 4
    assert {state for (state,) in _states(stage)} == {"queued"}


def _states(stage: Stage) -> list[tuple[str]]:
    return [(str(state),) for (state,) in file_of(stage.bus).rows("SELECT state FROM jobs")]


def by_another(stage: Stage) -> None:
    request = JobRequest(plugin="feed", command="poll", submitted_by="cli")
    assert isinstance(Submission(stage.bus).submit(request), Submitted)


def test_schedule_that_does_not_fire_some_times_is_in_the_status_and_the_doctor(
    stage: Stage,
) -> None:
    Fence.of(stage.bus).begin(stage.bus.layout.directory, "h")
    by_another(stage)
    stage.take(entry(5))
    for _ in range(attention.STARVES_AFTER - 1):
        stage.tick(5)
    assert attention.starving_schedules(stage.bus) == []
    finding = checks_of(stage.bus)["schedules"]()
    assert (finding.state, finding.text) == ("ok", "none starves")
    stage.tick(5)
    (starving,) = attention.starving_schedules(stage.bus)
    assert str(starving) == (
        "feed.default did not fire 5 times: 1 of its jobs wait or run; if_running skip"
    )
    assert status_of(stage.bus)["starving_schedules"] == [starving.record()]
    finding = checks_of(stage.bus)["schedules"]()
    assert finding.state == "warn"
    assert str(starving) in finding.text
    stage.work()
    stage.tick(5)
    assert attention.starving_schedules(stage.bus) == []


def test_what_keeps_itself_back_does_not_starve(stage: Stage) -> None:
    """Times outside of windows, and those of a pause."""
    minute = BEGIN_MS // MINUTE_MS % (24 * 60)
    window = Window(start_minute=(minute + 600) % (24 * 60), end_minute=(minute + 660) % (24 * 60))
    stage.take(entry(5, only_between=window, timezone="UTC"))
    for _ in range(12):
        stage.tick(5)
    stage.by_hand.pause("feed", "default")
    stage.tick(60)
    stage.by_hand.resume("feed", "default")
    assert attention.starving_schedules(stage.bus) == []


def test_open_breaker_makes_its_schedule_starve(stage: Stage) -> None:
    stage.take(entry(5), circuit_breaker=BreakerConfig(threshold=1, reset_after_s=36_000.0))
    stage.tick()
    stage.work(ok=False)
    for _ in range(5):
        stage.tick(5)
    (starving,) = attention.starving_schedules(stage.bus)
    assert starving.reason == "the circuit breaker is open"


def test_clock_that_is_set_back_lets_nobody_wait_for_long(stage: Stage) -> None:
    """None of them counts as fired later than now."""
    both = entry(5, id="a"), entry(5, id="b")
    stage.take(*both)
    stage.clock.go(24 * 60)
    live(stage, 13, 4)
    stage.clock.go(-24 * 60)
    stage.begin()
    stage.take(*both)
    before = {each.id: len(fired(stage, each.id)) for each in both}
    live(stage, 60, 4)
    gained = [len(fired(stage, each.id)) - before[each.id] for each in both]
    assert min(gained) >= 4, gained


def test_equal_intervals_begin_at_different_times(stage: Stage) -> None:
    entries = [entry(5, id=n) for n in "abc"] + [entry(0.05, id=n) for n in "xy"]
    stage.take(*entries, entry(5, id="other", command="sync"))
    next_ms = {each.id: each.next_nominal_ms for each in Schedules.of(stage.bus).all()}
    begun = {id: (at_ms or 0) - BEGIN_MS for id, at_ms in next_ms.items()}
    assert begun == {"a": 0, "b": 60_000, "c": 120_000, "x": 0, "y": 1_500, "other": 0}
