"""Ends of claims: each once, by its owner, with the job and the replies in one transaction."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from ackbus import Bus, Draft
from ackbus.errors import InvalidInput
from ackbus.subscribers.jobs.claims import Claim, Outcome
from ackbus.subscribers.jobs.errors import ClaimLost, WrongJobState
from ackbus.subscribers.jobs.jobs import STATES
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue

from .conftest import Clock
from .work import attempts, job, publish, state, statuses, take

ENDS = ("completed", "failed", "timed_out")


@pytest.mark.parametrize("first", ENDS)
@pytest.mark.parametrize("second", ENDS)
def test_claim_ends_once(bus: Bus, first: str, second: str) -> None:
    """P-32, K-09, D-15: the second end is refused, and claim and job stay as they are."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus)
    claim = take(queue)
    queue.end(claim, Outcome(status=first, error="first", result="first"))
    before = (job(queue), attempts(queue))
    with pytest.raises(ClaimLost, match=f"it ended as {first}"):
        queue.end(claim, Outcome(status=second, error="second", result="second"))
    assert (job(queue), attempts(queue)) == before


def test_unknown_claim_is_refused(bus: Bus) -> None:
    """P-32: an unknown token is no claim that somebody may end."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue)
    with pytest.raises(ClaimLost, match="there is no such claim"):
        queue.complete(replace(claim, token=999))
    assert state(queue) == "running"


def test_claim_is_ended_by_its_own_queue_only(bus: Bus) -> None:
    """P-32: another queue's job for the same message is not this claim's to settle."""
    queue, other = Queue.create(bus, "job"), Queue.create(bus, "other", "job")
    publish(bus)
    claim = take(queue)
    other.fill()
    acts: list[Callable[[Claim], object]] = [
        other.complete,
        other.release,
        lambda claim: other.fail(claim, "no"),
        lambda claim: other.cancel(claim, "no"),
    ]
    for act in acts:
        with pytest.raises(InvalidInput, match="is of queue 'job', not 'other'"):
            act(claim)
    assert (state(queue), state(other)) == ("running", "queued")
    queue.complete(claim)


@pytest.mark.parametrize("status", ["active", "lost", "queued", "succeeded", ""])
def test_claim_ends_with_nothing_else(status: str) -> None:
    """D-15, P-06: what is no end is refused before anything is stored."""
    with pytest.raises(InvalidInput, match=r"completed, failed, timed_out, not"):
        Outcome(status=status)


@pytest.mark.parametrize("end", ENDS)
def test_end_is_stamped(bus: Bus, clock: Clock, end: str) -> None:
    """K-13, P-32: each of the three has a time, an active claim has none."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus)
    claim = take(queue)
    assert attempts(queue)[0].ended_at_ms is None
    clock.advance(3)
    queue.end(claim, Outcome(status=end))
    assert attempts(queue)[0].ended_at_ms == job(queue).ended_at_ms == clock.now_ms


def test_what_the_worker_reports_is_kept(bus: Bus) -> None:
    """P-03, pitfall 12: for people, on the claim; long output is cut."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus, 2)
    first, second = queue.claim("worker", limit=2)
    queue.end(
        first,
        Outcome(
            status="failed",
            error="exit status 3",
            exit_code=3,
            stderr="x" * 100_000,
            logs=[{"level": "warn", "message": "slow"}],
        ),
    )
    queue.complete(second, result={"lines": 12})
    (failed,), (done,) = attempts(queue, 1), attempts(queue, 2)
    assert (failed.exit_code, failed.error, failed.result) == (3, "exit status 3", None)
    assert failed.stderr == "x" * 65_536
    assert failed.logs == '[{"level":"warn","message":"slow"}]'
    assert done.result == '{"lines":12}'
    assert job(queue, 1).error == "exit status 3"


def test_text_that_is_no_unicode_is_kept_as_python_shows_it(bus: Bus) -> None:
    """Bad input: a command may print any bytes, and its end is stored all the same."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus)
    broken = b"caf\xe9".decode(errors="surrogateescape")
    queue.end(take(queue), Outcome(status="failed", error=broken, stderr=broken, result=broken))
    (record,) = attempts(queue)
    assert (record.error, record.stderr, record.result) == ("caf\\udce9",) * 3
    assert job(queue).error == "caf\\udce9"


