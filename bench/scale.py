"""What does it cost to have ten thousand, a hundred thousand, a million, ten million messages?

Each act is done on logs of every size in turn, round by round: publish, poll (an agent with
nothing new, one that is a million behind, a new one), acknowledge, claim, read a conversation,
search, replay, export, archive, open; and how much memory a process takes that polls. `--largest`
adds ten million messages: some 20 GB, and a quarter of an hour to make them. `--logs` keeps the
logs for another run.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from generator import generate
from measure import Options, at_most, options, ratio, record, spreads, summary, tell
from scale_acts import ACTS, ARCHIVE, SEARCH, Act, Site

SIZES = (10_000, 100_000, 1_000_000)
LARGEST = 10_000_000

#: Above this size the words of a log are not indexed: that takes longer than all the rest.
SEARCHED_UPTO = 1_000_000

#: The acts whose cost must not depend on how long the log is, and by how much it may.
FLAT = ("publish", "poll, nothing new", "poll 100, a million behind", "poll 100, new agent", "ack")
MOST_RATIO = 1.3

#: How much memory a process that polls may take, in MB.
MOST_RESIDENT_MB = 60.0

#: An agent that is far behind, and polls and acknowledges; it tells the most memory that it had.
POLLER = """
import re, sys
from pathlib import Path
from ackbus import Bus, Inbox
with Bus.open(sys.argv[1]) as bus:
    inbox = Inbox(bus, "memory-poller")
    for _ in range(int(sys.argv[2])):
        for message in (polled := inbox.poll()):
            message.payload
        if not polled:
            break
        inbox.ack(polled[-1])
print(re.search("VmHWM:\\\\s+(\\\\d+)", Path("/proc/self/status").read_text())[1])
"""

#: How often the poller polls.
POLLS = 500


def arguments() -> tuple[argparse.Namespace, Options]:
    """Read what this benchmark is asked beyond what all of them are."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--logs", type=Path)
    own, others = parser.parse_known_args()
    return own, options(__doc__ or "", others)


def sites(folder: Path, sizes: Sequence[int], stack: ExitStack) -> Iterator[Site]:
    """Open a bus with a log of each size; make it where there is none."""
    for size in sizes:
        directory = folder / str(size)
        if not directory.exists():
            tell(f"making a log of {size:,} messages")
            generate(directory, size)
        yield stack.enter_context(Site(directory, size))


def measured(found: Sequence[Site], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Do every act on every bus, each round; seconds of the median by act, size and round.

    Archiving comes after all the rounds of the others: what it moves changes what they find.
    """
    medians: dict[str, dict[str, list[float]]] = {name: {} for name in ACTS}
    for names in ([name for name in ACTS if name != ARCHIVE], [ARCHIVE]):
        acts = {site.size: acts_of(site, names) for site in found}
        for _ in range(rounds):
            for name in names:
                for size in random.sample(sorted(acts), len(acts)):
                    if name in acts[size]:
                        seconds = statistics.median(acts[size][name]())
                        medians[name].setdefault(str(size), []).append(seconds)
    return medians


def acts_of(site: Site, names: Sequence[str]) -> dict[str, Act]:
    """Begin acts on a bus; what is left out at its size is missing."""
    return {
        name: ACTS[name](site) for name in names if name != SEARCH or site.size <= SEARCHED_UPTO
    }


def resident_mb(site: Site) -> float:
    """Return the most memory that a process had which polled a long backlog."""
    command = [sys.executable, "-c", POLLER, str(site.bus.layout.directory), str(POLLS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def targets(
    times: dict[str, dict[str, list[float]]], resident: dict[str, float], largest: str, least: str
) -> list[dict[str, object]]:
    """Say what must be reached, and what was."""
    lengths = f"{int(largest):,} messages to {int(least):,}"
    flat = [
        at_most(f"{name}: {lengths}", MOST_RATIO, ratio(times[name], least, largest))
        for name in FLAT
    ]
    what = f"memory of a process that polls, {int(largest):,} messages"
    return [*flat, at_most(what, MOST_RESIDENT_MB, summary([resident[largest]]), "MB")]


def main() -> None:
    """Ask, and write the record."""
    own, settings = arguments()
    sizes = [settings.scaled(size) for size in (*SIZES, *([LARGEST] if own.largest else []))]
    with ExitStack() as stack:
        folder = own.logs or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ackbus-bench-"))
        )
        found = list(sites(folder, sizes, stack))
        times = measured(found, settings.rounds)
        resident = {str(site.size): resident_mb(site) for site in found}
    record(
        "cost of each act by the number of messages in the log: microseconds",
        {name: spreads(by_size) for name, by_size in times.items()},
        settings,
        targets=targets(times, resident, str(sizes[-1]), str(sizes[0])),
        conditions={"memory of a process that polls, in MB": resident},
    )


if __name__ == "__main__":
    main()
