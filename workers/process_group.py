"""The process group of a command: how to end all of it, and nothing else."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from ..schema import is_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

#: Seconds after SIGKILL in which a process goes; one that has not can't be ended: the kernel holds
#: it in a system call, or it runs as another user (sudo).
DYING_S = 5.0


class ProcessGroup:
    """The process group that a command leads: signals go to all of it, and to no other group.

    The kernel gives a number to no new process while a process, also one that is not reaped, or a
    group has it. So the group is the command's own until the command is reaped; and later, too, if
    there is a group but no process with the number of the command.
    """

    def __init__(self, leader: Popen[bytes]) -> None:
        self._leader = leader
        self._seen_alive: list[int] = []

    def signal(self, number: int) -> None:
        """Send a signal to everything in the group; to nobody if it is gone."""
        if self._is_own():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader.pid, number)

    def is_left(self) -> bool:
        """Whether the command is not reaped yet, or something else in its group is alive."""
        if self._leader.returncode is None:
            return True
        if not self._is_own():
            return False
        group = self._leader.pid
        try:
            os.killpg(group, 0)
            if self._has_living():
                return True
            os.killpg(group, signal.SIGKILL)  # for a child that was forked during the look
        except (ProcessLookupError, PermissionError):
            return False  # it is gone, or we may not end it
        _reap_adopted(group)
        return False

    def _is_own(self) -> bool:
        return self._leader.returncode is None or not is_running(self._leader.pid)

    def _has_living(self) -> bool:
        """Whether not all of the group is dead and waits to be reaped.

        That is for the first process of the system or the container, and some are slow at it, or
        never do it.
        """
        if sys.platform != "linux":
            return True  # there is no /proc; and killpg has refused to signal the dead
        group = self._leader.pid
        try:
            if not any(_is_living_member(pid, group) for pid in self._seen_alive):
                everybody = [int(name) for name in os.listdir("/proc") if name.isdigit()]
                self._seen_alive = [pid for pid in everybody if _is_living_member(pid, group)]
        except OSError:  # no /proc, or no descriptor left to look with
            return True
        return len(self._seen_alive) > 0


def _reap_adopted(group: int) -> None:
    """Reap orphans of a group that have become this process's children.

    They do when it is the first process of a container, and then nobody else reaps them.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) != (0, 0):
            pass


def _is_living_member(pid: int, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):  # it has just gone
        return False
    state, _parent, its_group = stat.rpartition(b")")[2].split()[:3]  # the name may contain spaces
    return int(its_group) == group and state not in b"ZX"
