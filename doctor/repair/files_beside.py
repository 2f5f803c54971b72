"""The repair of the files beside the bus file: blobs, export, index, archive."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from ...blobs.store import BlobStore
from ...bus.local_bus import LocalBus
from ...bus.log.archive_reader import PIECE_BYTES, lines_of_frame, segment_name
from ...bus.log.records import ArchiveFrame, Segment
from ...bus.search.search import Search
from ...export.archive_writer import SEGMENT_MESSAGES, STAGED, write_frames
from ...export.backup import MARK
from ...export.jsonl.exporter import Exporter
from ...export.jsonl.jsonl_file import lines_of
from ...export.jsonl.parts import (
    ConflictMarkers,
    RotatedParts,
    exported_files,
    index_file,
    refuse_markers,
)
from ...export.jsonl.writer import Position, Rotation
from ...schema.directory.file_lock import FileLock
from ...schema.directory.folder import Folder, inner_folder
from ...schema.directory.layout import Layout
from ...schema.directory.lock_holders import refuse_openers
from ...schema.directory.trust import check, trusted_owners
from ...schema.errors import (
    AckbusError,
    BlobAltered,
    BlobMissing,
    BusUnusable,
    InvalidInput,
    Refused,
)
from ...schema.findings import Mended, examine, ok
from ...schema.message.canonical_json import decode
from ...schema.message.message import message_of_line
from ...schema.message.names import INLINE_PAYLOAD_BYTES
from ...schema.paging import further
from ...schema.sqlite.database import Database
from ..checks.directory import checks_of_file
from ..checks.export import Exported, checks_of_export
from ..recovery.salvage import in_words, ranges_without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from ...schema.message.message import Message

#: The suffix, before the time, of a damaged file that was set aside.
ASIDE = ".damaged-"

#: The suffix of a repaired file that is complete and not yet in its place.
READY = ".repaired-"

#: The step that is possible once no program has the file open, as the refusal tells it.
THEN = "repair it"

#: The suffixes of SQLite's files beside a database; left there, they would pass for the new one's.
_LOG, _JOURNAL, _INDEX_OF_LOG = "-wal", "-journal", "-shm"


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Hold the locks of writing, exporting and archiving inside the block.

    Raises:
        Refused: another program has the file open; its commits would go into a file without a name.
    """
    locks: list[FileLock] = []
    try:
        for path in (layout.write_lock, layout.export_lock, layout.archive_lock):
            locks.append(FileLock(path))
            if not locks[-1].try_acquire():
                raise Refused(
                    f"a program holds {os.path.basename(path)}; end all that use the bus, then"
                    " repair it"
                )
        refuse_openers(layout.database, THEN)
        yield
    finally:
        for lock in locks:
            lock.close()


def put_in_place(layout: Layout, fresh: str, stamp: str) -> str | None:
    """Set the damaged file aside, with its log, and put the new one in its place.

    The file goes first: from then on no program can open the bus until it is whole. The new one
    is beside it then under a name with the same time, so that the next repair can go on from here.

    Returns:
        Where the damaged file is; None when there was none.

    Raises:
        Refused: another program opened the bus meanwhile; nothing has changed.
    """
    files, name = layout.files, os.path.basename(layout.database)
    workshop = files.folder(os.path.basename(os.path.dirname(fresh)))
    workshop.rename(name, name + READY + stamp, to=files)
    if files.look(name) is not None:
        files.rename(name, name + ASIDE + stamp)
        try:
            refuse_openers(layout.database + ASIDE + stamp, THEN)
        except Refused:
            files.rename(name + ASIDE + stamp, name)
            files.rename(name + READY + stamp, name, to=workshop)
            raise
    return finish(layout, stamp)


def unfinished(layout: Layout) -> str | None:
    """Return the time of a repair that died when the new file was to take its place, or None.

    A file that another repair has set aside is none: since then the bus went on.
    """
    if os.path.exists(layout.database) and os.stat(layout.database).st_size:
        return None
    for ready in _ready_files(layout):
        aside = ready.replace(READY, ASIDE)
        if os.path.exists(aside) or os.path.exists(aside + _LOG):
            return ready.rpartition(READY)[2]
    return None


