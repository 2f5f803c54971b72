"""The frames of a write-ahead log, each looked at by itself: https://sqlite.org/walformat.html.

SQLite reads a log up to the first frame that is not whole, and whatever was committed behind it is
gone. Here a frame is whole when its own checksum, which goes on from the one before, is right: so
what is behind the damage is told apart from what is damaged.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .raw_file import RawFile

    Checksum = tuple[int, int]

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24

#: From how many checksums a frame behind damaged ones may go on, besides the one that it stores.
_MOST_SUMS = 3

#: The first bytes of a log; the last bit says in which order of bytes its checksums are made.
_MAGIC, _BIG_ENDIAN = 0x377F0682, 1

_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Frame:
    """One page, as a transaction left it.

    Attributes:
        page: its number.
        pages: how many the file had after the commit that this frame ends; 0 for none.
        start: where in the log the page begins.
        is_whole: whether its checksum is right.
    """

    page: int
    pages: int
    start: int
    is_whole: bool


class WriteAheadLog:
    """The frames of a log since its last restart.

    Attributes:
        is_header_whole: whether SQLite can read the log at all; so is one that is empty.
        frames: all frames of this beginning, up to the last that is whole, or ends a commit.
    """

    def __init__(self, file: RawFile, page_bytes: int) -> None:
        self._file = file
        self._page_bytes = page_bytes
        self._header = header = file.read(0, _HEADER_BYTES)
        self.is_empty = file.size < _HEADER_BYTES + _FRAME_HEADER_BYTES + page_bytes
        self._is_big = self._order(header)
        self.is_header_whole = self.is_empty or self._is_whole(header)
        self.frames: list[Frame] = [] if self.is_empty else self._read(header)

    def committed(self, *, whole: bool) -> list[Frame]:
        """Return the frames of transactions that ended, without those that are damaged.

        Args:
            whole: also those behind the first that is damaged.
        """
        frames = self.frames if whole else self.frames[: self.break_at]
        last = max((n for n, frame in enumerate(frames) if frame.pages), default=-1)
        return [frame for frame in frames[: last + 1] if frame.is_whole]

    def has_begun_anew(self) -> bool:
        """Whether writers have begun to use it again from its beginning while it was read."""
        return self._file.read(0, _HEADER_BYTES) != self._header

    @property
    def break_at(self) -> int:
        """The number of frames that SQLite can read: those before the first damaged one."""
        return next(
            (n for n, each in enumerate(self.frames) if not each.is_whole), len(self.frames)
        )

    def damaged(self) -> int:
        """Return how many frames are damaged that a transaction had committed."""
        last = max((n for n, frame in enumerate(self.frames) if frame.pages), default=-1)
        return sum(not frame.is_whole for frame in self.frames[: last + 1])

    def page(self, frame: Frame) -> bytes:
        """Return the page of a frame."""
        return self._file.read(frame.start, self._page_bytes)

    def _order(self, header: bytes) -> bool:
        magic = int.from_bytes(header[:4])
        if magic & ~_BIG_ENDIAN == _MAGIC:
            return bool(magic & _BIG_ENDIAN)
        return sys.byteorder == "big"

    def _is_whole(self, header: bytes) -> bool:
        magic, _, page_bytes = struct.unpack(">3I", header[:12])
        stored = struct.unpack(">2I", header[24:32])
        return (
            magic & ~_BIG_ENDIAN == _MAGIC
            and page_bytes == self._page_bytes
            and self._sum(header[:24], (0, 0)) == stored
        )

    def _read(self, header: bytes) -> list[Frame]:
        salts = header[16:24]
        if not self.is_header_whole:  # the first frame has them too
            salts = self._file.read(_HEADER_BYTES + 8, 8)
        before = {struct.unpack(">2I", header[24:32]), self._sum(header[:24], (0, 0))}
        frames = []
        length = 0
        start = _HEADER_BYTES
        while start + _FRAME_HEADER_BYTES + self._page_bytes <= self._file.size:
            frame, before = self._frame(start, salts, before)
            frames.append(frame)
            if frame.is_whole or frame.pages:
                length = len(frames)
            start = frame.start + self._page_bytes
        return frames[:length]

    def _frame(
        self, start: int, salts: bytes, before: set[Checksum]
    ) -> tuple[Frame, set[Checksum]]:
        """Return a frame, and the checksums from which that of the next may go on."""
        header = self._file.read(start, _FRAME_HEADER_BYTES)
        page, pages = struct.unpack(">2I", header[:8])
        data = self._file.read(start + _FRAME_HEADER_BYTES, self._page_bytes)
        stored = struct.unpack(">2I", header[16:24])
        is_own = header[8:16] == salts
        found = {self._sum(header[:8] + data, each) for each in before} if is_own else set()
        is_whole = stored in found
        ends = pages if is_own else 0  # also where only its page is damaged
        frame = Frame(page, ends, start + _FRAME_HEADER_BYTES, is_whole)
        # Each damaged frame adds a sum to go on from: a file of such frames would never be read.
        return frame, {stored} if is_whole else {stored, *islice(found, _MOST_SUMS)}

    def _sum(self, data: bytes, before: Checksum) -> Checksum:
        first, second = before
        words = struct.unpack(f"{'>' if self._is_big else '<'}{len(data) // 4}I", data)
        step: Callable[[], Iterator[int]] = iter(words).__iter__
        for even, odd in zip(pairs := step(), pairs, strict=True):
            first = (first + even + second) & _MASK
            second = (second + odd + first) & _MASK
        return first, second
