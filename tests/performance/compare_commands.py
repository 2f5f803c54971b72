"""Compares the processor's time of commands that others wait for with another revision's.

    python tests/performance/compare_commands.py /path/to/other/bin/python
    python tests/performance/compare_commands.py /path/to/other/bin/python --rounds 40 pre-commit

As `compare.py` does, round by round; each revision has a project of its own. It is the time of the
command and of all that it starts, since on a machine that others use the clock tells little. Both
Pythons must have the package installed, and not editable, which slows each start.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import interval, ratios

#: The programs of agents whose hooks are compared, and the events.
PROGRAMS = ("claude", "codex", "gemini", "cursor", "copilot", "opencode", "windsurf")
EVENTS = ("start", "tool", "stop")

HOOKS = {f"hook {event} {program}": (event, program) for program in PROGRAMS for event in EVENTS}
OTHERS = ("pre-commit", "pre-push", "git commit", "git checkout", "search")

_ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "BUS_AGENT": "rev",
    **{f"GIT_{who}_NAME": "a" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "a@example.org" for who in ("AUTHOR", "COMMITTER")},
}


class Project:
    """A project with a bus, five messages for `rev`, the guard, and a staged file."""

    def __init__(self, python: str, folder: Path) -> None:
        self._bus, self._folder = str(Path(python).with_name("bus")), folder
        kept = {name: value for name, value in os.environ.items() if name[:4] != "BUS_"}
        self._env = kept | _ALONE
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
        """Return the processor's time of a command."""
        before = os.times()
        self._do(name)
        after = os.times()
        return (after.children_user - before.children_user) + (
            after.children_system - before.children_system
        )

    def _do(self, name: str) -> None:
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
            words, cwd=self._folder, env=self._env, input=stdin, capture_output=True, check=False
        )
        return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", help="the Python that has the other revision installed")
    parser.add_argument("names", nargs="*", default=[*HOOKS, *OTHERS], metavar="command")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = Project(sys.executable, Path(folder, "ours"))
        others = Project(given.python, Path(folder, "others"))
        for name in given.names:
            for each in (ours, others):
                each.seconds(name)  # what is compiled or indexed at the first time
            values = ratios(name, ours, others, given.rounds)  # type: ignore[arg-type]
            low, high = interval(values)
            median = statistics.median(values)
            print(f"{name:<34}{median:6.3f}   [{low:.3f}, {high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