def finish(layout: Layout, stamp: str) -> str | None:
    """Do the rest of `put_in_place`, once the damaged file is set aside; return where that is."""
    files, name = layout.files, os.path.basename(layout.database)
    aside = name + ASIDE + stamp
    for ending in (_LOG, _JOURNAL):
        if files.look(name + ending) is not None:
            files.rename(name + ending, aside + ending)
    files.remove(name + _INDEX_OF_LOG)
    files.rename(name + READY + stamp, name)
    files.sync()
    is_kept = any(files.look(file) is not None for file in (aside, aside + _LOG))
    return files.path_of(aside) if is_kept else None


def forget_ready(layout: Layout) -> None:
    """Remove the new files of repairs that died before they had set anything aside."""
    for ready in _ready_files(layout):
        layout.files.remove(os.path.basename(ready))


def _ready_files(layout: Layout) -> list[str]:
    names = sorted(layout.files.names())
    start = os.path.basename(layout.database) + READY
    return [os.path.join(layout.directory, name) for name in names if name.startswith(start)]


def keep_aside(folder: Folder, name: str, stamp: str) -> None:
    """Link a damaged file under another name, before a whole one replaces it."""
    folder.name_again(name, name + ASIDE + stamp)


def set_aside(folder: Folder, name: str, stamp: str) -> str:
    """Give a damaged file of a folder another name, and return its new path."""
    folder.rename(name, name + ASIDE + stamp)
    return folder.path_of(name + ASIDE + stamp)


#: How many names of blobs a line has.
_NAMED = 5


def mend_blobs(
    bus: LocalBus, saved: LocalBus | None, stamp: str, dry_run: bool
) -> Iterator[Mended]:
    """Bring altered and missing blobs back from a backup."""
    back, lost = [], []
    for ref in bus.log.named_blobs():
        if _is_whole(bus, ref):
            continue
        if saved is None or not _is_whole(saved, ref):
            lost.append(ref)
            continue
        back.append(ref)
        if not dry_run:
            _bring_back(bus, saved, ref, stamp)
    if back or lost:
        yield Mended("blobs", f"{len(back)} are those of the backup again", _names(lost))


def _is_whole(bus: LocalBus, ref: str) -> bool:
    try:
        bus.blobs.verify(ref)
    except (BlobMissing, BlobAltered, BusUnusable, InvalidInput):
        return False
    return True


def _bring_back(bus: LocalBus, saved: LocalBus, ref: str, stamp: str) -> None:
    folder = bus.layout.blob_folder
    if folder.look(ref) is not None:
        set_aside(folder, ref, stamp)
    bus.blobs.put(saved.blobs.read(ref))


def _names(refs: list[str]) -> str:
    return ", ".join(refs[:_NAMED]) + (
        f" and {more} more" if (more := len(refs) - _NAMED) > 0 else ""
    )


def mend_export(bus: LocalBus, stamp: str, dry_run: bool) -> Iterator[Mended]:
    """Rewrite the export if it differs from the log."""
    files = exported_files(bus.layout.jsonl)
    was_exported = bool(files) or Position.of(bus).get() > 0
    if not was_exported or (files and _is_as_the_log(bus)):
        return
    try:
        for path in files:
            refuse_markers(lines_of(path))
    except ConflictMarkers as error:
        yield Mended("bus.jsonl", f"is left to you: {error}", "")
        return
    if dry_run:
        yield Mended("bus.jsonl", "is to be rewritten")
        return
    wrong = (*files, *index_file(bus.layout.directory))
    aside = [set_aside(bus.layout.files, os.path.basename(path), stamp) for path in wrong]
    try:
        count = Exporter(bus).export_once()
    except AckbusError as error:
        rest = f"what was there is kept in *{ASIDE}{stamp}" if aside else "there was none"
        yield Mended("bus.jsonl", rest, f"a new one can't be written: {error}")
        return
    rest = f"; what was there is in *{ASIDE}{stamp}, with {_strange(bus, aside)}" if aside else ""
    yield Mended("bus.jsonl", f"was rewritten, {count:,} lines{rest}")


def _is_as_the_log(bus: LocalBus) -> bool:
    """Whether an export is whole; it may be behind."""
    lines = checks_of_export(bus, full=True)["bus.jsonl"]()
    lacking = RotatedParts(bus.layout.directory, Rotation.of(bus).get()).lacking()
    return lines.state == ok("").state and not lacking


def _strange(bus: LocalBus, files: list[str]) -> str:
    """Say how many lines of other files are no lines of the log."""
    own = {hash(message.to_line()) for message in bus.log.read()}  # the lines need much room
    count = 0
    for path in files:
        if ".jsonl" in path:
            count += sum(hash(line.rstrip(b"\n")) not in own for line in lines_of(path))
    return f"{count:,} lines that the log has not; what of them is whole 'bus import' brings in"


