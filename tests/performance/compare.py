"""Compares the time of hot operations with another revision, that another Python has installed.

    python tests/performance/compare.py /path/to/other/bin/python
    python tests/performance/compare.py /path/to/other/bin/python --rounds 40 publish ack

Each round asks both, one after the other, on a fresh bus each; the ratio is taken within a round,
so that what else the machine does hits both. It prints the median of the ratios, this revision to
the other, and the interval in which that median lies with 95%: where 1 is in it, no difference is
shown. Compare a revision with itself to see what the machine can show.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from operations import OPERATIONS, filled

#: What is compared unless names are given: what an agent does all day.
DAILY = (
    "publish",
    "publish 1,000, for each",
    "poll 100 and use their payloads",
    "ack",
    "claim a job",
    "complete a job",
)


def seconds_of(name: str) -> float:
    """Return how long an operation takes once, on a bus of its own."""
    operation = OPERATIONS[name]
    with tempfile.TemporaryDirectory() as folder, filled(Path(folder, "bus")) as bus:
        act = operation.prepare(bus)
        act()  # opens what is opened at the first use
        times = operation.times - 1  # there are as many jobs and messages as it may take
        started = time.perf_counter()
        for _ in range(times):
            act()
        return (time.perf_counter() - started) / times


def serve() -> None:
    """Answer each name of an operation on standard input with its seconds."""
    for line in sys.stdin:
        print(seconds_of(line.rstrip("\n")), flush=True)


class Contender:
    """A process of a Python that has a revision installed."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",  # the revision that is installed, not the one around
        )

    def seconds(self, name: str) -> float:
        """Return how long an operation takes once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def ratios(name: str, ours: Contender, others: Contender, rounds: int) -> list[float]:
    """Return our seconds through the other's, of each round; each begins with the other one."""
    found = []
    for number in range(rounds):
        if number % 2:
            theirs, own = others.seconds(name), ours.seconds(name)
        else:
            own, theirs = ours.seconds(name), others.seconds(name)
        found.append(own / theirs)
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """Return the ends between which the median lies with 95%, by the ranks of a binomial."""
    ordered = sorted(values)
    count = len(ordered)
    rank = max(0, int(count / 2 - 0.98 * count**0.5))
    return ordered[rank], ordered[count - 1 - rank]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", help="the Python that has the other revision installed")
    parser.add_argument("names", nargs="*", default=DAILY, metavar="operation")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_intermixed_args()
    ours, others = Contender(sys.executable), Contender(given.python)
    for name in given.names:
        values = ratios(name, ours, others, given.rounds)
        low, high = interval(values)
        median = statistics.median(values)
        print(f"{name:<34}{median:6.3f}   [{low:.3f}, {high:.3f}]", flush=True)
    ours.end()
    others.end()


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        main()
