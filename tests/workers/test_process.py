"""One command, run: real ones, and all the ways in which they can misbehave."""

import contextlib
import ctypes
import gc
import math
import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackbus.schema.processes import start_thread
from ackbus.workers.processes import own_child
from ackbus.workers.processes import own_child as birth
from ackbus.workers.processes import own_child as pipes
from ackbus.workers.processes import run_process as running
from ackbus.workers.processes.own_child import (
    GRACE_S,
    OutputReader,
    OwnChild,
    ProcessSession,
    StopSwitch,
)
from ackbus.workers.processes.run_process import (
    MAX_STDERR_BYTES,
    MAX_STDOUT_BYTES,
    ProcessEnd,
    run_process,
)
from ackbus.workers.processes.supervisor import descendants
from ackbus.workers.processes.supervisors import Supervisors

from ..conftest import wait_until
from ..programs import run_program

MIB = 1024 * 1024
#: Far more than anything here takes: it only bounds what goes wrong.
LONG_S = 30.0
#: How every command is run, unless a test has it otherwise: that something came at once shows by
#: an end within `LONG_S`.
OPTIONS: dict[str, Any] = {"env": os.environ, "timeout_s": LONG_S, "grace_s": LONG_S}
#: A grace for commands that ignore SIGTERM, which is waited for.
SHORT_GRACE_S = 0.2

#: A timeout that is waited for; and one that is time enough for a shell to begin its work, also on
#: a busy machine.
SHORT_TIMEOUT_S, BEGUN_S = 0.3, 2.0

#: A shell that ignores SIGTERM, with a child that does, too; their process ids go into `pids`.
STUBBORN_TREE = """
    trap '' TERM
    sh -c 'echo $$ >>pids; while :; do sleep 0.05; done' &
    echo $$ >>pids
    wait
    while :; do sleep 0.05; done
"""

#: Leaves its process group by a session of its own, and prints until it is killed.
ESCAPE_AND_FLOOD = """
import os
if os.fork() == 0:
    os.setsid()
    with open("pids", "w") as file:
        print(os.getpid(), file=file)
    while True:
        os.write(1, b"flood")
while not os.path.exists("pids"):
    pass
"""


@pytest.fixture(autouse=True)
def no_descriptor_leaks() -> Iterator[None]:
    gc.collect()  # of what earlier tests left
    gc.freeze()  # so that the next collection looks at what is new
    before = descriptors()
    yield
    assert descriptors() == before


