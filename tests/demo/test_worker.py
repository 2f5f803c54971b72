"""A worker and its leases; a named pipe that the test feeds stands for a file that takes long."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from ackbus import Bus, Lease, Message, Session
from ackbus.demo.protocol import (
    COORDINATOR,
    RUN_FINISHED,
    TASK_ASSIGN,
    TASK_DONE,
    lease_name,
    result_id,
)
from ackbus.demo.worker import MAX_WINDOW, WINDOW, Worker
from ackbus.schema.message.draft import Draft
from ackbus.schema.queries import file_of

from ..conftest import wait_until

#: How long the leases of these tests last, in seconds.
SHORT_S = 0.3
NEVER = 0


@pytest.fixture(autouse=True)
def known_coordinator(bus: Bus) -> None:
    bus.heartbeats.beat(COORDINATOR)


def assign(bus: Bus, path: str) -> str:
    """Publish a task and return its id."""
    return bus.publish(TASK_ASSIGN, {"path": path, "size": 0}, from_agent=COORDINATOR).id


def work(bus: Bus, root: Path, agent: str, lease_s: float) -> None:
    with Session(bus, agent) as me:
        Worker(me, str(root), NEVER, lease_s=lease_s).run()
    file_of(bus).close_thread()


@contextmanager
def worker(bus: Bus, root: Path, agent: str, lease_s: float = SHORT_S) -> Iterator[None]:
    """A worker in a thread, that must leave by itself when the run is finished."""
    thread = Thread(target=work, args=(bus, root, agent, lease_s))
    thread.start()
    yield
    bus.publish(RUN_FINISHED, from_agent=COORDINATOR)
    thread.join(10)
    assert not thread.is_alive()


def held(bus: Bus, task: str) -> Lease:
    lease = bus.leases.get(lease_name(task))
    assert lease is not None
    return lease


def result(bus: Bus, task: str) -> Message:
    message = bus.get(result_id(task))
    assert message is not None
    return message


def test_lease_is_renewed_while_a_file_takes_longer_than_it_lasts(bus: Bus, tmp_path: Path) -> None:
    """M-73: the worker itself keeps what it works on, and answers in the same conversation."""
    os.mkfifo(tmp_path / "slow.txt")
    task = assign(bus, "slow.txt")
    with worker(bus, tmp_path, "worker-1", lease_s=1.0):
        with open(tmp_path / "slow.txt", "wb", buffering=0) as file:
            first = held(bus, task)
            lines = 0
            while bus.now_ms() <= first.until_ms:
                lines += file.write(b"\n")
            assert held(bus, task).until_ms > first.until_ms
            assert held(bus, task).token == first.token
        wait_until(lambda: bus.get(result_id(task)))
    answer = result(bus, task)
    assert (answer.type, answer.payload["lines"]) == (TASK_DONE, lines)
    assert (answer.from_agent, answer.to_agent) == ("worker-1", COORDINATOR)
    assert (answer.in_reply_to, answer.correlation_id) == (task, task)
    assert bus.leases.list() == []


def test_late_holder_publishes_nothing(bus: Bus, tmp_path: Path) -> None:
    """M-71, M-75: a worker that slept through its lease leaves the result to its successor."""
    os.mkfifo(tmp_path / "slow.txt")
    task = assign(bus, "slow.txt")
    with worker(bus, tmp_path, "worker-1"):
        with open(tmp_path / "slow.txt", "wb", buffering=0):
            late = held(bus, task)
            wait_until(lambda: bus.leases.acquire(late.name, "worker-2"))
        other = held(bus, task)
        with bus.transaction():
            bus.leases.check(other)
            bus.publish(TASK_DONE, from_agent="worker-2", in_reply_to=task, id=result_id(task))
            bus.leases.release(other)
    assert (late.holder, result(bus, task).from_agent) == ("worker-1", "worker-2")
    answers = [message.from_agent for message in bus.read(type=TASK_DONE)]
    assert answers == ["worker-2"]


def test_task_that_is_reported_is_never_taken_again(bus: Bus, tmp_path: Path) -> None:
    """A free lease is no sign of open work: the result in the log is what counts."""
    task = assign(bus, "missing.txt")
    bus.publish(TASK_DONE, from_agent="worker-2", in_reply_to=task, id=result_id(task))
    with worker(bus, tmp_path, "worker-1"):
        pass
    assert result(bus, task).from_agent == "worker-2"
    first = bus.leases.acquire("another", "somebody")
    assert first is not None
    assert first.token == 1  # the worker was granted none


def test_task_of_a_dead_worker_does_not_stop_those_after_it(bus: Bus, tmp_path: Path) -> None:
    """Tasks far behind one that is held are done before its lease has ended."""
    (tmp_path / "file.txt").write_text("text\n")
    stuck = assign(bus, "file.txt")
    dead = bus.leases.acquire(lease_name(stuck), "dead", ttl_s=60)
    assert dead is not None
    payload = {"path": "file.txt", "size": 5}
    drafts = [Draft(TASK_ASSIGN, payload, from_agent=COORDINATOR) for _ in range(3 * WINDOW)]
    assert len(drafts) < MAX_WINDOW
    tasks = [receipt.id for receipt in bus.publish_many(drafts)]
    with worker(bus, tmp_path, "worker-3"):
        wait_until(lambda: all(bus.get(result_id(task)) for task in tasks))
        assert bus.get(result_id(stuck)) is None
        bus.leases.release(dead)
    assert result(bus, stuck).from_agent == "worker-3"
