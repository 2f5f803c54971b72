"""kill -9 of the exporter while messages come in: every line once, in order, whole."""

import json
import os
import random
import signal
import sys
import time
from contextlib import closing, suppress
from io import BytesIO
from itertools import count
from pathlib import Path

import pytest

from ackbus import Bus, Exporter
from ackbus.errors import ExporterRunning, Refused
from ackbus.export.jsonl.automatic import export_all, export_briefly
from ackbus.export.jsonl.parts import exported_files
from ackbus.export.jsonl.writer import Position, writing_lock

from ..concurrency.actors import StartActor
from ..sizes import size
from .evidence import raw_rows

pytestmark = pytest.mark.slow

KILLS = size(sample=6, whole=100)


@pytest.mark.timeout(600)
def test_bus_jsonl_is_exact_after_many_kills(start: StartActor, bus: Bus, bus_dir: Path) -> None:
    """M-80, M-85, M-86, X-40, promise 8."""
    chance = random.Random(7)
    jsonl = bus_dir / "bus.jsonl"
    publisher = start("publisher", bus_dir, "ours", 0)
    publisher.wait_told(1)
    for turn in range(KILLS):
        begun = jsonl.stat().st_size if jsonl.exists() else 0
        follower = start("follower", bus_dir)
        follower.wait_told(1)
        goal = begun + chance.randrange(1, 40_000)
        while jsonl.exists() and jsonl.stat().st_size < goal:
            os.sched_yield()
        follower.kill()
        if turn % 4 == 3 and jsonl.exists():
            assert_prefix(jsonl, bus)
            # A power loss takes a part of what was written, and leaves a torn line.
            os.truncate(jsonl, max(0, jsonl.stat().st_size - chance.randrange(2000)))
    publisher.kill()

    Exporter(bus).export_once()
    exported = jsonl.read_bytes()
    seqs = [json.loads(line)["seq"] for line in exported.splitlines()]
    assert seqs == [seq for seq, *_ in raw_rows(bus_dir)] == list(range(1, len(seqs) + 1))
    assert len(seqs) > 10 * KILLS
    jsonl.unlink()
    Exporter(bus).rebuild()
    assert jsonl.read_bytes() == exported


def assert_prefix(jsonl: Path, bus: Bus) -> None:
    """Check a killed export: the lines of the log from the first on, the last maybe torn."""
    *whole, _torn = jsonl.read_bytes().split(b"\n")
    expected = [message.to_line() for message in bus.read(upto_seq=len(whole))]
    assert whole == expected


def merged_by_git(bus: Bus) -> None:
    """Puts a file with the same messages in another order in the place of `bus.jsonl`."""
    jsonl, fresh = Path(bus.layout.jsonl), Path(bus.directory, "merged")
    with closing(writing_lock(bus.directory)) as lock:
        lock.acquire(60)
        fresh.write_bytes(b"".join(reversed(jsonl.read_bytes().splitlines(keepends=True))))
        fresh.replace(jsonl)


def imported(bus: Bus) -> None:
    """Imports messages of another bus, and exports as the command does."""
    lines = [
        b'{"id":"%d-%d","ts":"2026-01-10T14:00:00.000Z","from":"z","type":"note"}\n'
        % (time.monotonic_ns(), number)
        for number in range(50)
    ]
    bus.import_jsonl(BytesIO(b"".join(lines)))
    with suppress(Refused):  # git has torn the end of a line, or others have it
        export_all(bus)


def rotated(bus: Bus) -> None:
    with suppress(ExporterRunning):
        Exporter(bus).rotate(8192)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("exporter", ["none", "beside", "follower"])
def test_bus_jsonl_is_exact_after_kills_of_short_commands(
    exporter: str, start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-80, M-85, promise 8: short commands, a long one, rotation, imports and git at once."""
    chance = random.Random(exporter)
    acts = (lambda bus: None, merged_by_git, imported, rotated)
    for turn in range(KILLS):
        actors = [start("short", bus_dir, f"{turn}-{number}") for number in range(2)]
        if exporter != "none":
            actors.append(start(exporter, bus_dir))
        actors[0].wait_told(chance.randrange(1, 12))
        acts[turn % len(acts)](bus)
        actors[1].wait_told(chance.randrange(1, 12))
        chance.shuffle(actors)
        for actor in actors:
            actor.kill()
        assert_each_once(bus)
    Exporter(bus).export_once()
    assert_each_once(bus)
    written = exported(bus)
    assert written == b"".join(message.to_line() + b"\n" for message in bus.read())
    assert Exporter(bus).rebuild() == written.count(b"\n")
    assert exported(bus) == written


def assert_each_once(bus: Bus) -> None:
    """Check a killed export: lines of the log, each once; only the last may be torn."""
    *whole, _torn = exported(bus).split(b"\n")
    of_log = {message.to_line() for message in bus.read()}
    assert len(set(whole)) == len(whole)
    assert set(whole) <= of_log


def exported(bus: Bus) -> bytes:
    return b"".join(Path(file).read_bytes() for file in exported_files(bus.layout.jsonl))


def dies_at(step: int, directory: Path) -> int:
    """Publishes and exports as a short command does, in a child that is killed at a step.

    Returns:
        The signal that ended it; 0: it has fewer steps.
    """
    pid = os.fork()
    if pid == 0:
        steps = 0

        def tick(_frame: object, _event: str, _argument: object) -> None:
            nonlocal steps
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)

        with Bus.open(directory) as bus:
            bus.publish("work", [step, "x" * 200], from_agent="short")
            sys.setprofile(tick)
            export_briefly(bus)
            sys.setprofile(None)
        os._exit(0)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("limit", [0, 8192])
def test_a_short_command_can_die_at_every_step(limit: int, bus: Bus, bus_dir: Path) -> None:
    """Promise 8: every call and every return of its export; the next one goes on."""
    if limit:
        Exporter(bus).rotate(limit)
    every = size(sample=41, whole=1)
    for step in count(1, every):
        ended_by = dies_at(step, bus_dir)
        assert_each_once(bus)
        export_briefly(bus)
        assert exported(bus) == b"".join(message.to_line() + b"\n" for message in bus.read())
        assert Position.of(bus).is_of(bus.layout.jsonl)
        if not ended_by:
            break
    assert step > 400
