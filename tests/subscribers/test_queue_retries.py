"""Retries: how often, after which pause, and what is left when no attempt is."""

from typing import Any

import pytest

from ackbus import Bus
from ackbus.errors import AckbusError, InvalidInput
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.jobs.policy import BOUNDS, CHOICES, Policy
from ackbus.subscribers.queues.job_control import DeadLetters, JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.subscribers.queues.queues import Queues

from .conftest import Clock
from .work import attempts, job, publish, seqs, state, statuses, take


def fail_until_over(queue: Queue, clock: Clock) -> int:
    """Fails every attempt at job 1, waiting for each; returns how many there were."""
    count = 0
    while claims := queue.claim("worker"):
        queue.fail(claims[0], "exit status 1")
        count += 1
        clock.now_ms = max(clock.now_ms, queue.next_change_ms() or 0)
    return count


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"retry": "asked"}, (1, "failed")),
        ({"retry": "failures"}, (4, "dead")),
        ({"retry": "failures", "max_attempts": 1}, (1, "dead")),
        ({"retry": "failures", "max_attempts": 6, "backoff_s": 0}, (6, "dead")),
    ],
    ids=str,
)
def test_policy_says_how_often_a_failure_is_tried_again(
    bus: Bus, clock: Clock, rules: dict[str, Any], expected: tuple[int, str]
) -> None:
    """X-02, D-69, K-02: topics take a failure for an answer, jobs have four attempts."""
    queue = Queue.create(bus, "job", **rules)
    publish(bus)
    assert (fail_until_over(queue, clock), state(queue)) == expected
    assert len(attempts(queue)) == expected[0]


def test_job_begins_with_its_first_of_four_attempts(bus: Bus) -> None:
    """D-11."""
    queue = Queue.create(bus, "job")
    publish(bus)
    queue.fill()
    assert (job(queue).attempt, job(queue).max_attempts) == (1, 4)


@pytest.mark.parametrize(
    ("attempt", "least_s", "most_s"), [(1, 30, 60), (2, 60, 90), (3, 120, 150)]
)
def test_pause_doubles_and_is_spread_by_one_base(attempt: int, least_s: int, most_s: int) -> None:
    """D-69: base · 2^(attempt-1) + random(0, base), with a base of 30 s."""
    policy = Policy()
    assert policy.backoff_ms(attempt, 0.0) == least_s * 1000
    assert policy.backoff_ms(attempt, 1.0) == most_s * 1000
    assert least_s * 1000 < policy.backoff_ms(attempt, 0.5) < most_s * 1000


def test_pauses_lie_in_their_bands(bus: Bus, clock: Clock) -> None:
    """D-69, D-33: not a millisecond before it is due, and then at once; dead after the fourth."""
    queue = Queue.create(bus, "job")
    publish(bus)
    for least_ms, most_ms in ((30_000, 60_000), (60_000, 90_000), (120_000, 150_000)):
        queue.fail(take(queue), "no")
        due_ms = job(queue).available_at_ms
        assert least_ms <= due_ms - clock.now_ms <= most_ms
        clock.now_ms = due_ms - 1
        assert queue.claim("worker") == []
        clock.now_ms = due_ms
    queue.fail(take(queue), "no")
    assert state(queue) == "dead"


def test_pauses_of_what_failed_together_differ(bus: Bus) -> None:
    """D-69: the random part keeps a herd from coming back as one."""
    queue = Queue.create(bus, "job")
    publish(bus, 20)
    for claim in queue.claim("worker", limit=20):
        queue.fail(claim, "the service is down")
    assert len({job(queue, seq).available_at_ms for seq in range(1, 21)}) > 15


def test_no_number_of_attempts_overflows_the_pause() -> None:
    """D-69: it is bounded by ten years."""
    assert Policy(max_attempts=10_000).backoff_ms(9_999, 1.0) == 315_360_000_000


