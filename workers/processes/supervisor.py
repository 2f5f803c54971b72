"""A process that runs commands for a host, one at a time, and ends all that they start.

It is a program by itself, which loads nothing of this package. The kernel makes it the parent of
each descendant whose own parent has ended, in any session. So it has no child exactly when nothing
is left of a command. When its host ends, its socket closes, and it ends all that runs.

A message, either way, is its length, 4 bytes, and a tuple as `marshal` writes it:

    ("run", argv, env, cwd, limits)     to it, with three descriptors: stdin, stdout, stderr
    ("signal", number)                  to it: for everything that is left of the command
    ("started", pid)                    from it: the command runs
    ("refused", errno, text, filename)  from it: it can't be started; no errno for a bad argument
    ("exited", status, is_left)         from it: the status, or minus the signal that ended it
    ("gone", is_clean)                  from it: nothing is left; not clean: that it may signal
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Message = tuple[Any, ...]

    #: Resources by their numbers in `resource`, and the most of each.
    Limits = Sequence[tuple[int, int]]

#: Options of prctl: the signal on the parent's death, and being the reaper of all descendants.
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36

#: Signals on which only the host acts: a terminal or a service manager sends them to all processes.
_NOT_FOR_IT = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

#: Seconds between two checks of processes that were sent a signal to end.
_NAP_S = 0.02

#: How many times a signal is sent again, to processes that were started while it was sent.
_MAX_ROUNDS = 100

_LENGTH_BYTES = 4


def send(to: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    """Send a message whole, and descriptors with it."""
    data = marshal.dumps(message)
    data = len(data).to_bytes(_LENGTH_BYTES, "little") + data
    if descriptors:
        data = data[socket.send_fds(to, [data], descriptors) :]
    to.sendall(data)


def receive(source: socket.socket) -> tuple[Message | None, list[int]]:
    """Wait for a message; return it, None when the other end has gone, and its descriptors."""
    length, descriptors, _, _ = socket.recv_fds(source, _LENGTH_BYTES, 3, socket.MSG_CMSG_CLOEXEC)
    length += _exactly(source, _LENGTH_BYTES - len(length)) if length else b""
    data = _exactly(source, int.from_bytes(length, "little"))
    return (marshal.loads(data) if data else None), list(descriptors)


def _exactly(source: socket.socket, count: int) -> bytes:
    """Return so many bytes; nothing when the other end goes before."""
    data = bytearray()
    while len(data) < count:
        chunk = source.recv(min(count - len(data), 1 << 20))
        if not chunk:
            return b""
        data += chunk
    return bytes(data)


class Supervisor:
    """Runs the commands that its host sends.

    Args:
        host: the socket.
        grace_s: seconds between SIGTERM and SIGKILL when the host is gone.
        dying_s: seconds after SIGKILL until it gives up.
    """

    def __init__(self, host: socket.socket, grace_s: float, dying_s: float) -> None:
        self._host = host
        self._grace_s, self._dying_s = grace_s, dying_s
        self._command: subprocess.Popen[bytes] | None = None
        self._bell, ring = os.pipe()  # a byte for each signal, so for each child that has ended
        for end in (self._bell, ring):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for number in (*_NOT_FOR_IT, signal.SIGCHLD):
            if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
                # A handler, since a command would inherit that a signal is ignored.
                signal.signal(number, lambda *_: None)

    def serve(self) -> None:
        """Do what the host says until it is gone, and end what runs then."""
        poll = select.poll()
        poll.register(self._host, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._bell in ready:
                self._reap()
            if self._host.fileno() in ready and not self._obey():
                break
        self._end()

    def _obey(self) -> bool:
        """Carry out a message of the host; return whether the host is still there."""
        try:
            message, descriptors = receive(self._host)
        except ConnectionError:
            return False
        if message is None:
            return False
        if message[0] == "run":
            self._run(message[1:], descriptors)
        else:
            self._signal(message[1])
        return True

    def _run(self, what: Message, descriptors: list[int]) -> None:
        argv, env, cwd, limits = what
        try:
            if len(descriptors) < 3:  # the system has no more for this process
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            stdin, stdout, stderr = descriptors
            self._command = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=limiter(limits),
            )
        except OSError as error:
            self._tell("refused", error.errno, error.strerror, error.filename)
        except (ValueError, subprocess.SubprocessError) as error:
            self._tell("refused", None, str(error), None)
        else:
            self._tell("started", self._command.pid)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _reap(self) -> None:
        """Reap ended processes; report the command's end, and when nothing is left of it."""
        with suppress(BlockingIOError):
            os.read(self._bell, 4096)
        has_exited = False
        while self._command is not None:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                command, self._command = self._command, None
                report = ("exited", command.returncode, False) if has_exited else ("gone", True)
                self._tell(*report)
                return
            if pid == 0:
                break
            if pid == self._command.pid:
                self._command.returncode = os.waitstatus_to_exitcode(status)
                has_exited = True
        if has_exited and self._command is not None:
            self._tell("exited", self._command.returncode, True)

    def _signal(self, number: int) -> None:
        """Send a signal to all that is left, also to what is started meanwhile.

        Parents come first: a shell whose child ends before it gets the signal might just exit.
        """
        if self._command is None:
            return
        signalled: set[int] = set()
        refused: set[int] = set()
        for _ in range(_MAX_ROUNDS):
            pids = [pid for pid in descendants(os.getpid()) if pid not in signalled]
            if not pids:
                break
            signalled.update(pids)
            refused.update(pid for pid in pids if not _is_told(pid, number))
        if self._command.returncode is not None and signalled and signalled == refused:
            self._command = None  # what is left is another user's, and can't be ended
            self._tell("gone", False)

    def _end(self) -> None:
        """End what runs, as for a command whose time is up."""
        kill_at = time.monotonic() + self._grace_s
        self._signal(signal.SIGTERM)
        while self._command is not None and time.monotonic() < kill_at + self._dying_s:
            select.select([self._bell], [], [], _NAP_S)
            self._reap()
            if time.monotonic() >= kill_at:
                self._signal(signal.SIGKILL)

    def _tell(self, *message: Any) -> None:
        with suppress(ConnectionError):  # it has gone, which the next look at the socket shows
            send(self._host, message)


