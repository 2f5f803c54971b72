"""The file `bus.jsonl`: appended in whole lines, and mended after a crash."""

from __future__ import annotations

import os

import orjson

from ..schema import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How much of the file's end is read at a time in search of its last line, in bytes.
_STEP_BYTES = 64 * 1024


class JsonlFile:
    """`bus.jsonl`, open for appending. Only the holder of the export lock may have one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, lines: Iterable[bytes]) -> None:
        """Write lines, each with its newline, in one call as far as the system lets us."""
        data = memoryview(b"".join(b"%b\n" % line for line in lines))
        while data:
            data = data[os.write(self._fd, data) :]

    def mend(self) -> tuple[int, str] | None:
        """Cut off a torn last line, and return the seq and id of the last whole one.

        Returns:
            None for an empty file.

        Raises:
            Refused: the last line is no line of a bus.
        """
        size = self.size
        end = self._line_end(size)
        if end < size:
            os.ftruncate(self._fd, end)
        if end == 0:
            return None
        start = self._line_end(end - 1)
        return _identity(os.pread(self._fd, end - start, start), self._path, "last")

    def lines(self) -> Iterator[bytes]:
        """Yield all lines from the first on, with their newlines; a torn last one has none."""
        with open(self._fd, "rb", closefd=False) as stream:
            stream.seek(0)
            yield from stream

    def shorten(self, count: int) -> None:
        """Cut bytes off the end."""
        if count:
            os.ftruncate(self._fd, self.size - count)

    def first(self) -> tuple[int, str] | None:
        """Return the seq and id of the first line; None when there is no whole line.

        Raises:
            Refused: it is no line of a bus.
        """
        with open(self._fd, "rb", closefd=False) as stream:
            stream.seek(0)
            line = stream.readline()
        return _identity(line, self._path, "first") if line.endswith(b"\n") else None

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return os.fstat(self._fd).st_size

    def stat(self) -> os.stat_result:
        """Return what the system knows of it, also when another file has its name by now."""
        return os.fstat(self._fd)

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Give the file descriptor back."""
        os.close(self._fd)

    def _line_end(self, before: int) -> int:
        """Return where the last line that ends before an offset ends; 0 when there is none."""
        while before > 0:
            start = max(0, before - _STEP_BYTES)
            found = os.pread(self._fd, before - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            before = start
        return 0


def _identity(line: bytes, path: str, which: str) -> tuple[int, str]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        fields = None
    if isinstance(fields, dict):
        seq, id = fields.get("seq"), fields.get("id")
        if isinstance(seq, int) and isinstance(id, str):
            return seq, id
    raise Refused(f"the {which} line of {path} was not written by a bus")
