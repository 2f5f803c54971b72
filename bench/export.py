"""How fast is `bus.jsonl` written, and how soon is a message's line there?

The whole log in one export, against reading the same rows with apsw and writing a line of orjson
for each, with nothing else to think of. Then from the return of `publish` until the line can be
read, with an exporter at work in another process.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from pathlib import Path

import apsw
import orjson
from listening import Listening
from measure import (
    Contender,
    Options,
    at_least,
    at_most,
    compare,
    options,
    percentiles,
    ratio,
    record,
    spreads,
    summary,
)
from payloads import USUAL, Payload, payloads

from ackbus import Bus, Draft, Exporter

#: The shortest and the longest pause between two messages that are waited for, in seconds.
PAUSES_S = (0.02, 0.1)

#: How often the file is looked at, in seconds.
LOOK_S = 0.0001

#: Exports until its input ends.
EXPORTER = """
import sys
from ackbus import Bus, Exporter
with Bus.open(sys.argv[1]) as bus, Exporter(bus):
    print("ready", flush=True)
    sys.stdin.read()
print([])
"""

_SELECT = """
SELECT seq, id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload,
       payload_ref, priority, headers
  FROM messages ORDER BY seq
"""


def filled(folder: Path, sizes: dict[str, Payload], count: int) -> Bus:
    """Return a bus with messages of all sizes that stay in the file, mostly of the usual one."""
    bus = Bus.init(folder)
    bus.heartbeats.beat("reader")
    mixed = [sizes["40 bytes"], *[sizes[USUAL]] * 3, sizes["4 KB"]]
    for start in range(0, count, 1000):
        bus.publish_many(
            Draft("bench.note", text, from_agent="bench", to_agent="reader")
            for number in range(start, min(count, start + 1000))
            for text in mixed[number % len(mixed)].texts(1)
        )
    return bus


def ours(bus: Bus, count: int) -> Contender:
    """Export the whole log into a new file."""

    def run() -> float:
        Path(bus.layout.jsonl).unlink(missing_ok=True)
        started = time.perf_counter()
        assert Exporter(bus).export_once() == count
        return (time.perf_counter() - started) / count

    return run


def bare(bus: Bus, path: Path, count: int) -> Contender:
    """Write the same rows, as they are stored, into a file; it is synced once, as ours is."""
    connection = apsw.Connection(bus.layout.database, flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute(_SELECT)
    names = [name for name, _ in rows.get_description()]
    rows.close()

    def run() -> float:
        path.unlink(missing_ok=True)
        started = time.perf_counter()
        with path.open("wb") as file:
            for row in connection.execute(_SELECT):
                fields = dict(zip(names, row, strict=True))
                fields["payload"] = orjson.Fragment(fields["payload"])
                file.write(orjson.dumps(fields) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - started) / count

    return run


def visible(folder: Path, payload: Payload, count: int) -> list[float]:
    """Return how long each message took to be a whole line of the file, in seconds."""
    waits = []
    with Bus.init(folder) as bus:
        bus.publish("bench.note", from_agent="bench")  # the file is there from now on
        exporter = Listening(EXPORTER, bus.layout.directory)
        exporter.next_line()
        pauses = random.Random(count)
        with open(bus.layout.jsonl, "rb") as lines:
            lines.read()
            for text in payload.texts(count):
                time.sleep(pauses.uniform(*PAUSES_S))
                bus.publish("bench.note", text, from_agent="bench")
                started = time.perf_counter()
                line = b""
                while not line.endswith(b"\n"):
                    time.sleep(LOOK_S)
                    line += lines.read()
                waits.append(time.perf_counter() - started)
        exporter.end()
    return waits


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    sizes = payloads()
    count = settings.scaled(100_000)
    with filled(folder / "bus", sizes, count) as bus:
        contenders = {
            "ackbus": ours(bus, count),
            "apsw and orjson": bare(bus, folder / "bare.jsonl", count),
        }
        times = compare(contenders, settings.rounds)
    waited = settings.scaled(100, least=5)
    waits = [visible(folder / f"live{n}", sizes[USUAL], waited) for n in range(settings.rounds)]
    p50 = summary([percentiles(each)["p50_ms"] for each in waits])
    record(
        "the export: microseconds for each message, and milliseconds until its line is there",
        {
            "export": spreads(times),
            "publish to line": percentiles([wait for each in waits for wait in each]),
        },
        settings,
        targets=[
            at_least("export: of apsw and orjson", 0.5, ratio(times, "ackbus", "apsw and orjson")),
            at_most("commit to line visible, p50", 10, p50, "ms"),
        ],
        conditions={
            "payloads": [payload.described() for payload in sizes.values()],
            "messages": count,
            "the log": "one in five of 40 bytes, three of 300 bytes, one of 4 KB",
            "pauses, in seconds": list(PAUSES_S),
        },
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
