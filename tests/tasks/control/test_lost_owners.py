"""Owners that are killed, and what people do with what failed for good."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.claims import Claims
from ackbus.subscribers.jobs.outcomes import ManualActs
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.tasks.control.entries import Entries
from ackbus.tasks.control.jobs import JobQueue, Sweep
from ackbus.tasks.control.requests import Completions, Requests
from ackbus.tasks.steps.messages import QUEUES

from ...subscribers.conftest import Clock
from .conftest import add, ask

_HOLDER = """
import os, signal, sys
from ackbus import Bus
from ackbus.tasks.control.jobs import JobQueue
with Bus.open(sys.argv[1]) as bus:
    if sys.argv[2] == "door":
        assert JobQueue(bus).claim("victim")
    else:
        from ackbus import Queue
        assert Queue.open(bus, "jobs").claim("victim", lease_s=600)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_after_claiming(bus: Bus, how: str) -> None:
    """A process claims the one job that there is, and is killed."""
    holder = [sys.executable, "-c", _HOLDER, str(bus.directory), how]
    assert subprocess.run(holder).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("rule", "state"),
    [("requeue", "pending"), ("fail", "failed"), ("dead", "failed"), (None, "pending")],
)
def test_an_owner_is_killed_in_each_mode(tmp_path: Path, rule: str | None, state: str) -> None:
    """X-03: requeue, fail and dead by the job itself; without a rule the queue's, requeue."""
    clock = Clock()
    with Bus.init(tmp_path / "bus") as bus:
        entries = Entries(bus, "jobs")
        headers = work_headers(on_lost=rule)  # type: ignore[arg-type]
        entry, _ = entries.add({"taskId": "t"}, headers=headers)
        killed_after_claiming(bus, "lease")
        clock.now_ms = bus.now_ms() + 600_001
    with Bus.open(tmp_path / "bus", clock=clock) as bus:
        claimed = Queue.open(bus, "jobs").claim("heir")
        found = Entries(bus, "jobs").get(entry.id)
        assert found is not None
        assert (found.status if not claimed else "pending") == state
        assert bool(claimed) == (state == "pending")
        assert found.job.attempt == (2 if claimed else 1)


def test_u_51_the_job_of_a_killed_client_fails_by_the_sweep(tmp_path: Path) -> None:
    """U-51, X-03: PushPals' profile is fail, whoever enqueued it by this door."""
    clock = Clock()
    with Bus.init(tmp_path / "bus") as bus:
        id = add(JobQueue(bus))
        killed_after_claiming(bus, "door")
        clock.now_ms = bus.now_ms() + 601_000
    with Bus.open(tmp_path / "bus", clock=clock) as bus:
        (found,) = Sweep(bus, JobQueue(bus)).run()
        assert (found.job, found.worker, found.status) == (id, "victim", "failed")


@pytest.mark.parametrize("name", QUEUES)
def test_what_failed_for_good_is_a_dead_letter(bus: Bus, name: str) -> None:
    """Q-23: of requests, jobs and completions: listed, shown, requeued, given up."""
    requests, jobs, completions = Requests(bus), JobQueue(bus), Completions(bus)
    for _ in range(2):
        ask(requests)
        add(jobs)
        completions.enqueue({"jobId": "j", "sessionId": "s1", "message": "m"})
    queue = {"requests": requests, "jobs": jobs, "completions": completions}[name]
    ids = [entry.id for entry in queue.entries.list("pending")][::-1]
    for id in ids:
        assert queue.claim("w1")
        queue.fail(id, "no")
    letters = queue.entries.queue.dead_letters
    first, second = letters.find()
    assert (first.error, queue.entries.at(first.seq).status) == ("no", "failed")
    assert [job.seq for job in letters.requeue([first])] == [first.seq]
    assert queue.entries.at(first.seq).status == "pending"
    claimed = queue.claim("w2")
    assert claimed is not None
    assert claimed[0]["id"] == ids[0]
    assert [job.state for job in letters.drop([second])] == ["cancelled"]
    assert list(letters.find()) == []


def test_every_transition_stays_on_record(jobs: JobQueue, bus: Bus, clock: Clock) -> None:
    """Q-26: each claim with its holder, its times and its end; each act by hand with its actor."""
    queue = jobs.entries.queue
    entry, _ = jobs.entries.add({"taskId": "t"})
    assert jobs.claim("w1")
    clock.advance(600)
    Sweep(bus, jobs).run()
    assert jobs.claim("w2")
    jobs.fail(entry.id, "no")
    JobControl(queue, by="anna").retry(entry.message.seq)
    assert jobs.claim("w3")
    jobs.complete(entry.id, {})
    records = Claims.of(bus).of_job(queue.info, entry.message.seq)
    assert [(record.group, record.status) for record in records] == [
        *(("w1", "lost"), ("w2", "failed"), ("w3", "completed"))
    ]
    assert all(record.ended_at_ms is not None for record in records)
    acts = ManualActs(engine_of(bus)).of_job(queue.info, entry.message.seq)
    assert [(act.who, act.act) for act in acts] == [("anna", "retry")]
