"""A segment of the archive, read frame by frame without what the bus knows of it."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field

from ...blobs.store import BlobStore
from ...bus.log.archive_frames import PIECE_BYTES, lines_of_frame
from ...bus.log.archive_records import Frame
from ...export.archive_writer import SEGMENT_MESSAGES
from ...schema.directory.folder import inner_folder
from ...schema.message.limits import INLINE_PAYLOAD_BYTES
from ...schema.message.lines import message_of_line
from ...schema.paging import further

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...schema.directory.layout import Layout
    from ...schema.message.message import Message

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

    def frames(self, segment: int) -> list[Frame]:
        """Return its frames; the first is that of the segment's name."""
        return [
            Frame(first_seq if start else segment, segment, start, size)
            for first_seq, start, size in self.starts
        ]

    def messages(self) -> Iterator[Message]:
        """Yield its messages, without their blobs."""
        return (message_of_line(line, BlobStore("")) for line in self.lines.values())


def segment_files(layout: Layout) -> list[str]:
    """Return the paths of the segments that are there, the first first."""
    folder = layout.archive_folder
    return [folder.path_of(name) for name in sorted(folder.names()) if _NAME.fullmatch(name)]


def first_seq_of(path: str) -> int:
    """Return the first seq of the segment with a path, by its name."""
    return int(os.path.basename(path).partition(".")[0])


def read_segment(path: str) -> SegmentFile:
    """Read what can be read of a segment; nothing of one that is missing."""
    found = SegmentFile()
    try:
        with inner_folder(os.path.dirname(path)).read(os.path.basename(path)) as file:
            found.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            found.size = file.tell()
            end = _read_frames(found, file.fileno())
    except OSError:
        return found
    found.is_whole = found.size > 0 and end == found.size
    found.last_seq = max(found.lines, default=0)
    return found


def _read_frames(found: SegmentFile, fd: int) -> int:
    """Add the lines of all whole frames; return where the first gap behind one begins."""
    start, end, kept_bytes = 0, 0, 0
    while start < found.size and len(found.lines) <= SEGMENT_MESSAGES and kept_bytes < _MAX_BYTES:
        try:
            lines, size = lines_of_frame(_pieces(fd, start))
            seqs = [message_of_line(line, BlobStore("")).seq for line in lines]
        except (KeyError, TypeError, ValueError, OverflowError):
            lines, seqs, size = [], [], 0
        if not size or not lines:
            start = further("frames of a segment", start, _next_frame(fd, start + 1, found.size))
            continue
        found.lines.update(zip(seqs, lines, strict=True))
        found.starts.append((seqs[0], start, size))
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