@pytest.fixture(params=["told by the kernel", "by looking", "told by a supervisor"])
def exits_seen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All ways to hear of an exit: some systems have only the second."""

    def refuse(pid: int) -> int:
        raise OSError("no such call here")

    if request.param == "by looking":
        monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    with Supervisors() as supervisors:
        if request.param == "told by a supervisor":
            assert supervisors.exist
            monkeypatch.setitem(OPTIONS, "supervisors", supervisors)
        yield


@pytest.fixture(autouse=True)
def in_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(command: str | list[str], stdin: bytes = b"", **options: Any) -> ProcessEnd:
    """Runs a command, or a shell script, with a timeout that does not matter."""
    argv = ["sh", "-c", command] if isinstance(command, str) else command
    return run_process(argv, stdin, **OPTIONS | options)


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def read_pids() -> list[int]:
    """The process ids that commands wrote into the file `pids`; perhaps none yet."""
    path = Path("pids")
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_alive(pid: int) -> bool:
    """Whether a process is there, and not dead and merely not reaped."""
    ps = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(ps, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    return state != "" and not state.startswith("Z")


def living() -> list[int]:
    """The processes that wrote their ids, and are still there; at least one did write."""
    assert read_pids()
    return [pid for pid in read_pids() if is_alive(pid)]


# What it reads, prints and returns.


@pytest.mark.usefixtures("exits_seen")
def test_command_reads_the_body_prints_its_result_and_exits() -> None:
    """P-35, D-51: body on stdin, then its end; stdout and stderr apart; the exit status."""
    end = run("cat; echo told >&2; exit 3", b"body")
    assert end == ProcessEnd(exit_code=3, stdout=b"body", stderr=b"told\n", run_s=end.run_s)
    assert 0 < end.run_s < LONG_S


def test_every_run_is_a_process_of_its_own() -> None:
    """P-36: one process for each message."""
    assert len({run("echo $$").stdout for _ in range(5)}) == 5


@pytest.mark.usefixtures("exits_seen")
def test_command_gets_the_variables_and_the_folder_that_are_named_and_no_others() -> None:
    Path("inside").mkdir()
    end = run(["/usr/bin/env"], env={"ONLY": "this"})
    assert end.stdout == b"ONLY=this\n"
    assert run("basename $(pwd)", cwd=Path("inside")).stdout == b"inside\n"


@pytest.mark.parametrize("script", ["exit 0", "exec <&-; echo closed >&2; exec sleep 0.05"])
def test_command_may_close_its_stdin_early(script: str) -> None:
    """P-50: also with more than a pipe holds."""
    assert run(script, bytes(MIB)).exit_code == 0


@pytest.mark.usefixtures("exits_seen")
def test_command_that_a_signal_ends_has_exit_code_minus_one() -> None:
    """P-51: and what it printed is kept as it is, also when it is not UTF-8."""
    end = run(r"printf '\377'; kill -9 $$")
    assert (end.exit_code, end.signal, end.stdout) == (-1, signal.SIGKILL, b"\xff")


def test_large_output_is_drained_while_the_command_runs() -> None:
    """P-88: both pipes, more than either holds."""
    end = run("head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >&2", max_stderr_bytes=MIB)
    assert (end.exit_code, end.stdout, end.stderr) == (0, bytes(MIB), bytes(MIB))
    assert not end.stdout_too_long
    assert not end.stderr_cut


@pytest.mark.usefixtures("exits_seen")
def test_command_is_fed_and_drained_at_the_same_time() -> None:
    """P-88, P-89: `cat` stops to read while nobody takes what it prints."""
    body = os.urandom(4 * MIB)
    assert run("cat", body).stdout == body


def test_output_of_a_command_that_has_exited_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-88: it is in the pipes, and a reader as slow as this one finds it there later."""
    monkeypatch.setattr(pipes, "_CHUNK_BYTES", 10)
    text = b"x" * 30_000
    end = run(["sh", "-c", "printf %s $0; printf %s $0 >&2", text.decode()])
    assert (end.exit_code, end.stdout, end.stderr) == (0, text, text)


# Too much.


def test_limits_are_the_documented_ones() -> None:
    """D-66, D-67, D-68: seconds of grace, bytes of stdout and of stderr."""
    assert (GRACE_S, MAX_STDOUT_BYTES, MAX_STDERR_BYTES) == (5, 10 * MIB, 64 * 1024)


def test_command_that_prints_too_much_is_ended_and_the_beginning_kept() -> None:
    """D-67: 11 MiB, of which 10 are kept; it has no exit code of its own."""
    end = run("head -c 11534336 /dev/zero")
    assert (end.stdout_too_long, len(end.stdout), end.exit_code) == (True, 10 * MIB, None)


@pytest.mark.usefixtures("exits_seen")
def test_command_that_prints_for_ever_is_ended_at_once() -> None:
    """D-67, D-52: long before its time is up."""
    flood = "(until [ -s pids ]; do :; done; exec yes) & echo $! >pids; wait"
    end = run(flood, max_stdout_bytes=999)
    assert (end.stdout_too_long, end.stdout) == (True, (b"y\n" * 500)[:999])
    assert (end.timed_out, end.signal) == (False, None)
    assert living() == []


def test_output_of_exactly_the_limit_is_not_too_long() -> None:
    """D-67: one byte more is."""
    assert run("printf 1234", max_stdout_bytes=4).exit_code == 0
    end = run("printf 12345", max_stdout_bytes=4)
    assert (end.stdout_too_long, end.stdout, end.exit_code) == (True, b"1234", None)


def test_stderr_beyond_its_limit_is_thrown_away_and_nothing_fails() -> None:
    """D-68: 100 KiB plus an answer."""
    end = run("head -c 102400 /dev/zero >&2; echo answer")
    assert (end.exit_code, end.stdout) == (0, b"answer\n")
    assert (end.stderr_cut, end.stderr) == (True, bytes(64 * 1024))


# Too long.


