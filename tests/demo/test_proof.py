"""The proof can fail: each way in which a run could have gone wrong shows in its counts."""

import pytest

from ackbus import Bus, Claim, Draft, Queue
from ackbus.demo.run import DemoProof, read_proof
from ackbus.demo.worker import COORDINATOR, DEMO, DONE, KILLED, TASK

from ..conftest import wait_until


@pytest.fixture(autouse=True)
def queue(bus: Bus) -> Queue:
    bus.heartbeats.beat(COORDINATOR)
    return Queue.create(bus, TASK)


def assign(bus: Bus) -> int:
    return bus.publish(TASK, {"path": "a"}, from_agent=COORDINATOR).seq


def lose(bus: Bus, queue: Queue, worker: str) -> None:
    """A worker claims the next task, is killed, and its lease runs out."""
    (claim,) = queue.claim(worker, group=worker, lease_s=0.001)
    task = claim.message
    told = {"agent": worker, "pid": 1, "task": task.id, "seq": task.seq, "path": "a"}
    bus.publish(KILLED, told, from_agent=DEMO)


def do(bus: Bus, queue: Queue, worker: str) -> int:
    """A worker completes the next task, and answers it; returns the task."""
    claims: list[Claim] = []
    wait_until(lambda: claims or claims.extend(queue.claim(worker, group=worker)))
    claim = claims[0]
    answer = Draft(DONE, {"path": "a"}, from_agent=worker, in_reply_to=claim.message.id)
    queue.complete(claim, answer)
    return claim.message.seq


def counts(proof: DemoProof) -> tuple[int, int, int, int]:
    return proof.tasks, proof.examined, proof.reported_once, proof.results


@pytest.fixture
def whole_run(bus: Bus, queue: Queue) -> None:
    """Two tasks, one taken over: the log of a run that went well."""
    assign(bus), assign(bus)
    lose(bus, queue, "worker-1")
    do(bus, queue, "worker-2")
    do(bus, queue, "worker-3")


@pytest.mark.usefixtures("whole_run")
def test_proof_of_a_whole_run_holds(bus: Bus) -> None:
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((2, 2, 2, 2), True)
    assert proof.takeover is not None
    lost, won = proof.takeover.tokens
    assert 0 < lost < won
    assert proof.takeover.killed == "worker-1" != proof.takeover.taken_over_by


@pytest.mark.usefixtures("whole_run")
def test_task_without_a_result_breaks_the_proof(bus: Bus) -> None:
    assign(bus)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((3, 2, 2, 2), False)


@pytest.mark.usefixtures("whole_run")
def test_second_result_breaks_the_proof(bus: Bus) -> None:
    task = next(bus.read(type=TASK))
    bus.publish(DONE, {"path": "a"}, from_agent="worker-1", in_reply_to=task.id)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((2, 2, 1, 3), False)


@pytest.mark.usefixtures("whole_run")
def test_result_without_a_claim_breaks_the_proof(bus: Bus) -> None:
    task = bus.get(assign(bus))
    assert task is not None
    bus.publish(DONE, {"path": "a"}, from_agent="worker-3", in_reply_to=task.id)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((3, 2, 3, 3), False)


def test_takeover_needs_another_worker(bus: Bus, queue: Queue) -> None:
    assign(bus)
    lose(bus, queue, "worker-1")
    do(bus, queue, "worker-1")
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((1, 1, 1, 1), False)


def test_run_in_which_nobody_was_killed_proves_no_takeover(bus: Bus, queue: Queue) -> None:
    assign(bus)
    do(bus, queue, "worker-1")
    proof = read_proof(bus)
    assert (counts(proof), proof.takeover, proof.holds) == ((1, 1, 1, 1), None, False)
