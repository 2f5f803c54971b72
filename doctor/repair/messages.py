"""Which copy of a message is right, when a damaged file, an export and a backup differ."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...schema.message.message import Message, message_of
from ...schema.queries import COLUMNS, is_work
from ..checks.export_reader import row_of
from ..recovery.tables import parts_of_a_bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...blobs.store import BlobStore
    from ...bus.bus import Bus
    from ..checks.export_reader import Exported, Row
    from ..recovery.new_file import NewFile

_AT = f"SELECT {COLUMNS} FROM messages WHERE seq = ?"
_TAKEN = "SELECT seq FROM messages WHERE id = ? AND seq <> ?"

#: Exports don't tell which messages are work: those that a queue hides which was there before.
_QUEUES_THEN = "(SELECT * FROM queues WHERE created_at_ms <= messages.ts_ms)"
_SORT = f"""
UPDATE messages SET work = 1
 WHERE seq = ? AND {is_work("messages.type", "messages.to_agent", _QUEUES_THEN)} RETURNING seq
"""


@dataclass(slots=True)
class Merged:
    """The result of merging messages from other copies.

    Attributes:
        from_export, from_backup: the seqs of those that the file had lost.
        corrected: of those that it had otherwise than they were published.
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
        self, new: NewFile, blobs: BlobStore, backup: Bus | None, archived_upto: int
    ) -> None:
        self._new = new
        self._blobs = blobs
        self._backup = backup
        self._archived_upto = archived_upto
        self._table = parts_of_a_bus().tables["messages"]
        self.merged = Merged()

    def take_exported(self, exported: Exported) -> None:
        """Add the lines that the file has lost, and judge those that it has otherwise."""
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
