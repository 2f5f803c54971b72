"""The file `bus.jsonl`: appended in whole lines, and mended after a crash."""

from __future__ import annotations

import os
from zlib import crc32

from ...bus.log.archive_reader import MAX_LINE_BYTES
from ...schema.directory.folder import Obstructed, locate
from ...schema.errors import BusUnusable, Refused
from ...schema.message import lazy_orjson as orjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import BufferedReader

    #: The stamp of a file, which changes when it is replaced or written: inode, size in bytes,
    #: time of the last change in epoch nanoseconds.
    Stamp = tuple[int, int, int]

#: How much of the file's end is read at a time in search of its last line, in bytes.
_STEP_BYTES = 64 * 1024


def stamp_of(path: str) -> Stamp | None:
    """Return the present stamp of a path; None when there is no file."""
    folder, name = locate(path)
    there = folder.look(name)
    return None if there is None else (there.st_ino, there.st_size, there.st_mtime_ns)


def open_exported(path: str) -> BufferedReader:
    """Open a file of the bus directory for reading.

    Raises:
        FileNotFoundError: there is none.
        BusUnusable: it can't be read, or is no ordinary file.
    """
    folder, name = locate(path)
    try:
        return folder.read(name)
    except (FileNotFoundError, Obstructed):
        raise
    except OSError as error:
        raise BusUnusable(f"{path} can't be read: {error.strerror}") from error


def lines_of(path: str) -> Iterator[bytes]:
    """Yield the lines of an exported file with their newlines; a torn last line has none.

    Raises:
        Refused: a line is longer than a bus writes them.
        OSError: it can't be read.
    """
    with open_exported(path) as stream:
        yield from _lines(stream, path)


def _lines(stream: BufferedReader, path: str) -> Iterator[bytes]:
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES:
            raise Refused(f"line {number} of {path} is longer than any line of a bus; move it away")
        yield line


def crc_of(pieces: Iterable[bytes]) -> int:
    """Return the CRC-32 of bytes that come in pieces."""
    crc = 0
    for piece in pieces:
        crc = crc32(piece, crc)
    return crc


class JsonlFile:
    """`bus.jsonl`, open for appending. Only the holder of the export lock may open it so.

    Its size is the size at its opening plus the bytes written here since: bytes that another
    program adds don't count, so that the file's stamp then differs from `stamp`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        folder, name = locate(path)
        self._fd = folder.change(name, os.O_APPEND)
        self._size = os.fstat(self._fd).st_size
        self._crc: int | None = None if self._size else 0

    def append(self, lines: Iterable[bytes]) -> None:
        """Write lines, each with its newline, in one call as far as the system lets us."""
        data = memoryview(b"".join(b"%b\n" % line for line in lines))
        while data:
            written = os.write(self._fd, data)
            self._size += written
            if self._crc is not None:
                self._crc = crc32(data[:written], self._crc)
            data = data[written:]

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """Yield all lines from an offset on, with their newlines; a torn last line has none."""
        with os.fdopen(self._fd, "rb", closefd=False) as stream:
            stream.seek(start)
            yield from _lines(stream, self._path)

    def shorten(self, count: int) -> None:
        """Cut bytes off the end."""
        if count:
            os.ftruncate(self._fd, self._size - count)
            self._size -= count
            self._crc = None

    def first_seq(self) -> int:
        """Return the seq of the first line.

        Raises:
            Refused: it is no whole line of a bus.
        """
        return _seq(next(self.lines(), b""), f"the first line of {self._path}")

    def last_seq(self) -> int:
        """Return the seq of the last line; otherwise as `first_seq`."""
        start = self._line_end(self._size - 1)
        line = os.pread(self._fd, self._size - start, start)
        return _seq(line, f"the last line of {self._path}")

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self._size

    @property
    def crc(self) -> int:
        """The CRC-32 of its bytes, which detects damage."""
        if self._crc is None:
            self._crc = crc_of(self.lines())
        return self._crc

    def crc_upto(self, size: int) -> int:
        """Return the CRC-32 of the first bytes, so many."""
        steps = range(0, size, _STEP_BYTES)
        return crc_of(os.pread(self._fd, min(_STEP_BYTES, size - at), at) for at in steps)

    def go_on_from(self, crc: int | None) -> None:
        """Set the known CRC-32 of an unchanged file, so that it need not be read."""
        self._crc = crc

    @property
    def stamp(self) -> Stamp:
        """The stamp of the file as written here, also when another file has its name by now."""
        there = os.fstat(self._fd)
        return there.st_ino, self._size, there.st_mtime_ns

    def sync(self) -> None:
        """Wait until the written bytes are on the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file descriptor."""
        os.close(self._fd)

    def _line_end(self, before: int) -> int:
        """Return the end of the last line that ends before an offset; 0 when there is none."""
        least = max(0, before - MAX_LINE_BYTES)
        while before > least:
            start = max(least, before - _STEP_BYTES)
            offset = os.pread(self._fd, before - start, start).rfind(b"\n")
            if offset >= 0:
                return start + offset + 1
            before = start
        return least


def _seq(line: bytes, name: str) -> int:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        fields = None
    seq = fields.get("seq") if isinstance(fields, dict) else None
    if isinstance(seq, int) and line.endswith(b"\n"):
        return seq
    raise Refused(f"{name} was not written by a bus")
