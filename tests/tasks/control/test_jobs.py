"""Jobs: budgets, targets, ends, output and workers."""

import json
from typing import Any

import pytest

from ackbus import Bus
from ackbus.errors import InvalidInput, NotFound
from ackbus.subscribers.queues.queue_set import QueueWorkers
from ackbus.tasks.agent_program import OutputLine
from ackbus.tasks.control.entries import NotClaimed
from ackbus.tasks.control.jobs import JobQueue
from ackbus.tasks.control.status import WorkerRow, WorkerTable, pick_worker
from ackbus.tasks.records.worker_details import KEPT_MS

from ...subscribers.conftest import Clock
from .conftest import Told, add, taken
from .test_requests import KEYS as REQUEST_KEYS
from .test_requests import rows

KEYS = {
    *(set(REQUEST_KEYS) - {"prompt", "agentId"}),
    *("taskId", "kind", "params", "executionBudgetMs", "finalizationBudgetMs", "workerId"),
    *("targetWorkerId", "startedAt", "firstLogAt"),
}


def row(jobs: JobQueue, id: str) -> dict[str, Any]:
    entry = jobs.entries.get(id)
    assert entry is not None
    return jobs.row(entry)


def test_u_40_a_job_has_exactly_these_keys(jobs: JobQueue, bus: Bus, clock: Clock) -> None:
    """U-40, U-09: by the library and by the view, which agree on every value."""
    done, bad = add(jobs, params={"a": [1, "ä"]}), add(jobs, targetWorkerId="w2")
    taken(jobs, "w1")
    taken(jobs, "w2")
    clock.advance(1)
    jobs.log(done, "line")
    clock.advance(1)
    jobs.complete(done, {"summary": "it works", "artifacts": [], "other": 1})
    jobs.fail(bad, "no", "why")
    add(jobs, "background")
    found = [jobs.row(entry) for entry in jobs.entries.list()]
    assert [set(each) for each in found] == [KEYS] * 3
    view = {str(each["id"]): each for each in rows(bus, "pushpals_jobs")}
    assert view == {str(each["id"]): each for each in found}
    assert (view[done]["durationMs"], view[done]["params"]) == (2_000, '{"a":[1,"ä"]}')
    assert json.loads(view[done]["result"]) == {"summary": "it works", "artifacts": "[]"}


def test_u_41_budgets_by_tier_and_from_the_plan(jobs: JobQueue) -> None:
    """U-41: defaults, then `params.planning`, and a floor of 1,000."""
    names = ("queueWaitBudgetMs", "executionBudgetMs", "finalizationBudgetMs")
    defaults = {
        "interactive": (20_000, 300_000, 120_000),
        "normal": (90_000, 900_000, 120_000),
        "background": (240_000, 1_800_000, 120_000),
    }
    for word, expected in defaults.items():
        found = row(jobs, add(jobs, word))
        assert tuple(found[name] for name in names) == expected
    planned = {"planning": dict(zip(names, (5, "70000", 3_000.7), strict=True))}
    found = row(jobs, add(jobs, params=planned))
    assert tuple(found[name] for name in names) == (1_000, 70_000, 3_000)
    found = row(jobs, add(jobs, params=planned, executionBudgetMs=4_000))
    assert found["executionBudgetMs"] == 4_000


@pytest.mark.parametrize("body", [{}, {"taskId": "t"}, {"kind": "k"}, {"taskId": "", "kind": "k"}])
def test_u_42_a_job_needs_task_and_kind(jobs: JobQueue, body: dict[str, Any]) -> None:
    """U-42: else there is no row."""
    with pytest.raises(InvalidInput, match="taskId and kind are required"):
        jobs.enqueue(body)
    assert jobs.entries.list() == []


def test_u_43_own_target_first_and_never_another_ones(jobs: JobQueue) -> None:
    """U-43: w1 gets what is for anybody, w2 its own first."""
    own = add(jobs, "background", targetWorkerId="w2")
    anybody = [add(jobs, "interactive"), add(jobs, "interactive")]
    assert taken(jobs, "w1") == anybody[0]
    assert taken(jobs, "w2") == own
    assert taken(jobs, "w2") == anybody[1]
    add(jobs, targetWorkerId="w3")
    assert taken(jobs, "w2") is None


def test_u_44_ends_have_durations_and_free_the_worker(
    jobs: JobQueue, workers: WorkerTable, clock: Clock
) -> None:
    """U-44: a worker is idle when it has no other job."""
    first, second = add(jobs), add(jobs)
    assert [taken(jobs, "w1"), taken(jobs, "w1")] == [first, second]
    assert _state(workers) == [("w1", "busy", 2)]
    clock.advance(3)
    assert jobs.complete(first, {"summary": "s"}).duration_ms() == 3_000
    assert _state(workers) == [("w1", "busy", 1)]
    jobs.fail(second, "no")
    assert _state(workers) == [("w1", "idle", 0)]
    with pytest.raises(NotClaimed):
        jobs.complete(second, {})


