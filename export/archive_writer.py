"""The archiver, which moves the beginning of the log into compressed files, without loss.

A segment is written beside its place, synced and renamed; then it is noted in the bus; then its
messages leave the log, some at a time. A process that dies on the way leaves a file that is not in
the bus, which the next run replaces, or messages that are in both, which the next run removes.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from itertools import takewhile

from ..bus.errors import SegmentMissing
from ..bus.log.archive_reader import FRAME_BYTES, FRAME_LINES, segment_name
from ..bus.log.catalog import Catalog
from ..bus.log.records import ArchiveFrame, Discarded, Segment
from ..bus.maintenance import Maintenance
from ..bus.search.search import Search
from ..schema.callbacks import check_progress
from ..schema.directory.file_lock import FileLock
from ..schema.directory.ignoring import keep_out_of_git
from ..schema.errors import BusUnusable, Refused
from ..schema.message.draft import Draft
from ..schema.paging import further
from ..schema.queries import engine_of
from ..schema.system_errors import unwritable
from .jsonl.writer import Position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message

#: How many messages a segment has at the most.
SEGMENT_MESSAGES = 100_000

#: The ending of the name of a segment while it is written.
STAGED = ".new"

#: How hard zstd tries: twice as hard takes a third longer for all, and saves 4 per cent.
_LEVEL = 3


class ArchiverRunning(Refused):
    """Another process is archiving this bus."""


class Archiver:
    """Moves messages into the archive: `with Archiver(bus) as archiver: …`.

    Only one works on a bus at a time; find out within the block which messages may be moved.

    Raises:
        ArchiverRunning: another process is archiving.
        Refused: it is a backup.
        BusUnusable: the lock can't be had.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._archive = bus.archive
        self._lock: FileLock | None = None
        engine_of(bus).require_writable()  # a segment is written before the bus knows it

    def __enter__(self) -> Archiver:
        self._lock = self._locked()
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def archive(
        self, upto_seq: int, *, on_progress: Callable[[int], object] | None = None
    ) -> list[Segment]:
        """Move the messages up to a seq, which all their readers have had.

        Safe to repeat after a crash, and while publishers and readers work: each step that they
        wait for takes a few tens of milliseconds at most.

        Args:
            upto_seq: the last message to move; the newest message of the log stays.
            on_progress: called now and then with the last moved seq.

        Returns:
            The segments that were made; none when there was nothing to move.

        Raises:
            BusUnusable: a segment can't be written; what moved before stays moved.
        """
        check_progress(on_progress)
        assert self._lock is not None, "an archiver works within its block"
        self._remove(on_progress)  # of a run that died
        newest = self._bus.log.newest_seq()
        Catalog.of(self._bus).catch_up(newest)  # what has left the log it could not count
        segments = []
        for segment, frames in self._segments(min(upto_seq, newest - 1)):
            self._archive.add(segment, frames)
            segments.append(segment)
            self._remove(on_progress)
        return segments

    def _segments(self, upto_seq: int) -> Iterator[tuple[Segment, list[ArchiveFrame]]]:
        """Write segments one after the other, and yield them with their frames."""
        while (after := self._archive.upto()) < upto_seq:
            last = self._bus.log.last_of(after, SEGMENT_MESSAGES, upto_seq)
            if last is None:
                return
            yield self._write(after, last)
            further("segments of the archive", after, self._archive.upto())

    def _write(self, after: int, last: int) -> tuple[Segment, list[ArchiveFrame]]:
        first = after + 1
        layout = self._bus.layout
        folder = layout.archive_folder
        name = segment_name(first)
        try:
            keep_out_of_git(layout, "archive/")
            folder.make()
            layout.files.sync()  # else the folder itself may be lost
            with folder.new(name + STAGED) as file:
                messages = self._bus.log.read(after_seq=after, upto_seq=last)
                frames, count = write_frames(file, messages, first)
                file.flush()
                os.fsync(file.fileno())
                file.seek(0)
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
            folder.rename(name + STAGED, name)
            folder.sync()
        except OSError as error:
            with suppress(OSError):
                folder.remove(name + STAGED)
            raise unwritable(folder.path_of(name), error) from error
        segment = Segment(first, last, count, size, digest, self._bus.now_ms())
        return segment, frames

    def _remove(self, on_progress: Callable[[int], object] | None) -> None:
        while self._archive.remove_next() is not None:
            if on_progress is not None:
                on_progress(self._archive.upto())

    def _locked(self) -> FileLock:
        path = self._bus.layout.archive_lock
        try:
            lock = FileLock(path)
        except OSError as error:
            raise BusUnusable(f"{path} can't be opened: {error.strerror}") from error
        if not lock.try_acquire():
            lock.close()
            raise ArchiverRunning(
                f"another process is archiving the bus in {self._bus.layout.directory}"
            )
        return lock


