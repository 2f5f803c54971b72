"""The proof can fail: each way in which a run could have gone wrong shows in its counts."""

import pytest

from ackbus import Bus
from ackbus.demo.proof import Proof, read_proof
from ackbus.demo.protocol import (
    COORDINATOR,
    DEMO,
    TASK_ASSIGN,
    TASK_DONE,
    TASK_HELD,
    WORKER_KILLED,
)


@pytest.fixture(autouse=True)
def known_coordinator(bus: Bus) -> None:
    bus.heartbeats.beat(COORDINATOR)


def assign(bus: Bus) -> str:
    return bus.publish(TASK_ASSIGN, {"path": "a", "size": 1}, from_agent=COORDINATOR).id


def hold(bus: Bus, task: str, worker: str, token: int) -> None:
    """A worker takes a task, says so, and is killed."""
    bus.publish(TASK_HELD, {"path": "a", "token": token}, from_agent=worker, in_reply_to=task)
    payload = {"agent": worker, "pid": 1, "task": task, "path": "a", "token": token}
    bus.publish(WORKER_KILLED, payload, from_agent=DEMO)


def report(bus: Bus, task: str, worker: str, token: int) -> None:
    bus.publish(TASK_DONE, {"path": "a", "token": token}, from_agent=worker, in_reply_to=task)


def counts(proof: Proof) -> tuple[int, int, int, int]:
    return proof.tasks, proof.examined, proof.reported_once, proof.results


@pytest.fixture
def whole_run(bus: Bus) -> list[str]:
    """Two tasks, one taken over: the log of a run that went well."""
    tasks = [assign(bus), assign(bus)]
    hold(bus, tasks[0], "worker-1", 1)
    report(bus, tasks[1], "worker-2", 2)
    report(bus, tasks[0], "worker-3", 3)
    return tasks


def test_proof_of_a_whole_run_holds(bus: Bus, whole_run: list[str]) -> None:
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((2, 2, 2, 2), True)
    assert proof.takeover is not None
    assert (proof.takeover.task, proof.takeover.tokens) == (whole_run[0], (1, 3))
    assert (proof.takeover.killed, proof.takeover.taken_over_by) == ("worker-1", "worker-3")


def test_task_without_a_result_breaks_the_proof(bus: Bus, whole_run: list[str]) -> None:
    assign(bus)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((3, 2, 2, 2), False)


def test_second_result_breaks_the_proof(bus: Bus, whole_run: list[str]) -> None:
    report(bus, whole_run[1], "worker-3", 4)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((2, 2, 1, 3), False)


def test_result_of_no_task_breaks_the_proof(bus: Bus, whole_run: list[str]) -> None:
    stray = bus.publish("note", from_agent=COORDINATOR).id
    report(bus, stray, "worker-3", 4)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((2, 2, 2, 3), False)


def test_result_without_a_lease_breaks_the_proof(bus: Bus, whole_run: list[str]) -> None:
    report(bus, assign(bus), "worker-3", 0)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((3, 2, 3, 3), False)


@pytest.mark.parametrize(("by", "token"), [("worker-1", 2), ("worker-2", 1)])
def test_takeover_needs_another_worker_with_a_later_grant(bus: Bus, by: str, token: int) -> None:
    task = assign(bus)
    hold(bus, task, "worker-1", 1)
    report(bus, task, by, token)
    proof = read_proof(bus)
    assert (counts(proof), proof.holds) == ((1, 1, 1, 1), False)


def test_run_in_which_nobody_was_killed_proves_no_takeover(bus: Bus) -> None:
    report(bus, assign(bus), "worker-1", 1)
    proof = read_proof(bus)
    assert (counts(proof), proof.takeover, proof.holds) == ((1, 1, 1, 1), None, False)
