"""The archive: the beginning of the log, in compressed files beside the bus.

A segment is a file of lines as they are in `bus.jsonl`, compressed with zstd a thousand lines at a
time: so reading a message costs one frame, and `zstd -dc` shows the whole segment. The bus has the
place of each frame. Messages leave the bus only when their segment is on the disk; from then on the
log reads them here.
"""

from __future__ import annotations

import os
import stat
from itertools import islice

from ..errors import MessageDiscarded, SegmentMissing
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from io import BufferedReader

    from ...blobs.store import BlobStore
    from ...schema.directory.layout import Layout
    from ...schema.engine import Engine
    from ...schema.message.message import Message
    from .records import ArchiveFrame, Discarded, Segment

# Frames of the archive, decompressed a piece at a time and no further than a frame can go.
#
# A few bytes of a hostile file can stand for gigabytes, and the tables that say how long a frame
# is are as hostile as the file. So both are held against constants, before anything is allocated.

#: A frame is closed at so many lines, or at so many bytes of them.
FRAME_LINES = 1000
FRAME_BYTES = 1024 * 1024

#: The longest line that is read, in bytes. A bus writes shorter lines, since larger payloads are
#: blobs; a file that replaced a segment may have a line that memory can't hold.
MAX_LINE_BYTES = 64 * 1024 * 1024

#: The longest frame, in bytes, decompressed or not: the line that closes it may be the longest.
MAX_FRAME_BYTES = FRAME_BYTES + MAX_LINE_BYTES

#: How much is decompressed at once, in bytes: at worst it expands 32,000 times.
PIECE_BYTES = 1024


class DamagedFrame(ValueError):
    """Bytes are no frame of an archive, or a frame larger than any that a bus writes."""


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


#: With what each line begins.
_LINE_START = b'{"seq":'

#: How many messages leave the log in one transaction: a few tens of milliseconds.
REMOVE_MESSAGES = 2000