def test_command_that_never_reads_is_under_the_timeout() -> None:
    """P-89: the feeding is part of its time."""
    end = run(["sleep", "60"], bytes(MIB), timeout_s=SHORT_TIMEOUT_S)
    assert (end.timed_out, end.exit_code, end.signal) == (True, None, None)
    assert SHORT_TIMEOUT_S <= end.run_s < LONG_S


@pytest.mark.usefixtures("exits_seen")
def test_timeout_ends_the_whole_process_group() -> None:
    """P-90, D-52, D-66: no `sleep` stays behind, and nobody waits for the rest of the grace."""
    end = run("sleep 60 & echo $! >pids; echo early; wait", timeout_s=BEGUN_S)
    assert (end.timed_out, end.stdout) == (True, b"early\n")
    assert end.run_s < LONG_S
    assert living() == []


@pytest.mark.usefixtures("exits_seen")
def test_tree_that_ignores_sigterm_is_killed_after_the_grace() -> None:
    """X-12, D-66: SIGTERM to the group, the grace, SIGKILL to the group."""
    end = run(STUBBORN_TREE, timeout_s=BEGUN_S, grace_s=SHORT_GRACE_S)
    assert end.timed_out
    assert BEGUN_S + SHORT_GRACE_S <= end.run_s < LONG_S
    assert len(read_pids()) == 2
    assert living() == []


@pytest.mark.usefixtures("exits_seen")
def test_child_that_ignores_sigterm_is_killed_when_its_parent_does_not() -> None:
    """X-12: the command goes at SIGTERM, and its child has the rest of the grace."""
    script = "sh -c 'trap \"\" TERM; echo $$ >pids; while :; do sleep 0.05; done' & wait"
    end = run(script, timeout_s=BEGUN_S, grace_s=SHORT_GRACE_S)
    assert BEGUN_S + SHORT_GRACE_S <= end.run_s < LONG_S
    assert living() == []


@pytest.mark.usefixtures("exits_seen")
def test_command_may_use_its_grace_to_clean_up() -> None:
    """D-66: what it prints then is kept; that it exits with 0 does not make it a success."""
    end = run("trap 'echo cleaned; exit 0' TERM; sleep 60 & wait", timeout_s=BEGUN_S)
    assert (end.timed_out, end.exit_code, end.stdout) == (True, None, b"cleaned\n")


@pytest.mark.skipif(sys.platform != "linux", reason="the parents are in /proc")
def test_parents_are_told_to_end_before_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that waits for a child exits without its trap when the child ends first."""
    shell = "for each in $(seq 20); do sleep 60 & done; wait"
    parent = subprocess.Popen(["sh", "-c", shell], start_new_session=True)
    session = ProcessSession(parent)
    try:
        wait_until(lambda: len(descendants(parent.pid)) == 20)
        below = descendants(os.getpid())
        assert below.index(parent.pid) < min(map(below.index, descendants(parent.pid)))
        told: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", lambda pid, number: told.append(pid))
            session.signal(signal.SIGTERM)
        assert told[0] == parent.pid
        assert set(told[1:]) == set(descendants(parent.pid))
    finally:
        session.signal(signal.SIGKILL)
        parent.wait()


def test_command_without_a_timeout_may_take_its_time() -> None:
    assert run("sleep 0.1", timeout_s=None).exit_code == 0


def test_timeout_beyond_what_a_poll_takes_is_no_error() -> None:
    assert run("sleep 0.01", timeout_s=1e9).exit_code == 0


def test_command_that_cannot_be_killed_does_not_hold_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D-66: one that runs as another user, for instance."""

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)
        patch.setattr(running, "DYING_S", 0.1)
        with pytest.warns(ResourceWarning, match="still running"):
            end = run("echo $$ >pids; exec sleep 60", timeout_s=BEGUN_S, grace_s=0.1)
    assert (end.timed_out, end.exit_code) == (True, None)
    (pid,) = living()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))


# What it leaves running.


@pytest.mark.usefixtures("exits_seen")
def test_command_takes_along_what_it_left_running() -> None:
    """P-90: and does not wait for it, although it has the command's stdout."""
    end = run("sleep 60 & echo $! >pids; echo done")
    assert (end.exit_code, end.stdout) == (0, b"done\n")
    assert end.run_s < LONG_S
    assert living() == []


