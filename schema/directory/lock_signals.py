"""Signals to the process that holds a lock: the kernel says which it is, never a file.

A number in a file is anybody's: it may be of another process, or -1, which is all of them.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from ..errors import Refused
from ..process_table import process_ids, read_proc
from .layout import own_ids
from .lock_holders import holders, is_known


def holding_process(path: str) -> int | None:
    """Return the process of this user that holds the lock of a file.

    None where nobody holds it, or the holder can't be seen from here: it is another user's, or in
    another container.
    """
    near = [each.pid for each in holders(path)]
    # Some filesystems have other numbers in the kernel's table: then every process is asked.
    for pid in (*near, *process_ids()):
        if pid > 0 and _is_ours(pid) and _holds(pid, path):
            return pid
    return None


def signal_holder(path: str, number: int, what: str) -> int:
    """Send a signal to the process that holds the lock of a file, and return its number.

    Args:
        path: of the file.
        number: of the signal.
        what: the one that is told, for people: "the service".

    Raises:
        Refused: the kernel names no process of this user that holds the lock.
    """
    if not is_known():
        raise Refused(
            f"this system doesn't tell which process {what} is: end it in its own terminal, or by"
            " the program that started it"
        )
    pid = holding_process(path)
    if pid is None or os.stat(path).st_nlink > 1:  # by another name it is some other program's lock
        raise unseen(path, what)
    with suppress(ProcessLookupError):  # it has ended since: whoever waits for it sees that
        _send(pid, path, number, what)
    return pid


def unseen(path: str, what: str) -> Refused:
    """Return the error where a lock is held, and the kernel names no process of this user."""
    return Refused(
        f"{what} has {path}, and no process of this user that is seen from here holds it: end"
        f" {what} where it was started, in its container or as its user"
    )


def _send(pid: int, path: str, number: int, what: str) -> None:
    """Signal a process that holds a lock: that one, whoever has its number by then."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # an older kernel, or a sandbox
        os.kill(pid, number)
        return
    try:
        if not _holds(pid, path):
            raise unseen(path, what)
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _is_ours(pid: int) -> bool:
    """Whether all of a process's user ids are this user's, or root's."""
    for line in read_proc(pid, "status").splitlines():
        if line.startswith("Uid:"):
            return {int(each) for each in line.split()[1:4]} <= own_ids()
    return False


def _holds(pid: int, path: str) -> bool:
    """Whether a process has a file open through which the file's lock is held."""
    with suppress(OSError):  # it has ended, or is another user's
        wanted = os.stat(path)
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                is_same = os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), wanted)
                if is_same and _has_lock(read_proc(pid, f"fdinfo/{number}")):
                    return True
    return False


def _has_lock(told: str) -> bool:
    # `lock:	1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`; who looks has READ for a moment.
    return any("FLOCK" in line and "WRITE" in line for line in told.splitlines())
