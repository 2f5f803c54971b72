"""Loses power at every recorded point of every workload, and looks at what is left.

    python tests/powerloss/run.py --durability full     # every point, every way to lose power
    python tests/powerloss/run.py --sample 40 --seed 7  # some points of each workload

Prints a line for each workload: at how many points it was cut (cuts), how many different disks that
left (states), and how many of them were bad. Exit code 1 when one was. What is assumed of disks is
in docs/adr/0040-power-loss.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, mkstemp
from typing import Any

from disk import WAYS, Disk, State
from examine import Cut, inodes_kept, look, write
from moments import Moments
from record import shared_memory
from workloads import WORKLOADS

#: After how many bad states of a workload the rest is not looked at.
ENOUGH = 20


@dataclass(frozen=True)
class Task:
    """A workload to cut, with its durability, and the way to cut it."""

    workload: str
    durability: str
    seed: int
    sample: int
    unsynced: tuple[str, ...] = ()
    record: Path | None = None


@dataclass
class Report:
    """The result; `bad` has the moment and kind of each power loss, and the errors after it.

    No run is like another, so the record of a bad one is kept: `--record` looks at it again.
    """

    workload: str
    durability: str
    seed: int
    points: int = 0
    cuts: int = 0
    states: int = 0
    bad: list[str] = field(default_factory=list)
    seconds: float = 0.0
    record: str | None = None


def record(task: Task) -> Path:
    """Run a workload in a process of its own, and return the file with its record."""
    fd, output = mkstemp(prefix="power-loss-")
    os.close(fd)
    script = Path(__file__).with_name("record.py")
    arguments = [task.workload, task.durability, output, *task.unsynced]
    subprocess.run([sys.executable, script, *arguments], check=True)
    return Path(output)


def check_record(recorded: dict[str, Any]) -> None:
    """Make sure that nothing was missed: all that is recorded gives the files as they were."""
    disk = Disk()
    for name, *arguments in recorded["events"]:
        if name != "told":
            getattr(disk, name)(*arguments)
    found = disk.found("nothing lost", Random(0))
    played = {path: there and there.content for path, there in found.items()}
    differing = {
        path
        for path in played.keys() | recorded["files"].keys()
        if played.get(path, 0) != recorded["files"].get(path, 0)
    }
    assert not differing, f"the record is not complete: {sorted(differing)}"


def examine_workload(task: Task) -> Report:
    """Cut one workload at all points, or at some."""
    begun = time.monotonic()
    file = task.record or record(task)
    recorded = pickle.loads(file.read_bytes())
    check_record(recorded)
    report = Report(task.workload, task.durability, task.seed)
    chance = Random(f"{task.seed} {task.workload}")
    for cut, way, state in _states(task, recorded, chance, report):
        report.states += 1
        trouble = _trouble(state, recorded["inodes"], cut)
        if trouble is not None:
            report.bad.append(f"after event {cut.index} ({way}): {trouble}")
            if len(report.bad) == ENOUGH:
                break
    if report.bad and not task.unsynced:
        report.record = str(file)
    elif file != task.record:
        file.unlink()
    report.seconds = round(time.monotonic() - begun, 1)
    return report


def _states(
    task: Task, recorded: dict[str, Any], chance: Random, report: Report
) -> Iterator[tuple[Cut, str, State]]:
    """Yield every disk that there may be after a power loss, each once."""
    events = recorded["events"]
    first = 1 + [name for name, *_ in events].index("sync_all")
    report.points = len(events) - first
    chosen = _chosen(events, first, task.sample, chance)
    moments, disk = Moments(events), Disk()
    facts = [arguments[0] for name, *arguments in events if name == "told"]
    told: list[Any] = []
    seen: set[bytes] = set()
    for index, (name, *arguments) in enumerate(events):
        if name == "told":
            told.append((*arguments, index))
        else:
            getattr(disk, name)(*arguments)
        if name == "sync_all":  # what is there before a workload is on the disk
            told.append((("bus",), True, index))
        if index in chosen:
            report.cuts += 1
            cut = Cut(index, list(told), task.durability, facts, moments)
            for way in WAYS:
                state = disk.found(way, chance)
                digest = _digest(state, told)
                if digest not in seen:
                    seen.add(digest)
                    yield cut, way, state


def _chosen(events: list[Any], first: int, count: int, chance: Random) -> set[int]:
    """Return where to cut: everywhere, or at so many points, half of them where something is told.

    There a bus must keep most.
    """
    every = range(first, len(events))
    if not count:
        return set(every)
    telling = [index for index in every if events[index][0] == "told"]
    chosen = set(chance.sample(telling, min(count // 2, len(telling))))
    others = [index for index in every if index not in chosen]
    return chosen | set(chance.sample(others, min(count - len(chosen), len(others))))


def _digest(state: State, told: list[Any]) -> bytes:
    """Return what differs when the disk does, or when it must keep more."""
    digest = blake2b(b"%d" % len(told), digest_size=16)
    for path, found in state.items():
        digest.update(path.encode())
        if found is not None:
            digest.update(b"%d %d %d " % (found.number, found.changed_ns, len(found.content)))
            digest.update(found.content)
    return digest.digest()


def _trouble(state: State, inodes: dict[int, int], cut: Cut) -> str | None:
    with TemporaryDirectory(dir=shared_memory()) as root:
        try:
            with inodes_kept(write(state, root, inodes)):
                look(os.path.realpath(root), cut)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(where.filename)}:{where.lineno}"
            return f"{type(error).__name__}: {error} ({place})"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--durability", choices=("full", "normal"), help="both, unless given")
    parser.add_argument("--workload", choices=WORKLOADS, help="all, unless given")
    parser.add_argument("--sample", type=int, default=0, help="points of each workload; 0 is all")
    parser.add_argument("--seed", type=int, default=1, help="of what is lost (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument(
        "--unsynced", nargs="*", default=(), help="let syncs of files of these beginnings be lies"
    )
    parser.add_argument("--record", type=Path, help="look at a record again (with --workload)")
    given = parser.parse_args()
    tasks = [
        Task(workload, durability, given.seed, given.sample, tuple(given.unsynced), given.record)
        for durability in ([given.durability] if given.durability else ["full", "normal"])
        for workload in ([given.workload] if given.workload else WORKLOADS)
    ]
    warnings.simplefilter("ignore")
    with ProcessPoolExecutor(given.jobs) as pool:
        reports = list(_shown(pool.map(examine_workload, tasks), given.json))
    return 1 if any(report.bad for report in reports) else 0


def _shown(reports: Iterator[Report], as_json: bool) -> Iterator[Report]:
    totals: dict[str, Report] = {}
    for report in reports:
        _show(report, as_json)
        yield report
        total = totals.setdefault(report.durability, Report("all", report.durability, report.seed))
        for name in ("points", "cuts", "states", "bad", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(report, name))
    for total in totals.values():
        _show(total, as_json)


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report)), flush=True)
        return
    print(
        f"{report.durability:<7} {report.workload:<31} {report.points:>6} points"
        f" {report.cuts:>6} cuts {report.states:>7} states {len(report.bad):>4} bad"
        f" {report.seconds:>8.1f} s",
        flush=True,
    )
    if report.workload != "all":
        for line in report.bad:
            print(f"    {line}", flush=True)
        if report.record:
            print(f"    the record of it: {report.record}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
