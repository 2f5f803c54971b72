"""A new bus file, of all that the damaged one, the export and a backup still have."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from ...blobs.store import BlobStore
from ...bus.errors import SegmentMissing
from ...export.jsonl.writer import crc_in_mark
from ...schema.directory.layout import Layout
from ...schema.findings import Mended
from ...schema.message.message import Message, message_of
from ...schema.message.patterns import TypePattern
from ...schema.queries import COLUMNS, file_of, is_work
from ...schema.sqlite.transactions import without_triggers
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.policy import WorkHeaders
from ...subscribers.queues.queues import Queues
from ...tasks.board.proof import difference, store_unproven
from ..checks.bus import MENDING, seqs_of
from ..checks.export import Exported, row_of, whole_export
from ..recovery.records import parts_of_a_bus
from ..recovery.recover import NewFile, read_into
from ..recovery.salvage import in_words, ranges, ranges_without
from .files_beside import read_segment, segment_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ...bus.local_bus import LocalBus
    from ...subscribers.queues.queues import QueueInfo
    from ..checks.export import Row
    from ..recovery.recover import RecoveredContent

# Mending of cursors, queues and work in a file that was damaged.
#
# A row that is lost must not take work with it: what is not known to be done is done again. But
# not what is acted upon: a message alone has nobody's right. Approved tasks enter again by their
# rows, as the integrator begins; the other jobs are noted as such that no step published.


def mend_work(bus: LocalBus, lossy: Collection[str]) -> Iterator[Mended]:
    """Mend rows that contradict each other, in one transaction.

    Args:
        bus: the bus, which no other process may use.
        lossy: the tables that have lost rows.
    """
    with bus.transaction():
        now_ms = bus.now_ms()
        for name in seqs_of(bus, "add_lost_queues", now_ms):
            yield Mended("queues", f"{name} is paused, for its jobs", "its name, pattern and rules")
        yield from _report(
            "jobs", "known by their claims alone", seqs_of(bus, "add_jobs_of_claims")
        )
        cancelled = seqs_of(bus, "cancel_jobs_of_lost_messages", now_ms)
        if cancelled:
            yield Mended("jobs", f"{ranges(cancelled)} cancelled", "the messages of these")
        yield from _report("claims", "ended as lost", seqs_of(bus, "end_idle_claims", now_ms))
        yield from _report("jobs", "queued, since they run", seqs_of(bus, "queue_unheld_jobs"))
        if "jobs" in lossy:
            for info in Queues(bus).list():
                again = list(_work_again(bus, info))
                what = f"of {info.name} queued again"
                if info.is_acted_upon:
                    what = f"of {info.name} are not known to be of a step: ask for them again"
                yield from _report("jobs", what, again)
        # They guard what was published, and this is no part of it.
        with without_triggers(file_of(bus).connection):
            given_back = seqs_of(bus, "give_work_back")
        yield from _report("messages", "are mail again: no queue takes them", given_back)
        if {"jobs", "messages", "queues", "waiting_limits"} & set(lossy):
            file_of(bus).rows(MENDING["count_waiting"])


def _report(part: str, what: str, seqs: list[int]) -> Iterator[Mended]:
    if seqs:
        yield Mended(part, f"{ranges(seqs)} {what}")


def _work_again(bus: LocalBus, info: QueueInfo) -> Iterator[int]:
    """Queue the messages between a queue's first job and its position whose jobs are lost."""
    first = file_of(bus).value(MENDING["first_job"], (info.id,))
    if first is None:
        return  # where the queue began is not known
    jobs = Jobs.of(bus)
    pattern = TypePattern(info.pattern).text
    messages = bus.log.read(after_seq=first, upto_seq=info.filled_seq, type=pattern)
    for message in [candidate for candidate in messages if info.policy.takes(candidate.to_agent)]:
        if file_of(bus).value(MENDING["has_job"], (info.id, message.seq)) is None:
            _add(bus, jobs, info, message)
            yield message.seq