@pytest.mark.usefixtures("exits_seen")
@pytest.mark.parametrize("ending", ["echo done", "wait; sleep 60"])
def test_children_in_process_groups_of_their_own_end_with_the_command(ending: str) -> None:
    """P-90: `timeout` makes one, and so does each job under `set -m`; the session is the same."""
    script = """
        timeout 100 sh -c 'echo $$ >>pids; sleep 60' &
        set -m
        sh -c 'echo $$ >>pids; sleep 60' &
        while [ "$(wc -l <pids)" != 2 ]; do sleep 0.01; done
    """
    end = run(f"touch pids\n{script}\n{ending}", timeout_s=2 * BEGUN_S)
    assert (end.exit_code, end.timed_out) == ((0, False) if ending == "echo done" else (None, True))
    assert len(read_pids()) == 2
    assert living() == []


@pytest.mark.parametrize("numbers", ["/gone", os.devnull])
def test_session_is_ended_where_the_kernel_does_not_say_which_number_is_the_newest(
    numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-90: all processes are looked at then."""
    monkeypatch.setattr(own_child, "_NEWEST_NUMBER", numbers)
    end = run("timeout 100 sleep 60 & echo $! >pids; echo done")
    assert (end.exit_code, living()) == (0, [])


@pytest.mark.skipif(
    not os.path.exists("/proc/sys/kernel/ns_last_pid"), reason="the kernel does not say"
)
def test_command_that_starts_nothing_costs_no_look_at_the_processes_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As long as nobody else starts anything, which is the case once in a while."""
    everybody, looks = own_child._everybody, []

    def looked_at() -> Iterator[int]:
        looks.append(1)
        return everybody()

    monkeypatch.setattr(own_child, "_everybody", looked_at)

    def costs_no_look() -> bool:
        looks.clear()
        return run("exit 0").exit_code == 0 and not looks

    wait_until(costs_no_look, LONG_S)


@pytest.mark.skipif(sys.platform != "linux", reason="adoption is asked for through prctl")
def test_library_does_not_make_its_host_adopt_what_escapes() -> None:
    """A program that uses ackbus has children of its own, and reaps them in its own way."""
    is_reaper = ctypes.c_int(-1)
    ask_whether = 37
    run("true")
    assert ctypes.CDLL(None).prctl(ask_whether, ctypes.byref(is_reaper), 0, 0, 0) == 0
    assert is_reaper.value == 0


@pytest.mark.usefixtures("exits_seen")
def test_child_that_is_left_and_ignores_sigterm_is_killed() -> None:
    """X-12: the command has ended by itself, and counts as that."""
    script = """
        trap '' TERM
        sh -c 'echo $$ >pids; while :; do sleep 0.05; done' &
        while [ ! -s pids ]; do sleep 0.01; done
        echo done
    """
    end = run(script, grace_s=SHORT_GRACE_S)
    assert (end.exit_code, end.timed_out, end.stdout) == (0, False, b"done\n")
    assert SHORT_GRACE_S <= end.run_s < LONG_S
    assert living() == []


def test_escaped_child_that_holds_stdout_does_not_hold_the_host() -> None:
    """P-90: it is no longer in the group; it even prints without end."""
    end = run([sys.executable, "-c", ESCAPE_AND_FLOOD])
    for pid in living():
        os.kill(pid, signal.SIGKILL)
    assert end.exit_code == 0
    assert end.stdout.startswith(b"flood")
    assert end.run_s < LONG_S


def test_pipe_that_is_always_full_does_not_hold_the_host() -> None:
    """P-90: as when an escaped child writes faster than anyone reads."""
    with open("/dev/zero", "rb", buffering=0) as endless:
        catch = OutputReader(endless, 10)
        catch.read_rest()
    assert (catch.kept, catch.is_cut) == (bytes(10), True)


@pytest.mark.skipif(sys.platform != "linux", reason="adoption is asked for through prctl")
def test_first_process_of_a_container_reaps_what_a_command_left() -> None:
    """P-90: the orphan is dead at once, and no process that waits to be reaped is left of it."""
    script = """
    import ctypes, os
    from ackbus.workers.processes.run_process import run_process
    BE_THE_REAPER = 36
    assert ctypes.CDLL(None).prctl(BE_THE_REAPER, 1, 0, 0, 0) == 0
    end = run_process(["sh", "-c", "sleep 60 & echo $!"], b"", env=os.environ, timeout_s=60)
    try:
        os.kill(int(end.stdout), 0)
    except ProcessLookupError:
        print(end.exit_code, end.run_s < 30)
    """
    assert run_program(script) == "0 True\n"


def test_group_whose_number_another_process_has_by_now_is_left_alone() -> None:
    """P-90: the number of a command that was reaped may be given to anyone."""
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    reaped: Any = SimpleNamespace(pid=stranger.pid, returncode=0)
    group = ProcessSession(reaped)
    group.signal(signal.SIGKILL)
    assert not group.is_left()
    stranger.terminate()
    assert stranger.wait() == -signal.SIGTERM


# It does not start.


@pytest.mark.usefixtures("exits_seen")
@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["/nope"], "there is no command '/nope'"),
        (["no-such-command"], "there is no command 'no-such-command'"),
        (["./plain"], "'./plain' is not executable"),
        (["."], "'.' is not executable"),
        (["./plain/below"], "there is no command './plain/below'"),
        (["./no-hashbang"], "'./no-hashbang' is not a program, and has no #! line"),
        (["./no-interpreter"], "the interpreter of './no-interpreter' is missing"),
        (["true", "\0"], "'true' can't be started: embedded null byte"),
        (["true", "x" * 3 * MIB], "the arguments and environment of 'true' are too long"),
        (["\x1b[2J"], r"there is no command '\x1b[2J'"),
    ],
)
def test_command_that_cannot_be_started_says_why(argv: list[str], problem: str) -> None:
    """P-91: it is an end like others, not an exception."""
    Path("plain").write_text("#!/bin/sh\n")
    for name, text in (("no-hashbang", "echo x\n"), ("no-interpreter", "#!/nope\n")):
        Path(name).write_text(text)
        Path(name).chmod(0o755)
    end = run(argv)
    assert end == ProcessEnd(start_error=problem, run_s=end.run_s)


