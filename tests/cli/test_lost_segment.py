"""A part of the archive is lost: what goes on all the same, and how queues go on after it."""

import json
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Queue

from ..conftest import RunBus

pytestmark = pytest.mark.usefixtures("bus_dir")


@pytest.fixture
def lossy(bus: Bus) -> Bus:
    """Requests 1 to 10, which a queue `early` has taken in."""
    bus.publish_many(Draft("make.request", n, from_agent="lead") for n in range(1, 11))
    Queue.create(bus, "early", "make.request").fill()
    return bus


@pytest.fixture
def lost(lossy: Bus, run_bus: RunBus) -> Path:
    """The segment with the messages 1 to 5, before it was removed."""
    archived = run_bus(
        "archive", "--before", "6", "--idle-after", "0s", "--pass-over-idle", "--json"
    )
    assert json.loads(archived.out)["to"] == 5
    path = Path(lossy.archive.path(lossy.archive.segments()[0]))
    path.unlink()
    assert run_bus("queue", "create", "late", "--type", "make.request").code == 0
    return path


@pytest.mark.slow
def test_lists_show_healthy_queues_and_say_which_one_is_stuck(run_bus: RunBus, lost: Path) -> None:
    why = f"bus: queue 'late' can't take in more: messages 1 to 5 are in {lost}, which can't be"
    for command in (
        ("queue", "list"),
        ("job", "list"),
        ("dead", "list"),
        ("queue", "show", "late"),
    ):
        ended = run_bus(*command)
        assert ended.code == 1, ended
        (line,) = ended.err.splitlines()
        assert line.startswith(why)
        assert line.endswith("put it back, or skip them: 'bus queue skip late'")
    early, late = map(json.loads, run_bus("queue", "list", "--json").out.splitlines())
    assert (early["state"], early["waiting"], early["stuck"]) == ("open", 10, None)
    assert (late["state"], late["waiting"]) == ("stuck", 0)
    assert late["stuck"] == run_bus("queue", "show", "late").err[len("bus: ") : -1]
    assert len(run_bus("job", "list", "--queue", "early").out.splitlines()) == 11
    assert run_bus("archive", "--dry-run").code == 0


@pytest.mark.slow
def test_stuck_queue_goes_on_when_told_to(run_bus: RunBus, lost: Path) -> None:
    worked = run_bus("run", "--queue", "late", "--drain", "--", "cat")
    assert (worked.code, "bus queue skip late" in worked.err) == (1, True)
    assert run_bus("limit", "set", "20", "--queue", "late").code == 1
    skipped = run_bus("queue", "skip", "late")
    assert (skipped.code, skipped.out, skipped.err) == (0, "skipped messages 1 to 5\n", "")
    assert run_bus("queue", "skip", "late").code == 4
    listed = run_bus("job", "list", "--queue", "late", "--json")
    assert [json.loads(line)["seq"] for line in listed.out.splitlines()] == [10, 9, 8, 7, 6]
    assert (listed.code, listed.err) == (0, "")
    assert run_bus("run", "--queue", "late", "--drain", "--", "cat").code == 0


def test_queue_takes_in_what_stands_before_the_gap(run_bus: RunBus, lossy: Bus) -> None:
    for before in ("4", "8"):
        run_bus("archive", "--before", before, "--idle-after", "0s", "--pass-over-idle")
    Path(lossy.archive.path(lossy.archive.segments()[1])).unlink()
    queue = Queue.create(lossy, "late", "make.request")
    assert [claim.message.seq for claim in queue.claim("worker", limit=8)] == [1, 2, 3]
    assert run_bus("queue", "skip", "late", "--json").out == (
        '{"queue":"late","first_seq":4,"last_seq":7}\n'
    )
    assert [claim.message.seq for claim in queue.claim("worker", limit=8)] == [8, 9, 10]


def test_limit_counts_what_waits_after_a_skip(run_bus: RunBus, lossy: Bus) -> None:
    assert run_bus("queue", "create", "late", "--type", "other").code == 0
    assert run_bus("limit", "set", "20", "--queue", "late").code == 0
    lossy.publish_many(Draft("other", n, from_agent="lead") for n in range(4))
    run_bus("archive", "--before", "13", "--idle-after", "0s", "--pass-over-idle")
    Path(lossy.archive.path(lossy.archive.segments()[0])).unlink()
    assert run_bus("queue", "skip", "late").code == 0
    (limit,) = lossy.limits.list()
    assert limit.waiting == 2


def test_hints_repeat_the_option_that_named_the_bus(
    run_bus: RunBus, lost: Path, bus_dir: Path, tmp_path: Path
) -> None:
    for name, hint in (("late", "queue skip late"), ("early", "job cancel 1 --queue early")):
        command = ("run", "--queue", name, "--drain", "--dir", bus_dir, "--", "cat")
        assert f": 'bus {hint} --dir {bus_dir}'" in run_bus(*command, cwd=tmp_path).err


def test_jobs_whose_messages_are_lost_can_be_given_up(run_bus: RunBus, lost: Path) -> None:
    worked = run_bus("run", "--queue", "early", "--drain", "--", "cat")
    assert (worked.code, worked.out) == (1, "")
    assert "put it back, or give the job up: 'bus job cancel 1 --queue early'" in worked.err
    row = run_bus("job", "list", "--queue", "early").out.splitlines()[-1]
    assert row.split()[:4] == ["early", "1", "?", "queued"]
    assert run_bus("job", "cancel", "1", "2", "--queue", "early").out == "cancelled 2 jobs\n"
    assert run_bus("queue", "purge", "early").out == "cancelled 8 jobs\n"


def test_notices_go_on_after_it(run_bus: RunBus, lost: Path) -> None:
    told = run_bus("notify", "--once")
    assert (told.code, told.err.count("no notices of answers there: messages 1 to 5")) == (0, 1)
    assert run_bus("notify", "--once").err == ""
