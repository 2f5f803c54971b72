"""A bus directory that is copied, moved, deleted or replaced under those who use it."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.errors import BusMoved

from ..concurrency.actors import Actor, StartActor
from ..conftest import RunBus, wait_until
from .evidence import raw_rows

ROLES = (
    "publisher",
    "large_publisher",
    "thread_publisher",
    "poller",
    "acknowledger",
    "loop",
    "waiter",
    "follower",
    "claimer",
    "leaser",
    "exporter",
)


def moved(bus_dir: Path) -> Path:
    return bus_dir.rename(bus_dir.with_name("elsewhere"))


def replaced(bus_dir: Path) -> Path:
    """As a restore from a backup does it."""
    fresh = bus_dir.with_name("fresh")
    Bus.init(fresh).close()
    old = moved(bus_dir)
    fresh.rename(bus_dir)
    return old


def deleted(bus_dir: Path) -> Path:
    old = moved(bus_dir)
    # Who stores a blob has the folder open, and may do so once more until it looks again.
    wait_until(lambda: _is_removed(old))
    return old


def _is_removed(path: Path) -> bool:
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize("harm", [moved, replaced, deleted])
def test_nobody_works_on_in_a_bus_that_is_gone(
    harm: Callable[[Path], Path], start_user: StartActor, bus_dir: Path
) -> None:
    """Promise 1: each ends with one clear line, and what it was told is stored is in the old one.

    Where another bus is by now, nobody has left a thing.
    """
    users = {role: start_user(role, bus_dir) for role in ROLES}
    for user in users.values():
        user.wait_told(1)
    old = harm(bus_dir)
    told = {role: user.end() for role, user in users.items()}
    for role, (*_, (kind, text)) in told.items():
        refusals = ("BusMoved", "BusUnusable") if role == "large_publisher" else ("BusMoved",)
        assert kind in refusals, (role, kind, text)
        assert str(bus_dir) in text
        assert "\n" not in text
    if harm is moved:
        assert not bus_dir.exists(), "a folder in the way of who puts the bus back"
    if harm is replaced:
        assert raw_rows(bus_dir) == []
        assert (bus_dir / "bus.jsonl").read_bytes() == b""
    if harm is not deleted:
        ids = {id for _, id, *_ in raw_rows(old)}
        for role in ("publisher", "large_publisher", "thread_publisher"):
            assert set(told[role][:-1]) <= ids


def test_a_bus_that_is_put_back_is_gone_on_with(bus: Bus, bus_dir: Path) -> None:
    """Nobody has to be started again."""
    bus.publish("note", from_agent="ann")
    elsewhere = moved(bus_dir)
    wait_until(lambda: refuses(bus))
    stored = len(raw_rows(elsewhere))
    assert refuses(bus)
    assert len(raw_rows(elsewhere)) == stored, "what is refused is not stored"
    elsewhere.rename(bus_dir)
    assert bus.publish("note", from_agent="ann").seq == stored + 1


def refuses(bus: Bus, *, reading: bool = False) -> bool:
    try:
        if reading:
            bus.log.newest_seq()
        else:
            bus.publish("note", from_agent="ann")
    except BusMoved:
        return True
    return False


def test_a_publish_that_waited_while_the_bus_was_moved_is_not_taken_for_stored(
    start: StartActor, start_user: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """It had looked before, and got the write lock after."""
    holder = start("holder", bus_dir)
    holder.wait_told(1)
    waiting = start_user("publisher", bus_dir)
    wait_until(lambda: waits_for_the_lock(waiting))
    bus.log.newest_seq()
    moved(bus_dir)
    wait_until(lambda: refuses(bus, reading=True))  # and so must one who looked before us
    holder.kill()
    assert [kind for kind, _ in waiting.end()] == ["BusMoved"]


def waits_for_the_lock(actor: Actor) -> bool:
    """A thread of it queues in the kernel."""
    pid = actor.process.pid
    return any(
        line.split()[1] == "->" and line.split()[5] == str(pid)
        for line in Path("/proc/locks").read_text().splitlines()
    )


@pytest.mark.slow
def test_a_bus_can_be_copied_under_its_users(
    start_user: StartActor, bus_dir: Path, run_bus: RunBus
) -> None:
    """Pitfall 1: `cp` opens and closes the files in a process of its own, so no lock is lost.

    The copy may be of no use: it then says so.
    """
    users = [start_user(role, bus_dir) for role in ("publisher", "large_publisher", "acknowledger")]
    copies = [bus_dir.with_name(f"copy-{number}") for number in range(5)]
    for number, copy in enumerate(copies):
        for user in users:
            user.wait_told(number * 20 + 20)
        subprocess.run(["cp", "-r", bus_dir, copy], capture_output=True, check=False)
    told = [user.kill() for user in users]
    rows = raw_rows(bus_dir)
    assert set(told[0] + told[1]) <= {id for _, id, *_ in rows}
    for copy in copies:
        ended = run_bus("read", "--dir", copy)
        assert "Traceback" not in ended.err
        assert ended.code in (0, 1)
        if ended.code:
            assert len(ended.err.splitlines()) == 1