@pytest.mark.usefixtures("exits_seen")
def test_environment_or_folder_that_cannot_be_says_so() -> None:
    """P-91: as with a command that is not there."""
    assert run("true", cwd="nope").start_error == (
        "'sh' can't run in 'nope': No such file or directory"
    )
    too_long = run("true", env={**os.environ, "BODY": "x" * 3 * MIB})
    assert too_long.start_error == "the arguments and environment of 'sh' are too long"
    assert run("true", env={"A=B": "x"}).start_error is not None


@pytest.mark.usefixtures("exits_seen")
def test_too_few_descriptors_are_an_end_too() -> None:
    """P-91: wherever they run out, the next command finds as many as before."""
    run("true")  # a supervisor is there by now
    fillers = [os.dup(0) for _ in range(20)]  # no free number is below the highest one
    highest = fillers[-1]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before, ends = descriptors(), []
    try:
        for more in range(12):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + more, hard))
            ends.append(run(["/bin/sh", "-c", "sleep 0.01 & cat"], b"body"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert descriptors() == before
    for fd in fillers:
        os.close(fd)
    failed = [end for end in ends if end.start_error]
    assert {end.start_error for end in failed} == {
        "'/bin/sh' can't be started: Too many open files"
    }
    assert all(end.may_start_later for end in failed)
    assert 0 < len(failed) < len(ends)
    assert {end.stdout for end in ends[len(failed) :]} == {b"body"}


# The host.


@pytest.mark.usefixtures("exits_seen")
def test_eight_threads_run_commands_at_once() -> None:
    """P-36: each gets its own output and its own end."""
    meeting = (
        "touch here$0; while [ $(ls | grep -c here) -lt 8 ]; do sleep 0.01; done; cat; exit $0"
    )

    def work(number: int) -> ProcessEnd:
        return run(["sh", "-c", meeting, str(number)], b"%d" % number * 100_000)

    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(work, range(8)))
    assert [end.exit_code for end in ends] == list(range(8))
    assert [end.stdout for end in ends] == [b"%d" % number * 100_000 for number in range(8)]


@pytest.mark.usefixtures("exits_seen")
def test_command_hears_sigterm_although_the_thread_that_runs_it_blocks_signals() -> None:
    """D-66: threads of the host do, and a command inherits what is blocked."""
    ends: list[ProcessEnd] = []
    masks = []

    def work() -> None:
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        ends.append(run(["sleep", "60"], timeout_s=SHORT_TIMEOUT_S))
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    start_thread(work, "worker").join(LONG_S)
    assert ends[0].timed_out
    assert ends[0].run_s < LONG_S
    assert signal.SIGTERM in masks[0]
    assert masks[0] == masks[1]


@pytest.mark.usefixtures("exits_seen")
@pytest.mark.parametrize("count", [1, 3])
def test_switch_stops_every_command_that_runs_with_it(count: int) -> None:
    """P-90: long before their time is up; with what they started."""
    switch = StopSwitch()
    with ThreadPoolExecutor(count) as pool:
        script = "echo begun; sleep 60 & echo $! >>pids; wait"
        runs = [pool.submit(run, script, stop=switch) for _ in range(count)]
        wait_until(lambda: len(read_pids()) == count)
        switch.stop(grace_s=LONG_S)
        ends = [each.result() for each in runs]
    assert {(end.stopped, end.exit_code, end.timed_out) for end in ends} == {(True, None, False)}
    assert {end.stdout for end in ends} == {b"begun\n"}
    assert max(end.run_s for end in ends) < LONG_S
    assert living() == []


@pytest.mark.usefixtures("exits_seen")
def test_second_stop_shortens_the_grace() -> None:
    """X-12: the first asks a command that ignores it, the second does not ask."""
    switch = StopSwitch()
    with ThreadPoolExecutor(1) as pool:
        only = pool.submit(run, STUBBORN_TREE, stop=switch)
        wait_until(lambda: len(read_pids()) == 2)
        switch.stop(grace_s=LONG_S)
        assert len(living()) == 2
        switch.stop(grace_s=0)
        end = only.result()
    assert end.stopped
    assert end.run_s < LONG_S
    assert living() == []


def test_command_does_not_start_with_a_switch_that_was_thrown() -> None:
    switch = StopSwitch()
    switch.stop()
    assert run("touch started", stop=switch) == ProcessEnd(stopped=True)
    assert not Path("started").exists()


def test_switch_that_is_not_thrown_changes_nothing() -> None:
    switch = StopSwitch()
    assert [run("echo x", stop=switch).stdout for _ in range(3)] == [b"x\n"] * 3


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGUSR1 raises KeyboardInterrupt in the main thread, wherever it is."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interrupts")
def test_exception_in_a_signal_handler_ends_the_command() -> None:
    """P-90: a Ctrl-C in the main thread of a program, for instance."""
    with pytest.raises(KeyboardInterrupt):
        run("echo $$ >pids; read line; kill -USR1 $PPID; exec sleep 60", b"served\n")
    assert living() == []


