"""The check of a copy of a bus, by its own files: a disk may store wrong bytes."""

from __future__ import annotations

from ...schema.errors import BlobAltered, BlobMissing, BusUnusable
from ...schema.findings import examine
from ...schema.queries import file_of
from ...schema.sqlite.file_checks import checks_of_database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ...bus.bus import Bus


def verify_copy(copy: Bus, lacking: Collection[str]) -> None:
    """Check the file of a copy from end to end, its segments, and every blob that it names.

    Args:
        copy: an open bus, without writers.
        lacking: the names of blobs and segments that the bus itself has not.

    Raises:
        BusUnusable: something differs from the bytes that were written.
    """
    for finding in examine(checks_of_database(file_of(copy), full=True)):
        if finding.state == "bad":
            raise _damaged(copy, finding.text)
    for segment in copy.archive.segments():
        state = copy.archive.state_of(segment)
        if state != "ok" and not any(copy.archive.path(segment).endswith(each) for each in lacking):
            raise _damaged(copy, f"the segment from {segment.first_seq} on is {state}")
    for ref in copy.log.named_blobs():
        if ref not in lacking:
            try:
                copy.blobs.verify(ref)
            except (BlobAltered, BlobMissing) as error:
                raise _damaged(copy, str(error)) from error


def _damaged(copy: Bus, why: str) -> BusUnusable:
    return BusUnusable(f"what was written to {copy.layout.directory} is not what is read: {why}")
