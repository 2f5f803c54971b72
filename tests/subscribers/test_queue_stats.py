"""The view of queues: depth, oldest wait, times and rates, all from stored timestamps."""

from itertools import chain
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.errors import InvalidInput
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Claim, Outcome
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import DeadLetters
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.statistics import MAX_SAMPLE, QueueStats, Spread
from ackbus.subscribers.views import list_jobs

from ..programs import connect
from .conftest import Clock
from .work import attempts, publish, take

#: How each attempt of the known data set ended, after how many seconds of waiting and running.
ATTEMPTS = [
    ("completed", 1, 2),
    ("completed", 2, 4),
    ("completed", 3, 6),
    ("failed", 4, 8),
    ("timed_out", 10, 30),
]


def work_through(queue: Queue, clock: Clock) -> None:
    """Make the attempts of the known data set, one after the other."""
    for status, wait_s, run_s in ATTEMPTS:
        publish(queue.bus)
        clock.advance(wait_s)
        claim = take(queue)
        clock.advance(run_s)
        queue.end(claim, Outcome(status=status, error=None if status == "completed" else "why"))


def test_window_of_a_known_data_set(bus: Bus, clock: Clock) -> None:
    """U-72, U-73, U-74: every number; a timeout is a status, so no words of errors are guessed."""
    queue = Queue.create(bus, "job", retry="asked")
    work_through(queue, clock)
    stats = QueueStats.of(queue)
    assert (stats.ended, stats.completed, stats.failures, stats.timeouts, stats.lost) == (
        *(5, 3, 1, 1),
        0,
    )
    assert (stats.success_rate, stats.timeout_rate) == (0.6, 0.2)
    assert stats.wait == Spread(p50_ms=3000, p95_ms=10_000, avg_ms=4000.0, sample_size=5)
    assert stats.run == Spread(p50_ms=6000, p95_ms=30_000, avg_ms=10_000.0, sample_size=5)
    assert (stats.window_s, stats.covered_s) == (86_400, 70)  # the queue is so old
    assert stats.rate_per_s == 5 / 70