@pytest.mark.slow
@pytest.mark.usefixtures("interrupts")
def test_exception_while_a_command_starts_leaves_none_behind() -> None:
    """P-90: the command is there, and the call that starts it has not returned."""
    for _ in range(50):
        with pytest.raises(KeyboardInterrupt):
            run("kill -USR1 $PPID; echo $$ >>pids; exec sleep 60")
    wait_until(lambda: not any(is_alive(pid) for pid in read_pids()))


def test_command_whose_start_is_cut_off_is_ended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-90: the thread that starts it runs, and the one that wants it does not know it yet."""

    def cut_off(target: Callable[[], object], name: str) -> threading.Thread:
        start_thread(target, name)
        wait_until(lambda: read_pids() != [])
        raise KeyboardInterrupt

    ends: list[int] = []
    end = OwnChild.end

    def counted(child: OwnChild) -> None:
        ends.append(1)
        end(child)

    monkeypatch.setattr(birth, "start_thread", cut_off)
    monkeypatch.setattr(OwnChild, "end", counted)
    with pytest.raises(KeyboardInterrupt):
        run("echo $$ >>pids; exec sleep 60")
    wait_until(lambda: living() == [])
    assert ends == [1]


@pytest.mark.slow
@pytest.mark.usefixtures("exits_seen")
def test_command_that_asks_to_die_with_its_parent_does_not_die_before() -> None:
    """The kernel takes the thread that starts a command for its parent."""
    dying = """