class Archive:
    """The tables `archive_segments`, `archive_frames`, `archive_state` and `archived_…`."""

    def __init__(self, engine: Engine, layout: Layout, blobs: BlobStore) -> None:
        self._engine = engine
        self._blobs = blobs
        self._layout = layout
        self._folder = layout.archive_folder
        # The frame that was read last, and its lines: readers of one message often read others.
        self._last: tuple[ArchiveFrame, list[bytes]] | None = None

    # Reading -----------------------------------------------------------------------------------

    def upto(self) -> int:
        """Return the seq up to which messages are archived and not in the log; 0 for none."""
        return self._engine.one_number(SQL["archived_upto"], "archive_state")

    def segments(self) -> list[Segment]:
        """Return all segments that were not discarded, in the order of the log."""
        from .records import Segment

        return [Segment(*row) for row in self._engine.rows(SQL["archive_segments"])]

    def discarded(self) -> list[Discarded]:
        """Return the ranges that were discarded, one after the other from the first message on."""
        from .records import Discarded

        ranges: list[Discarded] = []
        for first_seq, last_seq, messages, at_ms in self._engine.rows(SQL["discarded_segments"]):
            if ranges and ranges[-1].at_ms == at_ms:  # by the same command
                last = ranges.pop()
                first_seq, messages = last.first_seq, last.messages + messages
            ranges.append(Discarded(first_seq, last_seq, messages, at_ms))
        return ranges

    def discarded_files(self) -> list[str]:
        """Return the names of files that are left of discarded segments: a deletion died."""
        rows = self._engine.rows(SQL["discarded_segments"])
        names = {segment_name(first_seq) for first_seq, *_ in rows}
        return sorted(names.intersection(self._folder.names())) if names else []

    def path(self, segment: Segment) -> str:
        """Return the path of a segment's file."""
        return self._path(segment.first_seq)

    def _path(self, first_seq: int) -> str:
        return os.path.join(self._layout.archive, segment_name(first_seq))

    def seq_of(self, id: str) -> int | None:
        """Return the seq of the archived message with an id, or None."""
        seq: int | None = self._engine.value(SQL["archived_seq"], (id,))
        return seq

    def names_blob(self, ref: str) -> bool:
        """Whether an archived message's payload is this blob."""
        return bool(self._engine.value(SQL["archived_blob"], (ref,)))

    def at(self, seq: int) -> Message | None:
        """Return the archived message at this place, or None.

        Raises:
            SegmentMissing: its segment is missing or damaged.
            MessageDiscarded: it was discarded.
        """
        message = next(self.read(seq - 1, seq), None)
        if message is None and 1 <= seq <= self.upto():
            for discarded in self.discarded():
                if discarded.first_seq <= seq <= discarded.last_seq:
                    raise MessageDiscarded(seq, discarded)
        return message

    def read(self, after_seq: int, upto_seq: int, holding: bytes = b"") -> Iterator[Message]:
        """Yield the archived messages of a range, in order, a frame in memory at a time.

        Discarded messages are left out.

        Args:
            after_seq, upto_seq: the range, without the first and with the last.
            holding: only messages in whose line this stands.

        Raises:
            SegmentMissing: a segment of the range is missing or damaged.
        """
        for frame in self._frames(after_seq, min(upto_seq, self.upto())):
            for message in self._messages(frame, after_seq, upto_seq, holding):
                after_seq = message.seq
                yield message

    def read_backwards(self, after_seq: int, upto_seq: int) -> Iterator[Message]:
        """Yield what `read` does, the newest first."""
        for frame in reversed(self._frames(after_seq, min(upto_seq, self.upto()))):
            yield from reversed(list(self._messages(frame, after_seq, upto_seq, b"")))

    def _frames(self, after_seq: int, upto_seq: int) -> list[ArchiveFrame]:
        if upto_seq <= after_seq:
            return []
        from .records import ArchiveFrame

        rows = self._engine.rows(SQL["frames_in_span"], (after_seq + 1, upto_seq))
        return [ArchiveFrame(*row) for row in rows]

    def _messages(
        self, frame: ArchiveFrame, after_seq: int, upto_seq: int, holding: bytes
    ) -> Iterator[Message]:
        # Loaded only where archives are read.
        from bisect import bisect_right

        from ...schema.message.message import message_of_line

        try:
            lines = self._lines(frame)
            first = bisect_right(lines, after_seq, key=_seq_of)
            end = bisect_right(lines, upto_seq, key=_seq_of)
            for line in islice(lines, first, end):
                if holding in line:
                    message = message_of_line(line, self._blobs)
                    if not after_seq < message.seq <= upto_seq:
                        raise ValueError("its messages are in no order")
                    after_seq = message.seq
                    yield message
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._damaged(frame, f"a line in it is no message of a bus ({error})") from error

    def _lines(self, frame: ArchiveFrame) -> list[bytes]:
        last = self._last
        if last is not None and last[0] == frame:
            return last[1]
        lines = self._read_frame(frame)
        if not self._are_own(frame, lines):
            raise self._damaged(frame, "it holds other messages than were archived in it")
        self._last = (frame, lines)
        return lines

    def _are_own(self, frame: ArchiveFrame, lines: list[bytes]) -> bool:
        """Whether these are the lines of a frame, and not the lines of a foreign file.

        The bus knows the ids of the first and the last, and zstd has checked the bytes between.
        """
        from ...schema.message.message import message_of_line

        ends = [message_of_line(line, self._blobs) for line in lines[:1] + lines[-1:]]
        if not ends or frame.first_seq not in (ends[0].seq, frame.segment):
            return False
        return all(self._engine.value(SQL["kept_seq"], (end.id,)) == end.seq for end in ends)

    def _read_frame(self, frame: ArchiveFrame) -> list[bytes]:

        try:
            with self._folder.read(segment_name(frame.segment)) as file:
                try:
                    lines, size = lines_of_frame(_pieces(file, frame))
                except (OSError, OverflowError, ValueError) as error:
                    raise self._damaged(frame, f"it is damaged ({error})") from error
        except OSError as error:
            raise self._missing(frame.segment, error.strerror) from error
        if size != frame.bytes:
            raise self._damaged(frame, "it is damaged (it is shorter than it was)")
        return lines

    def _damaged(self, frame: ArchiveFrame, why: str) -> SegmentMissing:
        last_seq = self._engine.value(SQL["frame_end"], (frame.first_seq,))
        return SegmentMissing(frame.first_seq, last_seq, self._path(frame.segment), why)

    def _missing(self, segment: int, why: str | None) -> SegmentMissing:
        last_seq = self._engine.value(SQL["segment_end"], (segment,))
        return SegmentMissing(segment, last_seq, self._path(segment), why)

    def open(self, segment: Segment) -> BufferedReader:
        """Open a segment's file for reading, as `Folder.read` does."""
        return self._folder.read(segment_name(segment.first_seq))

    def state_of(self, segment: Segment) -> str:
        """Return `ok`, `missing`, `unreadable`, or `altered`: its bytes don't give its checksum."""
        import hashlib

        try:
            with self.open(segment) as file:
                if os.fstat(file.fileno()).st_size != segment.bytes:
                    return "altered"  # reading it would add nothing, and it may be huge
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return "missing"
        except OSError:
            return "unreadable"
        return "ok" if digest == segment.sha256 else "altered"

    def lacks_entries(self, segment: Segment) -> bool:
        """Whether some messages of a whole segment can't be found by their seq, or by their id.

        Raises:
            SegmentMissing: a known place is wrong.
        """
        upto, count = self.upto(), 0  # what is behind that has yet to leave the log
        for frame in self._frames(segment.first_seq - 1, segment.last_seq):
            for message in self._messages(frame, segment.first_seq - 1, segment.last_seq, b""):
                if message.seq <= upto and self.seq_of(message.id) != message.seq:
                    return True
                count += 1
        return count != segment.messages

    def apparent_state_of(self, segment: Segment) -> str:
        """Return the state of a segment by the name and the size of its file; nothing is read."""
        name = segment_name(segment.first_seq)
        try:
            status = self._folder.look(name)
        except OSError:
            return "unreadable"
        if status is None:
            return "missing"
        if not stat.S_ISREG(status.st_mode):
            return "unreadable"
        return "ok" if status.st_size == segment.bytes else "altered"

    # Writing -----------------------------------------------------------------------------------

    def add(self, segment: Segment, frames: Sequence[ArchiveFrame]) -> None:
        """Note a segment whose file is on the disk. Its messages are still in the log too.

        Args:
            segment: follows the last segment without a gap.
            frames: all of its frames.
        """
        from dataclasses import astuple  # slow to load, and readers need none

        with self._engine.write():
            self._engine.rows(SQL["add_segment"], astuple(segment))
            for frame in frames:
                self._engine.rows(SQL["add_frame"], astuple(frame))

    def note_again(
        self, segment: Segment, frames: Sequence[ArchiveFrame], messages: Iterable[Message]
    ) -> None:
        """Replace the record of a segment whose file was mended.

        Args:
            segment: the mended segment.
            frames: all of its frames.
            messages: all of its messages: their ids and blobs must be known.
        """
        from dataclasses import astuple

        with self._engine.write():
            self._engine.rows(SQL["forget_frames"], (segment.first_seq,))
            self._engine.rows(SQL["put_segment"], astuple(segment))
            for frame in frames:
                self._engine.rows(SQL["add_frame"], astuple(frame))
            for message in messages:
                if not self._engine.rows(SQL["message_is_there"], (message.seq,)):
                    self._engine.rows(SQL["keep_id"], (message.id, message.seq))
                    if message.payload_ref is not None:
                        self._engine.rows(SQL["keep_blob"], (message.payload_ref,))

    def keep_upto_segments(self) -> None:
        """Remove all messages of segments from the log, when the archived seq was lost."""
        while self.remove_next() is not None:
            pass

    def discard(self, segments: Iterable[Segment], refs: Iterable[str], at_ms: int) -> None:
        """Note that segments are discarded, before their files are deleted; ids stay taken.

        Args:
            segments: the first segments of the archive, without a gap.
            refs: the blobs that no other archived message names.
            at_ms: when, in epoch milliseconds.
        """
        with self._engine.write():
            for segment in segments:
                self._engine.rows(SQL["discard_segment"], (segment.first_seq, at_ms))
                self._engine.rows(SQL["forget_frames"], (segment.first_seq,))
            for ref in refs:
                self._engine.rows(SQL["forget_blob"], (ref,))

    def delete_discarded(self) -> None:
        """Delete the files of discarded segments."""
        for name in self.discarded_files():
            self._folder.remove(name)
        self._folder.sync()

    def remove_next(self) -> int | None:
        """Remove some messages from the log that are in a segment; a short transaction.

        The newest message stays: the next seq follows it.

        Returns:
            How many; None when nothing is left to remove.
        """
        after = self.upto()
        segments = self.segments()
        newest = self._engine.value(SQL["newest_seq"]) or 0
        last = min(segments[-1].last_seq, newest - 1) if segments else 0
        if after >= last:
            return None
        with self._engine.write():
            upto = self._engine.value(SQL["last_of"], (after, REMOVE_MESSAGES, last)) or last
            for step in ("keep_ids", "keep_blobs"):
                self._engine.rows(SQL[step], (after, upto))
            self._engine.rows(SQL["set_archived_upto"], (upto,))
            return self._engine.count_changes(SQL["remove_archived"], (after, upto))


def _pieces(file: BufferedReader, frame: ArchiveFrame) -> Iterator[bytes]:
    """Yield the bytes of a frame, as far as the file has them."""
    at, end = frame.start, frame.start + frame.bytes
    while at < end and (piece := os.pread(file.fileno(), min(PIECE_BYTES, end - at), at)):
        yield piece
        at += len(piece)


def _seq_of(line: bytes) -> int:
    """Return the seq at the beginning of a line; decoding the whole line takes much longer."""
    return int(line[len(_LINE_START) : line.index(b",")])


def segment_name(first_seq: int) -> str:
    """Return the name of the file of the segment that begins with a message."""
    return f"{first_seq:012}.jsonl.zst"