def _state(workers: WorkerTable) -> list[tuple[str, str, int]]:
    return [(each.worker, each.status, each.active) for each in workers.list()]


def test_u_45_a_failure_is_told_to_the_session_once(jobs: JobQueue, told: Told) -> None:
    """U-45: with message and detail."""
    id = add(jobs)
    taken(jobs, "w1")
    jobs.fail(id, "no", "why")
    with pytest.raises(NotClaimed):
        jobs.fail(id, "no", "why")
    assert told.events == [("s1", "job_failed", {"jobId": id, "message": "no", "detail": "why"})]


def test_u_46_output_is_read_by_a_cursor_while_the_job_runs(jobs: JobQueue, clock: Clock) -> None:
    """U-46: the first line sets firstLogAt; blank lines are refused."""
    id, other = add(jobs), add(jobs)
    taken(jobs, "w1")
    assert row(jobs, id)["firstLogAt"] is None
    begun = row(jobs, id)["startedAt"]
    for number in range(7):
        jobs.log(id, f" line {number} ")
        jobs.log(other, "of another job")
        clock.advance(1)
    assert row(jobs, id)["firstLogAt"] == begun
    seen, after = [], 0
    while page := jobs.logs(id, after, limit=3):
        seen += [line.text for line in page]
        after = page[-1].id
    assert seen == [f"line {number}" for number in range(7)]
    assert [line.text for line in jobs.logs(id, limit=2)] == ["line 5", "line 6"]
    for blank in ("", "  \n", None, 7):
        with pytest.raises(InvalidInput, match="message is required"):
            jobs.log(id, blank)
    with pytest.raises(NotFound, match="there is no job"):
        jobs.log("none", "x")


def test_u_47_lines_of_a_worker_are_stored_with_stream_and_number(jobs: JobQueue) -> None:
    """U-47: as a worker of this bus hands them on; its repeats are dropped before."""
    id = add(jobs)
    entry = jobs.entries.get(id)
    assert entry is not None
    lines = [
        OutputLine("stdout", 1, "x"),
        OutputLine("stderr", 1, "\udce4"),
        OutputLine("stdout", 2, "y"),
    ]
    assert jobs.output.add(entry.message.seq, lines) == [1, 2, 3]
    stored = [(line.stream, line.number, line.text) for line in jobs.logs(id)]
    assert stored == [("stdout", 1, "x"), ("stderr", 1, "\\udce4"), ("stdout", 2, "y")]


def test_old_output_is_pruned_and_the_first_line_stays_known(jobs: JobQueue, clock: Clock) -> None:
    """U-46: ids go on growing after it."""
    id = add(jobs)
    first = jobs.log(id, "old")
    began = row(jobs, id)["firstLogAt"]
    clock.advance(KEPT_MS / 1000 + 1)
    second = jobs.log(id, "new")
    assert jobs.output.prune(clock() - KEPT_MS) == 1
    assert [line.text for line in jobs.logs(id)] == ["new"]
    assert second > first
    assert row(jobs, id)["firstLogAt"] == began


def test_progress_of_a_job_goes_with_its_last_line(jobs: JobQueue, clock: Clock) -> None:
    """Q-26: no table grows with every job for ever."""
    id = add(jobs)
    jobs.log(id, "one")
    jobs.log(id, "two")
    entry = jobs.entries.get(id)
    assert entry is not None
    clock.advance(KEPT_MS / 1000 + 1)
    assert jobs.output.prune(clock() - KEPT_MS) == 2
    assert jobs.output.progress(entry.message.seq) is None
    assert row(jobs, id)["firstLogAt"] is None


def test_output_has_a_bound_without_a_server(jobs: JobQueue, clock: Clock) -> None:
    """U-46: each 500 lines that come take as many old ones with them."""
    id = add(jobs)
    entry = jobs.entries.get(id)
    assert entry is not None
    old = [OutputLine("stdout", number, "old") for number in range(1, 801)]
    jobs.output.add(entry.message.seq, old)
    clock.advance(KEPT_MS / 1000 + 1)
    for number in range(1, 1_001):
        jobs.log(id, f"line {number}")
    left = jobs.logs(id, limit=5_000)
    assert [line.text for line in left] == [f"line {number}" for number in range(1, 1_001)]