import ctypes, signal, time
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
time.sleep(0.05)
"""
    command = ["setpriv", "--pdeathsig", "KILL", "sleep", "0.01"]
    if shutil.which("setpriv") is None:  # not everywhere
        command = [sys.executable, "-S", "-c", dying]
    assert {run(command).signal for _ in range(60)} == {None}


@pytest.mark.usefixtures("interrupts")
def test_exceptions_of_signal_handlers_leave_no_signal_blocked() -> None:
    """A thread that can't hear signals any more could not be stopped."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    for _ in range(50):
        with contextlib.suppress(KeyboardInterrupt):
            start_thread(lambda: os.kill(os.getpid(), signal.SIGUSR1), "sender").join()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_command_that_asks_at_the_terminal_fails_at_once() -> None:
    """D-52: there is none; in the session of the host it would be suspended until its timeout."""
    host = """
import fcntl, os, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from ackbus.workers.processes.run_process import run_process
script = "read answer </dev/tty || echo refused"
end = run_process(["sh", "-c", script], b"", env=os.environ, timeout_s=20)
print(end.stdout.decode(), end.timed_out)
"""
    person, terminal = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", host],
            stdin=terminal,
            stdout=subprocess.PIPE,
            start_new_session=True,
            timeout=LONG_S,
            check=True,
        )
    finally:
        os.close(person)
        os.close(terminal)
    assert done.stdout.split() == [b"refused", b"False"]


@pytest.mark.slow
@pytest.mark.usefixtures("exits_seen")
def test_running_a_command_so_adds_less_than_five_milliseconds() -> None:
    """To what the standard library takes for it: a busy machine gets as many rounds as it needs."""

    def took_s(call: Callable[[], object]) -> float:
        begun = time.perf_counter()
        call()
        return time.perf_counter() - begun

    script = ":"
    calls = [lambda: subprocess.run(["sh", "-c", script], check=True), lambda: run(script)]
    theirs = ours = math.inf
    for _ in range(500):
        new = [took_s(call) for call in calls]
        theirs, ours = min(theirs, new[0]), min(ours, new[1])  # what nothing else disturbed
        if ours - theirs < 0.005:
            return
    pytest.fail(f"{ours} s, and {theirs} s of the standard library")


@pytest.mark.usefixtures("exits_seen")
def test_waiting_for_a_command_to_end_takes_no_processor_time() -> None:
    switch = StopSwitch()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: wait_until(lambda: len(read_pids()) == 2)).add_done_callback(
            lambda _: switch.stop(grace_s=0.5)
        )
        begun = time.thread_time()
        end = run(STUBBORN_TREE, stop=switch)
    assert end.stopped
    assert time.thread_time() - begun < 0.15


def test_only_a_run_in_the_main_thread_starts_a_thread_and_ends_it() -> None:
    """That one keeps signal handlers out; the others run no handlers."""
    before = threading.active_count()
    seen: list[int] = []

    class Watched(StopSwitch):
        @property
        def kill_at(self) -> float:
            seen.append(threading.active_count())
            return super().kill_at

    run("echo x", stop=Watched())
    assert (max(seen), threading.active_count()) == (before + 1, before)
    seen.clear()
    start_thread(lambda: run("echo x", stop=Watched()), "worker").join()
    assert (max(seen), threading.active_count()) == (before + 1, before)  # that is this thread


@pytest.mark.parametrize("supervised", [False, True])
def test_process_has_the_limits_that_it_is_given(supervised: bool) -> None:
    limits = ((resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_CPU, 7))
    with Supervisors() as some:
        end = run_process(
            ["/bin/sh", "-c", "ulimit -n; ulimit -t"],
            b"",
            env=dict(os.environ),
            timeout_s=30,
            supervisors=some if supervised else None,
            limits=limits,
        )
    assert (end.exit_code, end.stdout) == (0, b"64\n7\n")


def test_output_is_told_as_it_comes_and_no_more_than_is_kept() -> None:
    told: list[tuple[str, bytes]] = []
    end = run_process(
        ["/bin/sh", "-c", "printf abc; printf x >&2; printf defgh"],
        b"",
        env=dict(os.environ),
        timeout_s=30,
        max_stdout_bytes=5,
        output=lambda stream, data: told.append((stream, data)),
    )
    assert b"".join(data for stream, data in told if stream == "stdout") == end.stdout == b"abcde"
    assert [data for stream, data in told if stream == "stderr"] == [b"x"]