def _add(bus: LocalBus, jobs: Jobs, info: QueueInfo, message: Message) -> None:
    created_at_ms = max(0, min(message.ts_ms, bus.now_ms()))
    headers = WorkHeaders.of(message)
    if info.is_acted_upon:
        jobs.add_unproven(info, message, created_at_ms, info.rank_clock_ms)
    elif headers is None:
        jobs.add([jobs.row(info, message, created_at_ms, info.rank_clock_ms)])
    else:
        jobs.add_special(info, message, headers, created_at_ms, info.rank_clock_ms)


# Mending of the table of tasks: a row that is lost comes back from the log, as unproven.


def mend_tasks(bus: LocalBus) -> Iterator[Mended]:
    """Rebuild missing or unreadable rows of tasks from their messages.

    They are unproven: anybody could write the messages. A row that is there stays as it is.

    Args:
        bus: the bus, which no other process may use.
    """
    try:
        lost = difference(bus).lost
    except SegmentMissing:
        return  # the log can't tell
    if not lost:
        return
    with bus.transaction(), without_triggers(file_of(bus).connection):
        store_unproven(bus, lost)
    names = ", ".join(task.task for task in lost)
    what = f"{names} kept as unproven, from messages"
    yield Mended("tasks", what, "who confirms each, by 'bus task confirm'")


# Which copy of a message is right, when a damaged file, an export and a backup differ.

_AT = f"SELECT {COLUMNS} FROM messages WHERE seq = ?"
_TAKEN = "SELECT seq FROM messages WHERE id = ? AND seq <> ?"

#: Exports don't tell which messages are work: those that a queue hides which was there before.
_QUEUES_THEN = "(SELECT * FROM queues WHERE created_at_ms <= messages.ts_ms)"
_SORT = f"""
UPDATE messages SET work = 1
 WHERE seq = ? AND {is_work("messages.type", "messages.to_agent", _QUEUES_THEN)} RETURNING seq
"""


@dataclass(slots=True)
class MergedMessages:
    """The result of merging messages from other copies.

    Attributes:
        from_export, from_backup: the seqs of those that the file had lost.
        corrected: the seqs of messages that the file had altered.
        uncertain: of those of which two copies differ, and nothing tells which is right; the
            file's is kept.
        foreign: how many lines of the export are of another bus, or of other messages.
    """

    from_export: list[int] = field(default_factory=list)
    from_backup: list[int] = field(default_factory=list)
    corrected: list[int] = field(default_factory=list)
    uncertain: list[int] = field(default_factory=list)
    foreign: int = 0


