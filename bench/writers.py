"""What do 32 processes that publish at once cost each other, and is anything lost?

All of them begin together, and publish as many messages as one process alone does in the same
round. The rate of all together should be near that of the one, and no publish should wait long.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import Options, at_least, at_most, compare, options, ratio, record, spreads, summary
from payloads import USUAL, Payload, payloads

from ackbus import Bus

#: How many processes publish at once.
WRITERS = 32

#: Publishes so many messages once it is told to begin, and says when it began and ended, and how
#: long the slowest took, in nanoseconds.
WRITER = """
import json, sys, time
from ackbus import Bus
directory, name, count, text = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
with Bus.open(directory) as bus:
    bus.log.newest_seq()
    print("ready", flush=True)
    sys.stdin.readline()
    began, slowest = time.monotonic_ns(), 0
    for number in range(count):
        started = time.monotonic_ns()
        bus.publish("bench.note", text, from_agent=name, headers={"number": number})
        slowest = max(slowest, time.monotonic_ns() - started)
    print(json.dumps([began, time.monotonic_ns(), slowest]))
"""


class Writers:
    """So many writers, as a contender; each round has a bus of its own.

    Attributes:
        slowest_s: how long the slowest publish of each round took, in seconds.
        lost: how many messages were missing or stored twice in all rounds.
    """

    def __init__(self, folder: Path, writers: int, each: int, payload: Payload) -> None:
        self._folder = folder
        self._writers = writers
        self._each = each
        self._payload = payload
        self.slowest_s: list[float] = []
        self.lost = 0

    def __call__(self) -> float:
        """Return seconds for each message, from the first to begin to the last to end."""
        bus = Bus.init(self._folder / f"{self._writers}-{time.monotonic_ns()}")
        texts = self._payload.texts(self._writers)
        processes = [self._start(bus, number, text) for number, text in enumerate(texts)]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
        told = [json.loads(process.communicate()[0]) for process in processes]
        began, ended, slowest = zip(*told, strict=True)
        self.slowest_s.append(max(slowest) / 1e9)
        self.lost += self._difference(bus)
        bus.close()
        return (max(ended) - min(began)) / 1e9 / (self._writers * self._each)

    def _start(self, bus: Bus, number: int, text: str) -> subprocess.Popen[str]:
        arguments = [bus.layout.directory, f"writer-{number}", str(self._each), text]
        return subprocess.Popen(
            [sys.executable, "-c", WRITER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _difference(self, bus: Bus) -> int:
        """Return how many messages are not there exactly once."""
        stored = [(message.from_agent, message.headers["number"]) for message in bus.read()]
        sent = {(f"writer-{w}", n) for w in range(self._writers) for n in range(self._each)}
        return len(sent ^ set(stored)) + len(stored) - len(set(stored))


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    writers = settings.scaled(WRITERS, least=4)
    each = settings.scaled(500)
    many = Writers(folder, writers, each, payload)
    one = Writers(folder, 1, writers * each, payload)
    together = f"{writers} writers"
    times = compare({"one writer": one, together: many}, settings.rounds)
    slowest = summary([seconds * 1e3 for seconds in many.slowest_s])
    record(
        f"{writers} processes publish at once: microseconds for each message of all together",
        {
            **spreads(times),
            "slowest publish of a round, in ms": slowest,
            "lost or stored twice": many.lost + one.lost,
        },
        settings,
        targets=[
            at_least(
                f"{together}: of one writer's rate", 0.8, ratio(times, together, "one writer")
            ),
            at_most("slowest publish of a round", 100, slowest, "ms"),
            at_most("messages lost or stored twice", 0, summary([many.lost + one.lost])),
        ],
        conditions={"payloads": [payload.described()], "messages of a writer": each},
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
