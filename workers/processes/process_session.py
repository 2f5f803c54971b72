"""The session of a command that the host itself has started: how to end all of it, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

from ...schema.process_table import is_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    class Leader(Protocol):
        """The command that leads a session, such as a `Popen`."""

        pid: int
        returncode: int | None


#: How often at most one signal is sent on to what was started while it was sent.
_MAX_ROUNDS = 100


#: Where Linux says which number it gave out last, in the namespace of who asks.
_NEWEST_NUMBER = "/proc/sys/kernel/ns_last_pid"


class ProcessSession:
    """The session that a command leads: signals go to all of it, and to no other session.

    Some commands put what they run into process groups of its own (`timeout`, `set -m`), and those
    are in the session still. The kernel gives a number to no new process while a process, also one
    that is not reaped, or a session has it. So the session is the command's own until the command
    is reaped; and later, too, if there is a session but no process with the number of the command.
    """

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    def signal(self, number: int) -> None:
        """Send a signal to everything in the session, also to what is started meanwhile.

        The command comes first: a shell whose child ends before it is told might just exit.
        """
        told: set[int] = set()
        for _ in range(_MAX_ROUNDS):
            found = [pid for pid in self._members() if pid not in told]
            if not found:
                return
            told.update(found)
            for pid in sorted(found, key=lambda pid: pid != self._leader.pid):
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
    """Return the number that a process or thread got last; None where the kernel does not say.

    Numbers go up until they begin again at the lowest, and a new one is none that a session has.
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

    That is else for the first process of the system or the container, and some are slow at it, or
    never do it; or this is that one, and nobody else reaps its orphans.
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
