"""Jobs that are for one worker alone, and jobs that bring their own rule for a lost worker."""

import pytest

from ackbus import Bus, Priority
from ackbus.errors import InvalidInput
from ackbus.subscribers.jobs.errors import WrongJobState
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue

from .conftest import Clock
from .work import job, publish, seqs, state, statuses


def for_worker(name: str) -> dict[str, object]:
    return work_headers(for_worker=name)


def test_u_43_a_worker_gets_its_own_jobs_first_and_never_those_of_others(bus: Bus) -> None:
    """U-43: own first, whatever their priority; then what is for anybody, by priority and age."""
    queue = Queue.create(bus, "job", ordering="priority")
    publish(bus, headers=for_worker("w2"), priority=Priority.BACKGROUND)
    publish(bus, priority=Priority.INTERACTIVE)
    publish(bus, headers=for_worker("w1"))
    assert seqs(queue.claim("w1", limit=9)) == [3, 2]
    assert queue.claim("w1") == []
    publish(bus, priority=Priority.INTERACTIVE)
    assert seqs(queue.claim("process-7", group="w2", limit=9)) == [1, 4]


def test_u_43_one_by_one_the_order_is_the_same(bus: Bus) -> None:
    """U-43: what comes between two claims takes its place."""
    queue = Queue.create(bus, "job", ordering="priority")
    publish(bus, 2, headers=for_worker("w2"))
    publish(bus, priority=Priority.INTERACTIVE)
    assert [seqs(queue.claim("w1")) for _ in range(2)] == [[3], []]
    publish(bus, priority=Priority.INTERACTIVE)
    assert [seqs(queue.claim("w2")) for _ in range(4)] == [[1], [2], [4], []]


@pytest.mark.parametrize("ordering", ["fifo", "priority"])
def test_jobs_for_another_keep_no_worker_from_coming_back(bus: Bus, ordering: str) -> None:
    """U-43: a claim that finds only what is for others ends, and does not look for ever."""
    queue = Queue.create(bus, "job", ordering=ordering)
    publish(bus, 3, headers=for_worker("away"))
    assert queue.claim("here", limit=2) == []
    assert job(queue).for_worker == "away"
    publish(bus)
    assert seqs(queue.claim("here", limit=2)) == [4]


def test_a_job_brings_its_own_rule_for_a_lost_worker(bus: Bus, clock: Clock) -> None:
    """X-03, U-51: requeue, fail and dead, each beside a queue that says otherwise."""
    queue = Queue.create(bus, "job", on_lost="requeue")
    for rule in ("fail", "dead", "requeue", None):
        publish(bus, headers=work_headers(on_lost=rule))
    assert len(queue.claim("lost", limit=9, lease_s=10)) == 4
    clock.advance(10)
    again = queue.claim("next", limit=9)
    assert seqs(again) == [3, 4]
    assert [state(queue, seq) for seq in (1, 2)] == ["failed", "dead"]
    assert statuses(queue, 1) == ["lost"]


def test_a_rule_or_worker_that_is_none_counts_as_absent(bus: Bus) -> None:
    """Other programs may write anything into a header."""
    queue = Queue.create(bus, "job")
    publish(bus, headers={"for_worker": "", "on_lost": "explode"})
    publish(bus, headers={"for_worker": 7, "on_lost": ["fail"]})
    assert seqs(queue.claim("w1", limit=9)) == [1, 2]
    with pytest.raises(InvalidInput, match="on_lost must be requeue or fail or dead"):
        work_headers(on_lost="explode")  # type: ignore[arg-type]


def test_one_job_of_a_dead_worker_can_be_lost_by_hand(bus: Bus) -> None:
    """U-51: the others of the worker go on."""
    queue = Queue.create(bus, "job", on_lost="fail")
    publish(bus, 2)
    first, second = queue.claim("w1", limit=2)
    assert JobControl(queue).lose(1, "its worker is gone").state == "failed"
    assert job(queue).error == "its worker is gone"
    with pytest.raises(WrongJobState, match="it can't be lost"):
        JobControl(queue).lose(1, "again")
    queue.complete(second)
    assert queue.status(first) == "lost"
