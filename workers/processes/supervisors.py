"""Commands under supervisors: processes that end all that a command starts, and outlive the host.

Only for hosts that are programs of their own: a library starts no process unasked.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

from . import supervisor
from .own_child import DYING_S, GRACE_S, NoSupervisor, Pipes, ProcessSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from .supervisor import Limits


#: How long a supervisor may take to answer, in seconds: under load Python starts slowly.
_ANSWERS_WITHIN_S = 30.0

#: Seconds between two checks of a supervisor that has to end.
_NAP_S = 0.02

_log = logging.getLogger("ackbus.worker")


class Supervisors:
    """The supervisors of a host, each for one command at a time. They start when they are needed.

    Where the kernel can't support them, `exist` is false. Leaving the `with` block ends them.
    """

    #: Only Linux lets a process adopt what descends from it, and shows what that is.
    exist = sys.platform == "linux" and os.path.exists("/proc/self/stat")

    def __init__(self) -> None:
        # Appending to a list and popping from it are single steps, so threads need no lock.
        self._idle: list[_Supervisor] = []

    def prepare(self, count: int) -> None:
        """Start supervisors ahead of the first commands, which need not wait for them then."""
        if self.exist:
            with suppress(NoSupervisor):  # raised again by the command that needs it
                while len(self._idle) < count:
                    self._idle.append(_Supervisor())

    def start_of(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        captures: bool,
        limits: Limits = (),
    ) -> SupervisedStart:
        """Return what starts a command, as `ProcessStart` does."""
        return SupervisedStart(self._idle, _order(argv, env, cwd, limits), captures)

    def __enter__(self) -> Supervisors:
        return self

    def __exit__(self, *error: object) -> None:
        while self._idle:
            self._idle.pop().close()


class SupervisedStart:
    """Starts a command under a supervisor, and ends it if an exception leaves the `with` block."""

    def __init__(self, idle: list[_Supervisor], order: tuple[Any, ...], captures: bool) -> None:
        self._idle = idle
        self._order, self._captures = order, captures
        self._child: SupervisedChild | None = None

    def child(self) -> SupervisedChild:
        """Start the command.

        Raises:
            OSError, ValueError: it can't be started.
        """
        is_used = bool(self._idle)
        by = self._idle.pop() if is_used else _Supervisor()
        try:
            self._child = SupervisedChild(by, self._order, self._captures)
        except (ConnectionError, TimeoutError) as error:
            by.close()
            if is_used:  # it was killed since
                return self.child()
            raise NoSupervisor(error.errno, "its supervisor has ended; try again") from error
        except (OSError, ValueError):  # it is not to blame
            self._idle.append(by)
            raise
        return self._child

    def __enter__(self) -> SupervisedStart:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        child = self._child
        if child is None:
            return
        if child.is_clean:
            self._idle.append(child.by)
        else:
            child.by.close()


class _Supervisor:
    """The host's end of a supervisor.

    Attributes:
        socket: the connection to it. It raises TimeoutError, so that no call waits for ever.
    """

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(_ANSWERS_WITHIN_S)
        program = [sys.executable, "-I", "-S", supervisor.__file__]
        try:
            self._process = subprocess.Popen(
                [*program, str(theirs.fileno()), str(GRACE_S), str(DYING_S)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a Ctrl-C is for the host
            )
        except OSError as error:
            self.socket.close()
            raise NoSupervisor(error.errno, _why_none(error)) from error
        except BaseException:
            self.socket.close()
            raise
        finally:
            theirs.close()

    def wake(self) -> None:
        """Continue it if it was stopped: a command knows the id of its parent."""
        self._process.send_signal(signal.SIGCONT)

    def has_room(self) -> bool:
        """Whether a message can be sent to it without a wait."""
        poll = select.poll()
        poll.register(self.socket, select.POLLOUT)
        return bool(poll.poll(0))

    def close(self) -> None:
        """End it, and what runs under it; what can't be ended is given up."""
        self.socket.close()
        give_up_at = time.monotonic() + DYING_S
        while not self._has_ended():
            if time.monotonic() > give_up_at:
                self._give_up()
                return
            for pid in supervisor.descendants(self._process.pid):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _has_ended(self) -> bool:
        self.wake()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_NAP_S)
        return self._process.returncode is not None

    def _give_up(self) -> None:
        self._process.kill()
        self._process.wait()
        _log.warning(
            "something that a command has started can't be ended, or stops what would end it: look"
            " for it with 'ps'"
        )