def mend_search(bus: LocalBus, dry_run: bool) -> Iterator[Mended]:
    """Empty a damaged index of words: the next search makes it again."""
    if bus.layout.files.look(os.path.basename(bus.layout.search)) is None:
        return
    search = Search(bus)
    if search.damage(full=True):
        if not dry_run:
            search.clear()
        yield Mended("search.db", "is made again of the log at the next search")


# The backup to repair from: the one that is named, or the newest near the bus.

#: The longest `backup.json` that is read, in bytes: it names what is lacking.
_MAX_MARK_BYTES = 16 * 1024**2


def open_backup(directory: str) -> LocalBus:
    """Open a backup to read in it, and check its file.

    Raises:
        BusNotFound, BusUnusable: there is none, it is damaged itself, or it is of another ackbus.
    """
    database = Database(directory, read_only=True)
    for finding in examine(checks_of_file(database, full=True)):
        if finding.state == "bad":
            database.close()
            raise BusUnusable(f"the backup in {directory} is damaged: {finding.text}")
    return LocalBus(database)


def newest_backup(layout: Layout) -> tuple[str | None, list[str]]:
    """Look for the newest whole backup of a bus in its project, or beside that.

    Returns:
        Where it is, or None; and why newer ones are of no use, as those of other users.
    """
    passed_over = []
    for _, directory in sorted(_backups(layout), reverse=True):
        try:
            check(directory, trusted_owners(), reads_names=True)  # nobody has named it
            open_backup(directory).close()
        except AckbusError as error:
            passed_over.append(str(error))
        else:
            return directory, passed_over
    return None, passed_over


def _backups(layout: Layout) -> Iterator[tuple[int, str]]:
    """Yield when each backup was made, and where it is."""
    project = os.path.dirname(layout.directory)
    for folder in (project, os.path.dirname(project)):
        with suppress(OSError):
            for name in os.listdir(folder):
                directory = os.path.join(folder, name)
                made_at_ms = _made_at_ms(directory, layout.directory)
                if made_at_ms is not None:
                    yield made_at_ms, directory


def _made_at_ms(directory: str, bus: str) -> int | None:
    """Return when a directory was made as a backup of a bus; None when it was not."""
    try:
        with Folder(directory).read(MARK) as file:
            mark = decode(file.read(_MAX_MARK_BYTES), MARK)
    except (OSError, AckbusError):
        return None
    if not isinstance(mark, dict) or mark.get("of") != bus:
        return None
    return at_ms if isinstance(at_ms := mark.get("made_at_ms"), int) else None


# A segment of the archive, read frame by frame without what the bus knows of it.

#: The name of a segment, by its first seq.
_NAME = re.compile(r"\d{12,}\.jsonl\.zst", re.ASCII)

#: The first bytes of each frame: behind a damaged frame the next one is found by them.
_MAGIC = b"\x28\xb5\x2f\xfd"

#: How many bytes of lines are kept in memory: what the messages of a segment can have by the
#: documented form.
_MAX_BYTES = SEGMENT_MESSAGES * (INLINE_PAYLOAD_BYTES + 1024)

#: How much is searched at once for the next frame, in bytes.
_SEARCHED_BYTES = 64 * 1024


@dataclass(slots=True)
class SegmentFile:
    """The readable content of a segment.

    Attributes:
        lines: the lines that can be read, by seq.
        starts: the first seq, the place and the length of each whole frame.
        size: how long the file is.
        sha256: its checksum.
        last_seq: the highest seq in it.
        is_whole: whether all of it could be read.
    """

    lines: dict[int, bytes] = field(default_factory=dict)
    starts: list[tuple[int, int, int]] = field(default_factory=list)
    size: int = 0
    sha256: str = ""
    last_seq: int = 0
    is_whole: bool = False

    def frames(self, segment: int) -> list[ArchiveFrame]:
        """Return its frames; the first is that of the segment's name."""
        return [
            ArchiveFrame(first_seq if start else segment, segment, start, size)
            for first_seq, start, size in self.starts
        ]

    def messages(self) -> Iterator[Message]:
        """Yield its messages, without their blobs."""
        return (message_of_line(line, BlobStore("")) for line in self.lines.values())


