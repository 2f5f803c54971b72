"""The holders of a lock on a file, as the kernel reports them; no lock is taken for that."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from ..process_table import process, process_ids, read_proc

#: The bytes of SQLite's locks in the shared memory of a write-ahead log: of the one who writes, and
#: of each mark up to which somebody reads. https://sqlite.org/walformat.html names them.
_WRITER, _READ_MARKS = range(120, 121), range(123, 128)

_LOCKS = "/proc/locks"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock.

    Attributes:
        pid: its id; 0 for one that can't be seen from here.
        command: its command line; empty when it can't be seen.
        is_stopped: whether it was stopped (Ctrl-Z, SIGSTOP): it gives nothing back till it goes on.
    """

    pid: int
    command: str
    is_stopped: bool

    def __str__(self) -> str:
        what = f" ({self.command})" if self.command else ""
        return f"process {self.pid}{what}{', which is stopped' if self.is_stopped else ''}"


def is_known() -> bool:
    """Whether this system tells who holds locks."""
    return os.path.exists(_LOCKS)


def holders(path: str) -> list[Holder]:
    """Return who holds a lock of the kind that `FileLock` takes.

    The kernel tells who took it; where that one has ended, who inherited it.
    """
    takers = {pid for pid, kind, _ in _locks_on(path) if kind == "FLOCK"}
    if any(pid > 0 and process(pid) is None for pid in takers):
        takers = _inheritors(path) or takers
    return [holder(pid) for pid in sorted(takers)]


def is_inherited(path: str) -> bool:
    """Whether who took such a lock has ended, and what it had started holds it still.

    False too where the system does not tell, and where who took it can't be seen from here.
    """
    takers = {pid for pid, kind, _ in _locks_on(path) if kind == "FLOCK"}
    return bool(takers) and all(pid > 0 and not started(pid) for pid in takers)


def openers(database: str) -> list[int]:
    """Return the ids of the processes that have a database open, and have read in it."""
    return sorted({pid for pid, kind, _ in _locks_on(database) if kind == "POSIX" and pid > 0})


def writers(database: str) -> list[Holder]:
    """Return who is inside a write transaction of a database; programs of others count too."""
    return _in_transaction(database, _WRITER)


def readers(database: str) -> list[Holder]:
    """Return who is inside a read transaction of a database."""
    return _in_transaction(database, _READ_MARKS)


def _in_transaction(database: str, marks: range) -> list[Holder]:
    locks = _locks_on(database + "-shm")
    return [holder(pid) for pid in sorted({pid for pid, _, first in locks if first in marks})]


def _locks_on(path: str) -> list[tuple[int, str, int]]:
    """Return the process, the kind and the first byte of each lock that is held on a file."""
    try:
        found = os.stat(path)
        with open(_LOCKS, encoding="ascii") as lines:
            fields = [line.split() for line in lines]
    except OSError:  # there is no such file, or the system does not tell
        return []
    name = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # `1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF`; one who waits has `->` for a second field.
    return [(int(line[4]), line[1], int(line[6])) for line in fields if line[5:6] == [name]]


def _inheritors(path: str) -> set[int]:
    """Return the processes that have a file open through which its lock is held."""
    found = set()
    wanted = os.stat(path)
    for pid in process_ids():
        with suppress(OSError):  # it has ended, or is another user's
            for number in os.listdir(f"/proc/{pid}/fd"):
                is_same = os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), wanted)
                if is_same and "FLOCK" in read_proc(pid, f"fdinfo/{number}"):
                    found.add(pid)
    return found


def holder(pid: int) -> Holder:
    """Return what can be seen of a process."""
    command = " ".join(read_proc(pid, "cmdline").replace("\0", " ").split())
    # The name before the state, in parentheses, may hold anything.
    state = read_proc(pid, "stat").rpartition(")")[2].split()[:1]
    return Holder(pid, command, state in (["T"], ["t"]))


def started(pid: int) -> str:
    """Return when a process started, in the kernel's own count; "" when it has ended."""
    found = process(pid)
    return "" if found is None else found.started