def test_attempts_and_base_are_a_queues_own(bus: Bus, clock: Clock) -> None:
    """D-73: five attempts, the first pause in [60, 120) seconds; its neighbour keeps its own."""
    queue = Queue.create(bus, "slow", "job", max_attempts=5, backoff_s=60)
    plain = Queue.create(bus, "plain", "job")
    publish(bus)
    queue.fail(take(queue), "no")
    assert 60_000 <= job(queue).available_at_ms - clock.now_ms <= 120_000
    clock.now_ms = job(queue).available_at_ms
    assert fail_until_over(queue, clock) == 4
    assert (job(queue).attempt, job(queue).max_attempts) == (5, 5)
    plain.fill()
    assert job(plain).max_attempts == 4


@pytest.mark.parametrize(("retry", "left"), [("failures", "dead"), ("asked", "failed")])
def test_what_must_never_be_retried_is_not(bus: Bus, retry: str, left: str) -> None:
    """D-70, D-71, X-14: exit status 78, or `retry: false`: one attempt, none to come."""
    queue = Queue.create(bus, "job", retry=retry)
    publish(bus)
    queue.end(take(queue), Outcome(status="failed", exit_code=78, retry=False))
    found = job(queue)
    assert (found.state, found.attempt) == (left, 1)
    assert queue.next_change_ms() is None
    assert queue.claim("worker") == []


@pytest.mark.parametrize("retry", ["failures", "asked"])
def test_what_asks_for_another_attempt_gets_it_up_to_the_last(
    bus: Bus, clock: Clock, retry: str
) -> None:
    """X-14, X-02: exit status 75 is tried again under either policy; the last one is for people."""
    queue = Queue.create(bus, "job", retry=retry, max_attempts=2)
    publish(bus)
    for _ in range(2):
        queue.end(take(queue), Outcome(status="failed", exit_code=75, retry=True, retry_after_s=9))
        clock.advance(9)
    assert (state(queue), statuses(queue)) == ("dead", ["failed", "failed"])


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(status="failed", exit_code=1),
        Outcome(status="failed", exit_code=-1, error="killed by SIGKILL"),
        Outcome(status="failed", exit_code=0, error="the response is not JSON"),
        Outcome(status="timed_out", error="30 s are over"),
    ],
    ids=lambda outcome: outcome.error or "exit status 1",
)
def test_everything_else_is_tried_again(bus: Bus, outcome: Outcome) -> None:
    """D-72, X-14: as far as the queue's policy is to try failures again."""
    queue = Queue.create(bus, "job")
    publish(bus)
    queue.end(take(queue), outcome)
    assert (state(queue), job(queue).attempt) == ("queued", 2)


@pytest.mark.parametrize(
    ("after_s", "pause_ms"),
    [(0, 0), (1.5, 1_500), (-5, 0), (float("inf"), 315_360_000_000), (1e300, 315_360_000_000)],
)
def test_worker_may_say_when(bus: Bus, clock: Clock, after_s: float, pause_ms: int) -> None:
    """D-69: within bounds, whatever it says."""
    queue = Queue.create(bus, "job")
    publish(bus)
    queue.fail(take(queue), "busy", after_s=after_s)
    assert job(queue).available_at_ms - clock.now_ms == pause_ms


def test_job_that_waits_for_its_next_attempt_blocks_nobody(bus: Bus, clock: Clock) -> None:
    """D-33, D-16: the newer one runs meanwhile; when it is due, the older one is first again."""
    queue = Queue.create(bus, "job")
    publish(bus, 3)
    queue.fail(take(queue), "no", after_s=10)
    assert take(queue).message.seq == 2
    clock.advance(10)
    assert seqs(queue.claim("worker", limit=9)) == [1, 3]


def test_times_and_error_are_there_when_they_mean_something(bus: Bus, clock: Clock) -> None:
    """D-12: begun, over, next attempt, last error: each null until it is so."""
    queue = Queue.create(bus, "job")
    publish(bus)
    queue.fill()
    first = job(queue)
    assert (first.started_at_ms, first.ended_at_ms, first.error) == (None, None, None)
    assert (first.gate, first.available_at_ms) == ("open", clock.now_ms)
    clock.advance(1)
    claim = take(queue)
    running = job(queue)
    assert (running.started_at_ms, running.ended_at_ms, running.error) == (clock.now_ms, None, None)
    queue.fail(claim, "no", after_s=5)
    waiting = job(queue)
    assert (waiting.state, waiting.gate, waiting.error) == ("queued", "time", "no")
    assert (waiting.ended_at_ms, waiting.available_at_ms) == (None, clock.now_ms + 5_000)
    clock.advance(5)
    queue.complete(take(queue))
    over = job(queue)
    assert (over.started_at_ms, over.ended_at_ms, over.error) == (clock.now_ms, clock.now_ms, None)