def test_end_and_reply_are_one_transaction(bus: Bus) -> None:
    """Promise 7, pitfall 13: a reply that can't be stored leaves the claim as it was."""
    queue = Queue.create(bus, "job")
    (seq,) = publish(bus)
    request = bus.get(seq)
    assert request is not None
    claim = take(queue)
    bad = Draft("job.done", from_agent="worker", in_reply_to="no such message")
    with pytest.raises(Exception, match="no such message"):
        queue.complete(claim, bad)
    assert (state(queue), statuses(queue)) == ("running", ["active"])
    reply = Draft("job.done", from_agent="worker", in_reply_to=request.id)
    (receipt,) = queue.complete(claim, reply)
    answer = bus.get(receipt.seq)
    assert answer is not None
    assert (answer.in_reply_to, answer.conversation) == (request.id, request.id)
    assert state(queue) == "succeeded"


def test_failure_that_is_tried_again_publishes_nothing(bus: Bus) -> None:
    """Promise 7: the requester hears of the end of the job, not of each attempt."""
    queue = Queue.create(bus, "job", max_attempts=2, backoff_s=0)
    publish(bus)
    reply = Draft("job.failed", from_agent="worker")
    assert queue.fail(take(queue), "no", reply) == []
    assert len(queue.fail(take(queue), "no", reply)) == 1
    assert [message.type for message in bus.read()] == ["job", "job.failed"]


def test_several_claims_end_in_one_transaction(bus: Bus, clock: Clock) -> None:
    """P-32: one that is lost does not keep the others from ending."""
    queue = Queue.create(bus, "job")
    publish(bus, 3)
    late = take(queue, lease_s=1)
    clock.advance(1)
    first, second = queue.claim("other", limit=9)[:2]
    results = queue.end_many(
        [
            (claim, Outcome(), [Draft("done", number, from_agent="w")] * number)
            for number, claim in enumerate((first, late, second), 1)
        ]
    )
    told = [[bus.log.at(receipt.seq) for receipt in receipts] for receipts, _ in results]
    assert [[m.payload for m in found if m] for found in told] == [[1], [], [3, 3, 3]]
    assert [type(error) for _, error in results] == [type(None), ClaimLost, type(None)]
    assert [message.payload for message in bus.read(after_seq=3)] == [1, 3, 3, 3]


def test_one_refused_reply_undoes_all_ends_together(bus: Bus) -> None:
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    first, second = queue.claim("worker", limit=2)
    bad = Draft("no type", from_agent="worker")
    with pytest.raises(InvalidInput):
        queue.end_many([(first, Outcome(), []), (second, Outcome(), [bad])])
    assert [state(queue, seq) for seq in (1, 2)] == ["running", "running"]


def test_released_job_is_claimed_again_as_the_same_attempt(bus: Bus) -> None:
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    claim = take(queue)
    queue.release(claim, "stopping")
    again = take(queue)
    assert (again.message.seq, again.attempt) == (1, 1)
    assert [(record.status, record.error) for record in attempts(queue)] == [
        ("lost", "stopping"),
        ("active", None),
    ]
    with pytest.raises(ClaimLost, match="stopping"):
        queue.complete(claim)


