"""The order of claiming: by age, or by priority with ageing."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, Priority
from ackbus.errors import InvalidInput
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy

from ..programs import connect
from .conftest import Clock
from .work import publish, seqs, take

NORMAL, BACKGROUND, INTERACTIVE = Priority.NORMAL, Priority.BACKGROUND, Priority.INTERACTIVE


def publish_of(bus: Bus, *priorities: int) -> None:
    for priority in priorities:
        publish(bus, priority=priority)


def test_priority_first_and_then_age(bus: Bus, clock: Clock) -> None:
    """U-30, X-01: normal, background, interactive come out the other way round; ties by seq."""
    queue = Queue.create(bus, "job", ordering="priority")
    publish_of(bus, NORMAL, BACKGROUND, INTERACTIVE, NORMAL, BACKGROUND, INTERACTIVE)
    assert seqs(queue.claim("worker", limit=9)) == [3, 6, 1, 4, 2, 5]


def test_fifo_does_not_look_at_priority(bus: Bus) -> None:
    """X-01, D-16: the default is strict order, whatever senders ask for."""
    queue = Queue.create(bus, "job")
    publish_of(bus, BACKGROUND, NORMAL, INTERACTIVE)
    assert seqs(queue.claim("worker", limit=9)) == [1, 2, 3]


def test_equal_priorities_are_fifo(bus: Bus) -> None:
    """X-01, D-16: when nobody sets one, both orderings are the same."""
    queue = Queue.create(bus, "job", ordering="priority")
    publish(bus, 10)
    assert seqs(queue.claim("worker", limit=9)) == list(range(1, 10))


def test_the_most_urgent_is_found_behind_many(bus: Bus, clock: Clock) -> None:
    """X-01: also when what is urgent stands pages behind in the log."""
    queue = Queue.create(bus, "job", ordering="priority")
    publish(bus, 1200, priority=BACKGROUND)
    publish_of(bus, INTERACTIVE)
    assert take(queue).message.seq == 1201


def test_priority_that_is_missing_is_normal_and_an_unknown_one_is_refused(
    bus: Bus, bus_dir: Path
) -> None:
    """U-31: refused, where PushPals guesses: promise 11; SQL clients are held to it too."""
    queue = Queue.create(bus, "job", ordering="priority")
    with pytest.raises(InvalidInput, match="priority must be a whole number, not 'urgent'"):
        bus.publish_many([Draft("job", from_agent="boss", priority="urgent")])  # type: ignore[arg-type]
    with pytest.raises(Exception, match="priority BETWEEN 0 AND 2"):
        connect(bus_dir).execute(
            "INSERT INTO messages (id, ts_ms, from_agent, type, priority)"
            " VALUES ('m', 1, 'x', 'job', 7)"
        )
    publish(bus)
    assert take(queue).message.priority == NORMAL


def test_background_work_starts_within_a_bound_under_constant_interactive_load(
    bus: Bus, clock: Clock
) -> None:
    """Q-24, X-01: an interactive job a second, one worker that is never free; two steps of age."""
    queue = Queue.create(bus, "job", ordering="priority", ageing_s=60)
    publish_of(bus, BACKGROUND, INTERACTIVE)
    began_ms = clock.now_ms
    while (claim := take(queue)).message.priority != BACKGROUND:
        queue.complete(claim)
        clock.advance(1)
        publish_of(bus, INTERACTIVE)
    assert clock.now_ms - began_ms == 2 * 60_000


def test_normal_work_overtakes_interactive_by_one_step_of_age(bus: Bus, clock: Clock) -> None:
    """Q-24: exactly as old as a step, it goes first; a millisecond less, it does not."""
    queue = Queue.create(bus, "job", ordering="priority", ageing_s=10)
    publish_of(bus, NORMAL)
    clock.advance(9.999)
    publish_of(bus, INTERACTIVE)
    clock.advance(0.001)
    publish_of(bus, INTERACTIVE)
    assert seqs(queue.claim("worker", limit=9)) == [2, 1, 3]


def test_age_counts_from_the_publishing_not_from_the_filling(bus: Bus, clock: Clock) -> None:
    """Q-24: a queue may be filled late, by its first claim."""
    queue = Queue.create(bus, "job", ordering="priority", ageing_s=60)
    publish_of(bus, BACKGROUND)
    clock.advance(121)
    publish_of(bus, INTERACTIVE)
    assert seqs(queue.claim("worker", limit=9)) == [1, 2]


def test_a_clock_that_steps_back_turns_no_order_around(bus: Bus, clock: Clock) -> None:
    """X-08: what comes after an hour back does not look an hour older."""
    queue = Queue.create(bus, "job", ordering="priority")
    publish_of(bus, NORMAL)
    queue.fill()
    clock.advance(-3600)
    publish_of(bus, NORMAL, BACKGROUND, INTERACTIVE)
    assert seqs(queue.claim("worker", limit=9)) == [4, 1, 2, 3]


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_and_set_right_again_leaves_order_and_ageing(
    bus: Bus, clock: Clock, hours: int
) -> None:
    """X-08, Q-24: whatever was published under the wrong time, in both directions."""
    queue = Queue.create(bus, "job", ordering="priority", ageing_s=60)
    publish_of(bus, NORMAL, INTERACTIVE)  # 1, 2
    queue.fill()
    clock.advance(hours * 3600)
    publish_of(bus, NORMAL, INTERACTIVE)  # 3, 4
    queue.fill()
    clock.advance(-hours * 3600)
    publish_of(bus, NORMAL, INTERACTIVE)  # 5, 6
    queue.fill()
    claimed = seqs(queue.claim("worker", limit=9, lease_s=3600))
    for normal in (1, 3, 5):  # by age among equals, and the urgent before what came with it
        assert claimed.index(normal + 1) < claimed.index(normal)
    assert [seq for seq in claimed if seq % 2] == [1, 3, 5]
    assert [seq for seq in claimed if not seq % 2] == [2, 4, 6]
    publish_of(bus, BACKGROUND)  # 7
    for _ in range(4):
        clock.advance(40)
        publish_of(bus, INTERACTIVE)  # 8 to 11: the first three are less than two steps younger
    assert seqs(queue.claim("worker", limit=9)) == [8, 9, 7, 10, 11]


def taken_in_before_and_after_a_step_back(bus: Bus, clock: Clock, **rules: Any) -> Queue:
    """A queue of three jobs; an hour is taken off the clock after the first was taken in."""
    queue = Queue.create(bus, "job", **rules)
    publish_of(bus, NORMAL)
    queue.fill()
    clock.advance(-3600)
    publish_of(bus, NORMAL, NORMAL)
    queue.fill()
    return queue


@pytest.mark.parametrize("ordering", ["fifo", "priority"])
def test_ranking_anew_keeps_the_order_that_a_clock_set_back_left(
    bus: Bus, clock: Clock, ordering: str
) -> None:
    """X-08, X-01: by the queue's own clock, also what came in while the queue was `fifo`."""
    queue = taken_in_before_and_after_a_step_back(bus, clock, ordering=ordering)
    for ageing_s in (60, 60, 5):
        change_policy(bus, "job", ordering="priority", ageing_s=ageing_s)
    clock.advance(1)
    publish_of(bus, NORMAL)
    assert seqs(queue.claim("worker", limit=9)) == [1, 2, 3, 4]


