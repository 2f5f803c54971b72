"""Processes that escape from a command of `bus run` end all the same: with it, or with its host."""

import fcntl
import os
import signal
import subprocess
import sys
import uuid
from itertools import product
from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.workers.processes.run_process import run_process
from ackbus.workers.processes.supervisors import Supervisors

from ..conftest import RunBus, wait_until
from ..sizes import sampled
from ..subscribers.work import job, state, statuses
from .conftest import StartHost
from .hosts import LONG_S, REQUEST, answer, answers, ask, attempt

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only there does the kernel say what descends from a process"
)

#: How a command leaves `sleep $M` behind, each in a way of its own.
ESCAPES = {
    "left in the background": "sleep $M",
    "timeout": "timeout 100 sleep $M",
    "set -m": "sh -mc 'sleep $M & wait'",
    "nohup": "nohup sleep $M",
    "setsid": "setsid sleep $M",
    "two forks and a session": "setsid sh -c '(sleep $M &)'",
    "a session, ignoring SIGTERM": "trap '' TERM; setsid sleep $M",
    "a session, without the pipes": "setsid sleep $M <&- >/dev/null 2>&1",
}

#: Has `sleep $M` escape, in one of these ways, before it does what the message says.
COMMAND = """
    ({escape}) &
    until ps -A -o args= | grep -q "^sleep $M"; do sleep 0.02; done
    eval "$(cat)"
"""

#: Forks and exits, again and again, in a session of its own: a look at a process is late already.
#: All of them share one lock, and they end by themselves.
CHAIN = """
import fcntl, os, time
held = open("held", "w")
fcntl.flock(held, fcntl.LOCK_EX)
if os.fork():
    time.sleep(60)
os.setsid()
until = time.monotonic() + 30
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
"""


@pytest.fixture
def marker() -> str:
    """The seconds that the processes of a test sleep: a number by which they are found."""
    return f"86400.{uuid.uuid4().int}"


@pytest.fixture
def queue(bus: Bus) -> Queue:
    """A queue whose jobs are tried once."""
    return Queue.create(bus, REQUEST, retry="asked")


