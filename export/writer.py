"""Writing `bus.jsonl`: what is lacking is appended, in whole lines and in order.

The database is the truth and the file is derived. Lines are written first and the position after
them, so a crash leaves the file ahead of the position, or with a torn last line, and nothing
else. Opening the file mends both, from what the file itself says.
"""

from __future__ import annotations

import os

from ..schema import BusUnusable, Refused
from .jsonl_file import JsonlFile
from .position import Position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..bus import Bus
    from ..schema import Message

#: How many messages are written in one go, before the position is stored.
BATCH_MESSAGES = 1000

#: How many bytes of lines make a batch even when they are fewer messages.
BATCH_BYTES = 1024 * 1024


class Writer:
    """Brings the file up to the log. Only the holder of the export lock may have one."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._path = bus.layout.jsonl
        self._position = Position(bus.database)
        self._file: JsonlFile | None = None
        self._last_seq = 0

    def catch_up(self, progress: Callable[[int], object] | None = None) -> int:
        """Append what the file lacks, and return how many messages that were.

        A file that has everything is left untouched. One that was removed or replaced is written
        again, or gone on with.

        Raises:
            Refused: the file's last line is not from this bus.
            BusUnusable: the file can't be written; the next call mends what was left half done.
        """
        count = 0
        try:
            file = self._open()
            newest = self._bus.log.newest_seq()
            messages = self._bus.log.read(after_seq=self._last_seq, upto_seq=newest)
            for lines, last_seq in _batches(messages):
                file.append(lines)
                self._position.set(last_seq)
                self._last_seq = last_seq
                count += len(lines)
                if progress is not None:
                    progress(count)
        except BaseException as error:
            self.close()  # it may end in half a line; opening it again mends that
            if isinstance(error, OSError):
                raise unwritable(self._path, error) from error
            raise
        return count

    def rebuild(self, progress: Callable[[int], object] | None = None) -> int:
        """Write the whole file anew beside the old one, put it in its place, and count its lines.

        Raises:
            BusUnusable: it can't be written; the old one is as it was.
        """
        self.close()
        fresh = self._path + ".new"
        count = last_seq = 0
        try:
            if os.path.exists(fresh):  # of a rebuild that was killed
                os.unlink(fresh)
            file = JsonlFile(fresh)
            try:
                for lines, last_seq in _batches(self._bus.log.read()):  # noqa: B007 - used after
                    file.append(lines)
                    count += len(lines)
                    if progress is not None:
                        progress(count)
                file.sync()
            finally:
                file.close()
            os.replace(fresh, self._path)
        except OSError as error:
            raise unwritable(self._path, error) from error
        self._position.set(last_seq)
        return count

    def close(self) -> None:
        """Give the file back; more than once does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self) -> JsonlFile:
        """Return the file, open at the end of its last whole line."""
        if self._file is not None and not self._file.is_in_place():
            self.close()
        if self._file is None:
            self._file = JsonlFile(self._path)
            self._last_seq = self._resume(self._file)
        return self._file

    def _resume(self, file: JsonlFile) -> int:
        """Return the seq of the file's last line, which the position then says too."""
        last = file.mend()
        seq = 0
        if last is not None:
            seq, id = last
            message = self._bus.log.at(seq)
            if message is None or message.id != id:
                raise Refused(
                    f"{self._path} ends with message {seq} ({id}), which is not in this bus;"
                    " 'bus import' brings its lines in, 'bus export --rebuild' writes it anew"
                )
        if self._position.get() != seq:
            self._position.set(seq)
        return seq


def _batches(messages: Iterable[Message]) -> Iterator[tuple[list[bytes], int]]:
    """Yield lists of lines of a bounded size, each with the seq of its last."""
    lines: list[bytes] = []
    size = last_seq = 0
    for message in messages:
        line = message.to_line()
        lines.append(line)
        size += len(line)
        last_seq = message.seq
        if len(lines) >= BATCH_MESSAGES or size >= BATCH_BYTES:
            yield lines, last_seq
            lines, size = [], 0
    if lines:
        yield lines, last_seq


def unwritable(path: str, error: OSError) -> BusUnusable:
    """Return the error for an export file that the system refuses to write."""
    return BusUnusable(f"{path} can't be written: {error.strerror}")
