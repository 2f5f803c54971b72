"""Issue 31, item 9: what a parent leaves behind, signals and descriptors, changes no command.

Programs of the world start a command with SIGCHLD ignored (so that they need not wait for
children), with signals blocked (threads of theirs), or with standard streams closed (services).
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import Ended, wait_until
from ..sizes import sampled
from .conftest import BUS
from .git import Git, git_env


def close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def all_at_once() -> None:
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    close(0)


#: What a parent may do between fork and exec.
PARENTS: dict[str, Callable[[], object]] = {
    "all at once": all_at_once,
    "ignores SIGCHLD": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "ignores SIGPIPE": lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN),
    "ignores SIGTERM": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "ignores SIGINT": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    "blocks all": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()),
    "closes stdin": lambda: close(0),
    "closes stderr": lambda: close(2),
    "closes both": lambda: close(0, 2),
}

#: Without the pauses of seconds after a failure.
LISTEN = ["listen", "reader", "--drain", "--retry-pause", "10ms", "--"]

#: Commands that start programs, and the exit codes of most by what a child says.
COMMANDS = {
    "a branch that is there": (3, ["task", "spawn", "taken", "--worker", "ann"]),
    "a new task": (0, ["task", "spawn", "fresh", "--worker", "ann", "--json"]),
    "no such base": (3, ["task", "spawn", "fresh", "--worker", "ann", "--base", "nothing"]),
    "a set-up": (1, ["task", "spawn", "fresh", "--worker", "ann", "--setup", "exit 7"]),
    "a program in a tree": (7, ["task", "attach", "begun", "--", "sh", "-c", "exit 7"]),
    "files of a task": (4, ["task", "diff", "begun"]),
    "forecast": (0, ["task", "forecast", "main", "ann/taken"]),
    "hooks": (0, ["guard", "install"]),
    "drivers": (0, ["setup", "git"]),
    "no such revision": (4, ["log", "nothing"]),
    "integration": (4, ["integrate", "--once", "--into", "main"]),
    "a worker": (0, ["run", "--type", "work", "--once", "--", "sh", "-c", "exit 7"]),
    "a listener": (0, [*LISTEN, "sh", "-c", "exit 7"]),
}

#: The parts of output that differ from run to run: ids, times, seconds.
_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{7,64}|\d+(\.\d+)? m?s\b|\d\d:\d\d\S*")


@pytest.fixture
def place(project: Path, bus_dir: Path, bus_env: dict[str, str]) -> Path:
    """A repository with a bus, a task, a branch that is in the way, a job and a message."""
    env = git_env(bus_env)
    git = Git(project, env)
    git.ok("init", "--quiet")
    git.commit("file", ".gitignore", text=".worker-state/\n")
    git.ok("branch", "ann/taken")
    made = run_from(lambda: None, ["task", "spawn", "begun", "--worker", "ann"], project, env)
    assert made.code == 0, made
    with Bus.open(bus_dir) as bus:
        bus.heartbeats.beat("reader")
        bus.publish("work", "job", from_agent="boss")
        bus.publish("note", "mail", from_agent="boss", to_agent="reader")
    return project


def run_from(
    parent: Callable[[], object], words: list[str], place: Path, env: dict[str, str]
) -> Ended:
    """The installed command, started by a parent of this kind."""
    done = subprocess.run(
        [BUS, *words],
        cwd=place,
        env=git_env(env | {"BUS_AGENT": "boss"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=parent,
        timeout=100,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


CASES = [(words, name) for words in COMMANDS for name in PARENTS]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "parent"), sampled(CASES, every=len(PARENTS)))
def test_no_parent_changes_what_a_command_says(
    command: str, parent: str, place: Path, bus_env: dict[str, str], tmp_path: Path
) -> None:
    """Each kind of parent gets the exit code and the words that a shell gets."""
    code, words = COMMANDS[command]
    folders = [place, Path(f"{place}.trees")]
    for folder in folders:
        shutil.copytree(folder, tmp_path / "kept" / folder.name, symlinks=True)
    right = run_from(lambda: None, words, place, bus_env)
    assert right.code == code, right
    for folder in folders:
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "kept" / folder.name, folder, symlinks=True)
    ended = run_from(PARENTS[parent], words, place, bus_env)
    assert (ended.code, same(ended.out)) == (right.code, same(right.out)), ended
    if "stderr" not in parent and "both" not in parent:
        assert same(ended.err) == same(right.err)


def same(text: str) -> str:
    """The parts of output that are the same each time."""
    return _CHANGING.sub("…", text)


#: What a program says of the signals and descriptors that it was started with.
PROBE = (
    "grep -E '^Sig(Blk|Ign)' /proc/self/status;"
    " for d in 0 1 2; do test -e /proc/self/fd/$d; echo $?; done"
)

#: Signals 32 and 33, which make leaves ignored: the C library keeps them, and lets nobody set them.
OF_THE_LIBRARY = 0b11 << 31

STARTERS = {
    "attach": ["task", "attach", "begun", "--", "sh", "-c", PROBE],
    "listen": ["listen", "reader", "--drain", "--", "sh", "-c", PROBE],
}


@pytest.mark.slow
@pytest.mark.parametrize("words", STARTERS.values(), ids=STARTERS)
def test_programs_of_the_user_get_none_of_it(
    words: list[str], place: Path, bus_env: dict[str, str]
) -> None:
    """An instance that the issue does not name: `head` in a task's shell ended no writer before it.

    SIGINT may stay ignored, as the background of a shell means it.
    """
    ended = run_from(all_at_once, words, place, bus_env)
    blocked, ignored, *open_ones = ended.out.split("\n")[:5]
    assert int(blocked.split()[1], 16) == 0, ended
    assert int(ignored.split()[1], 16) & ~OF_THE_LIBRARY in (0, 1 << (signal.SIGINT - 1)), ended
    assert open_ones == ["0", "0", "0"]


def test_no_file_of_the_bus_gets_the_number_of_a_closed_stream(
    bus_dir: Path, bus_env: dict[str, str]
) -> None:
    """The output of a library or a child to a closed stream would land in that file."""
    process = subprocess.Popen(
        [BUS, "poll", "ann", "--wait", "60"],
        cwd=bus_dir.parent,
        env=bus_env,
        preexec_fn=lambda: close(0, 1, 2),
    )
    try:
        opened = Path(f"/proc/{process.pid}/fd")
        wait_until(lambda: any("inotify" in name for name in names_in(opened)))
        assert [os.readlink(opened / str(number)) for number in range(3)] == [os.devnull] * 3
    finally:
        process.kill()
        process.wait()


def test_blocked_and_ignored_sigterm_end_a_command(bus_dir: Path, bus_env: dict[str, str]) -> None:
    process = subprocess.Popen(
        [BUS, "poll", "ann", "--wait", "60"],
        cwd=bus_dir.parent,
        env=bus_env,
        preexec_fn=all_at_once,
    )
    try:
        wait_until(
            lambda: any("inotify" in name for name in names_in(Path(f"/proc/{process.pid}/fd")))
        )
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()


def names_in(folder: Path) -> list[str]:
    """Return the files of which the descriptors of a process are."""
    found = []
    for path in folder.iterdir():
        try:
            found.append(os.readlink(path))
        except FileNotFoundError:  # closed meanwhile
            continue
    return found
