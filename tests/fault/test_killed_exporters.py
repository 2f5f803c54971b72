"""kill -9 of the exporter while messages come in: every line once, in order, whole."""

import json
import os
import random
from pathlib import Path

import pytest

from ackbus import Bus, Exporter

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
