"""Issue 31, item 9: no exit code is made up where another part of the program keeps it."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus.git.repository import Repository
from ackbus.schema.children import EndUnknown, PythonProcesses, ReapedChild, run_child
from ackbus.workers.processes.run_process import run_process

from ..conftest import wait_until

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
    ended = run_child(["sh", "-c", "cat; echo b >&2; exit 3"], limit_s=60, stdin=b"a" * 200_000)
    assert ended is not None
    assert (ended.code, ended.out, ended.err) == (3, b"a" * 200_000, b"b\n")
    assert run_child(["sleep", "100"], limit_s=0.01) is None


def test_a_child_at_its_limit_ends_with_its_group(tmp_path: Path) -> None:
    """By SIGTERM first; what ignores that is killed, whether it leads the group or not."""
    begun = tmp_path / "begun"
    script = f"trap 'echo cleaned >{tmp_path}/trace; exit' TERM; sleep 100 & touch {begun}; wait"
    child = ReapedChild(["sh", "-c", script], start_new_session=True)
    wait_until(begun.exists)
    child.end_group(60)
    assert (tmp_path / "trace").read_text() == "cleaned\n"
    stubborn = ReapedChild(
        ["sh", "-c", f"trap '' TERM; touch {begun}2; sleep 100"], process_group=0
    )
    wait_until((tmp_path / "begun2").exists)
    stubborn.end_group(0.05)
    assert stubborn.returncode == -signal.SIGKILL
    for group in (child.pid, stubborn.pid):
        wait_until(lambda number=group: not group_is_there(number))  # type: ignore[misc]


def group_is_there(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_processes_of_this_python_are_ended_with_the_block(tmp_path: Path) -> None:
    waits = ("-c", "import sys; print('here', flush=True); sys.exit(sys.stdin.read() != '')")
    log = tmp_path / "log"
    with PythonProcesses() as processes:
        processes.start("by input", waits, lifeline=True, log=log)
        processes.start("killed", waits, lifeline=True, log=log)
        processes.start("by itself", ("-c", "raise SystemExit(7)"))
        processes.start("by signal", ("-c", "import time; time.sleep(100)"), variables={"A": "1"})
        children = [processes[name] for name in processes.names]
        wait_until(lambda: log.read_text() == "here\n" * 2)
        assert processes.kill("killed") == children[1].pid
        wait_until(lambda: processes["by itself"].poll() is not None)
        assert (processes.lost(), processes.lost()) == ({"by itself": 7}, {})
        assert processes.names == ["by input", "by signal"]
    ends = [0, -signal.SIGKILL, 7, -signal.SIGTERM]
    assert [child.returncode for child in children] == ends


@pytest.mark.usefixtures("ignored")
def test_nothing_is_started_whose_end_nobody_learns(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for start in (
        lambda: ReapedChild(["touch", str(trace)]),
        lambda: run_child(["touch", str(trace)], limit_s=60),
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
        "workers/processes/own_child.py",  # takes only what `ps` printed
        "workers/processes/supervisor.py",  # a process of its own, which reaps all children
        "workers/processes/supervisors.py",  # asks only whether it has ended
    }


#: Programs beside the library, which set their own signals.
NOT_THE_LIBRARY = {"tests", "bench", "demo", "torture", "docs", "examples"}
