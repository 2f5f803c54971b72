"""Writing to a descriptor: all of what is given, or an error."""

from __future__ import annotations

import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def write_all(fd: int, data: ReadableBuffer) -> int:
    """Write all of some bytes, and return their number.

    The system may take a part of them: a pipe whose reader was suspended, a disk that became full.
    A descriptor that doesn't block is waited for.

    Raises:
        OSError: the rest can't be written; a part may have been.
    """
    rest = memoryview(data).cast("B")
    size = len(rest)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            _wait_until_writable(fd)
    return size


def _wait_until_writable(fd: int) -> None:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    poll.poll()


class WaitingFile(io.FileIO):
    """A raw stream over a descriptor, which it leaves open, that waits where that doesn't block.

    It may write a part, as the system does; a buffer over it writes the rest.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write some of the bytes, at least 1 where there are any, and return how many."""
        while (written := super().write(data)) is None:
            _wait_until_writable(self.fileno())
        return written