def write_frames(
    file: BinaryIO, messages: Iterable[Message], segment: int
) -> tuple[list[ArchiveFrame], int]:
    """Write lines, and return the places of the frames, and the number of lines."""
    import zstandard

    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    frames: list[ArchiveFrame] = []
    start = count = 0
    for first_seq, lines in _runs(messages):
        data = compressor.compress(b"".join(b"%b\n" % line for line in lines))
        file.write(data)
        frames.append(ArchiveFrame(first_seq if frames else segment, segment, start, len(data)))
        start += len(data)
        count += len(lines)
    return frames, count


def _runs(messages: Iterable[Message]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield lists of lines of a bounded size, each with the seq of its first."""
    lines: list[bytes] = []
    size = first_seq = 0
    for message in messages:
        if not lines:
            first_seq = message.seq
        lines.append(message.to_line())
        size += len(lines[-1])
        if len(lines) >= FRAME_LINES or size >= FRAME_BYTES:
            yield first_seq, lines
            lines, size = [], 0
    if lines:
        yield first_seq, lines


# Discarding: the beginning of the archive is deleted for good, and the range stays on record.
#
# The bus records it first, with a message; then the files are deleted. A process that dies in
# between leaves files that `Archive.discarded_files` names, which the next archiver deletes.

#: The type of that message, and its sender.
DISCARDED, _ARCHIVER = "bus.discarded", "bus-archive"

#: A part of each line that names a blob.
_HAS_BLOB = b'"payload_ref":"'


def segments_upto(bus: LocalBus, upto_seq: int) -> list[Segment]:
    """Return the segments, from the first on, all of whose messages are up to a seq.

    Raises:
        Refused: `bus.jsonl` does not have all of their messages yet.
    """
    last = min(upto_seq, bus.archive.upto())
    segments = list(takewhile(lambda segment: segment.last_seq <= last, bus.archive.segments()))
    exported = Position.of(bus).get()  # 0: this bus is not exported
    if segments and 0 < exported < segments[-1].last_seq:
        raise Refused(
            f"bus.jsonl has the log only up to {exported}, and what is discarded can't be exported:"
            " run 'bus export' first"
        )
    return segments


def discard(bus: LocalBus, segments: Sequence[Segment]) -> Discarded:
    """Delete segments for good, within the block of an `Archiver`.

    Their ids stay taken. The blobs that only they name are collected later, as others are; the
    search index is made again by the next search.

    Args:
        bus: an open bus.
        segments: one or more of `segments_upto`, from the first on.
    """
    first, last = segments[0].first_seq, segments[-1].last_seq
    at_ms = bus.now_ms()
    discarded = Discarded(first, last, sum(segment.messages for segment in segments), at_ms)
    payload = {"first_seq": first, "last_seq": last, "messages": discarded.messages}
    refs = _blobs_of_none_but(bus, first, last)
    # Else a power loss could take the note of it, and leave no files.
    with Maintenance(bus).synced_commits(), bus.transaction():
        bus.archive.discard(segments, refs, at_ms)
        bus.log.append([Draft(DISCARDED, payload, from_agent=_ARCHIVER)])
    finish(bus)
    return discarded


def finish(bus: LocalBus) -> None:
    """Delete the words and the files of what is discarded, also of a process that died."""
    if not bus.archive.discarded_files():
        return
    if bus.layout.files.look("search.db") is not None:
        Search(bus).clear()
    bus.archive.delete_discarded()


def _blobs_of_none_but(bus: LocalBus, first_seq: int, last_seq: int) -> set[str]:
    """Return the blobs that only archived messages of a range name."""
    try:
        refs = _blobs(bus, first_seq - 1, last_seq)
    except SegmentMissing:  # the names in it are lost
        return set()
    if not refs:
        return refs
    try:
        return refs - _blobs(bus, last_seq, bus.archive.upto())
    except SegmentMissing:
        return set()


def _blobs(bus: LocalBus, after_seq: int, upto_seq: int) -> set[str]:
    messages = bus.archive.read(after_seq, upto_seq, _HAS_BLOB)
    return {message.payload_ref for message in messages if message.payload_ref is not None}