def test_rates_have_four_digits(bus: Bus, clock: Clock) -> None:
    """U-73: 2 of 3 are 0.6667."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus, 3)
    queue.complete(take(queue))
    queue.complete(take(queue))
    queue.end(take(queue), Outcome(status="timed_out", error="too slow"))
    stats = QueueStats.of(queue)
    assert (stats.success_rate, stats.timeout_rate) == (0.6667, 0.3333)


def test_nothing_in_the_window_has_no_rate(bus: Bus, clock: Clock) -> None:
    """U-73: null when empty, and never a division by nothing."""
    empty = Spread(None, None, None, 0)
    queue = Queue.create(bus, "job")
    for stats in (QueueStats.of(queue), QueueStats.of(queue, window_s=0.001)):
        assert (stats.ended, stats.success_rate, stats.timeout_rate) == (0, None, None)
        assert (stats.wait, stats.run, stats.rate_per_s) == (empty, empty, 0)


def test_window_is_about_what_ended_in_it(bus: Bus, clock: Clock) -> None:
    """U-72, U-73: also what began before it; other windows see other attempts."""
    queue = Queue.create(bus, "job", retry="asked")
    work_through(queue, clock)
    assert QueueStats.of(queue, window_s=30).ended == 1  # which ran for all of them
    last = QueueStats.of(queue, window_s=29.9)
    assert (last.ended, last.timeouts, last.covered_s) == (1, 1, 29.9)
    clock.advance(30)
    assert QueueStats.of(queue, window_s=29.9).ended == 0
    assert QueueStats.of(queue, window_s=2_592_000).ended == 5


def test_backdated_rows_change_the_numbers(bus: Bus, bus_dir: Path, clock: Clock) -> None:
    """U-72: nothing is counted on the side: what the rows say is so."""
    queue = Queue.create(bus, "job", retry="asked")
    work_through(queue, clock)
    day_ms = 86_400_001  # and a little more
    with connect(bus_dir) as other:
        other.execute("UPDATE claims SET available_at_ms = available_at_ms - 5000 WHERE token = 1")
        other.execute(f"UPDATE claims SET ended_at_ms = ended_at_ms - {day_ms} WHERE token >= 4")
    stats = QueueStats.of(queue)
    assert (stats.ended, stats.success_rate, stats.timeouts) == (3, 1.0, 0)
    assert stats.wait == Spread(3000, 6000, 3666.7, 3)


def test_lost_attempts_have_no_run_time_and_no_part_in_the_success_rate(
    bus: Bus, clock: Clock
) -> None:
    """Released and lost attempts say nothing about the work; they are counted apart."""
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    queue.release(take(queue))
    take(queue, lease_s=10)
    clock.advance(3600)
    queue.complete(take(queue))
    stats = QueueStats.of(queue)
    assert (stats.ended, stats.completed, stats.lost, stats.success_rate) == (3, 1, 2, 1.0)
    assert (stats.run.sample_size, stats.wait.sample_size) == (1, 3)


def test_depth_compares_with_a_seeded_queue(bus: Bus, clock: Clock) -> None:
    """U-75: what waits for a worker, for its time, for its key; what runs; what ended badly."""
    queue = Queue.create(bus, "job", retry="asked")
    other = Queue.create(bus, "copy", "job", max_attempts=1)
    work_through(queue, clock)
    publish(bus, 4)
    publish(bus, 3, headers=work_headers(available_at_ms=clock.now_ms + 1000))
    publish(bus, 3, headers=work_headers(dedupe_key="k"))
    take(queue)
    stats = QueueStats.of(queue)
    assert (stats.waiting, stats.delayed, stats.held, stats.running) == (4, 3, 2, 1)
    assert (stats.failed, stats.timed_out, stats.dead) == (1, 1, 0)
    other.fail(take(other), "no")
    stats = QueueStats.of(other)  # filled as it was asked for
    assert (stats.waiting, stats.delayed, stats.held, stats.running) == (9, 3, 2, 0)
    assert (stats.failed, stats.timed_out, stats.dead) == (0, 0, 1)


def test_oldest_wait_is_that_of_what_a_worker_could_take(bus: Bus, clock: Clock) -> None:
    """U-72, D-34: not of what is delayed, held, or tried again only now."""
    queue = Queue.create(bus, "job", backoff_s=0)
    assert QueueStats.of(queue).oldest_wait_ms is None
    publish(bus, headers=work_headers(available_at_ms=clock.now_ms + 100_000))
    publish(bus)
    clock.advance(5)
    publish(bus)
    clock.advance(7)
    queue.fail(take(queue), "no")  # it waits from now on, and stands first all the same
    assert QueueStats.of(queue).oldest_wait_ms == 7000
    take(queue)
    take(queue)
    assert QueueStats.of(queue).oldest_wait_ms is None
    clock.advance(98)
    stats = QueueStats.of(queue)  # no worker has looked at the delayed one since it became due
    assert (stats.oldest_wait_ms, stats.delayed) == (10_000, 1)


def test_saturated_is_a_long_wait_while_workers_are_busy(bus: Bus, clock: Clock) -> None:
    """D-34: the revisit signal; not when nobody works, when it is paused, or after the wait."""
    queue = Queue.create(bus, "job", max_running=1)
    publish(bus, 2)
    clock.advance(61)
    assert not QueueStats.of(queue).is_saturated  # without workers more of them are no answer
    claim = take(queue, lease_s=600)
    assert QueueStats.of(queue).is_saturated
    file_of(bus).rows("UPDATE queues SET paused_at_ms = 1")
    assert not QueueStats.of(queue).is_saturated
    file_of(bus).rows("UPDATE queues SET paused_at_ms = NULL")
    queue.complete(claim)
    publish(bus)
    take(queue, lease_s=600)
    clock.advance(60)
    assert not QueueStats.of(queue).is_saturated  # over 60 s, not at 60 s
    clock.advance(0.001)
    assert QueueStats.of(queue).is_saturated


def claim_all(queue: Queue) -> list[Claim]:
    return list(chain.from_iterable(iter(lambda: queue.claim("worker", limit=500), [])))


def test_triggers_for_lanes_are_among_the_numbers(bus: Bus, clock: Clock) -> None:
    """Q-18: over 500 jobs a day, or a median wait over 30 s."""
    queue = Queue.create(bus, "job")
    publish(bus, 501)
    clock.advance(31)
    queue.end_many([(claim, Outcome(), ()) for claim in claim_all(queue)])
    stats = QueueStats.of(queue)
    assert (stats.ended, stats.wait.p50_ms) == (501, 31_000)


def add_claims(bus_dir: Path, queue: Queue, count: int, claimed_at_ms: int) -> None:
    """Add claims that completed a second after they began, one a millisecond."""
    with connect(bus_dir) as other:
        other.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance,"
            " available_at_ms, claimed_at_ms, lease_until_ms, status, ended_at_ms)"
            " SELECT ?, i, 1, 'g', 'i', ? + i, ? + i, 0, 'completed', ? + i + 1000 FROM n",
            (count, queue.info.id, claimed_at_ms, claimed_at_ms, claimed_at_ms),
        )


def test_newest_ten_thousand_attempts_count(bus: Bus, bus_dir: Path, clock: Clock) -> None:
    """U-73: the sample has a bound, and the rate is over the time that it covers."""
    queue = Queue.create(bus, "job")
    begin_ms = clock.now_ms
    add_claims(bus_dir, queue, MAX_SAMPLE + 5000, begin_ms)
    clock.advance(20)
    stats = QueueStats.of(queue)
    assert (stats.ended, stats.run.sample_size) == (MAX_SAMPLE, MAX_SAMPLE)
    assert stats.covered_s == (clock.now_ms - begin_ms - 5001) / 1000
    assert stats.rate_per_s == MAX_SAMPLE / stats.covered_s


def steps_of(bus: Bus, queue: Queue) -> int:
    """The steps of SQLite's machine for the statistics of a queue, in tens."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    file_of(bus).connection.set_progress_handler(count, 10)
    QueueStats.of(queue)
    file_of(bus).connection.set_progress_handler(None)
    return steps


