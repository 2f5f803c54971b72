"""Leases of claims: when one has run out, what becomes of the job, and what a late owner may do."""

import pytest

from ackbus import Bus, Draft, Message
from ackbus.subscribers.jobs.errors import ClaimLost
from ackbus.subscribers.queues.queue import Queue

from .conftest import Clock
from .work import attempts, counts, job, publish, seqs, state, statuses, take


def test_lease_that_has_run_out_is_marked_and_kept(bus: Bus, clock: Clock) -> None:
    """P-28, K-01, K-06, X-03: where Plugboard deletes the claim, ours says that it was lost."""
    queue = Queue.create(bus, "job")
    publish(bus)
    first = take(queue, lease_s=1)
    clock.advance(1)
    second = take(queue, lease_s=60)
    assert statuses(queue) == ["lost", "active"]
    assert [record.token for record in attempts(queue)] == [first.token, second.token]
    lost = attempts(queue)[0]
    assert (lost.attempt, lost.error, lost.ended_at_ms) == (1, "the lease ran out", clock.now_ms)
    assert (second.attempt, job(queue).attempt) == (2, 2)


def test_lease_ends_exactly_when_it_says(bus: Bus, clock: Clock) -> None:
    """P-29, K-10: refused a millisecond before, granted at the moment itself."""
    queue = Queue.create(bus, "job")
    publish(bus)
    take(queue, lease_s=1)
    clock.advance(0.5)
    assert queue.claim("another") == []
    clock.advance(0.499)
    assert queue.claim("another") == []
    (record,) = attempts(queue)
    assert record.state(clock.now_ms) == "live_active"
    assert record.state(clock.now_ms + 1) == "expired_active"
    clock.advance(0.001)
    assert seqs(queue.claim("another")) == [1]
    assert attempts(queue)[0].state(clock.now_ms) == "terminal"


def test_claims_of_other_queues_are_left_to_their_own_workers(bus: Bus, clock: Clock) -> None:
    """K-05, X-04: recovery goes by queue, so that each queue's own policy decides."""
    queue, other = Queue.create(bus, "job"), Queue.create(bus, "other")
    publish(bus)
    take(queue, lease_s=1)
    clock.advance(5)
    assert other.claim("worker") == []
    assert statuses(queue) == ["active"]
    take(queue)
    assert statuses(queue) == ["lost", "active"]


def test_late_end_is_refused_also_when_nobody_has_claimed_since(bus: Bus, clock: Clock) -> None:
    """K-07, X-03: in Plugboard it still succeeds; here the lease guards, and the report is kept."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue, lease_s=5)
    clock.advance(6)
    with pytest.raises(ClaimLost, match="its lease ran out"):
        queue.complete(claim, result="too late")
    assert state(queue) == "running"
    take(queue)
    first, second = attempts(queue)
    assert (first.status, first.result) == ("lost", "too late")
    assert first.error == "the lease ran out; reported too late: completed"
    assert second.status == "active"


def test_late_owner_is_told_and_the_new_one_completes(bus: Bus, clock: Clock) -> None:
    """K-08: its row is there still; it has no right to end it."""
    queue = Queue.create(bus, "job")
    publish(bus)
    late = take(queue, lease_s=1)
    clock.advance(2)
    new = take(queue)
    for act in (queue.complete, queue.renew, queue.release):
        with pytest.raises(ClaimLost, match="ended as lost: the lease ran out") as caught:
            act(late)
        assert caught.value.exit_code == 3
    queue.complete(new)
    assert state(queue) == "succeeded"
    assert statuses(queue) == ["lost", "completed"]


def test_end_comes_too_late_at_the_end_of_the_lease(bus: Bus, clock: Clock) -> None:
    """K-10, P-29: in time a millisecond before, too late at the moment itself."""
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    in_time, late = queue.claim("worker", limit=2, lease_s=1)
    clock.advance(0.999)
    queue.complete(in_time)
    clock.advance(0.001)
    with pytest.raises(ClaimLost):
        queue.complete(late)


def test_late_report_is_kept_once(bus: Bus, clock: Clock) -> None:
    """Pitfall 12: what a slow worker found out is not thrown away, nor written twice."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue, lease_s=1)
    clock.advance(2)
    for _ in range(2):
        with pytest.raises(ClaimLost):
            queue.fail(claim, "the disk is full")
    assert attempts(queue)[0].error == "reported too late: failed: the disk is full"


def test_late_owner_publishes_nothing(bus: Bus, clock: Clock) -> None:
    """Promise 6, pitfall 12."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue, lease_s=1)
    clock.advance(2)
    with pytest.raises(ClaimLost):
        queue.complete(claim, Draft("job.done", from_agent="worker"))
    assert bus.log.newest_seq() == 1


def test_renewed_claim_is_not_lost(bus: Bus, clock: Clock) -> None:
    """K-12: Plugboard has no renewal; here work may take longer than any lease."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue, lease_s=60)
    for _ in range(20):
        clock.advance(59)
        queue.renew(claim, lease_s=60)
        assert queue.claim("another") == []
    assert attempts(queue)[0].lease_until_ms == clock.now_ms + 60_000
    queue.complete(claim)
    assert statuses(queue) == ["completed"]


