"""Leases: one holder at a time, tokens that only grow, late holders who learn it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Bus, Lease
from ackbus.bus.leases import DEFAULT_LEASE_S
from ackbus.errors import BusBusy, InvalidInput, LeaseLost
from ackbus.schema.queries import file_of

from ..conftest import wait_until
from ..programs import TIMEOUT_S, connect, held_write_lock, raw_sql, running_program

TTL_MS = 60_000


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bus(bus_dir: Path, clock: Clock) -> Iterator[Bus]:
    """A bus on a clock that the test moves."""
    with Bus.open(bus_dir, clock=clock, write_timeout_s=0.2) as opened:
        yield opened


def acquire(bus: Bus, holder: str = "alice", name: str = "t1") -> Lease:
    lease = bus.leases.acquire(name, holder)
    assert lease is not None
    return lease


def test_lease_lasts_a_minute_by_default(bus: Bus, clock: Clock) -> None:
    """M-69, X-09: 60,000 ms, shown with its holder and token."""
    lease = acquire(bus)
    assert lease == Lease("t1", "alice", 1, clock.ms, clock.ms + TTL_MS)
    assert DEFAULT_LEASE_S == 60
    assert bus.leases.get("t1") == lease
    assert bus.leases.list() == [lease]


def test_lease_lasts_as_long_as_its_use_needs(bus: Bus, clock: Clock) -> None:
    """X-09: one mechanism, a length for each use; out of bounds is refused."""
    lease = bus.leases.acquire("t1", "alice", lease_s=0.25)
    assert lease is not None
    assert lease.until_ms == clock.ms + 250
    for lease_s in (0, -1, float("inf"), 86_401):
        with pytest.raises(InvalidInput, match="a lease lasts more than 0 s"):
            bus.leases.acquire("t2", "alice", lease_s=lease_s)
    with pytest.raises(InvalidInput, match="lease_s must be a number, not nan"):
        bus.leases.acquire("t2", "alice", lease_s=float("nan"))


def test_held_lease_refuses_everyone(bus: Bus, clock: Clock) -> None:
    """M-70, PITFALLS 15, promise 6: its holder included; the grant stays as it was."""
    lease = acquire(bus)
    clock.ms += TTL_MS - 1
    assert bus.leases.acquire("t1", "bob") is None
    assert bus.leases.acquire("t1", "alice") is None
    assert bus.leases.get("t1") == lease
    acquire(bus, "bob", "t2")


def test_lease_ends_at_its_very_millisecond(bus: Bus, clock: Clock) -> None:
    """M-71, promise 6: at `lease_until_ms` it is free; the next grant has a larger token."""
    first = acquire(bus)
    clock.ms += TTL_MS
    assert bus.leases.list() == []
    second = acquire(bus, "bob")
    assert (second.holder, second.token) == ("bob", first.token + 1)


@pytest.mark.slow
def test_twenty_racers_get_one_lease(bus_dir: Path) -> None:
    """M-69, PITFALLS 5, promise 6: processes that start together; exactly one is granted."""
    source = """
import sys
from ackbus import Bus
with Bus.open(sys.argv[1]) as bus:
    bus.heartbeats.list()
    print("ready", flush=True)
    sys.stdin.readline()
    print(bus.leases.acquire("t1", sys.argv[2]) is not None)
