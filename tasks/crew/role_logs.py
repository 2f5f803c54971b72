"""The logs of a crew: a file for each role in the bus directory, with older ones beside it."""

from __future__ import annotations

import os
import threading

from ...schema.descriptors import write_all
from ...schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.directory.folder import Folder

#: The folder of the logs, in the bus directory.
LOGS = "logs"

#: A log that would grow beyond this begins again, in bytes; so many older ones are kept.
MAX_BYTES, KEPT = 4 * 1024 * 1024, 2


class RoleLog:
    """The log of one role; it is made with its first line.

    Args:
        bus: the bus.
        name: of the role.
        max_bytes: where it begins again.
    """

    def __init__(self, bus: Bus, name: str, max_bytes: int = MAX_BYTES) -> None:
        self._folder: Folder = bus.layout.files.folder(LOGS)
        self._now_ms = bus.now_ms
        self._name = f"{name}.log"
        self._max_bytes = max_bytes
        self._fd = -1
        self._lock = threading.Lock()

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._folder.path_of(self._name)

    def write(self, data: bytes) -> None:
        """Add what the role printed, as it is."""
        with self._lock:
            if self._fd < 0:
                self._open()
            size = os.fstat(self._fd).st_size
            if size and size + len(data) > self._max_bytes:
                self._rotate()
            write_all(self._fd, data)

    def note(self, text: str) -> None:
        """Add a line of the crew itself, with the time."""
        self.write(f"-- {format_ts(self._now_ms())} {text}\n".encode(errors="replace"))

    def close(self) -> None:
        """Close the file; a later line opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> None:
        self._folder.make()
        self._fd = self._folder.change(self._name, os.O_APPEND)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _rotate(self) -> None:
        self._close()
        names = [self._name, *(f"{self._name}.{number}" for number in range(1, KEPT + 1))]
        for older, newer in reversed(list(zip(names[1:], names[:-1], strict=True))):
            if self._folder.has(newer):
                self._folder.rename(newer, older)
        self._open()
