"""The lock of a crew, which the kernel frees with its process, and the state that it tells."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

import orjson

from ...schema.bounded_read import read_at_most
from ...schema.directory.file_lock import FileLock, is_locked
from ...schema.directory.lock_holders import holders, is_known
from ...schema.directory.lock_signals import signal_holder
from ...schema.errors import NotFound, Refused, TimedOut
from ...schema.process_table import boot_id
from ...schema.processes import has_run_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...bus.bus import Bus

#: The lock, and the state, in the bus directory.
LOCK, STATE = "crew.lock", "crew.json"

#: Seconds between two looks whether a crew has gone.
_NAP_S = 0.02


class CrewRuns(Refused):
    """A crew of this bus runs already."""


class NoCrew(NotFound):
    """No crew of this bus runs."""


class CrewLock:
    """The right to run the crew of a bus, from `acquire` to `close`."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._lock: FileLock | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            CrewRuns: another process has it.
        """
        lock = FileLock(self._bus.layout.files.path_of(LOCK))
        if not lock.try_beside_lookers():
            lock.close()
            who = running_pid(self._bus)
            whose = f": process {who}" if who else ""
            raise CrewRuns(
                f"a crew of this bus runs already{whose}; see 'bus crew status', or end it with"
                " 'bus crew stop'"
            )
        self._lock = lock

    def tell(self, state: dict[str, Any]) -> None:
        """Write the state of the crew, whole, for whoever looks."""
        who = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "boot": boot_id(),
            "at_ms": self._bus.now_ms(),
        }
        files, fresh = self._bus.layout.files, f"{STATE}.new"
        with files.new(fresh) as file:
            file.write(orjson.dumps(who | state))
        files.rename(fresh, STATE)

    def close(self) -> None:
        """Free the lock; more than once does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def __enter__(self) -> CrewLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def told_state(bus: Bus) -> dict[str, Any] | None:
    """Return the state that the last crew has told; None where none ever ran."""
    with suppress(FileNotFoundError, orjson.JSONDecodeError), bus.layout.files.read(STATE) as file:
        state = orjson.loads(read_at_most(file, STATE))
        return state if isinstance(state, dict) else None
    return None


def is_running(bus: Bus) -> bool:
    """Whether a crew holds the lock of a bus: the kernel knows, whatever a file says."""
    try:
        with bus.layout.files.read(LOCK) as file:
            return is_locked(file)
    except OSError:
        return False


def running_pid(bus: Bus) -> int | None:
    """Return the number of the process that runs the crew, as it is seen from here.

    The kernel tells who holds the lock. Where it doesn't, the number in the state counts if it is
    of this host and this boot, and the process is as old as it says: a number alone is soon
    another process's.
    """
    if not is_running(bus):
        return None
    if is_known():
        return next(
            (each.pid for each in holders(bus.layout.files.path_of(LOCK)) if each.pid), None
        )
    state = told_state(bus) or {}
    pid, age_s = state.get("pid"), (bus.now_ms() - state.get("at_ms", 0)) / 1000
    is_here = (state.get("host"), state.get("boot")) == (socket.gethostname(), boot_id())
    return pid if is_here and isinstance(pid, int) and has_run_for(pid, age_s) else None


def stop_running(bus: Bus, timeout_s: float) -> int:
    """Tell the crew of a bus to stop, wait until it has, and return the number of its process.

    Raises:
        NoCrew: none runs.
        Refused: it can't be told from here.
        TimedOut: it has not stopped in time.
    """
    if not is_running(bus):
        raise NoCrew("no crew of this bus runs")
    try:
        pid = signal_holder(bus.layout.files.path_of(LOCK), signal.SIGTERM, "the crew")
    except Refused as error:
        if is_running(bus):
            raise
        raise NoCrew("no crew of this bus runs") from error
    deadline = time.monotonic() + timeout_s
    while is_running(bus):
        if time.monotonic() > deadline:
            raise TimedOut(f"process {pid} has not stopped its crew within {timeout_s:g} s")
        time.sleep(_NAP_S)
    return pid