def test_renewal_comes_too_late_at_the_end_of_the_lease(bus: Bus, clock: Clock) -> None:
    """K-10, pitfall 12: nobody steals work back by renewing."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue, lease_s=60)
    clock.advance(60)
    with pytest.raises(ClaimLost):
        queue.renew(claim)
    assert seqs(queue.claim("another")) == [1]


@pytest.mark.parametrize(
    ("on_lost", "expected"), [("requeue", "queued"), ("fail", "failed"), ("dead", "dead")]
)
def test_policy_decides_about_a_lost_owner(
    bus: Bus, clock: Clock, on_lost: str, expected: str
) -> None:
    """X-03, U-49, U-50, U-51: the look for lost workers comes with each claim."""
    queue = Queue.create(bus, "job", on_lost=on_lost)
    publish(bus)
    take(queue, lease_s=120)
    clock.advance(119.999)
    assert queue.claim("sweeper") == []
    clock.advance(0.001)
    claimed = queue.claim("sweeper")
    assert len(claimed) == (on_lost == "requeue")
    assert state(queue) == ("running" if claimed else expected)
    assert job(queue).error == "the lease ran out"


def test_late_completion_after_recovery_changes_nothing(bus: Bus, clock: Clock) -> None:
    """U-52: the job stays failed."""
    queue = Queue.create(bus, "job", on_lost="fail")
    publish(bus)
    claim = take(queue, lease_s=1)
    clock.advance(1)
    queue.claim("sweeper")
    with pytest.raises(ClaimLost):
        queue.complete(claim)
    assert state(queue) == "failed"


def test_lost_jobs_are_recovered_a_hundred_in_a_transaction(bus: Bus, clock: Clock) -> None:
    """U-51: no more in one transaction, and the next claim goes on."""
    queue = Queue.create(bus, "job", on_lost="fail")
    publish(bus, 150)
    queue.claim("worker", limit=150, lease_s=1)
    clock.advance(1)
    for running, failed in ((50, 100), (0, 150)):
        assert queue.claim("sweeper") == []
        found = counts(queue)
        assert (found["running"], found["failed"]) == (running, failed)


def test_lost_jobs_are_told_of_in_the_same_transaction(bus: Bus, clock: Clock) -> None:
    """U-51, promise 7: only those that are over by it."""
    queue = Queue.create(bus, "job", max_attempts=2)
    publish(bus)

    def tell(message: Message, state: str, why: str) -> list[Draft]:
        return [Draft("job.failed", [message.seq, state, why], from_agent="sweeper")]

    for _ in range(2):
        take(queue, lease_s=1, last_words=tell)
        assert bus.log.newest_seq() == 1
        clock.advance(1)
    assert queue.claim("sweeper", last_words=tell) == []
    assert [m.payload for m in bus.read(type="job.failed")] == [[1, "dead", "the lease ran out"]]


def test_attempts_of_lost_owners_are_counted_up_to_the_last(bus: Bus, clock: Clock) -> None:
    """X-33, pitfall 12: lost at attempts 1 to 4 of 4: queued three times, then dead."""
    queue = Queue.create(bus, "job")
    publish(bus)
    for attempt in (1, 2, 3, 4):
        assert take(queue, lease_s=1).attempt == attempt
        clock.advance(1)
    assert queue.claim("worker") == []
    assert state(queue) == "dead"
    assert statuses(queue) == ["lost"] * 4


def test_losses_and_failures_count_together_each_with_its_reason(bus: Bus, clock: Clock) -> None:
    """X-34: one crash and one failure: the next attempt is the third."""
    queue = Queue.create(bus, "job", backoff_s=0)
    publish(bus)
    take(queue, lease_s=1)
    clock.advance(1)
    queue.fail(take(queue), "exit status 1")
    assert take(queue).attempt == 3
    shown = [(record.attempt, record.status, record.error) for record in attempts(queue)]
    assert shown == [
        (1, "lost", "the lease ran out"),
        (2, "failed", "exit status 1"),
        (3, "active", None),
    ]


def test_clock_that_steps_back_prolongs_a_lease_but_loses_no_job(bus: Bus, clock: Clock) -> None:
    """An hour back: the owner goes on; if it dies, the job comes again when the hour is over."""
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    alive, dead = queue.claim("worker", limit=2, lease_s=60)
    clock.advance(-3600)
    queue.complete(alive)
    assert queue.claim("another") == []
    clock.advance(3660)
    assert seqs(queue.claim("another")) == [dead.message.seq]


def test_next_change_is_the_first_lease_or_delay_to_end(bus: Bus, clock: Clock) -> None:
    """X-10: a waiter knows when to look again without a bell."""
    queue = Queue.create(bus, "job")
    assert queue.next_change_ms() is None
    publish(bus)
    publish(bus, headers={"available_at_ms": clock.now_ms + 30_000})
    take(queue, lease_s=60)
    assert queue.next_change_ms() == clock.now_ms + 30_000
    clock.advance(30)
    take(queue, lease_s=60)
    assert queue.next_change_ms() == clock.now_ms + 30_000