def test_quiet_queue_stays_cheap_in_a_busy_bus(bus: Bus, bus_dir: Path, clock: Clock) -> None:
    """U-72: claims of all queues share a table; those of others cost a queue nothing."""
    quiet = Queue.create(bus, "job", retry="asked")
    busy = Queue.create(bus, "busy", "job")
    work_through(quiet, clock)
    before = steps_of(bus, quiet)
    add_claims(bus_dir, busy, 50_000, clock.now_ms)
    assert steps_of(bus, quiet) <= before + 1


@pytest.mark.parametrize("window_s", [0, -1, 2_592_001, float("nan"), float("inf")])
def test_window_that_is_none_is_refused(window_s: float, bus: Bus) -> None:
    """U-73: 720 hours at most."""
    with pytest.raises(InvalidInput, match=r"at most 30 days|window_s must be a number, not nan"):
        QueueStats.of(Queue.create(bus, "job"), window_s=window_s)


@pytest.mark.parametrize(
    ("count", "p50", "p95"), [(1, 1, 1), (2, 1, 2), (19, 10, 19), (20, 10, 19), (100, 50, 95)]
)
def test_percentiles_are_nearest_ranks(count: int, p50: int, p95: int) -> None:
    """U-73: a time that was really measured, of 1 to count milliseconds in any order."""
    spread = Spread.of([*range(count, count // 2, -1), *range(1, count // 2 + 1)])
    assert (spread.p50_ms, spread.p95_ms, spread.sample_size) == (p50, p95, count)
    assert spread.avg_ms == (count + 1) / 2


# Lists ----------------------------------------------------------------------------------------


def listed(queue: Queue, *states: str, limit: int = 99) -> list[int]:
    return [job.seq for job in list_jobs(queue, states, limit)]


def test_jobs_are_listed_newest_first_or_in_line(bus: Bus, clock: Clock) -> None:
    """U-75: what waits comes in the order of claiming, then the delayed, then the held."""
    queue = Queue.create(bus, "job", ordering="priority", retry="asked")
    publish(bus, 2, priority=2)  # 1, 2
    publish(bus)  # 3
    publish(bus, headers=work_headers(available_at_ms=clock.now_ms + 9000))  # 4
    publish(bus, headers=work_headers(available_at_ms=clock.now_ms + 5000))  # 5
    publish(bus, 2, priority=0, headers=work_headers(dedupe_key="k"))  # 6, 7
    publish(bus, 3, priority=0)  # 8, 9, 10
    running = take(queue)
    queue.fail(take(queue), "no")
    queue.complete(take(queue))
    assert running.message.seq == 6
    assert listed(queue) == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert listed(queue, "queued") == [10, 3, 1, 2, 5, 4, 7]
    assert listed(queue, "queued", limit=2) == [10, 3]
    assert listed(queue, "running") == [6]
    assert listed(queue, "failed") == [8]
    assert listed(queue, "failed", "succeeded", "running") == [9, 8, 6]
    assert listed(queue, "queued", "failed", limit=3) == [10, 8, 7]
    assert listed(queue, "dead", "cancelled", "timed_out") == []
    with pytest.raises(InvalidInput, match="no state 'finished'; the states are queued, running"):
        list_jobs(queue, ["finished"], 1)


@pytest.mark.slow
def test_dead_letters_are_found_and_changed_in_pages(bus: Bus, clock: Clock) -> None:
    """Issue 3, item 3: more than a transaction holds; each once, and none of the others."""
    queue = Queue.create(bus, "job", max_attempts=1, backoff_s=0)
    publish(bus, 1103)
    failed = Outcome(status="failed", error="no")
    queue.end_many([(claim, failed, ()) for claim in claim_all(queue)[:-1]])
    letters = DeadLetters(queue)
    assert [job.seq for job in letters.find()] == list(range(1, 1103))
    assert list(letters.find(type="other")) == []
    assert list(letters.find(since_ms=clock.now_ms + 1)) == []
    clock.advance(10)
    requeued = list(letters.requeue(letters.find(since_ms=clock.now_ms - 10_000)))
    assert [job.seq for job in requeued] == list(range(1, 1103))
    assert {(job.state, job.attempt) for job in requeued} == {("queued", 1)}
    assert list(letters.find()) == []
    assert [claim.status for claim in attempts(queue)] == ["failed"]


def test_dead_letter_that_has_left_meanwhile_is_passed_over(bus: Bus) -> None:
    """PITFALLS 5: what another person requeued in between is neither dropped nor an error."""
    queue = Queue.create(bus, "job", max_attempts=1)
    publish(bus, 2)
    for _ in range(2):
        queue.fail(take(queue), "no")
    letters = DeadLetters(queue)
    found = list(letters.find())
    list(letters.requeue(found[:1]))
    assert [job.seq for job in letters.drop(found)] == [2]
    assert [job.state for job in list_jobs(queue, [], 9)] == ["cancelled", "queued"]


def test_a_queue_leads_to_its_jobs_dead_letters_and_statistics(bus: Bus) -> None:
    queue = Queue.create(bus, "job", max_attempts=1)
    for _ in range(3):
        publish(bus)
    queue.fail(take(queue), "why")
    queue.complete(take(queue))
    assert [job.seq for job in queue.jobs.list()] == [3, 2, 1]
    assert [job.seq for job in queue.jobs.list("dead", "succeeded")] == [2, 1]
    assert [job.seq for job in queue.jobs.list(limit=1, before_seq=3)] == [2]
    assert [job.seq for job in queue.dead_letters.find()] == [1]
    assert queue.jobs.retry(1) == queue.jobs.get(1)
    assert queue.stats(window_s=60).waiting == queue.stats().waiting == 2
    with pytest.raises(InvalidInput, match="jobs have no state 'gone'"):
        queue.jobs.list("gone")