def left(marker: str) -> list[str]:
    """The processes that have the marker in their arguments, with their states."""
    ps = ["ps", "-A", "-o", "stat=,args="]
    lines = subprocess.run(ps, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [line for line in lines if marker in line and not line.startswith("Z")]


def is_asleep(marker: str) -> bool:
    return any(f" sleep {marker}" in line for line in left(marker))


@pytest.mark.slow
@pytest.mark.parametrize("escape", ESCAPES)
def test_nothing_outlives_success_or_timeout(
    bus: Bus, queue: Queue, run_bus: RunBus, marker: str, escape: str
) -> None:
    """P-90, X-12: also what holds the command's pipes; the host waits until it is gone."""
    ask(bus, "echo fine", "sleep $M")
    command = ("sh", "-c", COMMAND.format(escape=ESCAPES[escape]))
    options = ("--type", REQUEST, "--timeout", "4s", "--concurrency", "2", "--drain")
    ended = run_bus("run", *options, "--", *command, env={"M": marker})
    assert left(marker) == []
    assert ended.code == 0
    assert (attempt(bus, 1).status, answer(bus, 1).payload) == ("completed", "fine\n")
    assert statuses(queue, 2) == ["timed_out"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("escape", "number"),
    sampled(
        product(
            ["timeout", "setsid", "a session, ignoring SIGTERM"],
            [signal.SIGKILL, signal.SIGABRT, signal.SIGQUIT],
        ),
        every=4,
    ),
)
def test_nothing_outlives_a_host_that_is_killed(
    bus: Bus,
    queue: Queue,
    start_host: StartHost,
    marker: str,
    escape: str,
    number: signal.Signals,
) -> None:
    """P-90: its supervisor ends what runs, as when its time is up."""
    ask(bus, "sleep $M")
    command = ("sh", "-c", COMMAND.format(escape=ESCAPES[escape]))
    host = start_host("--type", REQUEST, "--", *command, M=marker)
    wait_until(lambda: len(left(marker)) >= 2, LONG_S)  # the command's own, and what escaped
    host.tell(number)
    assert host.ended() == (131 if number == signal.SIGQUIT else -number)
    wait_until(lambda: left(marker) == [], LONG_S)


@pytest.mark.slow
def test_sigquit_ends_what_runs_and_hands_it_back(
    bus: Bus, queue: Queue, start_host: StartHost, marker: str
) -> None:
    """P-47: at once, with its own exit code, and the attempt does not count."""
    ask(bus, "sleep $M")
    host = start_host("--type", REQUEST, "--", "sh", "-c", 'eval "$(cat)"', M=marker)
    wait_until(lambda: is_asleep(marker), LONG_S)
    host.tell(signal.SIGQUIT)
    assert (host.ended(), left(marker)) == (131, [])
    assert (state(queue), job(queue).gate, job(queue).attempt) == ("queued", "open", 1)
    assert (statuses(queue), answers(bus)) == (["lost"], [])


def test_command_ends_what_it_started_and_nothing_of_the_other_one(
    bus: Bus, queue: Queue, run_bus: RunBus, marker: str
) -> None:
    """Each has a supervisor: what has escaped from one is not taken for the other's."""
    meet = "until test -e over; do sleep 0.02; done; setsid sleep 0.5; echo whole"
    ask(bus, meet, "setsid sleep $M & touch over; echo over", "touch over; echo last")
    options = ("--type", REQUEST, "--concurrency", "2", "--drain")
    command = ("sh", "-c", 'eval "$(cat)"')
    assert run_bus("run", *options, "--", *command, env={"M": marker}).code == 0
    assert left(marker) == []
    assert [answer(bus, seq).payload for seq in (1, 2, 3)] == ["whole\n", "over\n", "last\n"]


@pytest.mark.slow
def test_chain_of_forks_is_caught(bus: Bus, queue: Queue, run_bus: RunBus, project: Path) -> None:
    """No look at the processes shows one that is there a moment later."""
    ask(bus, "go")
    options = ("--type", REQUEST, "--timeout", "3s", "--drain")
    ended = run_bus("run", *options, "--", sys.executable, "-S", "-c", CHAIN)
    assert (ended.code, statuses(queue)) == (0, ["timed_out"])
    with (project / "held").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_command_that_kills_its_supervisor_has_failed_and_the_host_goes_on(
    bus: Bus, queue: Queue, run_bus: RunBus, marker: str
) -> None:
    """The processes in its session can be ended still."""
    # A shell that waits for a program would say that it was killed, if it lives that long.
    ask(bus, "timeout 100 sleep $M & kill -9 $PPID; exec sleep $M", "echo fine")
    command = ("sh", "-c", 'eval "$(cat)"')
    ended = run_bus("run", "--type", REQUEST, "--drain", "--", *command, env={"M": marker})
    assert (ended.code, left(marker)) == (0, [])
    assert attempt(bus, 1).error == "command was killed by signal 9"
    assert answer(bus, 2).payload == "fine\n"


def test_command_that_stops_its_supervisor_ends_as_any_other(
    bus: Bus, queue: Queue, run_bus: RunBus, marker: str
) -> None:
    """It is woken when it is needed: for the end of a command, and when the time is up."""
    ask(bus, "kill -STOP $PPID; echo fine", "kill -STOP $PPID; setsid sleep $M", "echo next")
    options = ("--type", REQUEST, "--timeout", "4s", "--drain")
    ended = run_bus("run", *options, "--", "sh", "-c", 'eval "$(cat)"', env={"M": marker})
    assert (ended.code, left(marker)) == (0, [])
    assert (answer(bus, 1).payload, answer(bus, 3).payload) == ("fine\n", "next\n")
    assert statuses(queue, 2) == ["timed_out"]


@pytest.mark.slow
def test_supervisor_that_is_stopped_again_and_again_is_killed_with_what_it_ran(
    bus: Bus, queue: Queue, run_bus: RunBus, marker: str
) -> None:
    """The host ends what runs under it by itself, in whatever session."""
    ask(bus, "setsid sleep $M & trap '' TERM; while kill -STOP $PPID; do :; done", "echo next")
    options = ("--type", REQUEST, "--timeout", "3s", "--drain")
    ended = run_bus("run", *options, "--", "sh", "-c", 'eval "$(cat)"', env={"M": marker})
    assert (ended.code, left(marker)) == (0, [])
    assert (statuses(queue, 1), answer(bus, 2).payload) == (["timed_out"], "next\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT])
def test_nothing_outlives_a_host_that_is_killed_while_its_supervisor_is_stopped(
    bus: Bus, queue: Queue, start_host: StartHost, marker: str, number: signal.Signals
) -> None:
    ask(bus, "kill -STOP $PPID; setsid sleep $M")
    host = start_host("--type", REQUEST, "--", "sh", "-c", 'eval "$(cat)"', M=marker)
    wait_until(lambda: is_asleep(marker), LONG_S)
    host.tell(number)
    host.ended()
    wait_until(lambda: left(marker) == [], LONG_S)


def test_host_whose_python_is_gone_says_so_and_asks_for_another_attempt(
    bus: Bus, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is not to blame: it is there."""
    monkeypatch.setattr(sys, "executable", "/gone/python")
    with Supervisors() as supervisors:
        end = run_process(["true"], b"", env={}, timeout_s=None, supervisors=supervisors)
    assert end.may_start_later
    assert end.start_error == (
        "'true' can't be started: its supervisor needs '/gone/python', which can't be run: No such"
        " file or directory; if Python was moved or replaced, start this again"
    )


def test_supervisor_is_used_again_and_ends_with_its_host(
    bus: Bus, queue: Queue, run_bus: RunBus
) -> None:
    """One for each command at a time, however many there are: a start of Python is not cheap."""
    ask(bus, *["echo $PPID"] * 5)
    ended = run_bus("run", "--type", REQUEST, "--drain", "--", "sh", "-c", 'eval "$(cat)"')
    assert ended.code == 0
    (supervisor,) = {int(answer(bus, seq).payload) for seq in range(1, 6)}
    with pytest.raises(ProcessLookupError):
        os.kill(supervisor, 0)


def test_environment_of_the_host_is_not_taken_for_what_the_message_tells(
    bus: Bus, queue: Queue, run_bus: RunBus
) -> None:
    """P-49, Q-22: trace context and `meta` come from the message, or not at all."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    ask(bus, "go")
    ask(bus, "go", headers={"meta": {"mine": "yes"}, "traceparent": trace})
    host = {"TRACEPARENT": trace, "TRACESTATE": "a=1", "BUS_META_MODEL": "x", "OTHER": "kept"}
    ended = run_bus("run", "--type", REQUEST, "--drain", "--", "env", env=host)
    assert ended.code == 0
    plain, told = (
        dict(line.split("=", 1) for line in answer(bus, seq).payload.splitlines() if "=" in line)
        for seq in (1, 2)
    )
    names = ("TRACEPARENT", "TRACESTATE", "BUS_META_MODEL", "BUS_META_MINE", "OTHER")
    assert [name for name in names if name in plain] == ["OTHER"]
    assert (told["BUS_META_MINE"], told["TRACEPARENT"][:35]) == ("yes", trace[:35])
    assert "BUS_META_MODEL" not in told
