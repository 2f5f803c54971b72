"""The cost of work: the same whatever else the bus holds. Plans: `tests/performance`."""

from collections.abc import Callable

import pytest

from ackbus import Bus, Inbox
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.overview.trace import WorkHistory
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.subscribers.queues.queues import Queues
from ackbus.subscribers.views import list_jobs

from ..costs import Cost, counting
from .conftest import Clock
from .work import publish, take


def cost_of_a_job(bus: Bus, queue: Queue) -> Cost:
    """The cost to claim and complete a job that has just been published."""
    publish(bus)
    with counting(bus) as cost:
        queue.complete(take(queue), result="ok")
    return cost


def noise(bus: Bus, queue: Queue, count: int) -> None:
    publish(bus, count, type="noise")


def finished(bus: Bus, queue: Queue, count: int) -> None:
    publish(bus, count)
    for _ in range(0, count, 1000):
        claims = queue.claim("worker", limit=1000)
        queue.end_many([(claim, Outcome(), ()) for claim in claims])
    while claims := queue.claim("worker", limit=1000):
        queue.end_many([(claim, Outcome(), ()) for claim in claims])


def dead(bus: Bus, queue: Queue, count: int) -> None:
    publish(bus, count)
    while claims := queue.claim("worker", limit=1000):
        queue.end_many([(claim, Outcome(status="failed", retry=False), ()) for claim in claims])


def running(bus: Bus, queue: Queue, count: int) -> None:
    publish(bus, count)
    while queue.claim("other", limit=1000, lease_s=86_400):
        pass


def delayed(bus: Bus, queue: Queue, count: int) -> None:
    publish(bus, count, headers=work_headers(available_at_ms=bus.now_ms() + 10**9))
    queue.fill()


def held(bus: Bus, queue: Queue, count: int) -> None:
    publish(bus, count, headers=work_headers(dedupe_key="held"))
    queue.fill()
    queue.claim("other", lease_s=86_400)


def queues(bus: Bus, queue: Queue, count: int) -> None:
    for number in range(count):
        Queue.create(bus, f"queue-{number}", "job").fill()


@pytest.mark.slow
@pytest.mark.parametrize("ordering", ["fifo", "priority"])
@pytest.mark.parametrize(
    ("add", "few", "many"),
    [
        (noise, 1_000, 20_000),
        (finished, 10, 3_000),
        (dead, 10, 1_000),
        (running, 10, 1_000),
        (delayed, 10, 2_000),
        (held, 10, 2_000),
        (queues, 1, 50),
    ],
)
def test_job_costs_the_same_whatever_else_there_is(
    bus: Bus, add: Callable[[Bus, Queue, int], None], few: int, many: int, ordering: str
) -> None:
    """K-01, U-75: long logs, finished, dead, running, delayed and held jobs, and other queues."""
    queue = Queue.create(bus, "job", ordering=ordering)
    costs = []
    for count in (few, many - few):
        add(bus, queue, count)
        cost_of_a_job(bus, queue)  # whoever is first after much else has more to read
        costs.append(cost_of_a_job(bus, queue))
    assert costs[0] == costs[1]
    assert costs[0].statements < 25


def test_job_with_a_key_costs_the_same_however_many_wait_with_it(bus: Bus) -> None:
    """D-27, K-01: its end opens the next by an index walk."""
    queue = Queue.create(bus, "job", dedupe_window_s=0)
    costs = []
    for count in (10, 2_000):
        publish(bus, count, headers=work_headers(dedupe_key="k"))
        Queue.open(bus, "job").fill()  # as another process does: no message is read already
        queue.complete(take(queue))
        with counting(bus) as cost:
            queue.complete(take(queue))
        costs.append(cost)
    assert costs[0] == costs[1]


@pytest.mark.slow
def test_backlog_does_not_make_claiming_dearer(bus: Bus) -> None:
    """K-01: the ten-thousandth job that waits costs nothing to the first."""
    queue = Queue.create(bus, "job")
    costs = []
    for count in (10, 10_000):
        publish(bus, count)
        Queue.open(bus, "job").fill()  # as another process does: no message is read already
        queue.complete(take(queue))
        with counting(bus) as cost:
            queue.complete(take(queue))
        costs.append(cost)
    assert costs[0] == costs[1]


def test_looking_in_vain_costs_two_statements(bus: Bus, clock: Clock) -> None:
    """K-15: what an idle worker does at each look, with 1,000 jobs that must wait."""
    queue = Queue.create(bus, "job")
    delayed(bus, queue, 1_000)
    assert queue.claim("worker") == []
    with counting(bus) as cost:
        assert queue.claim("worker") == []
    assert cost.statements == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "act",
    [
        lambda queue: list_jobs(queue, ["queued", "running"], 9),
        lambda queue: list_jobs(queue, ["running"], 9),
        lambda queue: change_policy(queue.bus, "job", ordering="fifo"),
        lambda queue: JobControl(queue).purge(),
    ],
    ids=["listing what is live", "listing what runs", "setting the order", "purging"],
)
def test_what_is_live_costs_the_same_however_much_is_done(
    bus: Bus, act: Callable[[Queue], object]
) -> None:
    """K-01: nobody walks over all that has ended."""
    queue = Queue.create(bus, "job")
    costs = []
    for count in (10, 3_000):
        finished(bus, queue, count)
        publish(bus, 3)
        claim = take(queue)
        with counting(bus) as cost:
            act(queue)
        costs.append(cost)
        queue.complete(claim)
        JobControl(queue).purge()
    assert costs[0] == costs[1]


@pytest.mark.parametrize("why", ["paused", "full"])
def test_worker_that_may_begin_nothing_asks_for_no_write_lock(bus: Bus, why: str) -> None:
    """K-15, D-29: those who wait do not stand in the way of publishers."""
    queue = Queue.create(bus, "job", max_running=1)
    publish(bus, 3)
    take(queue)
    if why == "paused":
        change_policy(bus, "job", max_running=None)
        Queues(bus).pause("job")
    publish(bus)
    with counting(bus) as cost:
        assert queue.claim("worker") == []
    assert cost.statements == 1


def test_acknowledging_costs_the_same_however_much_is_parked(bus: Bus) -> None:
    """Parked messages stay until a person looks at them, and must not slow the agent."""
    bus.heartbeats.beat("bob")  # so that he is known
    inbox = Inbox(bus, "bob", max_deliveries=1)
    costs = []
    for count in (10, 1_000):
        publish(bus, count + 2, to_agent="bob")
        *failing, second, third = inbox.poll(count + 2)
        with bus.transaction():
            for message in failing:
                inbox.fail(message, "why")
        inbox.ack(second)
        with counting(bus) as cost:
            inbox.ack(third)
        costs.append(cost)
    assert costs[0] == costs[1]


@pytest.mark.slow
def test_history_of_a_message_costs_the_same_however_many_jobs_there_are(bus: Bus) -> None:
    """K-01: a look into each queue, and no walk over what others became."""
    queue = Queue.create(bus, "job")
    costs = []
    for count in (10, 3_000):
        finished(bus, queue, count)
        with counting(bus) as cost:
            assert len(WorkHistory(bus).of(5)) == 1  # of 1, SQLite guesses otherwise
        costs.append(cost)
    assert costs[0] == costs[1]