def limiter(limits: Limits) -> Callable[[], None] | None:
    """Return what gives a process its limits, to be called in it; None where it has none."""
    if not limits:
        return None

    def limit() -> None:
        for kind, value in limits:
            hard = resource.getrlimit(kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))

    return limit


def descendants(top: int) -> list[int]:
    """Return the living descendants of a process, parents before children."""
    below: dict[int, list[int]] = {}
    dead = set()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                stat = file.read(1024)
        except (FileNotFoundError, ProcessLookupError):  # it has just gone
            continue
        state, parent = stat.rpartition(b")")[2].split()[:2]  # the name may contain spaces
        below.setdefault(int(parent), []).append(pid)
        if state in b"ZX":
            dead.add(pid)
    pids: list[int] = [top]
    for parent_pid in pids:  # which grows meanwhile
        pids += below.get(parent_pid, [])
    return [pid for pid in pids[1:] if pid not in dead]


def _is_told(pid: int, number: int) -> bool:
    """Send a signal, and return whether that is allowed, or the process has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


def main(fd: str, grace_s: str, dying_s: str) -> None:
    """Serve the host at the other end of a socket."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the thread that started it may block some
    prctl = ctypes.CDLL(None).prctl
    if prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit("the kernel does not let a process reap what descends from it")
    # A command may have stopped this process when the host ends. The signal also comes when the
    # host's thread that started it ends, which does no harm.
    prctl(_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
    with socket.socket(fileno=int(fd)) as host:
        host.set_inheritable(False)
        Supervisor(host, float(grace_s), float(dying_s)).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
