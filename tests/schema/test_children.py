"""Issue 31, item 9: no exit code is made up where another part of the program keeps it."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus.git.limited import run_limited
from ackbus.git.repository import Repository
from ackbus.schema.children import EndUnknown, ReapedChild, run_child
from ackbus.workers.processes.run_process import run_process

FALSE = ["sh", "-c", "exit 7"]


@pytest.fixture
def ignored() -> Iterator[None]:
    """This program ignores the ends of its children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_exit_codes_are_those_of_subprocess() -> None:
    with ReapedChild(FALSE) as child:
        assert child.wait() == child.wait(1) == child.poll() == child.returncode == 7
    with ReapedChild(["sleep", "100"]) as sleeper:
        assert sleeper.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            sleeper.wait(0.01)
        sleeper.kill()
        assert sleeper.wait(60) == -signal.SIGKILL
    done = run_child(["sh", "-c", "cat; echo b >&2; exit 3"], limit_s=60, stdin=b"a" * 200_000)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"a" * 200_000, b"b\n")
    with pytest.raises(subprocess.TimeoutExpired):
        run_child(["sleep", "100"], limit_s=0.01)


@pytest.mark.usefixtures("ignored")
def test_nothing_is_started_whose_end_nobody_learns(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for start in (
        lambda: ReapedChild(["touch", str(trace)]),
        lambda: run_child(["touch", str(trace)], limit_s=60),
        lambda: run_limited(["touch", str(trace)], folder="/", environment={}, limit_s=60),
    ):
        with pytest.raises(EndUnknown, match="SIGCHLD"):
            start()
    assert not trace.exists()


@pytest.mark.usefixtures("ignored")
def test_git_and_commands_fail_where_their_end_is_unknown(tmp_path: Path) -> None:
    """The way of the library: a program that embeds it, and ignores its children."""
    with pytest.raises(EndUnknown, match="git"):
        Repository(str(tmp_path)).run("rev-parse", "--verify", "nothing")
    with pytest.raises(EndUnknown, match="git"):
        list(Repository(str(tmp_path)).lines("log"))
    end = run_process(FALSE, b"", env={"PATH": os.environ["PATH"]}, timeout_s=60)
    assert "SIGCHLD" in (end.start_error or "")


def test_a_child_that_another_part_has_reaped_has_no_exit_code() -> None:
    """An instance that the issue does not name: a handler that waits for any child."""
    for ask in (ReapedChild.wait, ReapedChild.poll):
        child = ReapedChild(FALSE)
        os.waitid(os.P_PID, child.pid, os.WEXITED)
        with pytest.raises(EndUnknown, match="sh"):
            ask(child)
        assert child.returncode is None
        child.returncode = 7  # else the interpreter warns that it may run still


def test_no_status_is_taken_from_another_kind_of_child() -> None:
    """The next one is found here: only these places may start a child by `subprocess` itself."""
    root = Path(__file__).parents[2]
    library = {
        str(path.relative_to(root))
        for room in root.glob("*/__init__.py")
        if room.parent.name not in NOT_THE_LIBRARY
        for path in room.parent.rglob("*.py")
        if re.search(r"subprocess\.(Popen|run|call|check_\w+)\(", path.read_text("utf-8"))
    }
    assert library == {
        "cli/running/crew_host.py",  # asks only whether it has ended
        "schema/process_table.py",  # takes only what `ps` printed
        "setup/checking.py",  # takes only what the server answered
        "workers/processes/own_child.py",  # takes only what `ps` printed
        "workers/processes/supervisor.py",  # a process of its own, which reaps all children
        "workers/processes/supervisors.py",  # asks only whether it has ended
    }


#: Programs beside the library, which set their own signals.
NOT_THE_LIBRARY = {"tests", "bench", "demo", "torture", "docs", "examples"}
