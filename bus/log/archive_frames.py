"""Frames of the archive, decompressed a piece at a time and no further than a frame can go.

A few bytes of a hostile file can stand for gigabytes, and the tables that say how long a frame is
are as hostile as the file. So both are held against constants, before anything is allocated.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: A frame is closed at so many lines, or at so many bytes of them.
FRAME_LINES = 1000
FRAME_BYTES = 1024 * 1024

#: The longest line that is read, in bytes. A bus writes shorter ones, since larger payloads are
#: blobs; a file that was put in the place of its own may have a line that memory can't hold.
MAX_LINE_BYTES = 64 * 1024 * 1024

#: The longest frame, in bytes, decompressed or not: the line that closes it may be the longest.
MAX_FRAME_BYTES = FRAME_BYTES + MAX_LINE_BYTES

#: How much is decompressed at once, in bytes: at worst it stands for 32,000 times as much.
PIECE_BYTES = 1024


class DamagedFrame(ValueError):
    """Bytes are no frame of an archive, or of one that is larger than any that a bus writes."""


def lines_of_frame(pieces: Iterable[bytes]) -> tuple[list[bytes], int]:
    """Return the lines of the frame with which some bytes begin, and how long it is in them.

    Args:
        pieces: the bytes, `PIECE_BYTES` at most in each; no more are taken than the frame needs.

    Raises:
        DamagedFrame: it is damaged, cut off, or too large.
    """
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_FRAME_BYTES).decompressobj()
    parts: list[bytes] = []
    taken = size = 0
    try:
        for piece in pieces:
            parts.append(decompressor.decompress(piece))
            taken += len(piece)
            size += len(parts[-1])
            if size > MAX_FRAME_BYTES or taken > MAX_FRAME_BYTES:
                raise DamagedFrame("it holds more than a bus writes into one frame")
            if decompressor.eof:
                break
    except zstandard.ZstdError as error:
        raise DamagedFrame(str(error)) from error
    if not decompressor.eof:
        raise DamagedFrame("its end is missing")
    content = b"".join(parts)
    if content.count(b"\n") > FRAME_LINES:
        raise DamagedFrame("it holds more lines than a bus writes into one frame")
    return content.splitlines(), taken - len(decompressor.unused_data)
