"""How long does the guard hold a commit of 1,000 files up, beside 1,000 reservations?

Half of them are globs of several kinds. As the hook runs it, by hand, and a bare
Python; and its own time in a process that has started: asking git, reading the bus, comparing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from measure import Contender, compare, options, record, spread

from ackbus import Bus
from ackbus.bus.reservations.path_patterns import parse_pattern
from ackbus.git.work_tree import WorkTree

#: What the reserved globs look like; half of the reservations are such.
GLOBS = ("src/pkg{0}/**/test_{0}*.py", "docs/ch{0}/*.md", "**/gen_{0}_?.c", "lib/[a-f]{0}/**")

#: The command, installed beside the Python that asks.
COMMAND = str(Path(sysconfig.get_path("scripts"), "bus"))


def reserved(count: int) -> list[str]:
    """Return paths, every second of them a glob."""
    half = count // 2
    globs = [GLOBS[n % len(GLOBS)].format(n) for n in range(half)]
    return [*globs, *(f"src/pkg{n % 40}/mod{n}/file{n}.py" for n in range(count - half))]


def edited(count: int) -> list[str]:
    """Return files, all near to what is reserved, none of them reserved."""
    return [f"src/pkg{n % 40}/mod{n}/other_{n}.py" for n in range(count)]


def prepare(folder: Path, count: int) -> Bus:
    """Make a repository with that many staged files, and a bus with that many reservations."""
    os.chdir(folder)
    subprocess.run(["git", "init", "--quiet"], check=True)
    for name in edited(count):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    subprocess.run(["git", "add", "src"], check=True)
    bus = Bus.init(folder / ".worker-state")
    assert bus.reservations.reserve(reserved(count), "alice").granted
    return bus


def timed(*command: str) -> Contender:
    """A command, from its start to its end."""

    def run() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - started

    return run


def comparing(bus: Bus, files: list[str]) -> Contender:
    """Reading the reservations and comparing, with nothing remembered of an earlier time."""

    def run() -> float:
        parse_pattern.cache_clear()
        started = time.perf_counter()
        assert bus.reservations.against(files, "bob") == []
        return time.perf_counter() - started

    return run


def own(bus: Bus, count: int) -> Contender:
    """All that the guard does, in a process that has started."""

    def run() -> float:
        parse_pattern.cache_clear()
        started = time.perf_counter()
        files = WorkTree.around(os.getcwd()).staged()
        assert len(files) == count
        assert bus.reservations.against(files, "bob") == []
        return time.perf_counter() - started

    return run


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    count = settings.scaled(1000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackbus-bench-")))
        bus = stack.enter_context(prepare(folder, count))
        stack.callback(os.chdir, "/")
        python = (sys.executable, "-P")
        contenders = {
            "as the hook runs it": timed(*python, "-m", "ackbus.cli.guard_check", "block"),
            "bus guard check": timed(
                str(Path(sysconfig.get_path("scripts"), "bus")), "guard", "check"
            ),
            "a bare Python": timed(*python, "-c", "pass"),
            "its own time": own(bus, count),
            "of that, comparing": comparing(bus, edited(count)),
        }
        times = compare(contenders, settings.rounds)
    results: dict[str, object] = {name: spread(seconds) for name, seconds in times.items()}
    record(f"the guard: {count} staged files, {count} reservations", results, settings)


if __name__ == "__main__":
    main()