class Merger:
    """Brings the messages of other copies into a new file.

    Args:
        new: holds what could be read of the damaged file.
        blobs: the blobs of the bus.
        backup: an earlier copy of the bus, if there is one.
        archived_upto: the seq up to which messages are in the archive, and not in the file.
    """

    def __init__(
        self, new: NewFile, blobs: BlobStore, backup: LocalBus | None, archived_upto: int
    ) -> None:
        self._new = new
        self._blobs = blobs
        self._backup = backup
        self._archived_upto = archived_upto
        self._table = parts_of_a_bus().tables["messages"]
        self.merged = MergedMessages()

    def take_exported(self, exported: Exported) -> None:
        """Add the lines that the file lost, and judge those that differ from its messages."""
        agree = differ = 0
        for message, _, _ in exported.lines():
            own = self._own_line(message.seq)
            agree += own is not None and own[0] == message.id
            differ += own is not None and own[0] != message.id
        if differ > agree or not exported.in_order():
            self.merged.foreign = differ
            return  # it is not the export of this bus, or was merged: `bus import` is for that
        for message, line, is_sure in exported.lines():
            if message.seq > self._archived_upto:
                self._judge(message, line, is_sure)

    def take_backup(self) -> None:
        """Add the messages that only the backup has."""
        if self._backup is None:
            return
        for message in self._backup.log.read(after_seq=self._archived_upto):
            if self._new.row(_AT, (message.seq,)) is None:
                self._put(row_of(message, message.to_line()), self.merged.from_backup)

    def _judge(self, message: Message, line: bytes, is_sure: bool) -> None:
        own = self._own_line(message.seq)
        if own is not None and own[1] == line:
            return
        saved = self._saved_line(message.seq)
        row = row_of(message, line)
        is_line_of_bus = message_of(row, self._blobs).to_line() == line
        if own is None:
            is_whole = is_line_of_bus and (saved is None or saved == line or is_sure)
            if is_whole:
                self._put(row, self.merged.from_export)
        elif saved == own[1]:
            return  # the line is what is damaged
        elif is_line_of_bus and (is_sure or saved == line or own[2]):
            self._put(row, self.merged.corrected)
        elif saved is not None and own[2]:
            self._put_saved(message.seq)
        elif self._new.row(_TAKEN, (message.id, message.seq)) is None:
            self.merged.uncertain.append(message.seq)

    def _put(self, row: Row, noted: list[int]) -> None:
        if self._new.row(_TAKEN, (row[1], row[0])) is not None:
            self.merged.foreign += 1
        elif self._new.replace(self._table, row):
            self._new.row(_SORT, (row[0],))
            noted.append(int(str(row[0])))

    def _put_saved(self, seq: int) -> None:
        saved = self._backup.log.at(seq) if self._backup else None
        if saved is not None:
            self._put(row_of(saved, saved.to_line()), self.merged.corrected)

    def _own_line(self, seq: int) -> tuple[str, bytes, bool] | None:
        """Return the id and the line of a message of the file, and whether it is surely wrong."""
        row = self._new.row(_AT, (seq,))
        if row is None:
            return None
        message = message_of(row, self._blobs)
        is_broken = message.raw_payload is not None and message.payload_error is not None
        return message.id, message.to_line(), is_broken

    def _saved_line(self, seq: int) -> bytes | None:
        saved = self._backup.log.at(seq) if self._backup else None
        return saved.to_line() if saved is not None else None


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
_NOT_REPORTED = {"messages", "sqlite_sequence", "catalog", "catalog_blocks", "catalog_state"}


