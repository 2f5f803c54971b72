"""What does one mail cost an agent that comes anew, where 100,000 jobs are before it?

A new process each time polls an agent's inbox, once with the jobs in the log and once without, and
once more with an inbox that asks for work too. Jobs are no mail: they should cost nothing.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measure import Options, compare, options, ratio, record, spreads

from ackbus import Bus, Draft, Queue

#: How many jobs are before the mail, and how many processes poll in each round.
JOBS, POLLS = 100_000, 5

#: Polls, and prints how many it found and the seconds that took.
POLL = """
import sys, time
from ackbus import Bus, Inbox
with Bus.open(sys.argv[1]) as bus:
    start = time.perf_counter()
    found = Inbox(bus, "reader", with_work=len(sys.argv) > 2).poll(200_000)
    print(len(found), time.perf_counter() - start)
"""


def polled(directory: Path, *options: str, found: int) -> Callable[[], float]:
    """Return what polls in processes of its own, and returns the median seconds of a poll."""

    def run() -> float:
        times = []
        for _ in range(POLLS):
            command = [sys.executable, "-c", POLL, str(directory), *options]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            count, seconds = text.split()
            assert int(count) == found, f"{count} messages, not {found}"
            times.append(float(seconds))
        return statistics.median(times)

    return run


def filled(directory: Path, jobs: int) -> None:
    """Make a bus with so many jobs, and one mail behind them."""
    with Bus.init(directory) as bus:
        Queue.create(bus, "build")
        bus.publish_many(Draft("build", number, from_agent="lead") for number in range(jobs))
        bus.publish("note", "look", from_agent="lead")


def measure(settings: Options) -> dict[str, object]:
    """Return the results."""
    jobs = settings.scaled(JOBS, least=10)
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as name:
        behind, alone = Path(name, "behind"), Path(name, "alone")
        filled(behind, jobs)
        filled(alone, 0)
        asked = {
            "behind jobs": polled(behind, found=1),
            "no jobs": polled(alone, found=1),
            "behind jobs, with work": polled(behind, "--with-work", found=jobs + 1),
        }
        times = compare(asked, settings.rounds)
    return spreads(times) | {"behind jobs: no jobs": ratio(times, "no jobs", "behind jobs")}


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    record("one mail behind 100,000 jobs: a poll", measure(chosen), chosen)
