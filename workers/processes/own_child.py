"""A command that is a child of the host itself."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from ...schema.children import EndUnknown, ReapedChild
from ...schema.process_table import is_running
from ...schema.processes import start_thread
from .pipes import Pipes
from .stop_switch import DYING_S
from .supervisor import limiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from threading import Thread
    from typing import Protocol

    from .supervisor import Limits

    class Leader(Protocol):
        """The command that leads a session, such as a `Popen`."""

        pid: int
        returncode: int | None

    class ChildProcess(Protocol):
        """A running command, a child of this process or of a supervisor."""

        pipes: Pipes
        fd: int | None

        @property
        def returncode(self) -> int | None:
            """Its exit status, or minus the number of the signal that ended it; None until then."""

        def read_report(self) -> bool:
            """Read a report from the descriptor `fd`; return whether more may come."""

        def has_exited(self) -> bool:
            """Whether the command itself has ended; its `returncode` may follow with `reap`."""

        def reap(self) -> None:
            """Take note of how a command that has exited did so."""

        def is_left(self) -> bool:
            """Whether the command, or something that it started, is there and can be ended."""

        def signal(self, number: int) -> None:
            """Send a signal to the command and what it started."""

        def close(self) -> None:
            """Give back what is held for it besides its pipes."""

# The session of a command that the host itself has started: how to end all of it, and no more.

#: How many times a signal is sent again, to processes that were started while it was sent.
_MAX_ROUNDS = 100


#: Where Linux has the process id that it gave last, in the namespace of the reader.
_NEWEST_NUMBER = "/proc/sys/kernel/ns_last_pid"


class ProcessSession:
    """The session that a command leads: signals go to all of it, and to no other session.

    Some commands put their children into process groups of their own (`timeout`, `set -m`), which
    are in the session still. The kernel does not give an id again while a process (also a zombie)
    or a session has it. So the session is the command's own until the command is reaped; and later,
    too, if there is a session but no process with the id of the command.
    """

    def __init__(self, leader: Leader) -> None:
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
            return False  # nothing on the machine was started after it
        if self._has_living():
            return True
        # A second look is for what was started during the first.
        was_quiet = newest is not None and newest == _newest_number()
        return not was_quiet and self._has_living()

    def _has_living(self) -> bool:
        return any(_may_end(pid) and not _is_dead(pid) for pid in self._members())

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


def _may_end(pid: int) -> bool:
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
        self.fd = _exit_descriptor(self._process.pid)
        self._is_dead = False
        self._session = ProcessSession(self._process)

    @property
    def returncode(self) -> int | None:
        """Its exit status; None as long as it is not reaped."""
        return self._process.returncode

    def read_report(self) -> bool:
        """Take note that it has exited."""
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


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that is readable when a child has exited; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox, too many open files
        return None


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
        self._is_known = threading.Event()  # whether there is a command
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
        self._is_abandoned = kind is not None  # first: from here on the thread ends what it starts
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
        self._is_known.wait()

    def _be_parent(self) -> None:
        try:
            self._start()
        finally:
            self._is_known.set()
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
        # An exception can come before the thread is known, which then is not joined: so both may
        # get here. Removing from a list is a single step: each command is ended once.
        with suppress(IndexError):
            while True:
                self._children.pop().end()