"""
    command = [sys.executable, "-c", source, str(bus_dir)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [
        subprocess.Popen([*command, f"racer-{n}"], **pipes)  # type: ignore[call-overload]
        for n in range(20)
    ]
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 20
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    answers = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert sorted(answers) == ["False"] * 19 + ["True"]


def test_locked_bus_grants_nothing(bus: Bus, bus_dir: Path) -> None:
    """M-72: busy is not held; afterwards the lease is free."""
    with held_write_lock(bus_dir), pytest.raises(BusBusy):
        bus.leases.acquire("t1", "alice")
    acquire(bus)


def test_waiter_gets_the_lease_when_it_is_released(bus: Bus) -> None:
    held = acquire(bus)
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(bus.leases.acquire, "t1", "bob", wait_s=TIMEOUT_S)
        bus.leases.release(held)
        granted = waiter.result()
    assert granted is not None
    assert (granted.holder, granted.token > held.token) == ("bob", True)


def test_waiter_outlasts_a_busy_bus(bus: Bus, bus_dir: Path) -> None:
    """While there is time to wait, busy means to try again."""
    with Bus.open(bus_dir, write_timeout_s=0.01) as mine, ThreadPoolExecutor(1) as pool:
        with held_write_lock(bus_dir):
            waiter = pool.submit(mine.leases.acquire, "t1", "bob", wait_s=TIMEOUT_S)
            wait_until(lambda: waiter.running())
            with pytest.raises(TimeoutError):
                waiter.result(0.1)
        assert waiter.result() is not None


def test_wait_for_a_held_lease_ends(bus: Bus) -> None:
    acquire(bus)
    assert bus.leases.acquire("t1", "bob", wait_s=0.05) is None


def test_renewing_counts_from_now(bus: Bus, clock: Clock) -> None:
    """M-73: every 30 s keeps a lease for ever, with its token."""
    lease = acquire(bus)
    for _ in range(10):
        clock.ms += 30_000
        lease = bus.leases.renew(lease)
        assert lease.until_ms == clock.ms + TTL_MS
        assert bus.leases.get("t1") == lease
    assert lease.token == 1
    assert lease.acquired_at_ms == clock.ms - 300_000


def test_only_the_holder_renews_and_releases(bus: Bus, clock: Clock) -> None:
    """M-73, M-74, promise 6: by name and by token; the lease stays as it was."""
    lease = acquire(bus)
    forged = [
        Lease("t1", "bob", lease.token, lease.acquired_at_ms, lease.until_ms),
        Lease("t1", "alice", lease.token + 1, lease.acquired_at_ms, lease.until_ms),
        Lease("t2", "alice", lease.token, lease.acquired_at_ms, lease.until_ms),
    ]
    for other in forged:
        for act in (bus.leases.renew, bus.leases.release, bus.leases.check):
            with pytest.raises(LeaseLost, match=r"^\w+ does not hold lease 't[12]' with token"):
                act(other)
    assert bus.leases.get("t1") == lease


def test_released_lease_is_free_and_done_with(bus: Bus) -> None:
    """M-74: at once; releasing or renewing it again is an error."""
    first = acquire(bus)
    bus.leases.release(first)
    assert bus.leases.get("t1") is None
    for act in (bus.leases.release, bus.leases.renew, bus.leases.check):
        with pytest.raises(LeaseLost, match="it is free; acquire it again"):
            act(first)
    second = acquire(bus, "bob")
    assert second.token == first.token + 1


def test_expired_lease_is_not_renewed_even_if_nobody_took_it(bus: Bus, clock: Clock) -> None:
    """M-76, M-71: ours decides: acquire it again, with a new and larger token."""
    first = acquire(bus)
    clock.ms += TTL_MS
    for act in (bus.leases.renew, bus.leases.release, bus.leases.check):
        with pytest.raises(LeaseLost, match="it has expired; acquire it again"):
            act(first)
    assert acquire(bus).token == first.token + 1


def test_late_holder_changes_nothing_and_learns_it(bus: Bus, clock: Clock) -> None:
    """M-76, PITFALLS 12, promise 6: the error names the new holder and its token."""
    first = acquire(bus)
    clock.ms += TTL_MS
    second = acquire(bus, "bob")
    for act in (bus.leases.renew, bus.leases.release, bus.leases.check):
        with pytest.raises(LeaseLost, match=r"it is held by bob with token 2$"):
            act(first)
    assert bus.leases.get("t1") == second


def test_check_fences_the_writes_of_its_transaction(bus: Bus, clock: Clock) -> None:
    """Promise 6: a holder that was late publishes nothing."""
    lease = acquire(bus)

    def report() -> None:
        with bus.transaction():
            bus.publish("result", from_agent="alice")
            bus.leases.check(lease)

    report()
    clock.ms += TTL_MS
    with pytest.raises(LeaseLost):
        report()
    assert bus.log.newest_seq() == 1


def test_tokens_grow_over_all_leases_and_raw_grants(bus: Bus, bus_dir: Path) -> None:
    """Promise 6: also after releases, which delete rows, and for grants by plain SQL."""
    tokens = []
    for name in ("t1", "t2", "t1"):
        lease = acquire(bus, name=name)
        tokens.append(lease.token)
        bus.leases.release(lease)
    raw_sql(
        bus_dir,
        "INSERT INTO task_claims (task_id, claimed_by, claimed_at_ms, lease_until_ms)"
        " VALUES ('t3', 'raw', 1, 99999999)",
    )
    held = bus.leases.get("t3")
    assert held is not None
    tokens.append(held.token)
    assert tokens == [1, 2, 3, 4]
    assert bus.leases.acquire("t3", "alice") is None


def test_lease_of_a_killed_agent_is_granted_again(bus: Bus, bus_dir: Path, clock: Clock) -> None:
    """M-75: when it ends, not before; the kernel frees whatever locks the agent held."""
    with running_program(
        """
        import sys
        from ackbus import Bus
        bus = Bus.open(sys.argv[1], clock=lambda: 1_000_000)
        assert bus.leases.acquire("t1", "dead")
        with bus.transaction():
            print("held", flush=True)
            sys.stdin.read()
        """,
        bus_dir,
    ) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "held\n"
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    clock.ms += TTL_MS - 1
    assert bus.leases.acquire("t1", "alice") is None
    clock.ms += 1
    assert acquire(bus).token == 2


def test_claim_row_has_the_documented_columns(bus: Bus, bus_dir: Path, clock: Clock) -> None:
    """M-19, M-69."""
    acquire(bus)
    row = connect(bus_dir).execute(
        "SELECT task_id, claimed_by, claimed_at_ms, lease_until_ms FROM task_claims"
    )
    assert row.get == ("t1", "alice", clock.ms, clock.ms + TTL_MS)


def test_waiting_for_the_bus_does_not_shorten_a_renewal(bus: Bus, clock: Clock) -> None:
    """Promise 6: a lease lasts from when it was renewed, not from when that was asked for."""
    lease = bus.leases.acquire("a.py", "alice")
    assert lease is not None
    wait, begin = 5_000, file_of(bus).write

    def write_after_a_wait() -> object:
        if not file_of(bus).writing:
            clock.ms += wait
        return begin()

    file_of(bus).write = write_after_a_wait  # type: ignore[assignment, method-assign]
    assert bus.leases.renew(lease, lease_s=1).until_ms == clock.ms + 1000
    del file_of(bus).write
