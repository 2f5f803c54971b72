"""A new bus file, of all that the damaged one, the export and a backup still have."""

from __future__ import annotations

from contextlib import closing

from ...blobs.store import BlobStore
from ...export.jsonl.export_position import crc_in_mark
from ...schema.directory.layout import Layout
from ...schema.findings import Mended
from ...schema.queries import file_of
from ..checks.export_reader import Exported, whole_export
from ..recovery.damage import in_words, ranges, ranges_without
from ..recovery.new_file import NewFile
from ..recovery.recover import read_into
from ..recovery.tables import parts_of_a_bus
from .messages import Merger
from .segment_file import read_segment, segment_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus
    from ..recovery.recover import Recovered
    from .messages import Merged

#: How many seqs and tokens are left out where the newest that were given may be lost: more than
#: are given between two copies of the write-ahead log into the file.
GAP = 1_000_000

_SEQ_OF = (
    "SELECT seq FROM messages WHERE id = ?1 UNION ALL SELECT seq FROM archived_ids WHERE id = ?1"
)
_IS_TAKEN = "SELECT 1 FROM messages WHERE seq = ?"

#: Tables that are not taken from a backup: messages are copied one by one, and the others are
#: derived or out of date: a token may have been revoked since, a lease extended.
_NOT_FROM_BACKUP = {"messages", "sqlite_sequence", "loops", "catalog", "catalog_blocks"}
_NOT_FROM_BACKUP |= {"access_tokens", "task_claims", "reservations"}
_NOT_FROM_BACKUP |= {"catalog_state", "export_state", "automation_service", "job_output"}

#: Of a table that is, the rows that are: a claim that held its job then must not hold it again.
#: And the mark of a backup is left out: the bus itself is none.
_ROWS_OF_BACKUP = {"claims": "status <> 'active'", "meta": "key <> 'backup_made_at_ms'"}

#: Tables that the report leaves out: it tells of the messages, from which the others are derived.
_NOT_TOLD = {"messages", "sqlite_sequence", "catalog", "catalog_blocks", "catalog_state"}


class DatabaseMaker:
    """Makes the new file.

    Args:
        layout: the damaged bus.
        backup: an earlier copy of it, if there is one.
    """

    def __init__(self, layout: Layout, backup: Bus | None) -> None:
        self._layout = layout
        self._backup = backup
        self._tables = parts_of_a_bus().tables
        #: Whether the catalog must be counted again.
        self.lacks_catalog = False
        #: The tables that have lost rows.
        self.lossy: set[str] = set()
        #: The seqs of messages that another copy has put right.
        self.corrected: list[int] = []
        #: Whether the new file is of a later moment than the rows that SQLite reads.
        self.is_later = False

    def make(self, path: str) -> Iterator[Mended]:
        """Make the new file, and tell of each part of it.

        Raises:
            BusUnusable: the damaged file is of another ackbus.
        """
        with closing(NewFile(path)) as new:
            file = self._layout.database
            found = read_into(new, file, file + "-wal")
            self.lossy = {name for name, table in found.tables.items() if not table.is_whole}
            catalog = ("catalog", "catalog_blocks", "catalog_state")
            self.lacks_catalog = not self.lossy.isdisjoint(catalog)
            if self.lacks_catalog:
                new.empty(*catalog)
            if self._backup is not None and not is_of_same_log(new, self._backup):
                self._backup = None
                yield Mended("backup", "is of another log: no row was taken from it")
            filled = self._fill(new, found)
            self._take_archived_ids(new)
            merged, newest = self._merge(new)
            self.corrected, self.is_later = merged.corrected, found.is_later
            messages = self._messages(new, found, merged)
            new.finish(gap=0 if found.is_newest else GAP, at_least=newest)
            yield messages
            yield from self._others(new, filled)
            if found.strangers or found.taken_over:
                yield _of_others(found)

    def _fill(self, new: NewFile, found: Recovered) -> dict[str, int]:
        """Add rows of the backup to tables that have lost some; return how many to which."""
        if self._backup is None:
            return {}
        filled = {}
        for name, table in self._tables.items():
            if found.tables[name].is_whole or name in _NOT_FROM_BACKUP:
                continue
            columns, which = ", ".join(table.columns), _ROWS_OF_BACKUP.get(name, "TRUE")
            rows = file_of(self._backup).rows(f"SELECT {columns} FROM {name} WHERE {which}")
            filled[name] = sum(new.add_row(table, row) for row in rows)
        return filled

    def _take_archived_ids(self, new: NewFile) -> None:
        """Take the ids of archived messages from whole segments: a stored id may be altered."""
        for path in segment_files(self._layout):
            found = read_segment(path)
            if found.is_whole and found.lines:
                new.set_archived_ids({message.seq: message.id for message in found.messages()})

    def _merge(self, new: NewFile) -> tuple[Merged, int]:
        """Bring in the messages of other copies; return what came, and the highest seq seen."""
        blobs = BlobStore(self._layout.blob_folder)
        exported = Exported(self._layout, blobs, as_exported(new, self._layout))
        state = new.row("SELECT last_seq FROM archive_state") or (0,)
        archived_upto = int(str(state[0]))
        merger = Merger(new, blobs, self._backup, archived_upto)
        merger.take_exported(exported)
        merger.take_backup()
        newest = 0 if merger.merged.foreign else exported.newest_seq()
        saved = self._backup.log.newest_seq() if self._backup else 0
        return merger.merged, max(newest, saved)

    def _messages(self, new: NewFile, found: Recovered, merged: Merged) -> Mended:
        count = new.count("messages")
        saved = set(merged.from_export) | set(merged.from_backup)
        lost = {seq: id for seq, id in found.lost.items() if not new.has_message(seq)}
        is_whole = found.tables["messages"].is_whole
        gaps = [] if is_whole else list(ranges_without(new.gaps(), lost))
        told = [f"{count:,} saved, {count - len(saved):,} of them from the damaged file"]
        for seqs, source in ((merged.from_export, "bus.jsonl"), (merged.from_backup, "the backup")):
            told += [f"{ranges(seqs)} from {source}"] if seqs else []
        if merged.corrected:
            told.append(f"{ranges(merged.corrected)} put right from another copy")
        if merged.foreign:
            told.append(
                f"{merged.foreign} lines of bus.jsonl are of another log: 'bus import' them"
            )
        return Mended("messages", "; ".join(told), _lost_messages(lost, gaps, found, merged))

    def _others(self, new: NewFile, filled: dict[str, int]) -> Iterator[Mended]:
        names = sorted(self.lossy - _NOT_TOLD)
        if names:
            counts = {name: new.count(name) for name in names if not name.endswith("_state")}
            told = [
                f"{count:,} of {name}"
                + (f" ({filled[name]:,} as the backup had them)" if filled.get(name) else "")
                for name, count in counts.items()
                if count
            ]
            lost = f"others, if there were any, of {', '.join(names)}"
            yield Mended("tables", f"rows: {', '.join(told) or 'none'}", lost)


