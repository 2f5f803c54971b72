"""Discarding: the beginning of the archive is deleted for good, and the range stays on record.

The bus notes it first, with a message that tells of it; then the files go. A process that dies in
between leaves files that `Archive.discarded_files` names, which the next one deletes.
"""

from __future__ import annotations

from itertools import takewhile

from ..bus.errors import SegmentMissing
from ..bus.log.archive_records import Discarded
from ..bus.maintenance import Maintenance
from ..bus.search.search import Search
from ..schema.errors import Refused
from ..schema.message.draft import Draft
from .jsonl.export_position import Position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..bus.bus import Bus
    from ..bus.log.archive_records import Segment

#: The message that tells of it, and its sender.
DISCARDED, _ARCHIVER = "bus.discarded", "bus-archive"

#: A part of each line that names a blob.
_HAS_BLOB = b'"payload_ref":"'


def segments_upto(bus: Bus, upto_seq: int) -> list[Segment]:
    """Return the segments, from the first on, all of whose messages are up to a seq.

    Raises:
        Refused: `bus.jsonl` does not have all of their messages yet.
    """
    last = min(upto_seq, bus.archive.upto())
    found = list(takewhile(lambda segment: segment.last_seq <= last, bus.archive.segments()))
    exported = Position.of(bus).get()  # 0: nobody exports this bus
    if found and 0 < exported < found[-1].last_seq:
        raise Refused(
            f"bus.jsonl has the log only up to {exported}, and what is discarded can't be exported:"
            " run 'bus export' first"
        )
    return found


def discard(bus: Bus, segments: Sequence[Segment]) -> Discarded:
    """Delete segments for good, within the block of an `Archiver`.

    Their ids stay taken. The blobs that only they name are collected later, as others are; the
    search index is made again by the next search.

    Args:
        bus: an open bus.
        segments: one or more of `segments_upto`, from the first on.
    """
    first, last = segments[0].first_seq, segments[-1].last_seq
    at_ms = bus.now_ms()
    gone = Discarded(first, last, sum(segment.messages for segment in segments), at_ms)
    told = {"first_seq": first, "last_seq": last, "messages": gone.messages}
    refs = _blobs_of_none_but(bus, first, last)
    # Else a power loss could take the note of it, and leave no files.
    with Maintenance(bus).onto_the_disk(), bus.transaction():
        bus.archive.discard(segments, refs, at_ms)
        bus.log.append([Draft(DISCARDED, told, from_agent=_ARCHIVER)])
    finish(bus)
    return gone


def finish(bus: Bus) -> None:
    """Delete the words and the files of what is discarded, also of a process that died."""
    if not bus.archive.discarded_files():
        return
    if bus.layout.files.look("search.db") is not None:
        Search(bus).clear()
    bus.archive.delete_discarded()


def _blobs_of_none_but(bus: Bus, first_seq: int, last_seq: int) -> set[str]:
    """Return the blobs that are named by the archived messages of a range, and by no others."""
    try:
        refs = _blobs(bus, first_seq - 1, last_seq)
    except SegmentMissing:  # lost, so nobody can tell what it names
        return set()
    if not refs:
        return refs
    try:
        return refs - _blobs(bus, last_seq, bus.archive.upto())
    except SegmentMissing:
        return set()


def _blobs(bus: Bus, after_seq: int, upto_seq: int) -> set[str]:
    found = bus.archive.read(after_seq, upto_seq, _HAS_BLOB)
    return {message.payload_ref for message in found if message.payload_ref is not None}
