"""The writer of `bus.jsonl`, which appends missing messages, in whole lines and in order.

The database is the truth and the file is derived. Lines are written first and the position after
them, so a crash leaves the file ahead of the position, or with a torn last line, and nothing else.
Opening the file mends both, from the file's own lines.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from ...schema.directory.file_lock import FileLock
from ...schema.errors import BusUnusable
from ...schema.process_table import boot_id
from ...schema.queries import Queries, Table
from ...schema.system_errors import unwritable
from .jsonl_file import JsonlFile, lines_of, stamp_of
from .parts import (
    STAGED,
    RotatedParts,
    exported_files,
    last_in_log,
    part_files,
    refuse_unknown,
    refuse_unread,
    split,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from .jsonl_file import Stamp

    #: The paths of all files, and what each of them was.
    Stamps = dict[str, Stamp | None]

# The state that all exporters of a bus share: the export position, and the limit of rotation.

_SQL = Queries(beside=__file__)

#: How many words of the mark change with the file, when somebody sets the position, or with a power
#: loss: the seq, the file's inode, size and time, and the boot. The file is not synced, so a power
#: loss may take any of its bytes and leave its stamp. Its checksum follows.
_STAMPED = 5

#: The place of the size among these words.
_SIZE = 2


class Position(Table):
    """The seq of the last message in `bus.jsonl`, as the database knows it."""

    def get(self) -> int:
        """Return the seq; 0 before the first export."""
        return self._engine.one_number(_SQL["position"], "export_state")

    def is_of(self, path: str) -> bool:
        """Whether a file is the exporter's own, unchanged since the last export."""
        stamp = stamp_of(path)
        return stamp is not None and self.is_stamped(stamp)

    def is_stamped(self, stamp: Stamp) -> bool:
        """Whether this is the stamp of the file as the exporter left it."""
        return self._mark()[:_STAMPED] == _mark_fields(self.get(), stamp)

    def crc(self) -> int | None:
        """Return the CRC-32 of the file as the exporter left it; None if unknown."""
        return crc_in_mark(self._mark())

    def size_and_crc(self) -> tuple[int, int] | None:
        """Return the size in bytes and the CRC-32 of the file as the exporter left it, if known."""
        mark = self._mark()
        crc = crc_in_mark(mark)
        if crc is None or mark[0] != str(self.get()) or not mark[_SIZE].isdecimal():
            return None
        return (int(mark[_SIZE]), crc) if len(mark[_SIZE]) < 16 else None

    def set(self, seq: int, stamp: Stamp, crc: int) -> None:
        """Store the seq and the identity of the file; only the running exporter calls it."""
        mark = " ".join([*_mark_fields(seq, stamp), str(crc)])
        with self._engine.write():
            self._engine.change(_SQL["advance"], (seq,))
            self._engine.change(_SQL["set_mark"], (mark,))

    def _mark(self) -> list[str]:
        mark = self._engine.value(_SQL["mark"])
        return mark.split(" ") if isinstance(mark, str) else [""]


def _mark_fields(seq: int, stamp: Stamp) -> list[str]:
    return [str(field) for field in (seq, *stamp, boot_id())]


def crc_in_mark(mark: list[str]) -> int | None:
    """Return the checksum of the file in the mark of an export."""
    has_one = len(mark) > _STAMPED and mark[_STAMPED].isdecimal() and len(mark[_STAMPED]) < 16
    return int(mark[_STAMPED]) if has_one else None


class Rotation(Table):
    """The size over which `bus.jsonl` is cut: an entry of the table `meta`."""

    def get(self) -> int:
        """Return the size in bytes; 0 when the file is never cut."""
        return int(self._engine.value(_SQL["rotation"]) or 0)

    def set(self, limit: int) -> None:
        """Store the size; the files must then be rewritten, under the same export lock."""
        self._engine.change(_SQL["set_rotation"], (str(limit),))


class Automatic(Table):
    """Whether commands export by themselves: an entry of the table `meta`."""

    def get(self) -> bool:
        """Return whether they do; a value that is not known counts as off."""
        return self._engine.value(_SQL["automatic"]) in (None, "on")

    def set(self, on: bool) -> None:
        """Store it; programs that run see it at their next export."""
        self._engine.change(_SQL["set_automatic"], ("on" if on else "off",))


