"""What every benchmark shares: interleaved rounds, medians with their spread, a stamped record.

A question is a dictionary of contenders. Each round asks all of them, one after the other, so that
what else the machine does hits all alike; ratios within a round are what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from ackbus import Bus
from ackbus.schema.queries import file_of

#: Runs a contender once, and returns seconds for each operation.
Contender = Callable[[], float]

#: What SQLite is asked about a bus, for the record.
PRAGMAS = (
    "journal_mode",
    "synchronous",
    "page_size",
    "cache_size",
    "mmap_size",
    "wal_autocheckpoint",
)


@dataclass(frozen=True)
class Options:
    """How a benchmark was called.

    Attributes:
        rounds: how often each contender is asked.
        size: how much each is given to do, as a part of the full size.
        out: where the record goes, or None.
    """

    rounds: int
    size: float
    out: Path | None

    def scaled(self, full: int, least: int = 10) -> int:
        """Return a count that is `full` at full size."""
        return max(least, round(full * self.size))


def options(description: str, arguments: Sequence[str] | None = None) -> Options:
    """Read the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="a tiny run that only shows it works")
    parser.add_argument("--out", type=Path, help="write the record as JSON to this file")
    given = parser.parse_args(arguments)
    return Options(1 if given.smoke else given.rounds, 0.005 if given.smoke else 1.0, given.out)


def timed(act: Callable[[Sequence[Any]], object], make: Callable[[], Sequence[Any]]) -> Contender:
    """Return a contender that acts on what is made anew each round; the making isn't counted."""
    act(make()[:1])  # opens what is opened at the first use

    def run() -> float:
        items = make()
        started = time.perf_counter()
        act(items)
        return (time.perf_counter() - started) / len(items)

    return run


def compare(contenders: dict[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Ask every contender in every round, and return their seconds for each operation.

    Each round begins with another one, so that none always comes after the same.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for _ in range(rounds):
        for name in names:
            times[name].append(contenders[name]())
        names.append(names.pop(0))
    return times


def ratio(times: Mapping[str, Sequence[float]], of: str, to: str) -> dict[str, float] | None:
    """Return how many times as fast one is as another: median, least and most over the rounds.

    None when one of them was left out.
    """
    if of not in times or to not in times:
        return None
    return summary([slow / fast for fast, slow in zip(times[of], times[to], strict=True)])


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the least and the most of what the rounds gave."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def at_least(what: str, asked: float, measured: Mapping[str, float] | None) -> dict[str, object]:
    """Say whether a ratio that should be high is: its median counts."""
    reached = None if measured is None else measured["median"] >= asked
    return _target(what, f"at least {asked:g}", measured, reached)


def at_most(
    what: str, asked: float, measured: Mapping[str, float] | None, unit: str = ""
) -> dict[str, object]:
    """Say whether what should be low is: its median counts."""
    reached = None if measured is None else measured["median"] <= asked
    return _target(what, f"at most {asked:g} {unit}".strip(), measured, reached)


def _target(
    what: str, asked: str, measured: Mapping[str, float] | None, reached: bool | None
) -> dict[str, object]:
    nothing = {"median": None, "least": None, "most": None}
    return {"what": what, "asked": asked, **(measured or nothing), "reached": reached}


def spreads(times: Mapping[str, Sequence[float]]) -> dict[str, object]:
    """Return the spread of each contender."""
    return {name: spread(seconds) for name, seconds in times.items()}


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return microseconds for each operation: median, least and most."""
    ordered = sorted(second * 1e6 for second in seconds)
    return {
        "median_us": statistics.median(ordered),
        "least_us": ordered[0],
        "most_us": ordered[-1],
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return milliseconds: p50, p90, p99 and the largest."""
    ordered = sorted(second * 1e3 for second in seconds)

    def at(part: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))]

    return {"p50_ms": at(0.5), "p90_ms": at(0.9), "p99_ms": at(0.99), "max_ms": ordered[-1]}


def record(
    question: str,
    results: Mapping[str, object],
    settings: Options,
    *,
    targets: Iterable[Mapping[str, object]] = (),
    conditions: Mapping[str, object] | None = None,
) -> None:
    """Print the results, and write them with what they depend on.

    Args:
        question: what was asked, and in which unit the answers are.
        results: the answers.
        settings: how the benchmark was called.
        targets: what should be reached, of `at_least` and `at_most`.
        conditions: what else the answers depend on, such as the payloads and how durable each
            contender is.
    """
    stamped = {
        "question": question,
        "taken_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "sqlite_of_peers": sqlite3.sqlite_version,
        "pragmas": _pragmas(),
        "rounds": settings.rounds,
        "size": settings.size,
        "conditions": conditions or {},
        "targets": list(targets),
        "results": results,
    }
    text = json.dumps(stamped, indent=2)
    print(text)
    if settings.out is not None:
        settings.out.parent.mkdir(parents=True, exist_ok=True)
        settings.out.write_text(text + "\n", "utf-8")


def tell(text: str) -> None:
    """Tell the person something that is no result."""
    print(text, file=sys.stderr)


def _pragmas() -> str:
    with tempfile.TemporaryDirectory() as folder, Bus.init(folder) as bus:
        values = {name: file_of(bus).value(f"PRAGMA {name}") for name in PRAGMAS}
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _commit() -> str | None:
    here = Path(__file__).parent
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None
