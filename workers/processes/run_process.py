"""Runs one command: feeds it, takes what it prints, and ends it with everything that it started.

A command runs in a session of its own, which has its number. The session has no terminal: a Ctrl-C
there is for the host, and a command that asks a question there fails at once, where in the host's
session it would be suspended until its time is up.
"""

from __future__ import annotations

import errno
import math
import select
import shutil
import signal
import time
from dataclasses import dataclass
from functools import partial

from .own_child import (
    DYING_S,
    GRACE_S,
    InputFeeder,
    NoSupervisor,
    OutputReader,
    OwnChild,
    ProcessStart,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .own_child import StopSwitch
    from .supervisor import Limits
    from .supervisors import SupervisedChild, Supervisors

    #: Takes the name of a stream and bytes of it; it must not block.
    Output = Callable[[str, bytes], None]

# A running command: feeding it, taking its output, and ending it when that is due.

#: Seconds between checks that no descriptor can replace: they double from the first to the last.
_FIRST_NAP_S = 0.001
_LONGEST_NAP_S = 0.02
#: The longest wait for descriptors: the handler of a signal that came just before it runs after it.
_LONGEST_WAIT_S = 1.0


class RunningCommand:
    """A command that runs, from its start until nothing of it is left.

    Args:
        child: the command.
        stdin: what it may read.
        max_stdout_bytes: how much it may print; None: as much as it likes, and nothing is kept.
        max_stderr_bytes: how much of its stderr is kept; None: nothing.
        stop: ends it early.
        output: takes its output as it comes, or None.
    """

    def __init__(
        self,
        child: OwnChild | SupervisedChild,
        stdin: bytes,
        max_stdout_bytes: int | None,
        max_stderr_bytes: int | None,
        stop: StopSwitch | None,
        output: Output | None = None,
    ) -> None:
        self._child = child
        tell_out = None if output is None else partial(output, "stdout")
        tell_err = None if output is None else partial(output, "stderr")
        self.stdout = OutputReader(child.pipes.stdout, max_stdout_bytes, tell_out)
        self.stderr = OutputReader(child.pipes.stderr, max_stderr_bytes, tell_err)
        self._feed = InputFeeder(child.pipes.stdin, stdin)
        self._stop = stop
        self._poll = select.poll()
        self._served: dict[int, InputFeeder | OutputReader] = {}
        self._has_exited = False
        self._kill_at = math.inf  # until it is told to end
        self.timed_out = False
        self.stopped = False
        self._nap_s = _FIRST_NAP_S

    def to_the_end(self, deadline: float, grace_s: float) -> None:
        """Serve the command until nothing of it is left, or what is can't be ended.

        Args:
            deadline: when its time is up, on the monotonic clock.
            grace_s: seconds between SIGTERM and SIGKILL.
        """
        self._begin_to_serve()
        now = time.monotonic()
        while self._is_left(now, grace_s) and now < self._kill_at + DYING_S:
            self._serve(self._wait_s(deadline - now))
            now = time.monotonic()
            self._end_if_due(now, deadline, grace_s)
        self.stdout.read_rest()
        self.stderr.read_rest()

    def __enter__(self) -> RunningCommand:
        return self

    def __exit__(self, *error: object) -> None:
        """Give all descriptors back."""
        for stream in (self._feed, self.stdout, self.stderr):
            stream.pipe.close()
        self._child.close()

    def _begin_to_serve(self) -> None:
        self._register(self.stdout, select.POLLIN)
        self._register(self.stderr, select.POLLIN)
        self._register(self._feed, select.POLLOUT)
        self._serve_pipe(self._feed.pipe.fileno())  # most bodies fit into the pipe at once
        if self._child.fd is not None:
            self._poll.register(self._child.fd, select.POLLIN)
        if self._stop is not None:
            self._poll.register(self._stop, select.POLLIN)

    def _register(self, end: InputFeeder | OutputReader, event: int) -> None:
        self._served[end.pipe.fileno()] = end
        self._poll.register(end.pipe, event)

    def _is_left(self, now: float, grace_s: float) -> bool:
        """Whether there is more to serve. Processes that a command left behind are ended."""
        is_left = self._child.is_left()
        if is_left and self._has_exited:
            self._tell_to_end(now + grace_s)
        return is_left

    def _wait_s(self, left_s: float) -> float:
        """Return the time to wait for the descriptors, in seconds."""
        if self._child.fd is not None and self._kill_at == math.inf:
            return min(left_s, _LONGEST_WAIT_S)
        # On some systems no descriptor shows that a command has exited; and without a supervisor
        # none shows that its session has ended.
        nap_s = self._nap_s
        self._nap_s = min(nap_s * 2, _LONGEST_NAP_S)
        return min(left_s, nap_s) if self._kill_at == math.inf else nap_s

    def _serve(self, wait_s: float) -> None:
        for fd, _ in self._poll.poll(max(0, math.ceil(wait_s * 1000))):
            if fd in self._served:
                self._serve_pipe(fd)
            elif fd != self._child.fd or not self._child.read_report():
                self._poll.unregister(fd)  # of a switch that is thrown, to hear it once is enough

    def _serve_pipe(self, fd: int) -> None:
        end = self._served[fd]
        if end.serve():
            return
        self._poll.unregister(fd)
        end.pipe.close()
        del self._served[fd]
        self._nap_s = _FIRST_NAP_S  # a command that closes its pipes is about to exit

    def _end_if_due(self, now: float, deadline: float, grace_s: float) -> None:
        if not self._has_exited and self._child.has_exited():
            self._has_exited = True
            self._child.reap()
        elif self._kill_at == math.inf:
            self._end_early_if_due(now, deadline, grace_s)
        if self._stop is not None:
            self._kill_at = min(self._kill_at, self._stop.kill_at)
        if now >= self._kill_at:
            self._child.signal(signal.SIGKILL)

    def _end_early_if_due(self, now: float, deadline: float, grace_s: float) -> None:
        if self._stop is not None and self._stop.kill_at < math.inf:
            self.stopped = True
            self._tell_to_end(self._stop.kill_at)
        elif now >= deadline:
            self.timed_out = True
            self._tell_to_end(now + grace_s)
        elif self.stdout.is_cut:
            self._tell_to_end(now + grace_s)

    def _tell_to_end(self, kill_at: float) -> None:
        if self._kill_at == math.inf:
            self._kill_at = kill_at
            self._nap_s = _FIRST_NAP_S
            self._child.signal(signal.SIGTERM)


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
        supervisors: a supervisor runs it, where they exist; None: this process does.
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
    command = (argv, env, cwd, captures, limits)
    start = (
        supervisors.start_of(*command)
        if supervisors is not None and supervisors.exist
        else ProcessStart(partial(OwnChild, *command))
    )
    with start as process_start:
        try:
            child = process_start.child()
        except (OSError, ValueError) as error:  # ValueError: a zero byte in an argument, say
            return ProcessEnd(
                start_error=_start_error(error, argv[0], env, cwd),
                may_start_later=_may_start_later(error),
                run_s=time.monotonic() - begun,
            )
        with RunningCommand(child, stdin, max_stdout_bytes, max_stderr_bytes, stop, output) as run:
            run.to_the_end(math.inf if timeout_s is None else begun + timeout_s, grace_s)
        return _end(run, child.returncode, time.monotonic() - begun)


def _end(run: RunningCommand, status: int | None, run_s: float) -> ProcessEnd:
    if run.timed_out or run.stopped or run.stdout.is_cut:
        status = None  # it says how the host ended it
    killed_by = -status if status is not None and status < 0 else None
    return ProcessEnd(
        exit_code=status if killed_by is None else -1,
        signal=killed_by,
        stdout=bytes(run.stdout.kept),
        stdout_too_long=run.stdout.is_cut,
        stderr=bytes(run.stderr.kept),
        stderr_cut=run.stderr.is_cut,
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
