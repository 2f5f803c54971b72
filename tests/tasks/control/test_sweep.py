"""The sweep: which claimed jobs are stale, what becomes of them, and what is not touched."""

import pytest

from ackbus import Bus, Draft
from ackbus.subscribers.queues.queue import Queue
from ackbus.tasks.control.entries import NotClaimed
from ackbus.tasks.control.jobs import STALE, JobQueue, Sweep
from ackbus.tasks.control.status import WorkerTable

from ...subscribers.conftest import Clock
from ..conftest import enter
from .conftest import Told, add, taken


def beat(workers: WorkerTable, job: str | None, status: str = "busy") -> None:
    workers.heartbeat({"workerId": "w1", "status": status, "currentJobId": job})


def swept(sweep: Sweep) -> list[str]:
    return [found.job for found in sweep.run()]


def test_u_50_a_silent_job_of_a_worker_that_is_elsewhere_is_stale(
    jobs: JobQueue, sweep: Sweep, workers: WorkerTable, clock: Clock
) -> None:
    """U-50: after 120 s without activity; the worker beats, but is at another job."""
    id = add(jobs)
    taken(jobs, "w1")
    clock.advance(119.999)
    beat(workers, "another")
    assert swept(sweep) == []
    clock.advance(0.001)
    assert swept(sweep) == [id]


def test_u_50_output_is_activity(jobs: JobQueue, sweep: Sweep, clock: Clock) -> None:
    """U-50: the last line counts, not the claim."""
    id = add(jobs)
    taken(jobs, "w1")
    clock.advance(100)
    jobs.log(id, "still here")
    clock.advance(599)
    assert swept(sweep) == []
    clock.advance(1)
    assert swept(sweep) == [id]


def test_u_50_a_fresh_heartbeat_of_an_aligned_worker_protects(
    jobs: JobQueue, sweep: Sweep, workers: WorkerTable, clock: Clock
) -> None:
    """U-50: a job that prints nothing for long goes on, as long as its worker says so."""
    id = add(jobs)
    taken(jobs, "w1")
    for _ in range(8):
        clock.advance(110)
        beat(workers, id)
        assert swept(sweep) == []
    clock.advance(599.999)
    assert swept(sweep) == []
    clock.advance(0.001)
    assert swept(sweep) == [id]


@pytest.mark.parametrize(
    ("budgets", "grace_s"),
    [
        ({}, 600),
        ({"priority": "interactive"}, 420),
        ({"executionBudgetMs": 200_000, "finalizationBudgetMs": 50_000}, 250),
        ({"executionBudgetMs": 1_000, "finalizationBudgetMs": 1_000}, 120),
    ],
)
def test_u_50_the_grace_of_a_busy_worker_is_its_budget_in_bounds(
    jobs: JobQueue, sweep: Sweep, clock: Clock, budgets: dict[str, object], grace_s: int
) -> None:
    """U-50: max(TTL, min(execution + finalization, 5 x TTL)), though its last beat is old."""
    id = add(jobs, **budgets)  # type: ignore[arg-type]
    taken(jobs, "w1")
    clock.advance(grace_s - 0.001)
    assert swept(sweep) == []
    clock.advance(0.001)
    assert swept(sweep) == [id]


def test_u_50_an_idle_worker_protects_nothing(
    jobs: JobQueue, sweep: Sweep, workers: WorkerTable, clock: Clock
) -> None:
    """U-50: a worker that began again without its job."""
    id = add(jobs)
    taken(jobs, "w1")
    clock.advance(120)
    beat(workers, None, "idle")
    assert swept(sweep) == [id]


def test_u_51_a_stale_job_has_failed_and_all_hear_of_it(
    jobs: JobQueue, sweep: Sweep, workers: WorkerTable, told: Told, clock: Clock
) -> None:
    """U-51, X-03: the state, the words, the worker and the session."""
    id = add(jobs)
    taken(jobs, "w1")
    clock.advance(600)
    (found,) = sweep.run()
    assert (found.job, found.worker, found.status) == (id, "w1", "failed")
    entry = jobs.entries.get(id)
    assert entry is not None
    failure = entry.failure()
    assert failure is not None
    assert failure["message"] == STALE == "Job auto-failed after stale worker claim"
    assert failure["detail"].startswith("worker=w1; workerStatus=working; lastHeartbeat=")
    assert [each.status for each in workers.list()] == ["error"]
    ((session, type, payload),) = told.events
    assert (session, type, payload["message"]) == ("s1", "job_failed", STALE)
    assert entry.claim is not None
    assert entry.claim.status == "lost"


def test_u_51_at_most_a_hundred_a_sweep(jobs: JobQueue, sweep: Sweep, clock: Clock) -> None:
    """U-51: 100 unless asked otherwise, and 1 to 500."""
    for number in range(102):
        add(jobs)
        taken(jobs, f"w{number}")
    clock.advance(600)
    assert len(sweep.run()) == 100
    assert len(sweep.run(0)) == 1
    assert len(sweep.run(9_999)) == 1


def test_u_52_a_late_end_is_refused(jobs: JobQueue, sweep: Sweep, clock: Clock) -> None:
    """U-52: and the job stays failed."""
    id = add(jobs)
    taken(jobs, "w1")
    clock.advance(600)
    assert swept(sweep) == [id]
    for act in (lambda: jobs.complete(id, {"summary": "done"}), lambda: jobs.fail(id, "no")):
        with pytest.raises(NotClaimed, match="it is failed"):
            act()
    entry = jobs.entries.get(id)
    assert entry is not None
    assert entry.status == "failed"


def test_u_49_a_sweep_is_asked_often_and_looks_every_five_seconds(
    jobs: JobQueue, sweep: Sweep, clock: Clock
) -> None:
    """U-49, U-50: at most every 5,000 ms."""
    add(jobs)
    taken(jobs, "w1")
    clock.advance(598)
    assert sweep.when_due() == []
    clock.advance(4.999)
    assert sweep.when_due() == []
    clock.advance(0.001)
    assert len(sweep.when_due()) == 1


def test_jobs_of_other_doors_keep_their_own_rule(
    bus: Bus, jobs: JobQueue, sweep: Sweep, told: Told, clock: Clock
) -> None:
    """X-03: a claim under a lease is not swept; a job that nobody wants to fail waits again."""
    queue = jobs.entries.queue
    enter(bus, Draft("task.job", {"taskId": "t"}, from_agent="planner"))
    (claim,) = Queue.open(bus, "jobs").claim("w1", lease_s=600)
    clock.advance(300)
    assert sweep.run() == []
    queue.release(claim)
    taken(jobs, "w2")
    clock.advance(600)
    (found,) = sweep.run()
    assert (found.status, told.events) == ("pending", [])
    assert taken(jobs, "w3") == found.job
