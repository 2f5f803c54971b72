"""The lock of a service: one for a state directory, and one for a bus, freed by the kernel.

It is taken before anything is opened, so that a second service neither upgrades the bus of a live
one nor takes its jobs for lost.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from ..schema.directory.file_lock import FileLock
from ..schema.directory.layout import Layout
from ..schema.directory.lock_holders import holders
from ..schema.errors import AckbusError, NotFound, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: The name of the lock file, in the state directory; its text is the number of the process.
LOCK = "ductile.lock"


class ServiceRuns(Refused):
    """Another service runs already."""

    exit_code = 1


class NoService(NotFound):
    """No service runs."""


class ServiceLock:
    """The lock of the service of a state directory; it is held from `acquire` to `close`.

    Args:
        state_dir: the state directory; made with mode 0700 where it is missing.

    Raises:
        AckbusError: it can't be made, or written.
    """

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / LOCK
        self._fd = -1
        self._bus_lock: FileLock | None = None
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AckbusError(f"{self.path} can't be opened: {error.strerror}") from error

    def acquire(self) -> None:
        """Take the lock, and write the number of this process into its file.

        Raises:
            ServiceRuns: another service has it.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            there = pid_in(self.path)
            who = f"process {there}" if there else "another process"
            raise ServiceRuns(f"a service runs already: {who} has {self.path}") from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def acquire_bus(self, directory: str) -> None:
        """Take the lock of the bus too: services with other state directories may share one.

        Raises:
            ServiceRuns: another service has it.
        """
        path = Layout(directory).automation_lock
        lock = FileLock(path)
        if not lock.try_acquire():
            who = next(map(str, holders(path)), "another process")
            lock.close()
            raise ServiceRuns(f"a service of the bus {directory} runs already: {who}")
        self._bus_lock = lock

    def close(self) -> None:
        """Free the locks; more than once does nothing."""
        if self._bus_lock is not None:
            self._bus_lock.close()
            self._bus_lock = None
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> ServiceLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def running_pid(state_dir: Path) -> int:
    """Return the number of the process that holds the lock of a state directory.

    Raises:
        NoService: none does.
    """
    path = state_dir / LOCK
    pid = pid_in(path)
    if pid is None or not _is_held(path):
        raise NoService(f"no service runs: nobody has {path}")
    return pid


def is_running(state_dir: Path) -> bool:
    """Whether a service holds the lock of a state directory."""
    return _is_held(state_dir / LOCK)


def pid_in(path: Path) -> int | None:
    """Return the number in a lock file, or None where there is none."""
    with suppress(OSError, ValueError):
        return int(path.read_text("ascii").strip())
    return None


def _is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