def test_cancelled_job_is_over_for_good(bus: Bus) -> None:
    """D-15: without success, failure or reply."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue)
    queue.cancel(claim, "not needed any more")
    assert (state(queue), job(queue).error) == ("cancelled", "not needed any more")
    with pytest.raises(ClaimLost):
        queue.complete(claim)
    assert queue.claim("worker") == []


def test_words_for_states_are_one_set(bus: Bus) -> None:
    """X-15, U-33: a claim's words for its ends, a job's words for what they led to."""
    queue = Queue.create(bus, "job", retry="asked")
    assert (
        *("queued", "running", "succeeded", "failed", "timed_out", "dead", "cancelled"),
    ) == STATES
    publish(bus, 3)
    for end in ENDS:
        queue.end(take(queue), Outcome(status=end))
    assert [(statuses(queue, seq)[0], state(queue, seq)) for seq in (1, 2, 3)] == [
        ("completed", "succeeded"),
        ("failed", "failed"),
        ("timed_out", "timed_out"),
    ]


def to_queued(queue: Queue, _: JobControl) -> None:
    queue.fill()


def to_running(queue: Queue, _: JobControl) -> None:
    take(queue)


def to_succeeded(queue: Queue, _: JobControl) -> None:
    queue.complete(take(queue))


def to_failed(queue: Queue, _: JobControl) -> None:
    queue.fail(take(queue), "no", retry=False)


def to_timed_out(queue: Queue, _: JobControl) -> None:
    queue.end(take(queue), Outcome(status="timed_out"))


def to_dead(queue: Queue, _: JobControl) -> None:
    queue.fail(take(queue), "no", retry=True)


def to_cancelled(queue: Queue, control: JobControl) -> None:
    queue.fill()
    control.cancel(1)


ARRIVALS = {
    "queued": to_queued,
    "running": to_running,
    "succeeded": to_succeeded,
    "failed": to_failed,
    "timed_out": to_timed_out,
    "dead": to_dead,
    "cancelled": to_cancelled,
}


@pytest.mark.parametrize("at", STATES)
def test_machine_of_a_job(bus: Bus, at: str) -> None:
    """D-14, D-15, U-33, U-77: from each state, what people may do, and what is refused.

    What workers may do follows from their claims: they have one only while the job runs.
    """
    queue = Queue.create(bus, "job", retry="asked", max_attempts=1)
    control = JobControl(queue)
    publish(bus)
    ARRIVALS[at](queue, control)
    assert state(queue) == at

    allowed = {
        "queued": {"cancel"},
        "running": {"cancel"},
        "succeeded": set(),
        "failed": {"retry", "cancel"},
        "timed_out": {"retry", "cancel"},
        "dead": {"retry", "cancel"},
        "cancelled": {"retry"},
    }[at]
    if "retry" not in allowed:
        with pytest.raises(WrongJobState, match=re.escape(f"is {at}: it can't be tried again")):
            control.retry(1)
    if "cancel" not in allowed:
        with pytest.raises(WrongJobState, match=f"is {at}: it can't be cancelled"):
            control.cancel(1)
    assert state(queue) == at
    assert len(queue.claim("worker")) == (at == "queued")
    if "retry" in allowed:
        assert control.retry(1).state == "queued"
        assert control.cancel(1).state == "cancelled"
    elif at != "succeeded":
        assert control.cancel(1).state == "cancelled"


def test_failure_under_failures_is_queued_again_and_then_dead(bus: Bus) -> None:
    """D-14: running → failed → queued, running → timed_out → queued, and at the last dead."""
    queue = Queue.create(bus, "job", max_attempts=3, backoff_s=0)
    publish(bus)
    for end in ("failed", "timed_out"):
        queue.end(take(queue), Outcome(status=end))
        assert state(queue) == "queued"
    queue.end(take(queue), Outcome(status="timed_out"))
    assert state(queue) == "dead"
    assert statuses(queue) == ["failed", "timed_out", "timed_out"]


def test_nothing_is_dropped_silently(bus: Bus, clock: Clock) -> None:
    """D-17: 40 jobs with every kind of end; each is over, waits, or runs under a lease."""
    queue = Queue.create(bus, "job", max_attempts=2, backoff_s=0)
    publish(bus, 40)
    for claim in queue.claim("worker", limit=30, lease_s=1):
        act = claim.message.seq % 5
        if act == 0:
            queue.complete(claim)
        elif act == 1:
            queue.fail(claim, "no")
        elif act == 2:
            queue.release(claim)
        elif act == 3:
            queue.cancel(claim, "no")
    clock.advance(1)
    queue.claim("another", limit=3)
    counts: dict[str, int] = {}
    for seq in range(1, 41):
        counts[state(queue, seq)] = counts.get(state(queue, seq), 0) + 1
    assert counts == {"succeeded": 6, "cancelled": 6, "running": 3, "queued": 25}
