"""A command that is a child of the host itself: its pipes, and the switch that stops it."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from io import FileIO

from ...bus.doorbell import StopEvent
from ...schema.children import EndUnknown, ReapedChild, exit_descriptor
from ...schema.process_table import is_running
from ...schema.processes import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from threading import Thread

    from .supervisor import Limits
    from .supervisors import SupervisedChild

# The time that processes have to end: after SIGTERM, and after SIGKILL.

#: Seconds between SIGTERM, which asks, and SIGKILL, which doesn't.
GRACE_S = 5.0

#: Seconds after SIGKILL in which a process ends; else it can't be ended: the kernel holds it in a
#: system call, or it runs as another user (sudo).
DYING_S = 5.0

# The switch that ends commands early.


class StopSwitch(StopEvent):
    """Ends commands that run with it and pauses that wait with it.

    Any thread or signal handler may throw it. It stays thrown: a command that would start with it
    later does not start. Its two descriptors are closed with the last reference to it, so that no
    late `stop` writes into another file.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reader = self._writer = -1  # for __del__, in case the next line raises
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._kill_times: list[float] = []  # a list: a signal can't interrupt appending

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Send SIGTERM to the commands now, and SIGKILL to what is left of them in `grace_s`.

        A second call may shorten the time that they have left. It returns at once.
        """
        self._kill_times.append(time.monotonic() + grace_s)
        with suppress(BlockingIOError):  # it is full of these bytes, which are never read
            os.write(self._writer, b"!")
        self.set()

    @property
    def kill_at(self) -> float:
        """When to kill, on the monotonic clock: infinity until the switch is thrown."""
        return min(self._kill_times, default=math.inf)

    def fileno(self) -> int:
        """The descriptor that is readable for ever after the switch was thrown."""
        return self._reader

    def __del__(self) -> None:
        for fd in (self._reader, self._writer):
            if fd >= 0:
                os.close(fd)


# The pipes between the host and a command that runs. None of these calls blocks.

#: One read of a pipe: as much as a pipe holds by default.
_CHUNK_BYTES = 64 * 1024
#: The most that a pipe holds, unless an administrator allows more.
_PIPE_BYTES = 1024 * 1024


class Pipes:
    """The three pipes of a command. It makes all of them, or none.

    Args:
        captures: whether the host reads its output; else it prints to where the host does.

    Attributes:
        stdin, stdout, stderr: the ends of the host.
        theirs: the ends of the command, in the same order.
    """

    def __init__(self, *, captures: bool = True) -> None:
        makers = (os.pipe, os.pipe, os.pipe) if captures else (os.pipe, _own_stdout, _own_stderr)
        (stdin, feeder), (reader, stdout), (error_reader, stderr) = _all_of(makers)
        self.theirs = (stdin, stdout, stderr)
        self.stdin, self.stdout, self.stderr = (
            FileIO(feeder, "wb"),
            FileIO(reader, "rb"),
            FileIO(error_reader, "rb"),
        )

    def close_theirs(self) -> None:
        """Close the ends of the command, which has its own copies."""
        _close(*self.theirs)

    def close(self) -> None:
        """Close the ends of the host."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()


class InputFeeder:
    """The stdin of a command: written to the pipe as the command reads it."""

    def __init__(self, pipe: FileIO, data: bytes) -> None:
        self.pipe = _not_blocking(pipe)
        self._left = memoryview(data)

    def serve(self) -> bool:
        """Write what fits; return whether there is more to be written."""
        try:
            written = self.pipe.write(self._left)
        except BrokenPipeError:  # the command wants no more of it
            return False
        self._left = self._left[written or 0 :]
        return len(self._left) > 0


class OutputReader:
    """The output of a command: the first bytes are kept, the others are read and discarded.

    Args:
        pipe: where it is read.
        max_bytes: how many are kept; None keeps nothing and passes all to `tell`.
        tell: takes the bytes as they come, or None.
    """

    def __init__(
        self, pipe: FileIO, max_bytes: int | None, tell: Callable[[bytes], None] | None = None
    ) -> None:
        self.pipe = _not_blocking(pipe)
        self.kept = bytearray()
        self.is_cut = False
        self._max_bytes = max_bytes
        self._tell = tell

    def serve(self) -> bool:
        """Read once; return whether there may be more."""
        chunk: bytes | None = self.pipe.read(_CHUNK_BYTES)
        if chunk is None:  # nothing at the moment
            return True
        self._keep(chunk)
        return len(chunk) > 0

    def read_rest(self) -> None:
        """Read what is in the pipe now, unless it is closed.

        Someone may still write to it, such as a child in another process group. That must not
        hold the host up, so this reads no more than a pipe holds.
        """
        left_bytes = 0 if self.pipe.closed else _PIPE_BYTES
        while left_bytes > 0 and (chunk := self.pipe.read(_CHUNK_BYTES)):
            self._keep(chunk)
            left_bytes -= len(chunk)

    def _keep(self, chunk: bytes) -> None:
        if self._max_bytes is None:
            if self._tell is not None and chunk:
                self._tell(chunk)
            return
        space = self._max_bytes - len(self.kept)
        self.kept += chunk[:space]
        if self._tell is not None and chunk and space > 0:
            self._tell(bytes(chunk[:space]))
        self.is_cut |= len(chunk) > space