class SupervisedChild:
    """A command that a supervisor runs. Whatever descends from it counts as its own.

    Attributes:
        by: the supervisor.
        pipes: what it reads and prints.
        fd: readable when a report of the supervisor comes.
        pid: its process id, which is also the id of its session.
        returncode: its exit status, or minus the number of the signal that ended it; None until
            then.
        is_clean: nothing of it is left, so that the supervisor can run another command.

    Raises:
        ConnectionError, TimeoutError: the supervisor is gone, or does not answer.
        OSError, ValueError: the command can't be started.
    """

    def __init__(self, by: _Supervisor, order: tuple[Any, ...], captures: bool) -> None:
        self.by = by
        self.fd: int | None = by.socket.fileno()
        self.returncode: int | None = None
        self.is_clean = self._is_gone = False
        self.pipes = Pipes(captures=captures)
        try:
            by.wake()
            supervisor.send(by.socket, order, self.pipes.theirs)
            self.pid = _started(self._receive())
        except BaseException:
            self.pipes.close()
            raise
        finally:
            self.pipes.close_theirs()

    def read_report(self) -> bool:
        """Read a report of the supervisor; return whether more will come."""
        try:
            report = self._receive()
        except (ConnectionError, TimeoutError):
            self._end_without_supervisor()
            return False
        if report[0] == "exited":
            self.returncode = report[1]
            self._is_gone = self.is_clean = not report[2]
        else:
            self._is_gone, self.is_clean = True, report[1]
        return not self._is_gone

    def has_exited(self) -> bool:
        """Whether the command itself has exited."""
        return self.returncode is not None

    def reap(self) -> None:
        """Do nothing: the supervisor has."""

    def is_left(self) -> bool:
        """Whether the command, or something that descends from it, is there and can be ended.

        It is asked for as often as something happens, and at least once a second. So the
        supervisor is woken here.
        """
        if not self._is_gone:
            self.by.wake()
        return not self._is_gone

    def signal(self, number: int) -> None:
        """Send a signal to all that is left; not when many such orders wait already."""
        if not self._is_gone and self.by.has_room():
            with suppress(ConnectionError):
                supervisor.send(self.by.socket, ("signal", int(number)))

    def close(self) -> None:
        """Do nothing: the socket is the supervisor's."""

    def _receive(self) -> tuple[Any, ...]:
        report, _ = supervisor.receive(self.by.socket)
        if report is None:
            raise ConnectionResetError(errno.ECONNRESET, "its supervisor has ended")
        return report

    def _end_without_supervisor(self) -> None:
        """Kill what can still be found, after somebody has killed the supervisor."""
        ProcessSession(self).signal(signal.SIGKILL)
        self._is_gone = True
        if self.returncode is None:
            self.returncode = -signal.SIGKILL


def _why_none(error: OSError) -> str:
    return (
        f"its supervisor needs {sys.executable!a}, which can't be run: {error.strerror}; if Python"
        " was moved or replaced, start this again"
    )


def _order(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | Path | None, limits: Limits
) -> tuple[Any, ...]:
    """Return the message to run a command: in bytes, since the supervisor's encoding may differ."""
    variables = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    folder = None if cwd is None else os.fsencode(cwd)
    return "run", [os.fsencode(argument) for argument in argv], variables, folder, tuple(limits)


def _started(report: tuple[Any, ...]) -> int:
    """Return the number of a command that was started.

    Raises:
        OSError, ValueError: why it was not.
    """
    if report[0] == "started":
        pid: int = report[1]
        return pid
    _, number, text, file = report
    if number is None:
        raise ValueError(text)
    raise OSError(number, text, None if file is None else os.fsdecode(file))