def segment_files(layout: Layout) -> list[str]:
    """Return the paths of the existing segments, in order."""
    folder = layout.archive_folder
    return [folder.path_of(name) for name in sorted(folder.names()) if _NAME.fullmatch(name)]


def first_seq_of(path: str) -> int:
    """Return the first seq of the segment with a path, by its name."""
    return int(os.path.basename(path).partition(".")[0])


def read_segment(path: str) -> SegmentFile:
    """Read what can be read of a segment; a missing one is empty."""
    file_read = SegmentFile()
    try:
        with inner_folder(os.path.dirname(path)).read(os.path.basename(path)) as file:
            file_read.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file_read.size = file.tell()
            end = _read_frames(file_read, file.fileno())
    except OSError:
        return file_read
    file_read.is_whole = file_read.size > 0 and end == file_read.size
    file_read.last_seq = max(file_read.lines, default=0)
    return file_read


def _read_frames(segment: SegmentFile, fd: int) -> int:
    """Add the lines of all whole frames; return where the first gap behind one begins."""
    start, end, kept_bytes = 0, 0, 0
    while (
        start < segment.size and len(segment.lines) <= SEGMENT_MESSAGES and kept_bytes < _MAX_BYTES
    ):
        try:
            lines, size = lines_of_frame(_pieces(fd, start))
            seqs = [message_of_line(line, BlobStore("")).seq for line in lines]
        except (KeyError, TypeError, ValueError, OverflowError):
            lines, seqs, size = [], [], 0
        if not size or not lines:
            start = further("frames of a segment", start, _next_frame(fd, start + 1, segment.size))
            continue
        segment.lines.update(zip(seqs, lines, strict=True))
        segment.starts.append((seqs[0], start, size))
        kept_bytes += sum(map(len, lines))
        end = start + size if end == start else end
        start = further("frames of a segment", start, start + size)
    return end


def _pieces(fd: int, start: int) -> Iterator[bytes]:
    while piece := os.pread(fd, PIECE_BYTES, start):
        yield piece
        start += len(piece)


def _next_frame(fd: int, start: int, size: int) -> int:
    """Return where the next frame may begin; the size of the file where none does."""
    while data := os.pread(fd, _SEARCHED_BYTES, start):
        at = data.find(_MAGIC)
        if at >= 0:
            return start + at
        if len(data) < len(_MAGIC):
            break
        start += len(data) - len(_MAGIC) + 1
    return size


def mend_archive(
    bus: LocalBus, saved: LocalBus | None, stamp: str, dry_run: bool = False
) -> Iterator[Mended]:
    """Put back segments of the archive, from a backup or made again of the lines that they had.

    Args:
        bus: the bus; its file must be whole.
        saved: a backup, if there is one.
        stamp: the time in the names of what is set aside.
        dry_run: tell which would be mended.
    """
    segments = {segment.first_seq: segment for segment in bus.archive.segments()}
    discarded = set(map(first_seq_of, bus.archive.discarded_files()))
    there = set(map(first_seq_of, segment_files(bus.layout))) - discarded
    for first_seq in sorted(segments.keys() | there):
        segment = segments.get(first_seq)
        if segment is not None and is_well(bus, segment):
            continue
        if dry_run:
            yield Mended(f"archive/{segment_name(first_seq)}", "is to be put back, or made again")
        else:
            yield from _Mender(bus, saved, stamp).mend(first_seq, segment)
    if not dry_run:
        bus.archive.keep_upto_segments()


def is_well(bus: LocalBus, segment: Segment) -> bool:
    """Whether a segment is whole, and what the bus knows of it is right."""
    if bus.archive.state_of(segment) != "ok":
        return False
    try:
        return not bus.archive.lacks_entries(segment)
    except BusUnusable:  # what is known of its frames is wrong
        return False


