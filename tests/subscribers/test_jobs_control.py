"""Acts of people on jobs: retry, cancel, purge a queue, list dead letters."""

import pytest

from ackbus import Bus, Draft
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.jobs.errors import ClaimLost
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import DeadLetters, JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.views import list_jobs

from .conftest import Clock
from .work import attempts, counts, job, publish, seqs, state, statuses, take


def test_running_job_that_is_cancelled_is_lost_to_its_worker(bus: Bus) -> None:
    """Promise 6: the worker learns it, and publishes nothing."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue)
    JobControl(queue).cancel(1, "wrong branch")
    for act in (queue.renew, queue.release):
        with pytest.raises(ClaimLost, match="it ended as lost: wrong branch"):
            act(claim)
    with pytest.raises(ClaimLost):
        queue.complete(claim, Draft("job.done", from_agent="worker"))
    assert (state(queue), statuses(queue), bus.log.newest_seq()) == ("cancelled", ["lost"], 1)


def test_cancelling_lets_the_next_with_the_key_run(bus: Bus) -> None:
    """D-25: whether the one before it ran or waited."""
    queue = Queue.create(bus, "job")
    publish(bus, 3, headers=work_headers(dedupe_key="k"))
    take(queue)
    control = JobControl(queue)
    control.cancel(1)
    control.cancel(2)
    assert seqs(queue.claim("worker", limit=9)) == [3]


def test_delayed_job_need_not_wait_any_longer(bus: Bus, clock: Clock) -> None:
    """D-33: its attempts still count."""
    queue = Queue.create(bus, "job")
    publish(bus)
    queue.fail(take(queue), "no", after_s=3600)
    assert JobControl(queue).retry(1).attempt == 2
    again = take(queue)
    assert again.attempt == 2


def test_job_that_is_tried_again_waits_for_its_key(bus: Bus) -> None:
    """D-25: people do not get around it."""
    queue = Queue.create(bus, "job", max_attempts=1)
    publish(bus, 2, headers=work_headers(dedupe_key="k"))
    queue.fail(take(queue), "no")
    second = take(queue)
    JobControl(queue).retry(1)
    assert queue.claim("worker", limit=9) == []
    queue.release(second)
    assert seqs(queue.claim("worker", limit=9)) == [1]


def test_duplicate_may_be_done_all_the_same(bus: Bus) -> None:
    """D-19: a person may know better."""
    queue = Queue.create(bus, "job")
    key = work_headers(dedupe_key="k")
    publish(bus, headers=key)
    queue.complete(take(queue))
    publish(bus, headers=key)
    queue.fill()
    JobControl(queue).retry(2)
    queue.complete(take(queue))
    assert state(queue, 2) == "succeeded"


def test_purging_cancels_all_that_waits(bus: Bus, clock: Clock) -> None:
    """Q-23: for whatever it waits, also what is still only in the log; what runs goes on."""
    queue = Queue.create(bus, "job")
    publish(bus)
    running = take(queue)
    publish(bus, 600)
    publish(bus, 3, headers=work_headers(available_at_ms=clock.now_ms + 1000))
    publish(bus, 3, headers=work_headers(dedupe_key="k"))
    assert JobControl(queue).purge() == 606
    assert JobControl(queue).purge() == 0
    assert {job(queue, seq).state for seq in range(2, 608)} == {"cancelled"}
    assert job(queue, 2).error == "purged"
    queue.complete(running)
    assert queue.claim("worker") == []
    assert queue.next_change_ms() is None


def test_what_ended_badly_is_found_by_state_type_and_time(bus: Bus, clock: Clock) -> None:
    """Q-23: the filters of what is done in bulk."""
    queue = Queue.create(bus, "all", ">", retry="asked", max_attempts=1)
    for type, end in (("a.x", "failed"), ("a.y", "timed_out"), ("b.x", "failed"), ("b.y", "dead")):
        publish(bus, type=type)
        claim = take(queue)
        if end == "dead":
            queue.fail(claim, "no", retry=True)
        else:
            queue.end(claim, Outcome(status=end))
        clock.advance(1)
    letters = DeadLetters(queue)
    assert seqs(letters.find()) == [4]
    assert seqs(letters.find(("failed", "timed_out"))) == [1, 3, 2]
    assert seqs(letters.find(("failed",), type="a.*")) == [1]
    assert seqs(letters.find(("failed",), since_ms=clock.now_ms - 2000)) == [3]


@pytest.mark.slow
def test_bulk_goes_on_while_what_it_finds_is_changed(bus: Bus) -> None:
    """Q-23: 1,200 dead letters, each tried again as it is found."""
    queue = Queue.create(bus, "job", max_attempts=1)
    publish(bus, 1200)
    for limit in (1000, 1000):
        claims = queue.claim("worker", limit=limit)
        queue.end_many([(claim, Outcome(status="failed"), ()) for claim in claims])
    rest = queue.claim("worker", limit=1000)
    queue.end_many([(claim, Outcome(status="failed"), ()) for claim in rest])
    control, letters = JobControl(queue), DeadLetters(queue)
    with bus.transaction():
        retried = [control.retry(one.seq).seq for one in letters.find()]
    assert retried == list(range(1, 1201))
    assert seqs(letters.find()) == []
    assert counts(queue)["open"] == 1200


def test_counts_tell_by_state_without_the_successes(bus: Bus, clock: Clock) -> None:
    """Q-23, P-03: what a person watches: what waits and for what, what runs, what went wrong."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus, 4)
    publish(bus, headers=work_headers(available_at_ms=clock.now_ms + 1000))
    publish(bus, 2, headers=work_headers(dedupe_key="k"))
    done, failed, _, _ = queue.claim("worker", limit=4)
    queue.complete(done)
    queue.fail(failed, "no")
    assert counts(queue) == {
        "open": 1,
        "time": 1,
        "key": 1,
        "running": 2,
        "failed": 1,
        "timed_out": 0,
        "dead": 0,
    }
    assert seqs(list_jobs(queue, ["queued"], 9)) == [6, 5, 7]
    assert seqs(list_jobs(queue, ["running"], 9)) == [4, 3]


def test_every_attempt_stays_to_be_seen(bus: Bus) -> None:
    """K-06: also after people have begun it again."""
    queue = Queue.create(bus, "job", max_attempts=1)
    control = JobControl(queue)
    publish(bus)
    for number in range(3):
        queue.fail(take(queue), f"failure {number}")
        control.retry(1)
    assert [record.error for record in attempts(queue)] == ["failure 0", "failure 1", "failure 2"]
    assert [record.attempt for record in attempts(queue)] == [1, 1, 1]


def test_what_the_queue_has_not_looked_at_can_be_cancelled(bus: Bus) -> None:
    """A person has the seq from the log, before any worker came."""
    queue = Queue.create(bus, "job")
    publish(bus)
    assert JobControl(queue).cancel(1).state == "cancelled"
