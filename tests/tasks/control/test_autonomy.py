"""The dispatch lock, states and snapshots of autonomous planners."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.queries import engine_of
from ackbus.tasks.records.sessions import Autonomy, DispatchLock

from ...subscribers.conftest import Clock
from .test_requests import rows


@pytest.fixture
def lock(bus: Bus) -> DispatchLock:
    return DispatchLock.of(bus)


def test_u_65_one_run_has_the_lock_until_it_ends(lock: DispatchLock, clock: Clock) -> None:
    """U-63, U-65: B is refused, A re-acquires, B's renewal and release have no effect."""
    assert lock.acquire("a", "run-a", ttl_ms=1)[0]
    is_given, held = lock.acquire("b", "run-b")
    assert (is_given, held.session, held.run) == (False, "a", "run-a")
    assert held.expires_at_ms == clock() + 5_000, "5,000 ms is the shortest"
    clock.advance(1)
    is_mine, again = lock.acquire("a", "run-a", ttl_ms=10_000)
    assert (is_mine, again.acquired_at_ms, again.expires_at_ms) == (
        *(True, held.acquired_at_ms, clock() + 10_000),
    )
    assert lock.renew("b", "run-b") == (False, again)
    assert lock.release("b", "run-b") is False
    assert lock.holder() == again
    clock.advance(9)
    assert lock.renew("a", "run-a", ttl_ms=5_000)[0]
    clock.advance(5)
    assert lock.acquire("b", "run-b")[0], "it is free at the very millisecond of its end"
    assert lock.renew("a", "run-a")[0] is False
    assert lock.release("b", "run-b") is True
    assert lock.release("b", "run-b") is False


def test_u_65_an_expired_row_is_dropped_as_it_is_read(
    lock: DispatchLock, bus: Bus, clock: Clock
) -> None:
    """U-65, U-09: the view has the documented columns, and one row at most."""
    lock.acquire("a", "run-a")
    (row,) = rows(bus, "pushpals_autonomy_dispatch_lock")
    assert list(row) == [
        *("lock_id", "owner_session_id", "owner_run_id", "acquired_at", "expires_at"),
        "updated_at",
    ]
    clock.advance(3_600)
    assert lock.holder() is None
    assert engine_of(bus).value("SELECT count(*) FROM dispatch_lock") == 0
    lock.acquire("a", "run-a")
    with pytest.raises(Exception, match="CHECK"):
        engine_of(bus).change(
            "INSERT INTO dispatch_lock SELECT 'two', session_id, run_id, 1, 1, 1 FROM dispatch_lock"
        )


def test_a_lock_of_a_clock_that_was_ahead_ends_in_its_time(
    lock: DispatchLock, clock: Clock
) -> None:
    """Issue 30, item 2: it kept all others out until the date that the clock had shown."""
    clock.advance(86_400)
    lock.acquire("a", "run-a", ttl_ms=10_000)
    clock.advance(-86_400)
    assert not lock.acquire("b", "run-b")[0]
    clock.advance(9)
    assert not lock.acquire("b", "run-b")[0]
    clock.advance(1)
    assert lock.acquire("b", "run-b")[0]


def test_u_64_of_many_at_once_one_gets_it(bus: Bus) -> None:
    """U-64, U-65: taken in one write transaction."""
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda n: DispatchLock.of(bus).acquire(f"s{n}", "run")[0], range(24)))
    assert given.count(True) == 1


_HOLDER = """
import os, signal, sys
from ackbus import Bus
from ackbus.tasks.records.sessions import DispatchLock
with Bus.open(sys.argv[1]) as bus:
    assert DispatchLock.of(bus).acquire("a", "run-a", ttl_ms=60_000)[0]
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_u_66_the_lock_of_a_killed_owner_is_free_after_its_time(tmp_path: Path) -> None:
    """U-66: B is refused before that, and granted after; its own session after `staleAfterMs`."""
    clock = Clock()
    with Bus.init(tmp_path / "bus", clock=clock) as bus:
        holder = [sys.executable, "-c", _HOLDER, str(tmp_path / "bus")]
        assert subprocess.run(holder).returncode == -signal.SIGKILL
        lock = DispatchLock.of(bus)
        row = engine_of(bus).row("SELECT acquired_at_ms, expires_at_ms FROM dispatch_lock")
        assert row is not None
        begun_ms, expires_ms = row
        clock.now_ms = begun_ms + 20_000
        assert lock.acquire("b", "run-b")[0] is False
        assert lock.acquire("a", "run-2")[0] is False
        assert lock.acquire("a", "run-2", stale_after_ms=20_001)[0] is False
        assert lock.acquire("b", "run-b", stale_after_ms=1)[0] is False, "of another session"
        clock.now_ms = expires_ms - 1
        assert lock.acquire("b", "run-b")[0] is False
        clock.now_ms = expires_ms
        assert lock.acquire("b", "run-b")[0] is True


def test_u_66_a_stale_owner_of_the_same_session_is_replaced(
    lock: DispatchLock, clock: Clock
) -> None:
    """U-66: what counts is the last renewal."""
    lock.acquire("a", "run-1", ttl_ms=60_000)
    clock.advance(10)
    lock.renew("a", "run-1", ttl_ms=60_000)
    clock.advance(10)
    assert lock.acquire("a", "run-2", stale_after_ms=10_001)[0] is False
    assert lock.acquire("a", "run-2", stale_after_ms=10_000)[0] is True
    assert lock.renew("a", "run-1")[0] is False


def test_u_67_states_and_snapshots_outlast_a_restart(tmp_path: Path) -> None:
    """U-67: with the flag whether their run held the lock."""
    with Bus.init(tmp_path / "bus") as bus:
        DispatchLock.of(bus).acquire("a", "run-a")
        kept = Autonomy.of(bus)
        mine = kept.add_snapshot("a", "run-a", {"jobs": 3}, ttl_ms=1_000)
        other = kept.add_snapshot("b", "run-b", {})
        kept.set_state("a", {"paused": False})
        kept.set_state("a", {"paused": True})
    with Bus.open(tmp_path / "bus") as bus:
        kept = Autonomy.of(bus)
        assert kept.snapshot(mine.id) == mine
        assert (mine.dispatch_lock_held, mine.payload) == (True, {"jobs": 3})
        assert not other.dispatch_lock_held
        assert kept.state("a") == {"paused": True}
        assert (kept.state("b"), kept.snapshot("none")) == (None, None)
        assert len(rows(bus, "pushpals_autonomy_snapshots")) == 2
        assert [each["session_id"] for each in rows(bus, "pushpals_autonomy_state")] == ["a"]
        assert kept.prune(mine.created_at_ms + 1_000_000) == 2


def test_u_67_old_snapshots_go_as_new_ones_come(bus: Bus, clock: Clock) -> None:
    """U-67: after 30 days; what is younger stays."""
    kept = Autonomy.of(bus)
    old = kept.add_snapshot("a", "run", {})
    clock.advance(30 * 86_400)
    young = kept.add_snapshot("a", "run", {})
    assert kept.snapshot(old.id) == old
    clock.advance(1)
    kept.add_snapshot("a", "run", {})
    assert (kept.snapshot(old.id), kept.snapshot(young.id)) == (None, young)
