"""Runs one command: feeds it, takes what it prints, and ends it with everything that it started.

A command runs in a session of its own, which has its number. The session has no terminal: a Ctrl-C
there is for the host, and a command that asks a question there fails at once, where in the host's
session it would be suspended until its time is up.
"""

from __future__ import annotations

import errno
import math
import shutil
import time
from dataclasses import dataclass
from functools import partial

from .end_deadlines import GRACE_S
from .own_child import OwnChild
from .running_process import Running
from .start import Birth, NoSupervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .running_process import Output
    from .stop_switch import StopSwitch
    from .supervisor import Limits
    from .supervisors import Supervisors

#: How many bytes of stdout are kept; a command that prints more is ended (10 MiB).
MAX_STDOUT_BYTES = 10 * 1024 * 1024
#: How many bytes of stderr are kept; the others are thrown away (64 KiB).
MAX_STDERR_BYTES = 64 * 1024

#: The system's errors for too few descriptors, too few processes or too little memory.
_SCARCITY = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a command, and its output.

    Attributes:
        exit_code: its exit status, or -1 when a signal ended it; None when it did not end by
            itself: its time was up, it was stopped, it printed too much, or it never started.
        signal: the signal that ended it; None when `exit_code` is not -1.
        stdout: what it printed, up to the limit.
        stdout_too_long: it printed more than that, and was ended for it.
        stderr: what it printed there, up to the limit.
        stderr_cut: it printed more than that.
        timed_out: its time was up.
        stopped: its `StopSwitch` was thrown.
        start_error: why it could not be started, for people; None when it was.
        may_start_later: it could not be started because the machine had too little of something.
        run_s: seconds from the call until nothing of it was left.
    """

    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stdout_too_long: bool = False
    stderr: bytes = b""
    stderr_cut: bool = False
    timed_out: bool = False
    stopped: bool = False
    start_error: str | None = None
    may_start_later: bool = False
    run_s: float = 0.0


def run_process(
    argv: Sequence[str],
    stdin: bytes,
    *,
    env: Mapping[str, str],
    cwd: str | Path | None = None,
    timeout_s: float | None,
    max_stdout_bytes: int | None = MAX_STDOUT_BYTES,
    max_stderr_bytes: int | None = MAX_STDERR_BYTES,
    captures: bool = True,
    grace_s: float = GRACE_S,
    stop: StopSwitch | None = None,
    supervisors: Supervisors | None = None,
    limits: Limits = (),
    output: Output | None = None,
) -> ProcessEnd:
    """Run a command until it and everything in its session has ended. Any thread may.

    A command that ends takes along what it left running. One whose time is up, that prints too
    much, or that is stopped, gets SIGTERM, and SIGKILL after `grace_s`, with its whole session;
    under a supervisor with everything that descends from it, and also when this process is killed.

    Args:
        argv: the command, found on the PATH of `env`, and its arguments.
        stdin: what it may read. It may also close its stdin early.
        env: all its environment variables.
        cwd: where it runs; None: here.
        timeout_s: how long it may take, feeding included; None: as long as it likes.
        max_stdout_bytes: how much it may print; None: as much as it likes, for `output` alone.
        max_stderr_bytes: how much of its stderr is kept; None: nothing, all is for `output` alone.
        captures: whether what it prints is kept; else it prints to where this process does.
        grace_s: seconds between SIGTERM and SIGKILL.
        stop: ends it early.
        supervisors: one of them runs it, where they exist; None: this process does.
        limits: of its resources, as `resource.setrlimit` takes them: the number of each, and the
            most.
        output: is called with `stdout` or `stderr` and bytes of what is kept, as they come, or of
            all where nothing is kept; it must not block.

    Returns:
        How it ended. A command that can't be started is an end too, and no exception.
    """
    begun = time.monotonic()
    if stop is not None and stop.kill_at < math.inf:
        return ProcessEnd(stopped=True)
    if supervisors is not None and not supervisors.exist:
        supervisors = None
    command = (argv, env, cwd, captures, limits)
    start = (
        Birth(partial(OwnChild, *command)) if supervisors is None else supervisors.birth(*command)
    )
    with start as birth:
        try:
            child = birth.child()
        except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument, say
            return ProcessEnd(
                start_error=_start_error(error, argv[0], env, cwd),
                may_start_later=_may_start_later(error),
                run_s=time.monotonic() - begun,
            )
        with Running(child, stdin, max_stdout_bytes, max_stderr_bytes, stop, output) as run:
            run.to_the_end(math.inf if timeout_s is None else begun + timeout_s, grace_s)
        return _end(run, child.returncode, time.monotonic() - begun)


def _end(run: Running, status: int | None, run_s: float) -> ProcessEnd:
    if run.timed_out or run.stopped or run.stdout.is_over:
        status = None  # it says how the host ended it
    killed_by = -status if status is not None and status < 0 else None
    return ProcessEnd(
        exit_code=status if killed_by is None else -1,
        signal=killed_by,
        stdout=bytes(run.stdout.kept),
        stdout_too_long=run.stdout.is_over,
        stderr=bytes(run.stderr.kept),
        stderr_cut=run.stderr.is_over,
        timed_out=run.timed_out,
        stopped=run.stopped,
        run_s=run_s,
    )


def _may_start_later(error: OSError | ValueError) -> bool:
    return isinstance(error, NoSupervisor) or getattr(error, "errno", None) in _SCARCITY


def _start_error(
    error: OSError | ValueError, command: str, env: Mapping[str, str], cwd: str | Path | None
) -> str:
    if isinstance(error, ValueError):
        return f"{command!a} can't be started: {error}"
    if isinstance(error, NoSupervisor):
        return f"{command!a} can't be started: {error.strerror}"
    if cwd is not None and error.filename in (cwd, str(cwd)):
        return f"{command!a} can't run in {str(cwd)!a}: {error.strerror}"
    if error.errno == errno.ENOENT and shutil.which(command, path=env.get("PATH")):
        return f"the interpreter of {command!a} is missing"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"there is no command {command!a}"
    if error.errno == errno.EACCES:
        return f"{command!a} is not executable"
    if error.errno == errno.ENOEXEC:
        return f"{command!a} is not a program, and has no #! line"
    if error.errno == errno.E2BIG:
        return f"the arguments and environment of {command!a} are too long"
    return f"{command!a} can't be started: {error.strerror}"
