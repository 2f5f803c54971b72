"""The holders of a lock on a file, as the kernel reports them; no lock is taken for that."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from ..errors import Refused
from ..process_table import process, process_ids, read_proc
from .layout import own_ids

#: The bytes of SQLite's locks in the shared memory of a write-ahead log: of the writer, and of each
#: mark up to which a reader reads. https://sqlite.org/walformat.html names them.
_WRITER, _READ_MARKS = range(120, 121), range(123, 128)

_LOCKS = "/proc/locks"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds a lock.

    Attributes:
        pid: its id; 0 for a process that can't be seen from here.
        command: its command line; empty when it can't be seen.
        is_stopped: whether it was stopped (Ctrl-Z, SIGSTOP): it gives nothing back till it goes on.
    """

    pid: int
    command: str
    is_stopped: bool

    def __str__(self) -> str:
        what = f" ({self.command})" if self.command else ""
        return f"process {self.pid}{what}{', which is stopped' if self.is_stopped else ''}"


def kernel_lists_locks() -> bool:
    """Whether this system tells which processes hold locks."""
    return os.path.exists(_LOCKS)


def holders(path: str) -> list[LockHolder]:
    """Return the processes that hold a lock of the kind that `FileLock` takes.

    The kernel names the process that took it; where that has ended, these are its heirs.
    """
    takers = {pid for pid, kind, _ in _locks_on(path) if kind == "FLOCK"}
    if any(pid > 0 and process(pid) is None for pid in takers):
        takers = _inheritors(path) or takers
    return [holder(pid) for pid in sorted(takers)]


def is_inherited(path: str) -> bool:
    """Whether the process that took the lock has ended, and a process that it started holds it.

    False too where the system does not tell, and where the process can't be seen from here.
    """
    takers = {pid for pid, kind, _ in _locks_on(path) if kind == "FLOCK"}
    return bool(takers) and all(pid > 0 and not started(pid) for pid in takers)


def openers(database: str) -> list[int]:
    """Return the ids of the processes that have a database open, and have read in it."""
    return sorted({pid for pid, kind, _ in _locks_on(database) if kind == "POSIX" and pid > 0})


def writers(database: str) -> list[LockHolder]:
    """Return the processes inside a write transaction of a database, of any program."""
    return _in_transaction(database, _WRITER)


def readers(database: str) -> list[LockHolder]:
    """Return who is inside a read transaction of a database."""
    return _in_transaction(database, _READ_MARKS)


def _in_transaction(database: str, marks: range) -> list[LockHolder]:
    locks = _locks_on(database + "-shm")
    return [holder(pid) for pid in sorted({pid for pid, _, first in locks if first in marks})]


def _locks_on(path: str) -> list[tuple[int, str, int]]:
    """Return the process, the kind and the first byte of each lock that is held on a file."""
    try:
        status = os.stat(path)
        with open(_LOCKS, encoding="ascii") as lines:
            fields = [line.split() for line in lines]
    except OSError:  # there is no such file, or the system does not tell
        return []
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    # `1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF`; a process that waits has `->` second.
    return [(int(line[4]), line[1], int(line[6])) for line in fields if line[5:6] == [name]]


def _inheritors(path: str) -> set[int]:
    """Return the processes that have a file open through which its lock is held."""
    pids = set()
    lock_file = os.stat(path)
    for pid in process_ids():
        with suppress(OSError):  # it has ended, or is another user's
            for number in os.listdir(f"/proc/{pid}/fd"):
                is_same = os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), lock_file)
                if is_same and "FLOCK" in read_proc(pid, f"fdinfo/{number}"):
                    pids.add(pid)
    return pids


def holder(pid: int) -> LockHolder:
    """Return what can be seen of a process."""
    command = " ".join(read_proc(pid, "cmdline").replace("\0", " ").split())
    # The name before the state, in parentheses, may hold anything.
    state = read_proc(pid, "stat").rpartition(")")[2].split()[:1]
    return LockHolder(pid, command, state in (["T"], ["t"]))


def started(pid: int) -> str:
    """Return when a process started, in the kernel's own count; "" when it has ended."""
    entry = process(pid)
    return "" if entry is None else entry.started


# Signals to the process that holds a lock: the kernel says which it is, never a file.
#
# A number in a file is anybody's: it may be of another process, or -1, which is all of them.


def holding_process(path: str) -> int | None:
    """Return the process of this user that holds the lock of a file.

    None where it is free, or the holder can't be seen from here: it is another user's, or in
    another container.
    """
    near = [lock_holder.pid for lock_holder in holders(path)]
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
        what: the process, for people: "the service".

    Raises:
        Refused: the kernel names no process of this user that holds the lock.
    """
    if not kernel_lists_locks():
        raise Refused(
            f"this system doesn't tell which process {what} is: end it in its own terminal, or by"
            " the program that started it"
        )
    pid = holding_process(path)
    if pid is None or os.stat(path).st_nlink > 1:  # by another name it is some other program's lock
        raise unseen(path, what)
    with suppress(ProcessLookupError):  # it has ended since; the caller waits for that
        _send(pid, path, number, what)
    return pid


def unseen(path: str, what: str) -> Refused:
    """Return the error where a lock is held, and the kernel names no process of this user."""
    return Refused(
        f"{what} has {path}, and no process of this user that is seen from here holds it: end"
        f" {what} where it was started, in its container or as its user"
    )


def _send(pid: int, path: str, number: int, what: str) -> None:
    """Signal a process that holds a lock, and no later process with the same number."""
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
            return {int(user_id) for user_id in line.split()[1:4]} <= own_ids()
    return False


def _holds(pid: int, path: str) -> bool:
    """Whether a process has a file open through which the file's lock is held."""
    with suppress(OSError):  # it has ended, or is another user's
        lock_file = os.stat(path)
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                is_same = os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), lock_file)
                if is_same and _has_lock(read_proc(pid, f"fdinfo/{number}")):
                    return True
    return False


def _has_lock(fd_info: str) -> bool:
    # `lock:	1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`; who looks has READ for a moment.
    return any("FLOCK" in line and "WRITE" in line for line in fd_info.splitlines())


# The check that no other process has a bus open, for work that must be alone with the file.

#: How long to wait before the next look at who has the file open, in seconds.
_LOOK_EVERY_S = 0.05


def refuse_openers(database: str, so_that: str, *, patience_s: float = 0.0) -> None:
    """Raise when another process has a file open.

    Processes in another container are not seen, and none where the system does not tell.

    Args:
        database: the file.
        so_that: what can be done once they have ended, for the message.
        patience_s: how long to wait for them to end by themselves, in seconds.

    Raises:
        Refused: another process has; the message names it.
    """
    deadline = time.monotonic() + patience_s
    while others := [pid for pid in openers(database) if pid != os.getpid()]:
        if time.monotonic() >= deadline:
            raise Refused(
                f"{holder(others[0])} has the bus open; end all that use it, then {so_that}"
            )
        time.sleep(_LOOK_EVERY_S)