@pytest.mark.parametrize("how", ["released", "failed", "retried by hand"])
def test_job_that_waits_again_has_its_old_place_after_a_clock_set_back(
    bus: Bus, clock: Clock, how: str
) -> None:
    """X-08: its age counts from its first day in the queue, whatever the clock did since."""
    queue = Queue.create(bus, "job", ordering="priority", backoff_s=0)
    publish_of(bus, NORMAL)
    claim = take(queue)
    clock.advance(-3600)
    publish_of(bus, NORMAL, NORMAL)
    queue.fill()
    if how == "released":
        queue.release(claim)
    else:
        queue.fail(claim, "no", retry=how == "failed")
    if how == "retried by hand":
        JobControl(queue).retry(1)
    assert seqs(queue.claim("worker", limit=9)) == [1, 2, 3]


def test_ranking_anew_keeps_the_order_of_senders_whose_clocks_differ(
    bus: Bus, clock: Clock
) -> None:
    """X-08: a sender whose clock is behind does not overtake when the same rule is set again."""
    queue = Queue.create(bus, "job", ordering="priority")
    now_ms = clock.now_ms
    bus.publish_many([Draft("job", from_agent="a", ts_ms=now_ms - ms) for ms in (0, 5000, 1000)])
    queue.fill()
    change_policy(bus, "job", ordering="priority")
    assert seqs(queue.claim("worker", limit=9)) == [1, 2, 3]


def test_a_senders_time_in_the_future_does_not_push_others_back(bus: Bus, clock: Clock) -> None:
    """X-08: nobody's clock counts further than ours."""
    queue = Queue.create(bus, "job", ordering="priority")
    bus.publish_many([Draft("job", from_agent="ahead", ts_ms=clock.now_ms + 10**9)])
    publish_of(bus, NORMAL)
    queue.fill()
    clock.advance(3600)
    publish_of(bus, INTERACTIVE)
    assert seqs(queue.claim("worker", limit=9)) == [1, 2, 3]


