"""One bus, many threads."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

import pytest

from ackbus import Bus, Inbox

THREADS = 16

Result = TypeVar("Result")


def in_threads(work: Callable[[int], Result]) -> list[Result]:
    """Calls work(0) … work(15) at once, each in a thread of its own."""
    barrier = Barrier(THREADS)

    def run(number: int) -> Result:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


@pytest.mark.slow
def test_16_threads_share_one_bus(bus: Bus) -> None:
    """M-26: each thread publishes, reads and acknowledges; nothing is lost and no seq twice."""
    for number in range(THREADS):
        bus.heartbeats.beat(f"agent-{number}")

    def work(number: int) -> list[int]:
        inbox = Inbox(bus, f"agent-{number}")
        seqs = []
        for turn in range(50):
            to = f"agent-{(number + turn) % THREADS}"
            seqs.append(bus.publish("note", turn, from_agent=inbox.agent, to_agent=to).seq)
            for message in inbox.poll():
                inbox.ack(message)
        return seqs

    seqs = in_threads(work)
    assert sorted(seq for one in seqs for seq in one) == list(range(1, THREADS * 50 + 1))
    for number, mine in enumerate(seqs):
        assert mine == [
            message.seq for message in bus.read() if message.from_agent == f"agent-{number}"
        ]
    for number in range(THREADS):
        inbox = Inbox(bus, f"agent-{number}")
        received = [m.seq for m in bus.read() if m.to_agent == inbox.agent]
        assert [message.seq for message in inbox.poll()] == [
            s for s in received if s > inbox.position
        ]


def test_of_16_threads_exactly_one_gets_the_lease(bus: Bus) -> None:
    """M-69."""
    leases = in_threads(lambda number: bus.leases.acquire("job", f"agent-{number}"))
    assert sum(lease is not None for lease in leases) == 1


@pytest.mark.slow
def test_threads_that_end_give_their_descriptors_back(bus: Bus) -> None:
    """Pitfall: descriptors ran out with five agents."""
    bus.publish("note", from_agent="ann")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        in_threads(lambda number: bus.publish("note", from_agent=f"agent-{number}"))
    # SQLite keeps a closed descriptor of the database, and uses it again, while another thread
    # has the file open: closing it would drop that one's locks.
    assert len(os.listdir("/proc/self/fd")) <= before + THREADS


def test_a_transaction_of_one_thread_is_not_joined_by_another(bus: Bus) -> None:
    """A block that raises undoes its own thread's work only."""

    def work(number: int) -> None:
        with bus.transaction():
            bus.publish("note", number, from_agent="ann")
            if number % 2:
                raise LookupError

    def attempt(number: int) -> None:
        if number % 2:
            with pytest.raises(LookupError):
                work(number)
        else:
            work(number)

    in_threads(attempt)
    assert sorted(message.payload for message in bus.read()) == list(range(0, THREADS, 2))