def test_dead_letters_are_listed_shown_tried_again_and_dropped(bus: Bus) -> None:
    """Q-23, X-02: what failed for good stays where people can see it."""
    queue = Queue.create(bus, "job", max_attempts=2, backoff_s=0)
    control, letters = JobControl(queue), DeadLetters(queue)
    publish(bus, 3)
    for number in range(4):
        queue.fail(take(queue), f"failure {number}")
    assert seqs(letters.find()) == [1, 2]
    assert [(r.attempt, r.error) for r in attempts(queue, 1)] == [
        (1, "failure 0"),
        (2, "failure 1"),
    ]
    assert (control.retry(1).state, control.cancel(2, "dropped").state) == ("queued", "cancelled")
    assert seqs(letters.find()) == []
    again = take(queue)
    assert (again.message.seq, again.attempt) == (1, 1)
    queue.complete(again)
    assert statuses(queue, 1) == ["failed", "failed", "completed"]
    assert job(queue, 2).error == "dropped"


def test_policy_may_change_while_jobs_wait(bus: Bus, clock: Clock) -> None:
    """D-73, X-02: the failure that comes next goes by the policy of that moment."""
    queue = Queue.create(bus, "job")
    publish(bus)
    claim = take(queue)
    change_policy(bus, "job", retry="asked")
    queue.fail(claim, "no")
    assert state(queue) == "failed"


def test_attempts_of_a_job_are_settled_when_it_is_taken_in(bus: Bus) -> None:
    """D-11: a change is for jobs that come after it."""
    queue = Queue.create(bus, "job", max_attempts=2)
    publish(bus)
    queue.fill()
    change_policy(bus, "job", max_attempts=9)
    publish(bus)
    assert [claim.max_attempts for claim in queue.claim("worker", limit=9)] == [2, 9]


@pytest.mark.parametrize(
    "rules",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": True},
        {"max_attempts": 2**31},
        {"max_running": 0},
        {"max_running": 1.5},
        {"max_running_per_key": None},
        {"backoff_s": -1},
        {"backoff_s": float("nan")},
        {"backoff_s": "30"},
        {"ageing_s": 0},
        {"dedupe_window_s": -0.001},
        {"ordering": "lifo"},
        {"retry": "always"},
        {"on_lost": "delete"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_policy_that_is_none_is_refused(bus: Bus, rules: dict[str, Any]) -> None:
    """Bad input: when a queue is made, and when its policy is changed."""
    Queue.create(bus, "there")
    with pytest.raises(InvalidInput):
        Queue.create(bus, "new", **rules)
    with pytest.raises(InvalidInput):
        change_policy(bus, "there", **rules)
    assert [info.policy for info in Queues(bus).list()] == [Policy()]


def test_the_table_has_the_defaults_and_bounds_of_a_policy(bus: Bus) -> None:
    file_of(bus).rows(
        "INSERT INTO queues (name, pattern, filled_seq, created_at_ms) VALUES ('q', 't', 0, 0)"
    )
    assert Queues(bus).get("q").policy == Policy()
    for rule, (least, most) in BOUNDS.items():
        column, unit = (rule[:-1] + "ms", 1000) if rule.endswith("_s") else (rule, 1)
        for value, is_taken in (
            (round(least * unit), True),
            (round(least * unit) - 1, False),
            (most * unit, True),
            (most * unit + 1, False),
        ):
            assert takes(bus, column, value) is is_taken, f"{column} = {value}"
    for rule, words in CHOICES.items():
        assert all(takes(bus, rule, word) for word in words)
        assert not takes(bus, rule, "other")


def takes(bus: Bus, column: str, value: object) -> bool:
    try:
        file_of(bus).rows(f"UPDATE queues SET {column} = ? WHERE name = 'q'", (value,))
    except AckbusError:
        return False
    return True
