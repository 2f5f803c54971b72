"""Segments of the archive, put back from a backup, or made again of the lines that they had."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from dataclasses import replace

from ...bus.log.archive_reader import segment_name
from ...bus.log.archive_records import Segment
from ...export.archive_writer import STAGED as _FRESH
from ...export.archive_writer import write_frames
from ...export.jsonl.replaced_file import exported_files
from ...schema.errors import BusUnusable
from ...schema.findings import Mended
from ..checks.export_reader import Exported
from ..recovery.damage import in_words, ranges_without
from .exclusive_use import keep_aside
from .segment_file import SegmentFile, first_seq_of, read_segment, segment_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from ...bus.bus import Bus
    from ...schema.message.message import Message


def mend_archive(
    bus: Bus, saved: Bus | None, stamp: str, dry_run: bool = False
) -> Iterator[Mended]:
    """Put right what the bus knows of its segments, and the segments that are harmed.

    Args:
        bus: the bus; its file must be whole.
        saved: a backup, if there is one.
        stamp: the time in the names of what is set aside.
        dry_run: tell which would be mended.
    """
    known = {segment.first_seq: segment for segment in bus.archive.segments()}
    discarded = set(map(first_seq_of, bus.archive.discarded_files()))
    there = set(map(first_seq_of, segment_files(bus.layout))) - discarded
    for first_seq in sorted(known.keys() | there):
        segment = known.get(first_seq)
        if segment is not None and is_well(bus, segment):
            continue
        if dry_run:
            yield Mended(f"archive/{segment_name(first_seq)}", "is to be put back, or made again")
        else:
            yield from _Mender(bus, saved, stamp).mend(first_seq, segment)
    if not dry_run:
        bus.archive.keep_upto_segments()


def is_well(bus: Bus, segment: Segment) -> bool:
    """Whether a segment is whole, and what the bus knows of it is right."""
    if bus.archive.state_of(segment) != "ok":
        return False
    try:
        return not bus.archive.lacks_entries(segment)
    except BusUnusable:  # what is known of its frames is wrong
        return False


class _Mender:
    """Mends one segment."""

    def __init__(self, bus: Bus, saved: Bus | None, stamp: str) -> None:
        self._bus = bus
        self._saved = saved
        self._stamp = stamp
        self._folder = bus.layout.archive_folder

    def mend(self, first_seq: int, segment: Segment | None) -> Iterator[Mended]:
        file_name = segment_name(first_seq)
        name = f"archive/{file_name}"
        found = read_segment(self._folder.path_of(file_name))
        if found.is_whole and (segment is None or found.last_seq == segment.last_seq):
            self._note(first_seq, found)
            yield Mended(
                name, f"is whole: messages {first_seq} to {found.last_seq} are known again"
            )
        elif segment is None:
            yield self._of_unknown(file_name, name, first_seq, found)
        elif self._put_back(file_name, segment):
            yield Mended(name, "is that of the backup again")
        else:
            yield self._made_again(file_name, name, segment, found)

    def _note(self, first_seq: int, found: SegmentFile) -> None:
        now_ms = self._bus.now_ms()
        size, sha256 = found.size, found.sha256
        segment = Segment(first_seq, found.last_seq, len(found.lines), size, sha256, now_ms)
        self._bus.archive.note_again(segment, found.frames(first_seq), found.messages())

    def _put_back(self, file_name: str, segment: Segment) -> bool:
        """Copy the segment of the backup, if that is the same."""
        if self._saved is None or self._saved.archive.state_of(segment) != "ok":
            return False
        with (
            self._saved.archive.open(segment) as saved,
            self._folder.new(file_name + _FRESH) as file,
        ):
            shutil.copyfileobj(saved, file)
            self._put(file_name, file)
        return True

    def _made_again(
        self, file_name: str, name: str, segment: Segment, found: SegmentFile
    ) -> Mended:
        """Write the segment of the lines that it still has, and that other copies have."""
        lines = dict(found.lines)
        for message, line in self._copies(segment):
            lines.setdefault(message.seq, line)
        lacking = segment.messages - len(lines)
        if lacking > 0:
            gaps = list(ranges_without([(segment.first_seq, segment.last_seq)], lines))
            text = f"{len(lines):,} of {segment.messages:,} messages can be read elsewhere or here"
            return Mended(name, f"what is left of it is kept: {text}", f"messages {in_words(gaps)}")
        fresh = SegmentFile({seq: lines[seq] for seq in sorted(lines)})
        with self._folder.new(file_name + _FRESH) as file:
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

    def _of_unknown(self, file_name: str, name: str, first_seq: int, found: SegmentFile) -> Mended:
        """Write a segment again of which only the name is known: it ends where the next begins."""
        following = (each.first_seq - 1 for each in self._bus.archive.segments())
        upto = min((seq for seq in following if seq >= first_seq), default=self._bus.archive.upto())
        segment = Segment(first_seq, upto, 0, 0, "", self._bus.now_ms())
        there = found.lines.keys() | {message.seq for message, _ in self._copies(segment)}
        if not there:
            return Mended(name, "is damaged, and the bus knows nothing of it", "what it had")
        made = self._made_again(file_name, name, replace(segment, last_seq=max(there)), found)
        gaps = list(ranges_without([(first_seq, upto)], there))
        return replace(made, lost=f"messages {in_words(gaps)}, if there were any") if gaps else made

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

        The damaged one has two names for a moment: who dies meanwhile leaves the one or the other.
        """
        file.flush()
        os.fsync(file.fileno())
        if self._folder.look(file_name) is not None:
            keep_aside(self._folder, file_name, self._stamp)
        self._folder.rename(file_name + _FRESH, file_name)
        self._folder.sync()