def is_of_same_log(new: NewFile, backup: Bus) -> bool:
    """Whether a backup has the messages of the file: another bus may have been here before."""
    same = other = 0
    for message in backup.log.read(after_seq=backup.archive.upto()):
        row = new.row(_SEQ_OF, (message.id,))
        same += row == (message.seq,)
        other += row is None and new.row(_IS_TAKEN, (message.seq,)) is not None
    return same >= other


def as_exported(new: NewFile, layout: Layout) -> frozenset[str]:
    """Return `bus.jsonl` if it has the checksum that the damaged file has noted of it."""
    mark = new.row("SELECT value FROM meta WHERE key = 'export_mark'") or ("",)
    return whole_export(layout.jsonl, crc_in_mark(str(mark[0]).split(" ")))


def _of_others(found: Recovered) -> Mended:
    """Tell of the tables that other programs have made, whose triggers and views stay behind."""
    names = ", ".join(found.taken_over) or "none"
    lost = ", ".join(found.strangers)
    lost = lost and f"those of other programs, which the damaged file has: {lost}"
    return Mended("tables", f"taken over of other programs: {names}", lost)


def _lost_messages(
    lost: dict[int, str], gaps: list[tuple[int, int]], found: Recovered, merged: Merged
) -> str:
    told = []
    if lost:
        names = ", ".join(f"{seq} ({id})" for seq, id in sorted(lost.items())[:20])
        told.append(f"{len(lost):,} messages: {names}{' …' if len(lost) > 20 else ''}")
    if gaps:
        count = sum(last - first + 1 for first, last in gaps)
        told.append(
            f"possibly {count:,} more, of which nothing but the number is left: {in_words(gaps)}"
        )
    if (
        not told
        and not found.tables["messages"].is_whole
        and not (merged.from_export or merged.from_backup)
    ):
        told.append("others, if there were any")
    if not found.is_newest:
        told.append("what was committed last, if it was nowhere else")
    if merged.uncertain:
        told.append(f"what is right of {ranges(merged.uncertain)}, which bus.jsonl has otherwise")
    return "; ".join(told)
