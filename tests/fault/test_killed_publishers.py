"""kill -9 in the middle of publishing: what was told is there, and nothing is half there."""

import hashlib
import os
import random
import signal
from pathlib import Path

import pytest

from ackbus import Bus

from ..concurrency.actors import StartActor
from ..conftest import wait_until
from ..sizes import size
from .evidence import raw_rows

ROUNDS = size(sample=5, whole=30)


@pytest.mark.slow
def test_what_publish_returned_survives_kill_9(start: StartActor, bus: Bus, bus_dir: Path) -> None:
    """M-06, M-22, M-36, promise 1: kills at random moments, each beside a second publisher."""
    chance = random.Random(1)
    bystander = start("publisher", bus_dir, "bystander", 0)
    for number in range(ROUNDS):
        victim = start("publisher", bus_dir, f"victim-{number}", 5000 if number % 3 == 0 else 0)
        victim.wait_told(chance.randrange(1, 25))
        told = victim.kill()
        stored = [message for message in bus.read() if message.from_agent == f"victim-{number}"]
        ids = [message.id for message in stored]
        # The one at hand may be in the log without having been told of.
        assert ids in (told, [*told, f"victim-{number}-{len(told)}"])
        assert [message.payload[1] for message in stored] == list(range(len(ids)))
    lost = set(bystander.kill()) - {message.id for message in bus.read()}
    assert lost == set()

    rows = raw_rows(bus_dir)
    assert [seq for seq, *_ in rows] == list(range(1, len(rows) + 1))
    assert all((payload is None) != (ref is None) for _, _, payload, ref in rows)
    assert all(ref in bus.blobs for _, _, _, ref in rows if ref is not None)


@pytest.mark.slow
def test_a_batch_is_in_the_log_whole_or_not_at_all(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-06: kills among batches of 20."""
    chance = random.Random(2)
    for number in range(size(sample=4, whole=10)):
        name = f"victim-{number}"
        victim = start("batcher", bus_dir, name)
        victim.wait_told(chance.randrange(1, 15))
        told = victim.kill()
        payloads = [message.payload for message in bus.read() if message.from_agent == name]
        batches = len(payloads) // 20
        assert payloads == [[batch + 1, n] for batch in range(batches) for n in range(20)]
        assert batches - len(told) in (0, 1)
    raw_rows(bus_dir)


@pytest.mark.slow
def test_the_next_writer_gets_in_at_once_when_a_holder_dies(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-06, M-28: the kernel frees the write lock; what was not committed is gone."""
    bus.publish("work", from_agent="ours", id="before")
    victim = start("holder", bus_dir)
    victim.wait_told(1)
    waiting = start("publisher", bus_dir, "waiting", 0)
    assert waiting.told() == []
    victim.kill()
    wait_until(waiting.told, timeout_s=20)
    waiting.kill()
    assert bus.get("half") is None
    assert [row[1] for row in raw_rows(bus_dir)][:2] == ["before", "waiting-0"]


def test_a_forked_child_of_a_dead_holder_keeps_nobody_out(start: StartActor, bus_dir: Path) -> None:
    """Pitfall: fork. The child has no part in the lock that its parent held when it was killed."""
    victim = start("forking_holder", bus_dir)
    (child,) = victim.wait_told(1)
    victim.kill()
    try:
        with Bus.open(bus_dir, write_timeout_s=20) as bus:
            assert bus.publish("work", from_agent="ours").seq == 1
        os.kill(child, 0)  # it is still there
    finally:
        os.kill(child, signal.SIGKILL)
    assert [row[0] for row in raw_rows(bus_dir)] == [1]


def blob_files(bus_dir: Path) -> set[str]:
    return set(os.listdir(bus_dir / "blobs"))


@pytest.mark.slow
def test_a_killed_store_leaves_no_partial_blob_under_a_name(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-88, M-90, promise 9: 12 kills while blobs of 3 MB are written; leftovers are collected."""
    chance = random.Random(3)
    torn = 0
    for _ in range(12):
        victim = start("storer", bus_dir)
        victim.wait_told(1)
        begun = blob_files(bus_dir)
        while blob_files(bus_dir) == begun and victim.process.poll() is None:
            os.sched_yield()
        for _ in range(chance.randrange(20_000)):  # somewhere in the next few writes
            pass
        for ref in victim.kill():
            assert bus.blobs.size(ref) == 3_200_000
        for ref in bus.blobs:
            assert hashlib.sha256(bus.blobs.read(ref)).hexdigest() == ref.removeprefix("sha256-")
        torn += len(blob_files(bus_dir)) - len(set(bus.blobs))
        bus.collect_blobs(older_than_s=0)
        assert blob_files(bus_dir) == set()
    assert torn > 0, "no victim died while it wrote"


def test_a_dead_holders_lease_is_free_when_it_ends(start: StartActor, bus_dir: Path) -> None:
    """M-75, M-71."""
    now_ms = 0
    victim = start("leaseholder", bus_dir, 60)
    (token,) = victim.wait_told(1)
    victim.kill()
    with Bus.open(bus_dir, clock=lambda: now_ms) as bus:
        held = bus.leases.get("job")
        assert held is not None
        now_ms = held.until_ms - 1
        assert bus.leases.acquire("job", "heir") is None
        now_ms = held.until_ms
        lease = bus.leases.acquire("job", "heir")
        assert lease is not None
        assert lease.token > token


@pytest.mark.parametrize("durability", ["normal", "full"])
def test_a_bus_can_be_opened_by_anyone_after_a_crash(
    durability: str, start: StartActor, bus_dir: Path
) -> None:
    """M-06: the victim was the only one who had the file open, so the next one recovers it."""
    victim = start("publisher", bus_dir, "victim", 0)
    victim.wait_told(20)
    told = victim.kill()
    with Bus.open(bus_dir, durability=durability) as bus:
        assert [message.id for message in bus.read()][: len(told)] == told
        assert not bus.publish("after", from_agent="ours").duplicate
