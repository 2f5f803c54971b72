"""The repair of the files beside the bus file: blobs, the export, the index of words."""

from __future__ import annotations

import os

from ...bus.search.search import Search
from ...export.jsonl.conflict_markers import ConflictMarkers, refuse_markers
from ...export.jsonl.export_position import Position, Rotation
from ...export.jsonl.exporter import Exporter
from ...export.jsonl.jsonl_file import lines_of
from ...export.jsonl.parts import Parts, index_file
from ...export.jsonl.replaced_file import exported_files
from ...schema.errors import AckbusError, BlobAltered, BlobMissing, BusUnusable, InvalidInput
from ...schema.findings import Mended, ok
from ..checks.export import checks_of_export
from .exclusive_use import ASIDE, set_aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus

#: How many names of blobs a line has.
_NAMED = 5


def mend_blobs(bus: Bus, saved: Bus | None, stamp: str, dry_run: bool) -> Iterator[Mended]:
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


def _is_whole(bus: Bus, ref: str) -> bool:
    try:
        bus.blobs.verify(ref)
    except (BlobMissing, BlobAltered, BusUnusable, InvalidInput):
        return False
    return True


def _bring_back(bus: Bus, saved: Bus, ref: str, stamp: str) -> None:
    folder = bus.layout.blob_folder
    if folder.look(ref) is not None:
        set_aside(folder, ref, stamp)
    bus.blobs.put(saved.blobs.read(ref))


def _names(refs: list[str]) -> str:
    more = f" and {len(refs) - _NAMED} more" if len(refs) > _NAMED else ""
    return ", ".join(refs[:_NAMED]) + more


def mend_export(bus: Bus, stamp: str, dry_run: bool) -> Iterator[Mended]:
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
        kept = f"what was there is kept in *{ASIDE}{stamp}" if aside else "there was none"
        yield Mended("bus.jsonl", kept, f"a new one can't be written: {error}")
        return
    kept = f"; what was there is in *{ASIDE}{stamp}, with {_strange(bus, aside)}" if aside else ""
    yield Mended("bus.jsonl", f"was rewritten, {count:,} lines{kept}")


def _is_as_the_log(bus: Bus) -> bool:
    """Whether an export is whole; one that is behind is."""
    lines = checks_of_export(bus, full=True)["bus.jsonl"]()
    lacking = Parts(bus.layout.directory, Rotation.of(bus).get()).lacking()
    return lines.state == ok("").state and not lacking


def _strange(bus: Bus, files: list[str]) -> str:
    """Say how many lines of other files are no lines of the log."""
    own = {hash(message.to_line()) for message in bus.log.read()}  # the lines need much room
    count = 0
    for path in files:
        if ".jsonl" in path:
            count += sum(hash(line.rstrip(b"\n")) not in own for line in lines_of(path))
    return f"{count:,} lines that the log has not; what of them is whole 'bus import' brings in"


def mend_search(bus: Bus, dry_run: bool) -> Iterator[Mended]:
    """Empty a damaged index of words: the next search makes it again."""
    if bus.layout.files.look(os.path.basename(bus.layout.search)) is None:
        return
    search = Search(bus)
    if search.damage(full=True):
        if not dry_run:
            search.clear()
        yield Mended("search.db", "is made again of the log at the next search")