#: The name of the lock file of the writer.
WRITING_LOCK = "jsonl.lock"

#: How many messages are written before the position is stored.
BATCH_MESSAGES = 1000

#: How many bytes of lines make a batch even when they are fewer messages.
BATCH_BYTES = 1024 * 1024


#: How long a writer waits for a landing that has the files aside, in seconds.
WAIT_S = 30.0


def writing_lock(directory: str) -> FileLock:
    """Return the lock that is held while the files are written; it is not taken yet.

    An exporter that follows the log has the export lock as long as it runs, and this lock only for
    each export: so a program may hold this lock while git replaces the files.

    Raises:
        BusUnusable: its file can't be opened.
    """
    return lock_on(os.path.join(directory, WRITING_LOCK))


def lock_on(path: str) -> FileLock:
    """Return a lock of the bus directory; it is not taken yet.

    Raises:
        BusUnusable: its file can't be opened.
    """
    try:
        return FileLock(path)
    except OSError as error:
        raise unwritable(path, error) from error


class Writer:
    """Brings the files up to the log. Only the holder of the export lock may use it.

    Attributes:
        wait_s: how long it waits for another program that has the files, in seconds.
    """

    wait_s = WAIT_S

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._path = bus.layout.jsonl
        self._position = Position.of(bus)
        self._file: JsonlFile | None = None
        self._lock = writing_lock(bus.layout.directory)
        self._limit = 0
        self._parts = RotatedParts(bus.layout.directory, 0)
        self._last_seq = 0

    def catch_up(self, progress: Callable[[int], object] | None = None) -> int:
        """Append the missing messages to the files, and return their number.

        Complete files are left untouched. A removed or replaced file is continued, or all are
        rewritten, if the log has all their messages.

        Raises:
            NotImported: a file that was replaced has lines that the log lacks.
            Refused: a foreign file is in the place of a part.
            BusUnusable: a file can't be written; the next call mends unfinished work.
            BusBusy: another program has the files for long.
        """
        with self._writing():
            return self._catch_up(progress)

    def _catch_up(self, progress: Callable[[int], object] | None) -> int:
        try:
            count = self._open(progress)
            for lines, last_seq in _batches(self._missing()):
                self._append(lines)
                self._last_seq = last_seq
                self._store_position()
                count += len(lines)
                if progress is not None:
                    progress(count)
        except BaseException as error:
            self.close()  # it may end in half a line; opening it again mends that
            if isinstance(error, OSError):
                raise unwritable(self._path, error) from error
            raise
        return count

    def _missing(self) -> Iterator[Message]:
        """Yield the messages that are to be appended now."""
        newest = self._bus.log.newest_seq()
        return self._bus.log.read(after_seq=self._last_seq, upto_seq=newest)

    def rebuild(self, progress: Callable[[int], object] | None = None) -> int:
        """Rewrite all files, if the log has all their messages, and return the number of lines.

        Raises:
            NotImported: it has not; the files are left alone.
            Refused: a foreign file is in the place of a part; all files are left alone, too.
            BusUnusable: they can't be written; the old files are as they were.
        """
        with self._writing():
            return self._rewrite(self._safe_to_replace(), progress)

    def rotate(self, limit: int, progress: Callable[[int], object] | None = None) -> int:
        """Store another limit of size, then rewrite all files as `rebuild` does."""
        with self._writing():
            safe = self._safe_to_replace()
            Rotation.of(self._bus).set(limit)
            return self._rewrite(safe, progress)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._lock.acquire(self.wait_s)
        try:
            yield
        finally:
            self._lock.release()

    def _rewrite(self, safe: Stamps, progress: Callable[[int], object] | None) -> int:
        """Write all files beside the old files, and replace those.

        That takes seconds, in which git may put others there, which are looked through first.

        Args:
            safe: the stamps of the old files that were looked through, by path.
            progress: is called with the seq up to which the log is written.
        """
        self.close()
        self._read_rotation()
        fresh = self._path + STAGED
        try:
            self._parts.remove_staged()
            staged, count = self._stage(fresh, progress)
            while self._stamps() != safe:
                self.close()
                self._parts.remove_staged()
                safe = self._safe_to_replace()
                staged, count = self._stage(fresh, progress)
            refuse_unread((path.removesuffix(STAGED) for path in staged), safe)
            self._parts.replace(staged, self._path, fresh)
        except BaseException as error:
            self.close()
            with suppress(OSError):  # the next writer does it
                self._parts.remove_staged()
            if isinstance(error, OSError):
                raise unwritable(self._path, error) from error
            raise
        self._store_position()
        return count

    def _stage(self, fresh: str, progress: Callable[[int], object] | None) -> tuple[list[str], int]:
        """Write the whole log into `fresh`, cut like the files that it will replace.

        Returns:
            The parts that were cut off it, and the number of messages of all files.
        """
        staged: list[str] = []
        count = self._last_seq = 0
        files = self._bus.layout.files
        self._file = file = JsonlFile(fresh)
        for lines, last_seq in _batches(self._bus.log.read()):
            first, *others = split(lines, file.size, self._limit)
            file.append(first)
            for piece in others:
                file.sync()
                self.close()
                staged.append(self._parts.path(len(staged) + 1) + STAGED)
                files.rename(os.path.basename(fresh), os.path.basename(staged[-1]))
                self._file = file = JsonlFile(fresh)
                file.append(piece)
            self._last_seq = last_seq
            count += len(lines)
            if progress is not None:
                progress(count)
        file.sync()
        return staged, count

    def end(self) -> None:
        """Close the file and the lock: nothing more is written."""
        self.close()
        self._lock.close()

    def close(self) -> None:
        """Close the file; more than once does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _append(self, lines: list[bytes]) -> None:
        """Write lines, and cut the file where they would make it too large."""
        assert self._file is not None
        first, *others = split(lines, self._file.size, self._limit)
        self._file.append(first)
        for piece in others:
            self._file.sync()  # the index promises its checksum
            if stamp_of(self._path) != self._file.stamp:  # a part must have been checked
                raise BusUnusable(f"{self._path} was changed meanwhile; export again")
            refuse_unread([self._parts.next_path])
            self.close()
            self._parts.cut(self._path)
            self._file = JsonlFile(self._path)
            self._file.append(piece)

    def _go_on(self) -> None:
        """Go on behind the last export, in the file that has just been opened.

        Raises:
            BusUnusable: it is another than the one that was looked at; the next export judges it.
        """
        assert self._file is not None
        if not self._position.is_stamped(self._file.stamp):
            raise BusUnusable(f"{self._path} was changed meanwhile; export again")
        self._file.go_on_from(self._position.crc())
        self._last_seq = self._position.get()

    def _open(self, progress: Callable[[int], object] | None) -> int:
        """Open the file at the end of its last whole line.

        Returns:
            The number of messages that had to be rewritten before.
        """
        as_left = self._position.is_of(self._path)
        if self._file is not None and as_left:
            return 0
        self.close()
        self._read_rotation()
        self._parts.remove_staged()
        if self._parts.are_whole(after_crash=not as_left):
            self._file = JsonlFile(self._path)
            if as_left:
                self._go_on()
                return 0
            resumed = self._resumed()
            if resumed is not None:
                self._last_seq, torn = resumed
                self._file.shorten(torn)
                self._store_position()
                return 0
        return self._rewrite(self._safe_to_replace(), progress)

    def _store_position(self) -> None:
        assert self._file is not None
        self._position.set(self._last_seq, self._file.stamp, self._file.crc)

    def _resumed(self) -> tuple[int, int] | None:
        """Return where the files end in the log, as `last_in_log` does."""
        return last_in_log(self._bus, self._lines())

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of all files; the open file is read from its descriptor."""
        assert self._file is not None
        for path in part_files(self._path):
            yield from lines_of(path)
        yield from self._file.lines()

    def _safe_to_replace(self) -> Stamps:
        """Return the stamps of the files, none of which has a message that the log lacks.

        Files that are as the exporter left them are not read for that.

        Raises:
            NotImported: one has such a message, which would be lost.
        """
        self._read_rotation()
        stamps = self._stamps()
        if not (self._position.is_of(self._path) and self._parts.are_whole()):
            refuse_unknown(self._bus)
        return stamps

    def _stamps(self) -> Stamps:
        return {path: stamp_of(path) for path in exported_files(self._path)}

    def _read_rotation(self) -> None:
        self._limit = Rotation.of(self._bus).get()
        self._parts = RotatedParts(self._bus.layout.directory, self._limit)


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
