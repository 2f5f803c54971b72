"""The pages of a database: those in the file, under what the write-ahead log has of them."""

from __future__ import annotations

from functools import lru_cache

from .page_form import form_of
from .raw_file import RawFile
from .wal import WriteAheadLog

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
        """Return a page; nothing of one that is not there."""
        if number in self._newest:
            return self.log.page(self._newest[number][1])[: self._usable]
        if number < 1:
            return b""
        return self._file.read((number - 1) * self.page_bytes, self._usable)

    def age(self, number: int) -> int:
        """Return how late a page was written: the later, the greater."""
        return self._newest[number][0] if number in self._newest else 0

    def entry(self, number: int) -> tuple[int, int] | None:
        """Return what the map says of a page, and which page is above it; None without a map."""
        if not self._has_map or number < 3:
            return None
        of_map = (number - 2) // (self._per_map + 1) * (self._per_map + 1) + 2
        if of_map == self._locked_page():
            of_map += 1
        start = 5 * (number - of_map - 1)
        data = self._map(of_map)[start : start + 5] if start >= 0 else b""
        return (data[0], int.from_bytes(data[1:])) if len(data) == 5 else None

    def free(self) -> set[int]:
        """Return the pages that hold nothing, by the list of them."""
        found: set[int] = set()
        trunk = int.from_bytes(self.read(1)[32:36])
        while trunk and trunk <= self.count and trunk not in found:
            found.add(trunk)
            data = self.read(trunk)
            leaves = min(int.from_bytes(data[4:8]), len(data) // 4 - 2)
            found.update(int.from_bytes(data[8 + 4 * n : 12 + 4 * n]) for n in range(leaves))
            trunk = int.from_bytes(data[:4])
        return found

    def close(self) -> None:
        """Give the files back."""
        self._file.close()
        self._log_file.close()

    def _locked_page(self) -> int:
        return _LOCKED_BYTE // self.page_bytes + 1