class DatabaseMaker:
    """Makes the new file.

    Args:
        layout: the damaged bus.
        backup: an earlier copy of it, if there is one.
    """

    def __init__(self, layout: Layout, backup: LocalBus | None) -> None:
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
        """Make the new file, and yield a report of each part.

        Raises:
            BusUnusable: the damaged file is of another ackbus.
        """
        with closing(NewFile(path)) as new:
            file = self._layout.database
            recovered = read_into(new, file, file + "-wal")
            self.lossy = {name for name, table in recovered.tables.items() if not table.is_whole}
            catalog = ("catalog", "catalog_blocks", "catalog_state")
            self.lacks_catalog = not self.lossy.isdisjoint(catalog)
            if self.lacks_catalog:
                new.empty(*catalog)
            if self._backup is not None and not is_of_same_log(new, self._backup):
                self._backup = None
                yield Mended("backup", "is of another log: no row was taken from it")
            filled = self._fill(new, recovered)
            self._take_archived_ids(new)
            merged, newest = self._merge(new)
            self.corrected, self.is_later = merged.corrected, recovered.is_later
            messages = self._messages(new, recovered, merged)
            new.finish(gap=0 if recovered.is_newest else GAP, at_least=newest)
            yield messages
            yield from self._others(new, filled)
            if recovered.strangers or recovered.taken_over:
                yield _report_foreign_tables(recovered)

    def _fill(self, new: NewFile, recovered: RecoveredContent) -> dict[str, int]:
        """Add the backup's rows to tables that lost some; return how many were added to each."""
        if self._backup is None:
            return {}
        filled = {}
        for name, table in self._tables.items():
            if recovered.tables[name].is_whole or name in _NOT_FROM_BACKUP:
                continue
            columns, which = ", ".join(table.columns), _ROWS_OF_BACKUP.get(name, "TRUE")
            rows = file_of(self._backup).rows(f"SELECT {columns} FROM {name} WHERE {which}")
            filled[name] = sum(new.add_row(table, row) for row in rows)
        return filled

    def _take_archived_ids(self, new: NewFile) -> None:
        """Take the ids of archived messages from whole segments: a stored id may be altered."""
        for path in segment_files(self._layout):
            segment = read_segment(path)
            if segment.is_whole and segment.lines:
                new.set_archived_ids({message.seq: message.id for message in segment.messages()})

    def _merge(self, new: NewFile) -> tuple[MergedMessages, int]:
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

    def _messages(
        self, new: NewFile, recovered: RecoveredContent, merged: MergedMessages
    ) -> Mended:
        count = new.count("messages")
        saved = set(merged.from_export) | set(merged.from_backup)
        lost = {seq: id for seq, id in recovered.lost.items() if not new.has_message(seq)}
        is_whole = recovered.tables["messages"].is_whole
        gaps = [] if is_whole else list(ranges_without(new.gaps(), lost))
        sentences = [f"{count:,} saved, {count - len(saved):,} of them from the damaged file"]
        for seqs, source in ((merged.from_export, "bus.jsonl"), (merged.from_backup, "the backup")):
            sentences += [f"{ranges(seqs)} from {source}"] if seqs else []
        if merged.corrected:
            sentences.append(f"{ranges(merged.corrected)} put right from another copy")
        if merged.foreign:
            sentences.append(
                f"{merged.foreign} lines of bus.jsonl are of another log: 'bus import' them"
            )
        return Mended(
            "messages", "; ".join(sentences), _lost_messages(lost, gaps, recovered, merged)
        )

    def _others(self, new: NewFile, filled: dict[str, int]) -> Iterator[Mended]:
        names = sorted(self.lossy - _NOT_REPORTED)
        if names:
            counts = {name: new.count(name) for name in names if not name.endswith("_state")}
            kept_rows = [
                f"{count:,} of {name}"
                + (f" ({filled[name]:,} as the backup had them)" if filled.get(name) else "")
                for name, count in counts.items()
                if count
            ]
            lost = f"others, if there were any, of {', '.join(names)}"
            yield Mended("tables", f"rows: {', '.join(kept_rows) or 'none'}", lost)


def is_of_same_log(new: NewFile, backup: LocalBus) -> bool:
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


def _report_foreign_tables(recovered: RecoveredContent) -> Mended:
    """Report the tables of other programs, whose triggers and views stay behind."""
    names = ", ".join(recovered.taken_over) or "none"
    lost = ", ".join(recovered.strangers)
    lost = lost and f"those of other programs, which the damaged file has: {lost}"
    return Mended("tables", f"taken over of other programs: {names}", lost)


def _lost_messages(
    lost: dict[int, str],
    gaps: list[tuple[int, int]],
    recovered: RecoveredContent,
    merged: MergedMessages,
) -> str:
    losses = []
    if lost:
        names = ", ".join(f"{seq} ({id})" for seq, id in sorted(lost.items())[:20])
        losses.append(f"{len(lost):,} messages: {names}{' …' if len(lost) > 20 else ''}")
    if gaps:
        count = sum(last - first + 1 for first, last in gaps)
        losses.append(
            f"possibly {count:,} more, of which nothing but the number is left: {in_words(gaps)}"
        )
    if (
        not losses
        and not recovered.tables["messages"].is_whole
        and not (merged.from_export or merged.from_backup)
    ):
        losses.append("others, if there were any")
    if not recovered.is_newest:
        losses.append("what was committed last, if it was nowhere else")
    if merged.uncertain:
        losses.append(f"what is right of {ranges(merged.uncertain)}, which bus.jsonl has otherwise")
    return "; ".join(losses)
