"""A port for each task: a lease, so that two tasks never choose the same one."""

from __future__ import annotations

import re
import socket
import zlib
from dataclasses import dataclass

from ...schema.errors import InvalidInput, Refused, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...bus.leases import Lease


@dataclass(frozen=True, slots=True)
class Ports:
    """A range of ports for tasks.

    Attributes:
        first, last: both included.
    """

    first: int
    last: int

    @classmethod
    def read(cls, text: str) -> Ports:
        """Return the range of a text such as `20000-20999`.

        Raises:
            InvalidInput: it is none.
        """
        found = re.fullmatch(r"(?a)(\d{1,5})-(\d{1,5})", text)
        if found is None or not 0 < int(found[1]) <= int(found[2]) < 65_536:
            raise InvalidInput(f"ports are given like 20000-20999, not {shown(text)}")
        return cls(int(found[1]), int(found[2]))

    def take(self, bus: Bus, task: str, worker: str, lease_s: float) -> tuple[int, Lease]:
        """Return a port that no task has and no program listens on, and the lease on it.

        Raises:
            Refused: there is none left.
        """
        count = self.last - self.first + 1
        begin = zlib.crc32(task.encode()) % count  # a task finds its own again as a rule
        for step in range(count):
            port = self.first + (begin + step) % count
            lease = bus.leases.acquire(f"port.{port}", worker, lease_s=lease_s)
            if lease is None:
                continue
            if _is_free(port):
                return port, lease
            bus.leases.release(lease)
        raise Refused(
            f"no port of {self.first}-{self.last} is free for task {task!r}; give more of them"
        )


def _is_free(port: int) -> bool:
    """Whether no program listens on a port: others take no leases."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
