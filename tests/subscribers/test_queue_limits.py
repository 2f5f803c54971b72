"""Limits of concurrency, and paused queues."""

from collections.abc import Callable

import pytest

from ackbus import Bus
from ackbus.bus.doorbell import listen
from ackbus.subscribers.jobs.errors import QueueNotFound
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.subscribers.queues.queues import Queues

from ..programs import run_program
from .conftest import Clock
from .work import publish, seqs, state, take


def test_no_more_run_than_the_queue_allows(bus: Bus) -> None:
    """D-29: two of five; the third when one has ended."""
    queue = Queue.create(bus, "job", max_running=2)
    publish(bus, 5)
    first, second = queue.claim("worker", limit=5)
    assert queue.claim("another", limit=5) == []
    queue.complete(first)
    (third,) = queue.claim("another", limit=5)
    assert third.message.seq == 3
    queue.fail(second, "no")
    assert seqs(queue.claim("worker", limit=5)) == [4]


def test_full_queue_does_not_delay_another(bus: Bus) -> None:
    """D-31: the fast one goes on, and so does the same queue's work with another key."""
    slow = Queue.create(bus, "slow", max_running=1)
    fast = Queue.create(bus, "fast")
    publish(bus, 3, type="slow")
    publish(bus, 3, type="fast")
    take(slow)
    assert slow.claim("worker", limit=9) == []
    assert seqs(fast.claim("worker", limit=9)) == [4, 5, 6]


def test_saturated_key_is_skipped(bus: Bus) -> None:
    """D-31, D-25: what stands behind it proceeds."""
    queue = Queue.create(bus, "job")
    publish(bus, 50, headers=work_headers(dedupe_key="busy"))
    publish(bus, 2)
    assert seqs(queue.claim("worker", limit=9)) == [1, 51, 52]


def test_counts_come_from_the_tables(bus: Bus) -> None:
    """D-32: a process that was started later keeps to the same limits."""
    queue = Queue.create(bus, "job", max_running=2)
    publish(bus, 3, headers=work_headers(dedupe_key="k"))
    publish(bus, 3)
    assert seqs(queue.claim("worker", limit=9)) == [1, 4]
    told = run_program(
        """
        import sys
        from ackbus import Bus
        from ackbus.subscribers.queues.queue import Queue
        with Bus.open(sys.argv[1]) as bus:
            print(len(Queue.open(bus, "job").claim("another", limit=9)))
        """,
        bus.layout.directory,
    )
    assert told == "0\n"


def test_lost_worker_makes_room(bus: Bus, clock: Clock) -> None:
    """D-29, D-32: a limit counts leases that hold, not workers that are said to be there."""
    queue = Queue.create(bus, "job", max_running=1, on_lost="fail")
    publish(bus, 2)
    take(queue, lease_s=1)
    clock.advance(1)
    assert seqs(queue.claim("another", limit=9)) == [2]


def test_limit_lowered_below_what_runs_lets_it_end(bus: Bus) -> None:
    """D-29: nothing is taken away; nothing begins until there is room again."""
    queue = Queue.create(bus, "job", max_running=4)
    publish(bus, 6)
    claims = queue.claim("worker", limit=4)
    change_policy(bus, "job", max_running=2)
    for claim, begins in zip(claims, ([], [], [5], [6]), strict=True):
        assert queue.claim("worker", limit=9) == []
        queue.complete(claim)
        assert seqs(queue.claim("worker", limit=1)) == begins
    assert [state(queue, seq) for seq in range(1, 5)] == ["succeeded"] * 4


def test_limit_may_be_lifted(bus: Bus) -> None:
    """D-29: None is any number."""
    queue = Queue.create(bus, "job", max_running=1)
    publish(bus, 5)
    assert len(queue.claim("worker", limit=9)) == 1
    change_policy(bus, "job", max_running=None)
    assert len(queue.claim("worker", limit=9)) == 4


def test_paused_queue_hands_nothing_out_and_loses_nothing(bus: Bus, clock: Clock) -> None:
    """Running jobs may end, lost ones are looked after, new ones wait."""
    queue = Queue.create(bus, "job")
    publish(bus, 3)
    alive, lost = queue.claim("worker", limit=2, lease_s=1)
    Queues(bus).pause("job")
    publish(bus, 2)
    assert queue.claim("worker", limit=9) == []
    queue.complete(alive)
    clock.advance(1)
    assert queue.claim("worker", limit=9) == []
    assert state(queue, lost.message.seq) == "queued"
    assert Queue.open(bus, "job").info.paused_at_ms == clock.now_ms - 1000
    Queues(bus).resume("job")
    assert seqs(queue.claim("worker", limit=9)) == [2, 3, 4, 5]


def test_resuming_wakes_those_who_wait(bus: Bus) -> None:
    """X-10: by the bell, not after the bounded re-check; and so does a change of the policy."""
    Queue.create(bus, "job")
    queues = Queues(bus)
    queues.pause("job")
    with listen(bus) as listener:
        while listener.wait(0):
            pass
        queues.resume("job")
        assert listener.wait(60)
        change_policy(bus, "job", max_running=5)
        assert listener.wait(60)


def test_people_may_empty_a_paused_queue(bus: Bus) -> None:
    queue = Queue.create(bus, "job")
    publish(bus, 3)
    Queues(bus).pause("job")
    assert JobControl(queue).purge() == 3
    Queues(bus).resume("job")
    assert queue.claim("worker") == []


@pytest.mark.parametrize("act", [Queues.pause, Queues.resume])
def test_unknown_queue_is_said_so(bus: Bus, act: Callable[[Queues, str], None]) -> None:
    with pytest.raises(QueueNotFound, match="no queue 'job'"):
        act(Queues(bus), "job")
    with pytest.raises(QueueNotFound, match="no queue 'job'"):
        change_policy(bus, "job", max_running=2)
