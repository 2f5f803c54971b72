"""Old records: what goes when it is old, and what stays because something goes by it still."""

from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.automation.config.models import ScheduleEntry
from ackbus.automation.records import facts
from ackbus.automation.routes.flow import Contexts
from ackbus.automation.routes.runs import rerun_request
from ackbus.automation.schedules.tables import Decisions
from ackbus.automation.service import EndedRuns
from ackbus.errors import NotFound
from ackbus.schema.message.times import format_ts, now_ms

from ..conftest import wait_until
from ..subscribers.conftest import Clock
from .conftest import Folder
from .routes.by_hand import ByHand, answers, event, origin, success, with_plugins
from .running import OK, running

FLOW = """
pipelines:
  - {name: p, on: e, steps: [{id: one, uses: b, baggage: {n: payload.n}}, {id: two, uses: c}]}
"""

DAY_MS = 86_400_000

_ANSWERS = answers(a=success(event("e", {"n": 1})))


@pytest.fixture
def run(bus: Bus, folder: Folder) -> ByHand:
    """A pipeline whose first step waits."""
    hand = ByHand(bus, with_plugins(folder, FLOW))
    hand.submit("a")
    hand.step(_ANSWERS)
    return hand


def pruned(bus: Bus) -> int:
    """Prune as if all contexts were old, and return how many went."""
    return EndedRuns(bus).prune(format_ts(now_ms() + DAY_MS), 500)


def test_contexts_of_a_run_stay_until_its_last_job_is_over(bus: Bus, run: ByHand) -> None:
    """Those of the steps before it too."""
    assert pruned(bus) == 0  # the first step waits
    one = run.claim()
    assert one is not None
    assert pruned(bus) == 0  # it runs
    run.endings.store(one, _ANSWERS(one))
    assert pruned(bus) == 0  # the second waits
    two = run.claim()
    assert two is not None
    assert (two.context, pruned(bus)) == ({"n": 1}, 0)
    run.endings.store(two, _ANSWERS(two))
    assert pruned(bus) == 2
    assert pruned(bus) == 0


def test_contexts_of_a_run_stay_while_a_step_is_done_once_more(bus: Bus, run: ByHand) -> None:
    ran = run.run(_ANSWERS)
    run.take_in([rerun_request(bus, ran[0].message.id)])
    assert pruned(bus) == 0
    run.run(_ANSWERS)
    assert pruned(bus) == 3


def test_young_contexts_stay(bus: Bus, run: ByHand) -> None:
    run.run(_ANSWERS)
    assert EndedRuns(bus).prune(format_ts(now_ms() - DAY_MS), 500) == 0
    assert pruned(bus) == 2


def test_job_without_its_context_does_not_begin(bus: Bus, folder: Folder) -> None:
    """It would run as if its pipeline had claimed nothing."""
    with pytest.raises(NotFound, match="there is no context gone any more"):
        Contexts.of(bus).values("gone")
    assert Contexts.of(bus).values(None) == {}
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    folder.plugin("echo", run=OK)
    with running(bus, folder.path) as service:
        job_id = service.submit("echo", context_id="gone")
        job = service.ended(job_id)
        assert (job.state, job.error) == (
            "dead",
            "it can't begin: there is no context gone any more: its run ended long ago",
        )


@pytest.mark.requirement("D-141")
def test_old_decisions_go_but_the_last_of_each_schedule(bus_dir: Path) -> None:
    clock = Clock()
    with Bus.open(bus_dir, clock=clock) as bus:
        decisions = Decisions.of(bus)
        often = ScheduleEntry(plugin="a", every_s=60.0, hash="h")
        before = ScheduleEntry(plugin="a", every_s=90.0, hash="old")
        once = ScheduleEntry(plugin="a", id="once", at_ms=clock(), hash="o")
        for entry in (before, often, once):
            decisions.add(entry, clock(), "fired")
        decisions.add(often, clock() + 1, "skipped")
        clock.advance(3600)
        decisions.add(often, clock(), "fired")
        decisions.add(often, clock() + 1, "fired")
        assert decisions.prune(format_ts(clock()), 1) == 1
        assert decisions.prune(format_ts(clock()), 500) == 1
        assert decisions.prune(format_ts(clock()), 500) == 0
        assert decisions.has_any(once)  # a single time is not decided again
        assert decisions.has_any(before)
        assert [each.nominal_ms for each in decisions.about("a", "default", limit=9)] == [
            *(clock() + 1, clock(), clock() - 3_600_000),
        ]


def test_service_prunes_decisions_and_contexts(bus: Bus, run: ByHand, folder: Folder) -> None:
    entry = ScheduleEntry(plugin="a", every_s=60.0, hash="h")
    decisions = Decisions.of(bus)
    for number in range(3):
        decisions.add(entry, number, "fired")
    ran = run.run(_ANSWERS)
    assert origin(ran[0].message)["context_id"] == ran[0].message.id
    config = folder.path / "config.yaml"
    short = "service: {job_log_retention: 1s, tick_interval: 100ms}\n"
    config.write_text(short + config.read_text())
    with running(bus, folder.path):
        wait_until(lambda: len(decisions.about("a", "default", limit=9)) == 1)
        wait_until(lambda: run.contexts.get(ran[0].message.id) is None)


def test_retention_of_jobs_is_told_to_have_no_effect(folder: Folder) -> None:
    folder.write(config="service: {job_queue_retention: 7d}\n")
    (warning,) = (each for each in folder.load().warnings if each.line == 1)
    assert warning.path == "service.job_queue_retention"
    assert warning.message == (
        "jobs stay in the log, which 'bus archive' keeps small; this has no effect"
    )


def test_output_of_old_failed_attempts_goes_as_new_ones_are_logged(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much each prints, what is kept of a plugin that always fails has a bound."""
    monkeypatch.setattr(facts, "KEPT_OUTPUTS", 5)
    log = facts.JobLog.of(bus)
    (receipt,) = bus.log.append([Draft("plugin.a.poll", from_agent="a")])
    message = bus.get(receipt.seq)
    assert message is not None
    for token in range(1, 41):
        status = "succeeded" if token % 4 == 0 else "failed"
        end = facts.AttemptEnd(
            message=message,
            plugin="a",
            command="poll",
            status=status,
            attempt=1,
            token=token,
            stdout="o" * 1000,
            stderr="e" * 1000,
            error=None if status == "succeeded" else "it failed",
        )
        log.add(end)
    entries = log.of_job(message.id)
    assert len(entries) == 40
    kept = [each for each in entries if each.result is not None]
    failed = [each for each in kept if each.status == "failed"]
    assert 0 < len(failed) <= 5
    assert [each.id for each in kept if each.status == "succeeded"] == [
        each.id for each in entries if each.status == "succeeded"
    ]
    assert all(each.last_error for each in entries if each.status == "failed")
