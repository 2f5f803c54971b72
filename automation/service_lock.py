"""The lock of a service: one for a state directory, and one for a bus, freed by the kernel.

It is taken before anything is opened, so that a second service neither upgrades the bus of a live
one nor takes its jobs for lost.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..schema.directory.file_lock import FileLock, is_locked
from ..schema.directory.folder import locate
from ..schema.directory.layout import Layout
from ..schema.directory.lock_holders import holders, is_known
from ..schema.directory.lock_signals import holding_process, signal_holder, unseen
from ..schema.errors import AckbusError, NotFound, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: The name of the lock file, in the state directory; its text is the number of the process.
LOCK = "ductile.lock"

_SERVICE = "the service"


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
        AckbusError: it can't be made.
    """

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / LOCK
        self._lock: FileLock | None = None
        self._bus_lock: FileLock | None = None
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AckbusError(f"{state_dir} can't be made: {error.strerror}") from error

    def acquire(self) -> None:
        """Take the lock, and write the number of this process into its file.

        Raises:
            ServiceRuns: another service has it.
        """
        lock = self._open()
        if not lock.try_beside_lookers():
            there = pid_in(self.path)
            lock.close()
            who = f"process {there}" if there else "another process"
            raise ServiceRuns(f"a service runs already: {who} has {self.path}")
        self._lock = lock
        self._write_pid()

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
        if self._lock is not None:
            self._lock.close()
        self._bus_lock = self._lock = None

    def _open(self) -> FileLock:
        try:
            return FileLock(str(self.path))
        except OSError as error:
            raise AckbusError(f"{self.path} can't be opened: {error.strerror}") from error

    def _write_pid(self) -> None:
        folder, name = locate(str(self.path))
        try:
            with os.fdopen(folder.change(name, os.O_TRUNC), "w") as file:
                file.write(f"{os.getpid()}\n")
        except OSError as error:
            raise AckbusError(f"{self.path} can't be written: {error.strerror}") from error

    def __enter__(self) -> ServiceLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def running_pid(state_dir: Path) -> int:
    """Return the number of the process that holds the lock of a state directory.

    The kernel says which it is; where the system tells nobody, the file does, for people.

    Raises:
        NoService: none does.
        Refused: it is another user's, or in another container.
    """
    path = state_dir / LOCK
    if not _is_held(path):
        raise NoService(f"no service runs: nobody has {path}")
    pid = holding_process(str(path)) if is_known() else pid_in(path)
    if pid is not None:
        return pid
    if not _is_held(path):  # it has ended since
        raise NoService(f"no service runs: nobody has {path}")
    raise unseen(str(path), _SERVICE)


def tell(state_dir: Path, number: int) -> None:
    """Send a signal to the process that holds the lock of a state directory.

    Raises:
        Refused: the kernel names no process of this user that holds it.
    """
    signal_holder(str(state_dir / LOCK), number, _SERVICE)


def is_running(state_dir: Path) -> bool:
    """Whether a service holds the lock of a state directory."""
    return _is_held(state_dir / LOCK)


def pid_in(path: Path) -> int | None:
    """Return the number in a lock file, or None where there is none."""
    folder, name = locate(str(path))
    with suppress(OSError, ValueError), folder.read(name) as file:
        return int(file.read(32))
    return None


def _is_held(path: Path) -> bool:
    folder, name = locate(str(path))
    try:
        with folder.read(name) as file:
            return is_locked(file)
    except OSError:
        return False