def _not_blocking(pipe: FileIO) -> FileIO:
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _all_of(makers: Sequence[Callable[[], tuple[int, int]]]) -> list[tuple[int, int]]:
    pipes: list[tuple[int, int]] = []
    try:
        for make in makers:
            pipes.append(make())
    except OSError:
        for pipe in pipes:
            _close(*pipe)
        raise
    return pipes


def _own_stdout() -> tuple[int, int]:
    return _inherited(1)


def _own_stderr() -> tuple[int, int]:
    return _inherited(2)


def _inherited(descriptor: int) -> tuple[int, int]:
    """Return a reader at its end, and a copy of a descriptor that this process prints to."""
    nothing, writer = os.pipe()
    os.close(writer)
    try:
        return nothing, os.dup(descriptor)
    except OSError:
        os.close(nothing)
        raise


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


# The session of a command that the host itself has started: how to end all of it, and no more.

#: How many times a signal is sent again, to processes that were started while it was sent.
_MAX_ROUNDS = 100


#: Where Linux has the process id that it gave last, in our pid namespace.
_NEWEST_NUMBER = "/proc/sys/kernel/ns_last_pid"


class ProcessSession:
    """The session that a command leads: signals go to all of it, and to no other session.

    Some commands put their children into process groups of their own (`timeout`, `set -m`), which
    are in the session still. The kernel does not give an id again while a process (also a zombie)
    or a session has it. So the session is the command's own until the command is reaped. After
    that, members found under the id are the command's as long as no process has the id.
    """

    def __init__(self, leader: ReapedChild | SupervisedChild) -> None:
        self._leader = leader

    def signal(self, number: int) -> None:
        """Send a signal to everything in the session, also to what is started meanwhile.

        The command comes first: a shell whose child ends before it gets the signal might just exit.
        """
        signalled: set[int] = set()
        for _ in range(_MAX_ROUNDS):
            pids = [pid for pid in self._members() if pid not in signalled]
            if not pids:
                return
            signalled.update(pids)
            for pid in sorted(pids, key=lambda pid: pid != self._leader.pid):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def is_left(self) -> bool:
        """Whether the command is not reaped yet, or something else in its session can be ended."""
        if self._leader.returncode is None:
            return True
        newest = _newest_number()
        if newest == self._leader.pid:
            return False  # no id was given after the leader's: it had no children
        if self._has_living():
            return True
        if newest is None or newest != _newest_number():
            return self._has_living()  # something may have started during the first look
        return False

    def _has_living(self) -> bool:
        return any(_can_signal(pid) and not _is_dead(pid) for pid in self._members())

    def _members(self) -> list[int]:
        session = self._leader.pid
        if self._leader.returncode is not None and is_running(session):
            return []  # another process has the number
        return [pid for pid in _everybody() if _session_of(pid) == session]


def _everybody() -> Iterator[int]:
    if sys.platform != "linux":  # there is no /proc
        listed = subprocess.run(["ps", "-A", "-o", "pid="], stdout=subprocess.PIPE, check=False)
        return map(int, listed.stdout.split())
    return map(int, filter(str.isdigit, os.listdir("/proc")))


def _newest_number() -> int | None:
    """Return the id that a process or thread got last; None where the kernel does not say.

    Ids go up until they begin again at the lowest, and a new id is never the id of a session.
    """
    try:
        with open(_NEWEST_NUMBER, "rb", buffering=0) as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:  # it has just gone
        return None


