"""How soon does a handler start, in another process that has nothing else to do?

With the doorbell, and without it (a program with its own SQL never rings): then a worker looks for
itself every 250 ms. And how much does `bus run` add to the command that it runs?
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import apsw
from measure import Options, options, percentiles, record

from ackbus import Bus, Draft

#: A worker whose answer is the time at which its handler was called.
WORKER = """
import sys, time
from ackbus import Bus, Worker
with Bus.open(sys.argv[1]) as bus:
    Worker(bus, "tick.request").run(lambda message: time.time_ns())
"""

#: A message by plain SQL: nobody rings.
RAW_INSERT = """
INSERT INTO messages (id, ts_ms, from_agent, type) VALUES (?, ?, 'bench', 'tick.request')
"""


def starts(bus: Bus, count: int, *, rings: bool) -> list[float]:
    """Return the seconds from the commit of each message to the call of its handler."""
    raw = apsw.Connection(bus.layout.database)
    raw.execute("PRAGMA busy_timeout = 5000").fetchall()
    waits = []
    for number in range(count):
        id = f"{'bell' if rings else 'raw'}-{time.time_ns()}-{number}"
        published = time.time_ns()
        if rings:
            bus.publish("tick.request", id=id, from_agent="bench")
        else:
            raw.execute(RAW_INSERT, (id, published // 1_000_000))
        waits.append((answer(bus, id) - published) / 1e9)
        time.sleep(0.003 + number % 7 * 0.01)  # the worker goes to sleep meanwhile
    raw.close()
    return waits


def answer(bus: Bus, id: str) -> int:
    """Wait for the answer to a message, and return what it says."""
    while True:
        for message in bus.read(conversation=id, type="tick.done"):
            started: int = message.payload
            return started
        time.sleep(0.001)


def run_adds(folder: Path, count: int) -> list[float]:
    """Return how much longer jobs of `bus run -- true` take than `true` alone, in seconds each.

    Started at once on a queue that is full, so that the start of the program is not counted: from
    the first claim to the last end, as the claims say.
    """
    with Bus.init(folder / "run") as bus:
        added = []
        for number in range(3):
            type = f"round{number}.work"
            bus.publish_many(Draft(type, from_agent="bench") for _ in range(count))
            command = [
                Path(sysconfig.get_path("scripts"), "bus"), "run", "--type", type, "--drain",
                "--dir", bus.layout.directory, "--", "true",
            ]  # fmt: skip
            subprocess.run(command, check=True)
            first, last = bus.database.rows(
                "SELECT min(claimed_at_ms), max(ended_at_ms) FROM claims"
                " WHERE queue_id = (SELECT id FROM queues WHERE name = ?)", (type,),
            )[0]  # fmt: skip
            started = time.perf_counter()
            for _ in range(count):
                subprocess.run(["true"], check=True, capture_output=True, input=b"")
            alone = (time.perf_counter() - started) / count
            added.append((last - first) / 1e3 / count - alone)
        return added


def measure(settings: Options) -> dict[str, object]:
    """Return the results."""
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as name:
        folder = Path(name)
        with Bus.init(folder / "bus") as bus:
            command = [sys.executable, "-c", WORKER, bus.layout.directory]
            worker = subprocess.Popen(command, env=os.environ | {"PYTHONUNBUFFERED": "1"})
            try:
                starts(bus, 3, rings=True)  # until the worker is there
                with_bell = starts(bus, settings.scaled(500), rings=True)
                without = starts(bus, settings.scaled(60, least=3), rings=False)
            finally:
                worker.terminate()
                worker.wait()
        added = run_adds(folder, settings.scaled(200))
    return {
        "from publishing to the start of a handler": percentiles(with_bell),
        "the same without the doorbell": percentiles(without),
        "bus run adds to each command": percentiles(added),
    }


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    record("the start of work: milliseconds", measure(chosen), chosen)
