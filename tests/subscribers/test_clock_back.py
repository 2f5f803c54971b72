"""A clock that was ahead by a day and is put right: nothing stands still until that date."""

from collections.abc import Callable

import pytest

from ackbus import Bus
from ackbus.bus.heartbeats import Liveness
from ackbus.doctor.checks.bus import checks_of_work
from ackbus.schema.errors import LeaseLost
from ackbus.subscribers.queues import clock_back
from ackbus.subscribers.queues.clock_back import ClockBack
from ackbus.subscribers.queues.queue import Queue
from ackbus.workers.worker import Worker

from .conftest import Clock
from .work import publish

DAY_S = 86_400.0


def _retry(bus: Bus, queue: Queue) -> None:
    (claim,) = queue.claim("dead")
    queue.fail(claim, "exit status 1", retry=True)


def _long_retry(bus: Bus, queue: Queue) -> None:
    (claim,) = queue.claim("dead")
    queue.fail(claim, "exit status 75", retry=True, after_s=60)


def _claim_of_the_dead(bus: Bus, queue: Queue) -> None:
    queue.claim("dead", lease_s=60)


#: What a worker leaves by a clock that is ahead, before it is killed.
LEFT: dict[str, Callable[[Bus, Queue], None]] = {
    "a retry": _retry,
    "a retry with its own pause": _long_retry,
    "a claim": _claim_of_the_dead,
}


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_a_worker_that_begins_gets_what_was_left_by_a_clock_that_was_ahead(
    bus: Bus, clock: Clock, leave: Callable[[Bus, Queue], None]
) -> None:
    """Issue 30, item 2: it waited until that date; a pause or a lease is waited for as ever."""
    queue = Queue.create(bus, "job", retry="failures")
    publish(bus)
    clock.advance(DAY_S)
    leave(bus, queue)
    clock.advance(-DAY_S)
    assert queue.claim("worker") == []
    assert ClockBack(bus).look()
    assert queue.claim("worker") == []
    clock.advance(61)
    assert [claim.message.seq for claim in queue.claim("worker")] == [1]


def test_a_worker_looks_when_it_begins(bus: Bus, clock: Clock) -> None:
    queue = Queue.create(bus, "job", retry="failures", backoff_s=0)
    publish(bus)
    clock.advance(DAY_S)
    queue.claim("dead", lease_s=0.5)
    clock.advance(-DAY_S)
    clock.advance(1)
    with Bus.open(bus.directory, clock=clock) as other:
        worker = Worker(other, Queue.open(other, "job"), beats=False)
        assert worker.run(lambda message: "ok", drain=True) == 0  # its lease begins now
        clock.advance(1)
        assert worker.run(lambda message: "ok", drain=True) == 1


def test_a_claim_that_is_kept_outlives_the_step(bus: Bus, clock: Clock) -> None:
    """Its worker renews it, before and after; the end of it is no late one."""
    queue = Queue.create(bus, "job")
    publish(bus)
    clock.advance(DAY_S)
    (claim,) = queue.claim("alive", lease_s=60)
    clock.advance(30)
    queue.renew(claim, lease_s=60)
    clock.advance(-DAY_S)
    assert ClockBack(bus).look()
    clock.advance(59)
    queue.renew(claim, lease_s=60)
    assert ClockBack(bus).look() is False
    clock.advance(59)
    queue.complete(claim)


def test_a_success_keeps_others_out_from_now_on(bus: Bus, clock: Clock) -> None:
    queue = Queue.create(bus, "job", dedupe_window_s=3600)
    publish(bus, headers={"dedupe_key": "k"})
    clock.advance(DAY_S)
    queue.complete(queue.claim("worker")[0])
    clock.advance(-DAY_S)
    assert ClockBack(bus).look()
    clock.advance(3601)
    publish(bus, headers={"dedupe_key": "k"})
    assert len(queue.claim("worker")) == 1
    clock.advance(DAY_S)


def test_a_lease_of_the_dead_is_free_after_its_length(bus: Bus, clock: Clock) -> None:
    """It needs no worker: it is brought back when somebody else wants it."""
    clock.advance(DAY_S)
    bus.leases.acquire("deploy", "dead", lease_s=60)
    clock.advance(-DAY_S)
    assert bus.leases.acquire("deploy", "next") is None
    clock.advance(59)
    assert bus.leases.acquire("deploy", "next") is None
    clock.advance(1)
    assert bus.leases.acquire("deploy", "next") is not None


def test_a_lease_that_was_renewed_since_keeps_its_end(bus: Bus, clock: Clock) -> None:
    clock.advance(DAY_S)
    lease = bus.leases.acquire("deploy", "alive", lease_s=60)
    assert lease is not None
    clock.advance(-DAY_S)
    lease = bus.leases.renew(lease, lease_s=600)
    assert bus.leases.acquire("deploy", "next") is None
    clock.advance(599)
    bus.leases.check(lease)
    clock.advance(1)
    with pytest.raises(LeaseLost):
        bus.leases.check(lease)


def test_a_reservation_ends_after_its_length(bus: Bus, clock: Clock) -> None:
    clock.advance(DAY_S)
    assert bus.reservations.reserve(["src/*"], "dead", lease_s=60).granted
    clock.advance(-DAY_S)
    assert not bus.reservations.reserve(["src/a"], "next").granted
    clock.advance(60)
    assert bus.reservations.reserve(["src/a"], "next").granted


def test_who_beat_in_the_future_is_not_alive_until_then(bus: Bus, clock: Clock) -> None:
    clock.advance(DAY_S)
    bus.heartbeats.beat("dead")
    clock.advance(-DAY_S)
    found = bus.heartbeats.get("dead")
    assert found is not None
    assert (found.liveness, found.age_s) == (Liveness.DEAD, DAY_S)
    bus.heartbeats.beat("dead")
    assert bus.heartbeats.get("dead").liveness is Liveness.ALIVE  # type: ignore[union-attr]


def test_doctor_tells_of_times_that_are_still_to_come(bus: Bus, clock: Clock) -> None:
    check = checks_of_work(bus)["clock"]
    queue = Queue.create(bus, "job")
    bus.heartbeats.beat("a")
    publish(bus)
    assert check().state == "ok"
    clock.advance(DAY_S)
    queue.claim("worker")
    clock.advance(-DAY_S)
    found = check()
    assert (found.state, "claim or lease 2026-01-11" in found.text) == ("warn", True), found


def test_a_clock_that_goes_back_while_a_loop_runs_is_seen(
    bus: Bus, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compared with a clock that never does, and not with what is stored."""
    elapsed = [0.0]
    monkeypatch.setattr(clock_back, "monotonic", lambda: elapsed[0])

    def later(seconds: float, of_which_shown: float) -> bool:
        elapsed[0] += seconds
        clock.advance(of_which_shown)
        return loop.look()

    loop = ClockBack(bus)
    assert loop.look() is False
    assert [later(5, 5), later(5, 4.9), later(5, DAY_S)] == [False] * 3
    assert later(5, -DAY_S)
    assert not later(5, 5)