def _can_signal(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _is_dead(pid: int) -> bool:
    """Whether a process is dead and waits to be reaped; an orphan of ours is reaped here.

    Reaping orphans is the work of the first process of the system or the container. Some are slow
    at it, or never do it; or this process is the first, and no other reaps its orphans.
    """
    if sys.platform != "linux":
        return False  # there the dead have no session
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            state = file.read(1024).rpartition(b")")[2].split()[0]
    except OSError:  # it has just gone; or no descriptor is left to look with
        return not is_running(pid)
    if state not in b"ZX":
        return False
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return True


class OwnChild:
    """A command that this process starts and reaps. What is in its session counts as its own.

    Attributes:
        pipes: what it reads and prints.
        fd: readable when it has exited; None where the system has no such thing.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        captures: bool,
        limits: Limits = (),
    ) -> None:
        from .supervisor import limiter

        self.pipes = Pipes(captures=captures)
        stdin, stdout, stderr = self.pipes.theirs
        try:
            self._process = ReapedChild(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=limiter(limits),
            )
        except (subprocess.SubprocessError, EndUnknown) as error:
            self.pipes.close()
            raise ValueError(str(error)) from error
        except BaseException:
            self.pipes.close()
            raise
        finally:
            self.pipes.close_theirs()
        self.fd = exit_descriptor(self._process.pid)
        self._is_dead = False
        self._session = ProcessSession(self._process)

    @property
    def returncode(self) -> int | None:
        """Its exit status; None as long as it is not reaped."""
        return self._process.returncode

    def read_report(self) -> bool:
        """Note that it has exited; return False: the descriptor has nothing more to tell."""
        self._is_dead = True
        return False

    def has_exited(self) -> bool:
        """Whether it has exited."""
        return self._process.poll() is not None if self.fd is None else self._is_dead

    def reap(self) -> None:
        """Reap it, so that its number is free."""
        self._process.wait()

    def is_left(self) -> bool:
        """Whether it is not reaped, or its session has members that can be ended."""
        return self._session.is_left()

    def signal(self, number: int) -> None:
        """Send a signal to its session."""
        self._session.signal(number)

    def close(self) -> None:
        """Close the descriptor."""
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)

    def end(self) -> None:
        """Kill its session at once, and reap it."""
        self.pipes.close()
        self.signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired, EndUnknown):
            self._process.wait(DYING_S)
        self.close()


# The start of a command, which no signal handler can interrupt.


class NoSupervisor(OSError):
    """A supervisor can't be started, or does not answer; the command itself is not at fault.

    Its `strerror` is for people.
    """


class ProcessStart:
    """Starts a command, and ends it if an exception leaves the `with` block.

    Signal handlers run in the main thread, between any two steps of Python. A handler's exception,
    as of a Ctrl-C, could come when the command has started and no variable holds it yet. So for the
    main thread another thread starts the command. That thread stays until the block ends, since the
    kernel takes it for the parent, and some commands ask to die with their parent.

    Args:
        make: starts the command.
    """

    def __init__(self, make: Callable[[], OwnChild]) -> None:
        self._make = make
        self._thread: Thread | None = None
        self._is_settled = threading.Event()  # the command was started, or failed to
        self._is_over = threading.Event()
        # The command, or why there is none. Appending to a list is a single step.
        self._children: list[OwnChild] = []
        self._errors: list[OSError | ValueError] = []
        self._is_abandoned = False

    def child(self) -> OwnChild:
        """Start the command.

        Raises:
            OSError, ValueError: it can't be started.
        """
        if threading.current_thread() is threading.main_thread():
            self._in_another_thread()
        else:
            self._start()
        if self._errors:
            raise self._errors[0]
        return self._children[0]

    def __enter__(self) -> ProcessStart:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # Before `_is_over`, which lets the thread look at it.
        self._is_abandoned = kind is not None
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_abandoned:
            self._end_all()

    def _in_another_thread(self) -> None:
        try:
            self._thread = start_thread(self._be_parent, "parent of a command")
        except RuntimeError as error:
            raise BlockingIOError(errno.EAGAIN, str(error)) from error
        self._is_settled.wait()

    def _be_parent(self) -> None:
        try:
            self._start()
        finally:
            self._is_settled.set()
        self._is_over.wait()
        if self._is_abandoned:
            self._end_all()

    def _start(self) -> None:
        # A thread of the host leaves signals to others by blocking them. A command would inherit
        # that, and would not hear its SIGTERM.
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            self._children.append(self._make())
        except (OSError, ValueError) as error:
            self._errors.append(error)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _end_all(self) -> None:
        # An exception can come before `_thread` is assigned, which then is not joined: so both may
        # get here. Removing from a list is a single step: each command is ended once.
        with suppress(IndexError):
            while True:
                self._children.pop().end()
