"""The folders and locks of a service, and the requests to stop or reload it.

The lock is taken before anything is opened, so that a second service neither upgrades the bus of a
live one nor treats its jobs as lost.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from ..bus.doorbell import StopEvent
from ..schema.directory.file_lock import FileLock, is_locked
from ..schema.directory.folder import locate
from ..schema.directory.layout import Layout, expand_home
from ..schema.directory.lock_holders import (
    holders,
    holding_process,
    kernel_lists_locks,
    signal_holder,
    unseen,
)
from ..schema.errors import AckbusError, NotFound, Refused
from .config.models import StateConfig
from .config.sources import BY_NAME, gather, graft
from .config.yaml_tree import Map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config.sources import Origin

# Places of a service: its state directory, and its bus, as a configuration says.
#
# Only what stands in the files is read, without variables or a check, so that a service can be
# found whose secrets this process does not have.

#: The bus of a service, in its state directory, unless another one is named.
BUS = ".worker-state"


def state_dir_of(directory: Path, origin: Origin = BY_NAME) -> Path:
    """Return the state directory of a folder of configuration.

    Args:
        directory: the folder.
        origin: how the folder was found, which decides whom we trust.

    Raises:
        ConfigFaults: there is no configuration, or its file is not trusted.
    """
    folder, tree = _read(directory, origin)
    state = tree.get("state")
    path = state.get("path") if isinstance(state, Map) else None
    path_text = StateConfig().path if path is None else str(path)
    return (folder / expand_home(path_text)).parent


def plugins_of(directory: Path) -> set[str]:
    """Return the names of the plugins of a folder of configuration that are not disabled.

    Raises:
        ConfigFaults: there is no configuration.
    """
    plugins = _read(directory)[1].get("plugins")
    if not isinstance(plugins, Map):
        return set()
    return {
        name
        for name, settings in plugins.items()
        if not isinstance(settings, Map) or str(settings.get("enabled", "true")).lower() != "false"
    }


def bus_of(directory: Path, origin: Origin = BY_NAME) -> str:
    """Return the bus directory of a folder of configuration; it may not exist."""
    return str((state_dir_of(directory, origin) / BUS).absolute())


def _read(directory: Path, origin: Origin = BY_NAME) -> tuple[Path, Map]:
    """Return the folder of a configuration, and all that stands in its files."""
    sources = gather(directory, origin)
    if not sources.files:
        sources.raise_faults()
    tree = Map()
    for source in sources.files:
        graft(tree, source.tree, [])
    return sources.directory, tree


# Requests to stop or reload a service, at any moment and also before it has started.


class ServiceControl:
    """Requests to stop or reload, which a service handles between two steps.

    They may come from any thread and from a signal handler, and are kept until they are handled.

    Attributes:
        is_stopping: whether the service is to begin nothing more, and to end.
        is_in_a_hurry: whether it is to end running jobs at once.
        is_to_reload: whether it is to reload its configuration.
    """

    def __init__(self) -> None:
        self.is_stopping = self.is_in_a_hurry = self.is_to_reload = False
        #: Ends a pause of the service; only `wake` is called on it, so that later pauses are not
        #: ended too.
        self.wakeup = StopEvent()

    def stop(self) -> None:
        """Request the end; a second call asks to end running jobs at once."""
        self.is_in_a_hurry = self.is_stopping
        self.is_stopping = True
        self.wakeup.wake()

    def reload(self) -> None:
        """Request a reload of the configuration."""
        self.is_to_reload = True
        self.wakeup.wake()

    def take_reload(self) -> bool:
        """Return whether a reload was requested, and clear the request."""
        is_to_reload, self.is_to_reload = self.is_to_reload, False
        return is_to_reload


# Telling systemd how the service is: a datagram to the socket that it names.

#: The variables by which systemd says what it wants.
_SOCKET, _WATCHDOG, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class Notifier:
    """Sends the state of the service to a service manager; does nothing without one."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get(_SOCKET, "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]  # of the abstract namespace
        usec = environ.get(_WATCHDOG, "")
        is_ours = environ.get(_WATCHDOG_PID, "") in ("", str(os.getpid()))
        #: Seconds between two signs of life, half of what the watchdog allows; None: no watchdog.
        self.sign_every_s = int(usec) / 2_000_000 if usec.isdecimal() and is_ours else None

    def ready(self, status: str) -> None:
        """Tell that the service is ready."""
        self._tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Tell that a reload begins; `ready` ends it."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def alive(self) -> None:
        """Tell the watchdog that the service goes on."""
        self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        """Tell that the service is about to end."""
        self._tell("STOPPING=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto("\n".join(lines).encode(), self._address)


#: The name of the lock file, in the state directory; its text is the process id.
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
        if not lock.try_acquire_past_checks():
            holder_pid = pid_in(self.path)
            lock.close()
            who = f"process {holder_pid}" if holder_pid else "another process"
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
    """Return the id of the process that holds the lock of a state directory.

    The id is the kernel's; on systems that do not list locks, the one written in the lock file.

    Raises:
        NoService: none does.
        Refused: it is another user's, or in another container.
    """
    path = state_dir / LOCK
    if not _is_held(path):
        raise NoService(f"no service runs: no process holds {path}")
    pid = holding_process(str(path)) if kernel_lists_locks() else pid_in(path)
    if pid is not None:
        return pid
    if not _is_held(path):  # it has ended since
        raise NoService(f"no service runs: no process holds {path}")
    raise unseen(str(path), _SERVICE)


def send_signal(state_dir: Path, number: int) -> None:
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
