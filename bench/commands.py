"""How long does a shell wait for `bus publish`, `bus poll` and commands that run less often?

From the start of the process to its end, against a Python that does nothing and simplebroker's
commands for the same. Every command reads or writes the same small bus each time, and its
compiled modules are there, as after its first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from measure import Contender, Options, at_least, at_most, compare, options, ratio, record, spreads
from payloads import USUAL, payloads
from peers import DURABILITY

from ackbus import Bus, Queue

#: Where the commands of this Python's packages are.
SCRIPTS = Path(sysconfig.get_path("scripts"))


def timed(command: list[str], count: int) -> Contender:
    """Return a command as a contender; it is run once before, so that its modules are compiled."""
    compiled = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment = compiled | {"BROKER_SYNC_MODE": "NORMAL"}

    def once() -> None:
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    once()

    def run() -> float:
        started = time.perf_counter()
        for _ in range(count):
            once()
        return (time.perf_counter() - started) / count

    return run


def commands(folder: Path, text: str) -> dict[str, list[str]]:
    """Return what is compared."""
    bus = [str(SCRIPTS / "bus")]
    broker = [str(SCRIPTS / "broker"), "-d", str(folder)]
    at = ["--dir", str(folder / "bus")]
    return {
        "a bare Python": [sys.executable, "-c", "pass"],
        "bus publish": [*bus, "publish", "bench.note", text, "--from", "bench", *at],
        "broker write": [*broker, "write", "bench", text],
        "bus poll": [*bus, "poll", "reader", "--limit", "1", *at],
        "broker peek": [*broker, "peek", "bench"],
        "bus queue list": [*bus, "queue", "list", *at],
        "bus --help": [*bus, "--help"],
    }


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    count = settings.scaled(20, least=1)
    with Bus.init(folder / "bus") as bus:
        Queue.create(bus, "bench.work")
    contenders = {
        name: timed(command, count) for name, command in commands(folder, payload.text).items()
    }
    times = compare(contenders, settings.rounds)
    targets = []
    for name, peer in (("bus publish", "broker write"), ("bus poll", "broker peek")):
        starts = ratio(times, "a bare Python", name)
        targets.append(at_most(f"{name}: bare starts of Python", 4, starts))
        targets.append(at_least(f"{name}: of {peer} (simplebroker)", 1, ratio(times, name, peer)))
    for name, most in (("bus queue list", 2.1), ("bus --help", 3)):
        targets.append(at_most(f"{name}: of bus poll", most, ratio(times, "bus poll", name)))
    durable = DURABILITY["NORMAL"]
    record(
        "commands from a shell: microseconds for each, from its start to its end",
        spreads(times),
        settings,
        targets=targets,
        conditions={
            "payloads": [payload.described()],
            "durability": {name: durable[name] for name in ("ackbus", "simplebroker")},
        },
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