def test_u_48_heartbeats_say_who_is_online(
    workers: WorkerTable, jobs: JobQueue, clock: Clock
) -> None:
    """U-48: a beat is an upsert; after 15 s a worker is not online, unless asked otherwise."""
    with pytest.raises(InvalidInput, match="workerId is required"):
        workers.heartbeat({})
    beat = {"workerId": "w1", "status": "busy", "currentJobId": "j", "pollMs": 2_000}
    workers.heartbeat(beat | {"capabilities": {"docker": True}, "details": {"v": 1}})
    clock.advance(15)
    (found,) = workers.list()
    assert {name: found.record[name] for name in beat} == beat
    assert found.record["capabilities"] == {"docker": True}
    assert (found.is_online, found.record["isOnline"]) == (True, True)
    clock.advance(0.001)
    assert [each.is_online for each in workers.list()] == [False]
    assert [each.is_online for each in workers.list(20_000)] == [True]
    workers.heartbeat({"workerId": "w1", "status": "offline"})
    (found,) = workers.list()
    assert (found.status, found.is_online, found.record["pollMs"]) == ("offline", False, None)
    workers.heartbeat({"workerId": "w1", "status": "dancing"})
    assert [each.status for each in workers.list()] == ["idle"]


@pytest.mark.parametrize(
    ("after_s", "liveness", "is_online"),
    [
        *[(0, "alive", True), (20, "alive", False), (40, "warn", False)],
        *[(120, "stale", False), (400, "dead", False)],
    ],
)
def test_one_worker_is_seen_through_both_views(
    bus: Bus, workers: WorkerTable, clock: Clock, after_s: int, liveness: str, is_online: bool
) -> None:
    """X-11: at 0, 20, 40, 120 and 400 s; busy is stored as working."""
    workers.heartbeat({"workerId": "w1", "status": "busy"})
    clock.advance(after_s)
    beat = bus.heartbeats.get("w1")
    assert beat is not None
    assert (beat.status, beat.liveness.value) == ("working", liveness)
    (found,) = workers.list()
    assert (found.status, found.is_online) == ("busy", is_online)


def test_workers_of_other_doors_are_seen_too(
    bus: Bus, workers: WorkerTable, jobs: JobQueue
) -> None:
    """X-11, U-48: who claims under a lease of the bus, or has served the queue before."""
    add(jobs)
    (claim,) = jobs.entries.queue.claim("process-1", group="own")
    QueueWorkers(bus).note(jobs.entries.queue.info, "idle-one")
    bus.heartbeats.beat("idle-one", "idle")
    found = {each.worker: (each.status, each.active, each.is_online) for each in workers.list()}
    assert found == {"own": ("idle", 1, False), "idle-one": ("idle", 0, True)}
    assert pick_worker(workers.list) == "idle-one"
    jobs.entries.queue.complete(claim)


def test_u_82_an_idle_worker_is_picked_or_one_is_started_or_the_job_is_for_anybody(
    workers: WorkerTable, jobs: JobQueue
) -> None:
    """U-82: no workers online: at most one is started, and after 15 s the job has no target."""
    waited: list[float] = []
    started: list[str] = []

    def wait(is_there: Any, seconds: float) -> None:
        waited.append(seconds)
        is_there()

    def start() -> None:
        started.append("w1")

    assert pick_worker(workers.list, start=start, wait=wait) is None
    assert (started, waited) == (["w1"], [15.0])

    def start_one() -> None:
        workers.heartbeat({"workerId": "w1"})

    assert pick_worker(workers.list, start=start_one, wait=wait) == "w1"
    add(jobs)
    taken(jobs, "w1")
    assert pick_worker(workers.list, start=start, wait=wait) is None
    assert started == ["w1"]  # one is online: no more than that are started
    workers.heartbeat({"workerId": "w2"})
    assert pick_worker(workers.list) == "w2"


def test_a_worker_that_is_late_or_has_a_job_is_never_picked() -> None:
    """U-82: whatever it says of itself."""
    seen = [
        WorkerRow({}, "late", "idle", False, 0),
        WorkerRow({}, "has-one", "idle", True, 1),
        WorkerRow({}, "broken", "error", True, 0),
    ]
    assert pick_worker(lambda: seen) is None


def test_u_48_online_means_a_beat_within_a_second_at_least(
    workers: WorkerTable, clock: Clock
) -> None:
    """U-48: an age below 1,000 ms counts as that."""
    workers.heartbeat({"workerId": "w1"})
    clock.advance(1)
    assert [each.is_online for each in workers.list(1)] == [True]
    clock.advance(0.001)
    assert [each.is_online for each in workers.list(1)] == [False]
