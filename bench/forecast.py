"""How long does a forecast of the conflicts of 50 branches take, and after one of them has moved?

Of 10,000 files each branch changes 20, renames one and adds one; they begin at several commits.
Beside it, git with a process for each pair, on a tenth of them.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from measure import Contender, at_most, compare, options, record, spreads, summary

from ackbus import Bus
from ackbus.git.branches.forecast import Pair, conflicts
from ackbus.git.sealed import sealed_around
from ackbus.tasks.board.forecast import forecast_of_refs

#: How many files a folder has.
_FOLDER = 100


def name(number: int) -> str:
    """Return the name of a file."""
    return f"src/part{number // _FOLDER:03}/module{number:05}.py"


def text(number: int, changed: str = "") -> str:
    """Return 40 lines, of which one may be changed."""
    lines = [f"line {line} of file {number}\n" for line in range(40)]
    if changed:
        lines[sum(map(ord, changed)) % 40] = f"changed by {changed}\n"
    return "".join(lines)


def commit(branch: str, base: str | None, files: dict[str, str | None]) -> Iterator[str]:
    """Yield a commit as `git fast-import` reads it; None deletes a file."""
    yield f"commit refs/heads/{branch}\ncommitter b <b@example.com> 1700000000 +0000\ndata 1\nx\n"
    if base:
        yield f"from {base}\n"
    for file, content in files.items():
        yield (
            f"D {file}\n"
            if content is None
            else (f"M 100644 inline {file}\ndata {len(content)}\n{content}\n")
        )
    yield "\n"


def make(folder: Path, files: int, branches: int) -> list[str]:
    """Make the repository, and return the ids of its branches."""
    chance = random.Random(1)
    subprocess.run(["git", "init", "--quiet", "-b", "main", folder], check=True)

    def load(stream: Iterator[str]) -> None:
        command = ["git", "fast-import", "--quiet"]
        subprocess.run(command, cwd=folder, input="".join(stream).encode(), check=True)

    load(commit("main", None, {name(number): text(number) for number in range(files)}))
    for number in range(20):
        load(commit("main", "refs/heads/main^0", {name(number * 7 % files): text(number, "main")}))
    for branch in range(branches):
        edited = chance.sample(range(files), min(20, files - 1))
        changes: dict[str, str | None] = {name(n): text(n, f"{branch}/{n}") for n in edited}
        renamed = chance.choice([n for n in range(files) if n not in edited])
        changes[name(renamed)] = None
        changes[f"src/renamed{branch}.py"] = text(renamed, f"{branch}")
        changes[f"src/new{branch}.py"] = text(branch)
        base = f"refs/heads/main~{chance.randrange(20)}"
        load(commit(f"task-{branch}", base, changes))
    return [
        id or ""
        for id in sealed_around(str(folder)).commits([f"task-{n}" for n in range(branches)])
    ]


def forecast(folder: Path, pairs: list[Pair]) -> Contender:
    """The forecast of all these pairs, with nothing known before."""

    def run() -> float:
        started = time.perf_counter()
        conflicts(sealed_around(str(folder)), pairs)
        return time.perf_counter() - started

    return run


def known_but_one(folder: Path, bus: Bus, branches: int) -> Contender:
    """The forecast of all branches by their names, of which one has moved since the last."""
    names = [f"task-{number}" for number in range(branches)]
    forecast_of_refs(bus, names, str(folder))
    moves = iter(range(1_000_000))

    def run() -> float:
        change = commit("task-0", "refs/heads/task-0^0", {"moved": f"{next(moves)}\n"})
        command = ["git", "fast-import", "--quiet", "--force"]
        subprocess.run(command, cwd=folder, input="".join(change).encode(), check=True)
        started = time.perf_counter()
        forecast_of_refs(bus, names, str(folder))
        return time.perf_counter() - started

    return run


def each_alone(folder: Path, pairs: list[Pair]) -> Contender:
    """Git with a process for each pair: a tenth of them, times ten."""

    def run() -> float:
        started = time.perf_counter()
        for a, b in pairs[::10]:
            command = ["git", "merge-tree", "--write-tree", "--name-only", a, b]
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
        return (time.perf_counter() - started) * 10

    return run


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    files, branches = settings.scaled(10_000, 100), settings.scaled(50, 5)
    with (
        tempfile.TemporaryDirectory(prefix="ackbus-bench-") as temporary,
        Bus.init(Path(temporary, "bus")) as bus,
    ):
        folder = Path(temporary, "repository")
        ids = make(folder, files, branches)
        pairs = list(combinations(ids, 2))
        contenders = {
            "all pairs": forecast(folder, pairs),
            "one branch has moved": known_but_one(folder, bus, branches),
            "a git for each pair": each_alone(folder, pairs),
        }
        times = compare(contenders, settings.rounds)
        found = conflicts(sealed_around(str(folder)), pairs)
    record(
        f"a forecast of {branches} branches, {files} files",
        spreads(times),
        settings,
        targets=[
            at_most("seconds for all pairs", 5, summary(times["all pairs"])),
            at_most("seconds, one moved", 0.5, summary(times["one branch has moved"])),
        ],
        conditions={"pairs": len(pairs), "conflicts": sum(each is not None for each in found)},
    )


if __name__ == "__main__":
    main()
