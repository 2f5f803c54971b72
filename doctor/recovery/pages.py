"""The pages of a database: those in the file, under what the write-ahead log has of them."""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import apsw

from ...schema.directory.folder import locate
from .records import KINDS, Damaged, end_of_content, page_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Checksum = tuple[int, int]

# Bytes of a database file or its write-ahead log, read through SQLite's own layer for files.
#
# An ordinary `open` of them could cost this process its locks, and others the file; SQLite's
# layer knows of its other handles. What is read so was not checked by anybody.

#: Every file is opened as a database, for which SQLite's layer counts locks by file. For a log it
#: would want the database too, which may be missing.
_FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB


class RawFile:
    """A file that may be missing: then it is empty.

    Args:
        path: where it is.
    """

    def __init__(self, path: str) -> None:
        self._file: apsw.VFSFile | None = None
        self.size = 0
        folder, name = locate(path)
        if folder.has(name):
            self._file = apsw.VFSFile("", os.path.abspath(path), [_FLAGS, 0])
            self.size = self._file.xFileSize()

    def read(self, start: int, count: int) -> bytes:
        """Return bytes; fewer where the file ends, or the disk fails."""
        if self._file is None or start >= self.size:
            return b""
        try:
            return self._file.xRead(count, start)
        except apsw.IOError:  # this part of the disk is lost; what follows may not be
            return b""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.xClose()
            self._file = None


# The size of a file's pages, and the number of bytes of each that SQLite uses.

#: All sizes that a page can have.
SIZES = tuple(512 << n for n in range(8))

#: How large the pages of a bus are, unless the file says otherwise.
_PAGE_BYTES = 4096

#: SQLite uses at least so much of a page.
_MIN_USABLE = 480

#: How many pages are tried for a form, and the part of them that is enough for that of the header.
_TRIED, _ENOUGH = 64, 0.5


@dataclass(frozen=True, slots=True)
class PageFormat:
    """The format of the pages of a file.

    Attributes:
        page_bytes: how large each is.
        usable: how much of it SQLite uses: the rest, at its end, is reserved.
    """

    page_bytes: int
    usable: int


def form_of(file: RawFile, log: RawFile) -> PageFormat:
    """Return the page format of the header, unless the pages themselves contradict it.

    A damaged header may give any format. In a page that is read in its true format, the stored
    content ends exactly at the end of the usable part.
    """
    first, *others = _candidates(file, log)
    fit = _share_that_fits(file, first)
    if fit >= _ENOUGH:
        return first
    fits = {first: fit} | {form: _share_that_fits(file, form) for form in others if form != first}
    return max(fits, key=fits.__getitem__)  # the first of those that fit as well


def _candidates(file: RawFile, log: RawFile) -> Iterator[PageFormat]:
    header, start_of_log = file.read(0, 100), log.read(0, 12)
    reserved = header[20] if len(header) > 20 else 0
    sizes = []
    if len(header) >= 18:
        stored_size = int.from_bytes(header[16:18])
        sizes.append(65536 if stored_size == 1 else stored_size)
    if len(start_of_log) == 12:
        sizes.append(struct.unpack(">I", start_of_log[8:])[0])
    for size in dict.fromkeys([*sizes, _PAGE_BYTES, *SIZES]):
        if size in SIZES:
            if size - reserved >= _MIN_USABLE:
                yield PageFormat(size, size - reserved)
            yield PageFormat(size, size)


def _share_that_fits(file: RawFile, form: PageFormat) -> float:
    """Return the share of pages that look like pages of a tree and make sense in this format."""
    looked_at = fitting = 0
    size = form.page_bytes
    for start in range(size, min(file.size, _TRIED * size), size):
        data = file.read(start, form.usable)
        if data[:1] in _FIRST_BYTES:
            looked_at += 1
            fitting += _ends_as_it_should(data)
    return fitting / looked_at if looked_at else 0.0


def _ends_as_it_should(data: bytes) -> bool:
    try:
        return end_of_content(page_of(2, data)) == len(data)
    except Damaged:
        return False


_FIRST_BYTES = {bytes([kind]) for kind in KINDS}

# The frames of a write-ahead log, each looked at by itself: https://sqlite.org/walformat.html.
#
# SQLite reads a log up to the first frame that is not whole, and whatever was committed behind it
# is gone. Here a frame is whole when its own checksum, which goes on from the one before, is
# right: so what is behind the damage is told apart from what is damaged.

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24

#: From how many checksums a frame behind damaged ones may go on, besides the one that it stores.
_MOST_SUMS = 3

#: Behind how many damaged frames in a row nothing is looked for (256 MiB of pages of 4 KiB): a file
#: that is nearly empty on the disk may say that it has a TiB.
_MOST_DAMAGED = 65_536

#: The first bytes of a log; the last bit says in which order of bytes its checksums are made.
_MAGIC, _BIG_ENDIAN = 0x377F0682, 1

_MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class WalFrame:
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
        self.frames: list[WalFrame] = [] if self.is_empty else self._read(header)

    def committed(self, *, whole: bool) -> list[WalFrame]:
        """Return the frames of transactions that ended, without those that are damaged.

        Args:
            whole: include those behind the first damaged frame.
        """
        frames = self.frames if whole else self.frames[: self.break_at]
        last = max((n for n, frame in enumerate(frames) if frame.pages), default=-1)
        return [frame for frame in frames[: last + 1] if frame.is_whole]

    def has_begun_anew(self) -> bool:
        """Whether writers restarted the log while it was read."""
        return self._file.read(0, _HEADER_BYTES) != self._header

    @property
    def break_at(self) -> int:
        """The number of frames that SQLite can read: those before the first damaged one."""
        return next(
            (n for n, frame in enumerate(self.frames) if not frame.is_whole), len(self.frames)
        )

    def damaged(self) -> int:
        """Return the number of damaged frames of committed transactions."""
        last = max((n for n, frame in enumerate(self.frames) if frame.pages), default=-1)
        return sum(not frame.is_whole for frame in self.frames[: last + 1])

    def page(self, frame: WalFrame) -> bytes:
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

    def _read(self, header: bytes) -> list[WalFrame]:
        salts = header[16:24]
        if not self.is_header_whole:  # the first frame has them too
            salts = self._file.read(_HEADER_BYTES + 8, 8)
        before = {struct.unpack(">2I", header[24:32]), self._sum(header[:24], (0, 0))}
        frames: list[WalFrame] = []
        length = 0
        start = _HEADER_BYTES
        step = _FRAME_HEADER_BYTES + self._page_bytes
        while start + step <= self._file.size and len(frames) - length < _MOST_DAMAGED:
            frame, before = self._frame(start, salts, before)
            frames.append(frame)
            if frame.is_whole or frame.pages:
                length = len(frames)
            start = frame.start + self._page_bytes
        return frames[:length]

    def _frame(
        self, start: int, salts: bytes, before: set[Checksum]
    ) -> tuple[WalFrame, set[Checksum]]:
        """Return a frame, and the checksums that the next frame may continue from."""
        header = self._file.read(start, _FRAME_HEADER_BYTES)
        page, pages = struct.unpack(">2I", header[:8])
        data = self._file.read(start + _FRAME_HEADER_BYTES, self._page_bytes)
        stored = struct.unpack(">2I", header[16:24])
        is_own = page > 0 and header[8:16] == salts
        sums = {self._sum(header[:8] + data, checksum) for checksum in before} if is_own else set()
        is_whole = stored in sums
        ends = pages if is_own else 0  # also where only its page is damaged
        frame = WalFrame(page, ends, start + _FRAME_HEADER_BYTES, is_whole)
        # Each damaged frame adds a sum to go on from: a file of such frames would never be read.
        return frame, {stored} if is_whole else {stored, *islice(sums, _MOST_SUMS)}

    def _sum(self, data: bytes, before: Checksum) -> Checksum:
        first, second = before
        words = struct.unpack(f"{'>' if self._is_big else '<'}{len(data) // 4}I", data)
        step: Callable[[], Iterator[int]] = iter(words).__iter__
        for even, odd in zip(pairs := step(), pairs, strict=True):
            first = (first + even + second) & _MASK
            second = (second + odd + first) & _MASK
        return first, second


#: The kinds of a page in the pointer map of an auto-vacuum file.
ROOT, FREE, OVERFLOW, MORE_OVERFLOW, BELOW = 1, 2, 3, 4, 5

#: SQLite locks bytes in this page of the file, and stores nothing in it.
_LOCKED_BYTE = 0x40000000


class Pages:
    """All pages of a database by their number, from 1.

    Args:
        database, log: the files.
        whole_log: go on behind what is damaged in the log, where SQLite stops.

    Attributes:
        count: how many there are.
        page_bytes: how large each is; what is reserved at its end is not read.
        log: the write-ahead log.
    """

    def __init__(self, database: str, log: str, *, whole_log: bool = True) -> None:
        self._file = RawFile(database)
        self._log_file = RawFile(log)
        form = form_of(self._file, self._log_file)
        self.page_bytes, self._usable = form.page_bytes, form.usable
        self.log = WriteAheadLog(self._log_file, self.page_bytes)
        self._newest = {}
        count = self._file.size // self.page_bytes
        for number, frame in enumerate(self.log.committed(whole=whole_log), 1):
            self._newest[frame.page] = (number, frame)
            count = frame.pages or max(count, frame.page)
        self.count = max([count, *self._newest])
        self._per_map = self._usable // 5
        self._has_map = self.read(2)[:5] == b"\x01\0\0\0\0"  # page 3 is a root, and no tree is so
        self._map = lru_cache(maxsize=64)(self.read)

    def read(self, number: int) -> bytes:
        """Return the page, or b"" if it does not exist."""
        if number in self._newest:
            return self.log.page(self._newest[number][1])[: self._usable]
        if number < 1:
            return b""
        return self._file.read((number - 1) * self.page_bytes, self._usable)

    def age(self, number: int) -> int:
        """Return a number that is greater for a page that was written later."""
        return self._newest[number][0] if number in self._newest else 0

    def entry(self, number: int) -> tuple[int, int] | None:
        """Return the kind and the parent of a page by the pointer map; None without a map."""
        if not self._has_map or number < 3:
            return None
        of_map = (number - 2) // (self._per_map + 1) * (self._per_map + 1) + 2
        if of_map == self._locked_page():
            of_map += 1
        start = 5 * (number - of_map - 1)
        data = self._map(of_map)[start : start + 5] if start >= 0 else b""
        return (data[0], int.from_bytes(data[1:])) if len(data) == 5 else None

    def free(self) -> set[int]:
        """Return the numbers of the pages on the freelist."""
        numbers: set[int] = set()
        trunk = int.from_bytes(self.read(1)[32:36])
        while trunk and trunk <= self.count and trunk not in numbers:
            numbers.add(trunk)
            data = self.read(trunk)
            leaves = min(int.from_bytes(data[4:8]), len(data) // 4 - 2)
            numbers.update(int.from_bytes(data[8 + 4 * n : 12 + 4 * n]) for n in range(leaves))
            trunk = int.from_bytes(data[:4])
        return numbers

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._log_file.close()

    def _locked_page(self) -> int:
        return _LOCKED_BYTE // self.page_bytes + 1
