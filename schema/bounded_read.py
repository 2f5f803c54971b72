"""Small files that others may have written, read no further than they can sensibly be."""

from __future__ import annotations

import os
import stat

from .errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, AnyStr

#: The longest settings file that is read, in bytes or characters: real files have a few thousand.
MAX_FILE_BYTES = 16 * 1024 * 1024


def read_at_most(file: IO[AnyStr], name: str, most: int = MAX_FILE_BYTES) -> AnyStr:
    """Return the rest of a file.

    Args:
        file: open for reading.
        name: of the file, for the error.
        most: how many bytes it may have, or characters if it is open as text.

    Raises:
        Refused: it has more.
    """
    content = file.read(most + 1)
    if len(content) > most:
        raise Refused(f"{name} has more than {most:,} bytes; put a shorter file there")
    return content


def read_plain_file(path: str, most: int = MAX_FILE_BYTES) -> bytes:
    """Return what is in a file, and wait for nothing: neither for a pipe nor for a device.

    A link is followed.

    Args:
        path: of the file.
        most: how many bytes it may have.

    Raises:
        Refused: it is no plain file, or has more.
        OSError: it is not there, or the system refuses it.
    """
    # Opening is an act for some devices, so it is looked first, and again at what was opened.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _no_file(path)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _no_file(path)
        return read_at_most(file, path, most)


def _no_file(path: str) -> Refused:
    return Refused(f"{path} is no plain file; nothing is read from it")
