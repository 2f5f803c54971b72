"""No disk, no descriptors, a fork: one clear error, nothing half, and all well again after."""

import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus, Inbox, Queue
from ackbus.bus.maintenance import Maintenance
from ackbus.errors import BusUnusable

from ..concurrency.actors import StartActor
from ..programs import run_program
from ..sizes import sampled
from .conftest import SmallDisk
from .evidence import raw_rows


def fill(bus: Bus, payload: str) -> BusUnusable:
    """Publishes until the disk is full; returns the error."""
    for _ in range(10_000):
        try:
            bus.publish("fill", payload, from_agent="ours")
        except BusUnusable as error:
            return error
    raise AssertionError("the disk never filled up")


@pytest.mark.parametrize("payload_bytes", [3000, 100_000], ids=["rows", "blobs"])
def test_a_full_disk_gives_one_clear_error_and_no_harm(
    payload_bytes: int, small_disk: SmallDisk
) -> None:
    """M-06, M-29, M-90, promise 11: the log is as it was, and works again when there is space."""
    small_disk.leave(400)
    bus_dir = small_disk.path / "bus"
    with Bus.init(bus_dir) as bus:
        error = fill(bus, "x" * payload_bytes)
        assert str(error).endswith("is full; nothing was stored; make room, then try again")
        assert "\n" not in str(error)
        stored = bus.log.newest_seq()
        payloads = [message.payload for message in bus.read()]
        assert payloads == ["x" * payload_bytes] * stored
        assert stored > 5
        assert not list((bus_dir / "blobs").glob(".tmp-*"))

        small_disk.make_room()
        assert bus.publish("after", from_agent="ours").seq == stored + 1
        inbox = Inbox(bus, "ann")
        assert inbox.ack(stored) == stored
        assert [message.type for message in inbox.poll()] == ["after"]
    assert [row[0] for row in raw_rows(bus_dir)] == list(range(1, stored + 2))


def test_a_checkpoint_on_a_full_disk_is_one_clear_error(small_disk: SmallDisk) -> None:
    """M-06: the write-ahead log holds what the file has no room for."""
    small_disk.leave(400)
    with Bus.init(small_disk.path / "bus") as bus:
        fill(bus, "x" * 3000)
        with pytest.raises(BusUnusable, match="is full; "):
            Maintenance(bus).checkpoint()
        small_disk.make_room()
        assert Maintenance(bus).checkpoint()[1] == 0


def test_an_acknowledgement_on_a_full_disk_is_refused_whole(small_disk: SmallDisk) -> None:
    """M-37, promise 11: either the cursor moved, or there is an error and it did not."""
    small_disk.leave(400)
    with Bus.init(small_disk.path / "bus") as bus:
        fill(bus, "x" * 3000)
        inbox = Inbox(bus, "ann")
        try:
            moved = inbox.ack(1)
        except BusUnusable:
            moved = 0
        assert inbox.position == moved
        small_disk.make_room()
        assert inbox.ack(1) == 1


def test_no_descriptors_left_is_a_clear_error(start: StartActor, bus: Bus, bus_dir: Path) -> None:
    """Pitfall: descriptors ran out. With each one that comes back it tries again."""
    told = start("starved", bus_dir, 40).end()
    refusals, last = told[:-1], told[-1]
    assert last == ["published", 2]
    assert refusals
    for kind, text in refusals:
        assert kind == "BusUnusable"
        assert "\n" not in text
        assert text.endswith(SAYS_WHY)
    assert [(row[0], row[3] in bus.blobs) for row in raw_rows(bus_dir)] == [(1, True), (2, True)]


@pytest.mark.slow
def test_an_ordinary_end_of_a_forked_child_harms_nobody(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-26, pitfall: fork. The child is refused what it inherited, and its own bus works."""
    for _ in range(5):
        before = bus.log.newest_seq()
        assert start("forker", bus_dir).end() == ["WrongProcess", 0]
        payloads = [message.payload for message in bus.read(after_seq=before)]
        assert payloads == ["before", "own", "after"]
    raw_rows(bus_dir)


def test_library_that_cannot_be_loaded_is_told_in_its_own_words(bus_env: dict[str, str]) -> None:
    """The dynamic loader has no error number for it, and any import may meet it first."""
    why = "x.so: cannot open shared object file: Too many open files"
    program = f"""
import sys
from ackbus.cli.ending import guarded
from ackbus.cli.show.output import Output
def load():
    raise ImportError({why!r})
sys.exit(guarded(Output(), load))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=bus_env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, f"bus: {why}\n")


COMMANDS = {
    "publish": ("publish", "note", "text", "--from", "ann"),
    "publish a blob": ("publish", "note", "x" * 5000, "--from", "ann"),
    "poll": ("poll", "bob"),
    "ack": ("ack", "bob", "1"),
    "tail": ("tail",),
    "export": ("export",),
    "search": ("search", "text"),
    "archive": ("archive", "--older-than", "0s", "--idle-after", "0s", "--pass-over-idle"),
    "run": ("run", "--type", "note", "--drain", "--", "cat"),
    "listen": ("listen", "bob", "--drain", "--max-deliveries", "1", "--", "cat"),
    "doctor": ("doctor",),
}

#: The ends of the lines that tell of missing descriptors.
SAYS_WHY = ("Too many open files", "raise the limit (ulimit -n)")

#: How many descriptors every command has to get along with.
ENOUGH_DESCRIPTORS = 24


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(COMMANDS, every=2))
def test_a_command_with_few_descriptors_fails_in_one_line_or_works(
    name: str, bus: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    """PITFALLS 8, 26: no traceback at any limit with which Python itself begins."""
    Queue.create(bus, "note", hides="none")
    bus.publish("note", "text", from_agent="ann")
    command = ["bus", *COMMANDS[name]]
    codes = []
    for limit in (7, 11, ENOUGH_DESCRIPTORS):
        done = subprocess.run(
            # By the shell: what is done between fork and exec would be done by a thread of ours.
            ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command],
            cwd=bus_dir.parent,
            env=bus_env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, (limit, done.stderr)
        codes.append(done.returncode)
        if done.returncode:
            assert done.stderr.splitlines()[-1].endswith(SAYS_WHY), (limit, done.stderr)
    assert codes[-1] == 0, "it has what it needs"
    assert set(codes) <= {0, 1}
    raw_rows(bus_dir)


AGENTS = """
import os, sys
from ackbus import Bus, Exporter, Inbox, Queue

with Bus.open(sys.argv[1]) as bus:
    inboxes = [Inbox(bus, f"agent-{number}") for number in range(35)]
    queue = Queue.create(bus, "note", hides="none")
    counts = []
    with bus.heart("agent-0"), Exporter(bus):
        for number in range(200):
            bus.publish("note", "x" * (number % 2 * 5000), from_agent="ann")
            for inbox in inboxes[number % 35 :: 35]:
                inbox.ack(inbox.poll(1)[0])
            for claim in queue.claim("worker"):
                queue.complete(claim)
            counts.append(len(os.listdir("/proc/self/fd")))
print(max(counts), max(counts) - counts[5])
"""


@pytest.mark.slow
def test_descriptors_do_not_grow_with_agents_or_with_work(bus_dir: Path) -> None:
    """PITFALLS 8: 35 agents, a heart, an exporter and a worker in one process."""
    most, growth = map(int, run_program(AGENTS, bus_dir).split())
    assert most < 40
    assert growth < 8, "a checkpoint has its own for a moment"
