"""Small files that others may have written, read no further than they can sensibly be."""

from __future__ import annotations

from .errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, AnyStr

#: The longest file of settings that is read, in bytes or characters: real ones have a few thousand.
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
