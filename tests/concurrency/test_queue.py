"""Workers in many processes: every job to exactly one of them, however they race."""

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.subscribers.jobs.claims import Claims
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.queues.queue import Queue

from ..conftest import wait_until
from ..programs import running_program
from .actors import Gate, StartActor, start_together

pytestmark = pytest.mark.slow

WORKERS = [f"worker-{number}" for number in range(8)]
JOBS = 500


def test_500_jobs_and_8_processes_make_500_claims(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """P-31, P-27: none twice, none left, each with one reply, each worker's in order."""
    queue = Queue.create(bus, "job")
    bus.publish_many([Draft("job", from_agent="boss") for _ in range(JOBS)])
    casts = [("claimer", bus_dir, name, JOBS, gate.path) for name in WORKERS]
    told = [actor.end()[1] for actor in start_together(start, gate, casts)]

    assert sorted(seq for done in told for seq in done) == list(range(1, JOBS + 1))
    assert all(done == sorted(done) for done in told)
    records = [Claims.of(queue.bus).of_job(queue.info, seq) for seq in range(1, JOBS + 1)]
    assert [[record.status for record in claims] for claims in records] == [["completed"]] * JOBS
    assert len({claims[0].token for claims in records}) == JOBS
    for name, done in zip(WORKERS, told, strict=True):
        assert done == [c[0].seq for c in records if c[0].instance == name]
    replies = [message.payload for message in bus.read(type="job.done")]
    assert sorted(replies) == list(range(1, JOBS + 1))


def test_of_10_agents_and_5_jobs_5_agents_get_one(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """U-36: five with distinct jobs, five with nothing."""
    Queue.create(bus, "job")
    bus.publish_many([Draft("job", from_agent="boss") for _ in range(5)])
    casts = [("claimer", bus_dir, f"agent-{n}", 1, gate.path) for n in range(10)]
    told = [actor.end()[1] for actor in start_together(start, gate, casts)]
    assert sorted(told) == [[], [], [], [], [], [1], [2], [3], [4], [5]]


def test_workers_that_wait_miss_nothing(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """K-15, pitfall 11: listen, claim, wait: no job falls between the claim and the wait."""
    queue = Queue.create(bus, "job")
    (actor,) = start_together(start, gate, [("server", bus_dir, "server", gate.path)])
    chance = random.Random(0)
    for number in range(300):
        bus.publish("job", number, from_agent="boss")
        if chance.random() < 0.5:  # wait until it is idle again, so that it has to be woken
            wait_until(lambda: Jobs.of(queue.bus).counts(queue.info)["running"] == 0)
    bus.publish("job", "stop", from_agent="boss")
    ((missed, given),) = actor.end()[1:]
    assert given == [*range(300), "stop"]
    assert missed == 0


def test_8_publishers_of_replies_get_no_error(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """K-17: a reply reads its parent before it writes; in a deferred transaction that fails."""
    parent = bus.publish("question", from_agent="boss").id
    casts = [("answerer", bus_dir, name, parent, 50, gate.path) for name in WORKERS]
    for actor in start_together(start, gate, casts):
        actor.end()
    assert len(list(bus.read(conversation=parent))) == 1 + 8 * 50


def test_killed_worker_leaves_its_job_to_another(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """D-17, D-27, X-03: kill -9 in the middle: lost when the lease is over, and done once."""
    queue = Queue.create(bus, "job")
    bus.publish("job", from_agent="boss", headers={"dedupe_key": "k"})
    actor = start("holder", bus_dir, "victim")
    assert actor.wait_told(1) == [1]
    actor.kill()
    assert Jobs.of(queue.bus).get(queue.info, 1).state == "running"
    wait_until(lambda: [queue.complete(claim) for claim in queue.claim("heir")])
    records = Claims.of(queue.bus).of_job(queue.info, 1)
    assert [(record.instance, record.status) for record in records] == [
        ("victim", "lost"),
        ("heir", "completed"),
    ]


#: A worker that ends when it finds nothing more, and tells what its queue has not looked at.
_DRAINER = """
    import sys
    from ackbus import Bus, Worker
    with Bus.open(sys.argv[1]) as bus:
        worker = Worker(bus, "job", beats=False)
        done = worker.run(lambda message: None, drain=True)
        print(done, Worker(bus, "job").queue.info.filled_seq)
"""


def test_drainers_that_compete_leave_nothing_behind(bus: Bus, bus_dir: Path) -> None:
    """D-17: who finds that others took what it saw looks again before it takes that for all."""
    Queue.create(bus, "job")
    bus.publish_many([Draft("job", from_agent="boss") for _ in range(5_000)])
    with ExitStack() as stack:
        drainers = [stack.enter_context(running_program(_DRAINER, bus_dir)) for _ in range(4)]
        told = [program.communicate()[0].split() for program in drainers]
    assert sum(int(done) for done, _ in told) == 5_000
    assert {filled for _, filled in told} == {"5000"}