def test_ordering_may_be_switched_while_jobs_wait_and_run(bus: Bus, clock: Clock) -> None:
    """X-01: both ways; what ran meanwhile falls into the new order when it is queued again."""
    queue = Queue.create(bus, "job", backoff_s=0)
    publish_of(bus, BACKGROUND, NORMAL, INTERACTIVE)
    claim = take(queue)
    change_policy(bus, "job", ordering="priority")
    queue.fail(claim, "no")
    assert seqs(queue.claim("worker", limit=2)) == [3, 2]
    publish_of(bus, NORMAL, INTERACTIVE)
    urgent = take(queue)
    assert urgent.message.seq == 5
    change_policy(bus, "job", ordering="fifo")
    queue.release(urgent)
    publish_of(bus, INTERACTIVE)
    assert seqs(queue.claim("worker", limit=9)) == [1, 4, 5, 6]


def ranks(bus: Bus) -> list[int]:
    rows = file_of(bus).rows("SELECT DISTINCT rank_ms FROM jobs WHERE state = 'queued'")
    return sorted(rank for (rank,) in rows)


def test_many_that_wait_are_ranked_anew_some_hundreds_a_transaction(bus: Bus, clock: Clock) -> None:
    """X-01: publishers never wait for a million of them; what has ended is left as it was."""
    queue = Queue.create(bus, "job")
    publish(bus, 1200, priority=BACKGROUND)
    for claim in queue.claim("worker", limit=9):
        queue.complete(claim)
    queue.fill()
    changed: list[int] = []
    connection = file_of(bus).connection  # asking for it in the hook may run a statement there

    def hook() -> bool:
        changed.append(connection.total_changes())
        return False

    connection.set_commit_hook(hook)
    change_policy(bus, "job", ordering="priority", ageing_s=10)
    connection.set_commit_hook(None)
    assert ranks(bus) == [clock.now_ms + 20_000]
    steps = [after - before for before, after in itertools.pairwise(changed)]
    assert max(steps) <= 501
    assert sum(steps) >= 1191
    assert file_of(bus).value("SELECT max(rank_ms) FROM jobs WHERE state = 'succeeded'") == 0


def test_ranking_that_was_cut_short_is_done_by_the_same_call(bus: Bus, clock: Clock) -> None:
    """X-01: a process that dies half-way leaves jobs of both orders, and every one can be had."""
    queue = Queue.create(bus, "job", ordering="priority")
    publish(bus, 600, priority=BACKGROUND)
    publish_of(bus, INTERACTIVE)
    queue.fill()
    with pytest.raises(Interrupted):
        interrupted_after(2, bus, lambda: change_policy(bus, "job", ordering="fifo"))
    assert ranks(bus) == [0, clock.now_ms + 2 * 60_000]
    assert seqs(queue.claim("worker", limit=500)) == [*range(1, 500), 601]
    change_policy(bus, "job", ordering="fifo")
    assert ranks(bus) == [0]
    assert seqs(queue.claim("worker", limit=500)) == list(range(500, 601))


class Interrupted(BaseException):
    """An error that ends a process in the midst of its work."""


def interrupted_after(commits: int, bus: Bus, act: Callable[[], object]) -> None:
    """Does something until so many transactions of it are committed; the next is undone."""
    left = iter(range(commits))

    def hook() -> bool:
        if next(left, None) is None:
            raise Interrupted
        return False

    file_of(bus).connection.set_commit_hook(hook)
    try:
        act()
    finally:
        file_of(bus).connection.set_commit_hook(None)


def test_ordering_that_is_switched_holds_for_what_waits_for_its_time_or_key(
    bus: Bus, clock: Clock
) -> None:
    """X-01, D-33, D-25."""
    queue = Queue.create(bus, "job", dedupe_window_s=0)
    later = work_headers(available_at_ms=clock.now_ms + 1000)
    publish(bus, priority=BACKGROUND, headers=later)
    publish(bus, 2, priority=NORMAL, headers=work_headers(dedupe_key="k"))
    publish_of(bus, BACKGROUND, INTERACTIVE)
    queue.fill()
    change_policy(bus, "job", ordering="priority")
    clock.advance(1)
    first = queue.claim("worker", limit=9)
    assert seqs(first) == [5, 2, 1, 4]
    publish_of(bus, BACKGROUND)
    queue.complete(first[1])
    assert seqs(queue.claim("worker", limit=9)) == [3, 6]