class _Mender:
    """Mends one segment."""

    def __init__(self, bus: LocalBus, saved: LocalBus | None, stamp: str) -> None:
        self._bus = bus
        self._saved = saved
        self._stamp = stamp
        self._folder = bus.layout.archive_folder

    def mend(self, first_seq: int, segment: Segment | None) -> Iterator[Mended]:
        file_name = segment_name(first_seq)
        name = f"archive/{file_name}"
        segment_file = read_segment(self._folder.path_of(file_name))
        if segment_file.is_whole and (segment is None or segment_file.last_seq == segment.last_seq):
            self._note(first_seq, segment_file)
            yield Mended(
                name, f"is whole: messages {first_seq} to {segment_file.last_seq} are known again"
            )
        elif segment is None:
            yield self._rebuild_unknown(file_name, name, first_seq, segment_file)
        elif self._put_back(file_name, segment):
            yield Mended(name, "is that of the backup again")
        else:
            yield self._rebuild(file_name, name, segment, segment_file)

    def _note(self, first_seq: int, segment_file: SegmentFile) -> None:
        now_ms = self._bus.now_ms()
        size, sha256 = segment_file.size, segment_file.sha256
        segment = Segment(
            first_seq, segment_file.last_seq, len(segment_file.lines), size, sha256, now_ms
        )
        self._bus.archive.note_again(
            segment, segment_file.frames(first_seq), segment_file.messages()
        )

    def _put_back(self, file_name: str, segment: Segment) -> bool:
        """Copy the segment of the backup, if that is the same."""
        if self._saved is None or self._saved.archive.state_of(segment) != "ok":
            return False
        with (
            self._saved.archive.open(segment) as saved,
            self._folder.new(file_name + STAGED) as file,
        ):
            shutil.copyfileobj(saved, file)
            self._put(file_name, file)
        return True

    def _rebuild(
        self, file_name: str, name: str, segment: Segment, segment_file: SegmentFile
    ) -> Mended:
        """Rebuild the segment from its own lines and those of other copies."""
        lines = dict(segment_file.lines)
        for message, line in self._copies(segment):
            lines.setdefault(message.seq, line)
        lacking = segment.messages - len(lines)
        if lacking > 0:
            gaps = list(ranges_without([(segment.first_seq, segment.last_seq)], lines))
            text = f"{len(lines):,} of {segment.messages:,} messages can be read elsewhere or here"
            return Mended(name, f"what is left of it is kept: {text}", f"messages {in_words(gaps)}")
        fresh = SegmentFile({seq: lines[seq] for seq in sorted(lines)})
        with self._folder.new(file_name + STAGED) as file:
            frames, count = write_frames(file, fresh.messages(), segment.first_seq)
            file.flush()
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
            self._put(file_name, file)
        again = replace(segment, messages=count, bytes=size, sha256=digest)
        self._bus.archive.note_again(again, frames, fresh.messages())
        same = "byte for byte" if digest == segment.sha256 else "with other bytes than before"
        return Mended(name, f"was made again of its {count:,} messages, {same}")

    def _rebuild_unknown(
        self, file_name: str, name: str, first_seq: int, segment_file: SegmentFile
    ) -> Mended:
        """Rebuild a segment that the bus does not know: it ends where the next begins."""
        following = (next_segment.first_seq - 1 for next_segment in self._bus.archive.segments())
        upto = min((seq for seq in following if seq >= first_seq), default=self._bus.archive.upto())
        segment = Segment(first_seq, upto, 0, 0, "", self._bus.now_ms())
        there = segment_file.lines.keys() | {message.seq for message, _ in self._copies(segment)}
        if not there:
            return Mended(name, "is damaged, and the bus knows nothing of it", "what it had")
        mended = self._rebuild(file_name, name, replace(segment, last_seq=max(there)), segment_file)
        gaps = list(ranges_without([(first_seq, upto)], there))
        return (
            replace(mended, lost=f"messages {in_words(gaps)}, if there were any")
            if gaps
            else mended
        )

    def _copies(self, segment: Segment) -> Iterator[tuple[Message, bytes]]:
        """Yield what the export and the backup have of a segment's messages."""
        if exported_files(self._bus.layout.jsonl):
            exported = Exported(self._bus.layout, self._bus.blobs, frozenset())
            for message, line, _ in exported.lines() if exported.in_order() else ():
                if segment.first_seq <= message.seq <= segment.last_seq:
                    yield message, line
        if self._saved is not None:
            with suppress(BusUnusable):
                span = (segment.first_seq - 1, segment.last_seq)
                for message in self._saved.log.read(after_seq=span[0], upto_seq=span[1]):
                    yield message, message.to_line()

    def _put(self, file_name: str, file: BinaryIO) -> None:
        """Put a file that was written beside its place there, onto the disk.

        The damaged file has two names for a moment, so that a kill leaves one of both files.
        """
        file.flush()
        os.fsync(file.fileno())
        if self._folder.look(file_name) is not None:
            keep_aside(self._folder, file_name, self._stamp)
        self._folder.rename(file_name + STAGED, file_name)
        self._folder.sync()
