"""Appending to the log: from drafts to rows, all or none."""

from __future__ import annotations

from contextlib import suppress

from ..schema import (
    BlobMissing,
    IdConflict,
    InvalidInput,
    Receipt,
    RowRefused,
    UnknownParent,
    shown,
)
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..blobs import BlobStore
    from ..schema import Database, Draft, Message, Row


class Appender:
    """Stores messages in the table `messages`.

    Args:
        database, blobs: of the bus.
        find: returns the message with an id, in the log or archived, or None.
        ring: wakes the waiters; it is called as soon as messages are committed.
    """

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        find: Callable[[str], Message | None],
        ring: Callable[[], None],
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._find = find
        self._ring = ring

    def append(self, drafts: Iterable[Draft], as_history: bool) -> list[Receipt]:
        """Store messages in one transaction, and wake the waiters; see `Log.append`."""
        now_ms = self._database.now_ms()
        rows = [draft.prepare(now_ms) for draft in drafts]
        for row in rows:
            if row.large_payload is not None:
                row.payload_ref = self._blobs.put(row.large_payload)
        if as_history:
            return self._append_history(rows)
        return self._append_rows(rows, as_history=False)

    def _append_history(self, rows: list[Row]) -> list[Receipt]:
        from .imports import Imports  # publishers need it not

        with self._database.write():
            receipts = self._append_rows(rows, as_history=True)
            new = [receipt.seq for receipt in receipts if not receipt.duplicate]
            if new:
                Imports(self._database).note(new[0], new[-1])
        return receipts

    def _append_rows(self, rows: list[Row], *, as_history: bool) -> list[Receipt]:
        """Store rows by the shortest way that does."""
        if as_history or all(row.in_reply_to is None for row in rows):
            with suppress(RowRefused):  # of which one, and why, is asked under the lock
                if len(rows) == 1 and rows[0].payload_ref is None:
                    return [self._append(rows[0])]  # one statement is a transaction by itself
                return self._append_at_once(rows)
        with self._database.write():
            return [self._append_one(row, as_history) for row in rows]

    def _append_at_once(self, rows: list[Row]) -> list[Receipt]:
        with self._database.write() as connection:
            for row in rows:
                self._secure_blob(row)
            connection.executemany(SQL["append"], [row.values() for row in rows])
            self._database.after_commit(self._ring)
            next_seq = connection.last_insert_rowid() + 1  # nobody else adds any meanwhile
        first = next_seq - len(rows)
        return [Receipt(seq, row.id) for seq, row in enumerate(rows, first)]

    def _append_one(self, row: Row, as_history: bool) -> Receipt:
        if row.in_reply_to is not None and not as_history:
            self._join_conversation(row, row.in_reply_to)
        self._secure_blob(row)
        try:
            return self._append(row)
        except RowRefused as error:
            return self._receipt_of_refused(row, error)

    def _append(self, row: Row) -> Receipt:
        self._database.change(SQL["append"], row.values(), then=self._ring)
        return Receipt(self._database.connection.last_insert_rowid(), row.id)

    def _join_conversation(self, row: Row, parent: str) -> None:
        conversation: str | None = self._database.value(SQL["conversation_of"], (parent,))
        if conversation is None:
            message = self._find(parent)  # it may be archived
            if message is None:
                raise UnknownParent(f"no message {parent!r} to reply to; see 'bus read'")
            conversation = message.conversation
        if row.correlation_id is None:
            row.correlation_id = conversation

    def _secure_blob(self, row: Row) -> None:
        """Make sure, under the write lock, that the collector has not taken the blob meanwhile."""
        if row.payload_ref is None or row.payload_ref in self._blobs:
            return
        if row.large_payload is None:
            raise BlobMissing(f"no blob {shown(row.payload_ref)} in the store; put it there first")
        self._blobs.put(row.large_payload)

    def _receipt_of_refused(self, row: Row, error: RowRefused) -> Receipt:
        stored = self._find(row.id)
        if stored is None:
            from .waiting_limits import WaitingLimits

            reached = WaitingLimits(self._database).reached_by(row.type, row.to_agent)
            refusal = reached or InvalidInput(f"the log refused message {row.id!r}: {error}")
            raise refusal from error
        differing = row.differs_from(stored)
        if differing:
            raise IdConflict(row.id, stored.seq, differing) from error
        return Receipt(stored.seq, stored.id, duplicate=True)
