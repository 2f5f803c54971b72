"""A segment of the archive, read frame by frame without what the bus knows of it."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field

import zstandard

from ...blobs.store import BlobStore
from ...bus.log.archive_records import Frame
from ...schema.directory.folder import inner_folder
from ...schema.message.lines import message_of_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...schema.directory.layout import Layout
    from ...schema.message.message import Message

#: The name of a segment, by its first seq.
_NAME = re.compile(r"\d{12,}\.jsonl\.zst", re.ASCII)

#: The first bytes of each frame: behind a damaged frame the next one is found by them.
_MAGIC = b"\x28\xb5\x2f\xfd"

#: The largest file that is read, in bytes: it is read at once, and a segment is far smaller.
_MAX_BYTES = 2 * 1024**3


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
            if os.fstat(file.fileno()).st_size > _MAX_BYTES:
                return found
            data = file.read()
    except OSError:
        return found
    found.size, found.sha256 = len(data), hashlib.sha256(data).hexdigest()
    start, is_whole = 0, bool(data)
    while 0 <= start < len(data):
        size = _read_frame(found, data, start)
        is_whole = is_whole and size > 0
        start = start + size if size else data.find(_MAGIC, start + 1)
    found.is_whole = is_whole and start == len(data)
    found.last_seq = max(found.lines, default=0)
    return found


def _read_frame(found: SegmentFile, data: bytes, start: int) -> int:
    """Add the lines of a frame, and return how long it is; 0 when it is damaged."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    try:
        lines = decompressor.decompress(data[start:]).splitlines()
        seqs = [message_of_line(line, BlobStore("")).seq for line in lines]
    except (zstandard.ZstdError, KeyError, ValueError):
        return 0
    if not decompressor.eof or not lines:
        return 0
    size = len(data) - start - len(decompressor.unused_data)
    found.lines.update(zip(seqs, lines, strict=True))
    found.starts.append((seqs[0], start, size))
    return size
