"""Compares the time of commands that others wait for with another revision's.

    python tests/performance/compare_commands.py /path/to/other/bin/python
    python tests/performance/compare_commands.py /path/to/other/bin/python --rounds 40 pre-commit
    python tests/performance/compare_commands.py /path/to/other/bin/python --by instructions

As `compare.py` does, round by round; each revision has a project of its own. Compared is what the
command takes with all that it starts:

- `processor`: its time on a processor, in microseconds, since on a machine that others use the
  clock tells little;
- `clock`: the time until it ends, which has its waits, on a machine that is idle;
- `instructions`: what it runs outside of the kernel, counted by valgrind, which must be installed:
  a hundred times slower, and the same within 0.2 % however busy the machine is. One round will do.

Both Pythons must have the package installed, and not editable, which slows each start.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from compare import interval, ratios

#: The programs of agents whose hooks are compared, and the events.
PROGRAMS = ("claude", "codex", "gemini", "cursor", "copilot", "opencode", "windsurf")
EVENTS = ("start", "tool", "stop")

HOOKS = {f"hook {event} {program}": (event, program) for program in PROGRAMS for event in EVENTS}
OTHERS = ("pre-commit", "pre-push", "git commit", "git checkout", "search")

#: How valgrind counts, and what it says of each process.
_COUNTING = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_COUNT = re.compile(r"I\s+refs:\s+([\d,]+)")

_ALONE = {
    "PYTHONHASHSEED": "0",  # else sets and dictionaries differ from run to run
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "BUS_AGENT": "rev",
    **{f"GIT_{who}_NAME": "a" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "a@example.org" for who in ("AUTHOR", "COMMITTER")},
}


class Project:
    """A project with a bus, five messages for `rev`, the guard, and a staged file."""

    def __init__(self, python: str, folder: Path, by: str) -> None:
        self._bus, self._folder = str(Path(python).with_name("bus")), folder
        self._measure = {
            "processor": self._processor_seconds,
            "clock": self._clock_seconds,
            "instructions": self._instructions,
        }[by]
        self._prefix: tuple[str, ...] = ()
        # Settings of Python would have each start compile all modules.
        other = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
        self._env = {name: value for name, value in other.items() if name[:4] != "BUS_"} | _ALONE
        folder.mkdir()
        self._run("git", "init", "--quiet")
        self._run(self._bus, "init")
        for number in range(5):
            self._run(self._bus, "publish", "note", f"word {number}", "--from", "a", "--to", "rev")
        for name in ("one", "two"):
            (folder / name).write_text("x\n")
            self._run("git", "add", name)
            if name == "one":
                self._run("git", "commit", "--quiet", "-m", "one")
        self._run(self._bus, "guard", "install")
        self._head = self._run("git", "rev-parse", "HEAD").decode().strip()

    def seconds(self, name: str) -> float:
        """Return what a command takes, in the unit that was chosen."""
        return self._measure(lambda: self.do(name))

    def _processor_seconds(self, do: Callable[[], None]) -> float:
        # That of `os.times` is counted in steps of 10 ms.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        do()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def _clock_seconds(self, do: Callable[[], None]) -> float:
        started = time.perf_counter()
        do()
        return time.perf_counter() - started

    def _instructions(self, do: Callable[[], None]) -> float:
        with tempfile.TemporaryDirectory() as folder:
            self._prefix = (*_COUNTING, "--trace-children=yes", f"--log-file={folder}/%p")
            do()
            self._prefix = ()
            texts = [file.read_text() for file in Path(folder).iterdir()]
        counts = [
            int(found[1].replace(",", "")) for text in texts if (found := _COUNT.search(text))
        ]
        return float(sum(counts))

    def do(self, name: str) -> None:
        """Run a command."""
        if name in HOOKS:
            event, program = HOOKS[name]
            told = json.dumps({"hook_event_name": event, "session_id": "s"}).encode()
            self._run(self._bus, "hook", event, program, stdin=told)
        elif name == "git commit":
            self._run("git", "commit", "--quiet", "--allow-empty", "-m", "more")
        elif name == "git checkout":
            self._run("git", "checkout", "--quiet", "-B", "other")
        elif name == "search":
            self._run(self._bus, "search", "word", "--json")
        else:
            pushed = f"refs/heads/x {self._head} refs/heads/x {'0' * 40}\n".encode()
            self._run(self._hook(name), "origin", "nowhere", stdin=pushed)

    def _hook(self, name: str) -> str:
        folders = (self._folder / ".git" / each for each in ("ackbus-hooks", "hooks"))
        return next(str(each / name) for each in folders if (each / name).exists())

    def _run(self, *words: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            (*self._prefix, *words),
            cwd=self._folder,
            env=self._env,
            input=stdin,
            capture_output=True,
            check=False,
        )
        return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", help="the Python that has the other revision installed")
    parser.add_argument("names", nargs="*", default=[*HOOKS, *OTHERS], metavar="command")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--by", choices=("processor", "clock", "instructions"), default="processor")
    given = parser.parse_intermixed_args()
    if given.by == "instructions" and shutil.which("valgrind") is None:
        parser.error("valgrind is not installed, which counts instructions")
    with tempfile.TemporaryDirectory() as folder:
        ours = Project(sys.executable, Path(folder, "ours"), given.by)
        others = Project(given.python, Path(folder, "others"), given.by)
        for name in given.names:
            for project in (ours, others):
                project.do(name)  # what is compiled or indexed at the first time
            values = ratios(name, ours, others, given.rounds)  # type: ignore[arg-type]
            low, high = interval(values)
            median = statistics.median(values)
            print(f"{name:<34}{median:6.3f}   [{low:.3f}, {high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
