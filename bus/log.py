"""The log: the table `messages`, and every way of appending to it and reading it."""

from __future__ import annotations

import heapq

import apsw

from ..schema import (
    BlobMissing,
    Draft,
    IdConflict,
    InvalidInput,
    Message,
    Receipt,
    TypePattern,
    UnknownParent,
    pages,
)
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..blobs import BlobStore
    from ..schema import Database, Row
    from .catalog import Catalog
    from .doorbell import Doorbell

#: How many messages a reader of history holds at a time.
PAGE_MESSAGES = 1000


class Log:
    """The messages of one bus."""

    def __init__(
        self, database: Database, blobs: BlobStore, catalog: Catalog, doorbell: Doorbell
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._catalog = catalog
        self._doorbell = doorbell

    def append(self, drafts: Iterable[Draft], *, as_history: bool = False) -> list[Receipt]:
        """Store messages in one transaction, all or none, and wake the waiters after it.

        Large payloads are on disk as blobs before their rows are stored. Repeating a call whose
        drafts have ids is safe: what is there already is not stored again.

        Args:
            drafts: the messages, in order.
            as_history: store them as they are: what they answer may be missing, and they join
                no conversation but the one that they name.

        Returns:
            One receipt for each draft, in order.

        Raises:
            InvalidInput: a draft breaks a rule.
            IdConflict: an id is taken by a message with other content.
            UnknownParent: a draft answers a message that is not in the log.
            BlobMissing: a draft names a blob that is not in the store.
            LimitReached: a draft is for a queue or an inbox that is full.
            BusBusy: the write lock could not be had in time.
        """
        now_ms = self._database.now_ms()
        rows = [draft.prepare(now_ms) for draft in drafts]
        for row in rows:
            if row.large_payload is not None:
                row.payload_ref = self._blobs.put(row.large_payload)
        transaction = self._database.write()
        with transaction as connection:
            receipts = [self._append_row(connection, row, as_history) for row in rows]
            transaction.after_commit(self._doorbell.ring)
        return receipts

    def _append_row(self, connection: apsw.Connection, row: Row, as_history: bool) -> Receipt:
        if row.in_reply_to is not None and not as_history:
            self._join_conversation(connection, row)
        if row.payload_ref is not None:
            self._secure_blob(row)
        try:
            connection.execute(SQL["append"], row.values())
        except apsw.ConstraintError as error:
            return self._receipt_of_refused(row, error)
        return Receipt(connection.last_insert_rowid(), row.id)

    def _join_conversation(self, connection: apsw.Connection, row: Row) -> None:
        parent = connection.execute(SQL["conversation_of"], (row.in_reply_to,)).fetchone()
        if parent is None:
            raise UnknownParent(f"no message {row.in_reply_to!r} to reply to; see 'bus read'")
        if row.correlation_id is None:
            row.correlation_id = parent[0]

    def _secure_blob(self, row: Row) -> None:
        """Make sure, under the write lock, that the collector has not taken the blob meanwhile."""
        assert row.payload_ref is not None
        if row.payload_ref in self._blobs:
            return
        if row.large_payload is None:
            raise BlobMissing(f"no blob {row.payload_ref} in the store; put it there first")
        self._blobs.put(row.large_payload)

    def _receipt_of_refused(self, row: Row, error: apsw.ConstraintError) -> Receipt:
        stored = self.get(row.id)
        if stored is None:
            from .waiting_limits import WaitingLimits

            reached = WaitingLimits(self._database).reached_by(row.type, row.to_agent)
            refusal = reached or InvalidInput(f"the log refused message {row.id!r}: {error}")
            raise refusal from error
        differing = row.differs_from(stored)
        if differing:
            raise IdConflict(row.id, stored.seq, differing) from error
        return Receipt(stored.seq, stored.id, duplicate=True)

    def get(self, id: str) -> Message | None:
        """Return the message with this id, or None."""
        return self._one("message_by_id", id)

    def at(self, seq: int) -> Message | None:
        """Return the message at this place, or None."""
        return self._one("message_by_seq", seq)

    def _one(self, statement: str, key: str | int) -> Message | None:
        row = self._database.row(SQL[statement], (key,))
        return None if row is None else Message(row, self._blobs)

    def newest_seq(self) -> int:
        """Return the seq of the newest message ever stored; 0 before the first."""
        seq: int | None = self._database.value(SQL["newest_seq"])
        return seq or 0

    def newest(self, count: int, *, type: str | None = None) -> list[Message]:
        """Return the newest `count` messages that fit a type pattern, oldest of them first."""
        pattern = None if type is None else TypePattern(type)
        size = count if pattern is None else PAGE_MESSAGES
        spans = self._catalog.spans(0, self.newest_seq(), pattern, None, None)
        found: list[Message] = []
        for start, end in reversed(list(spans)):
            while len(found) < count:
                rows = self._database.rows(SQL["newest_in_span"], (start, end, size))
                if not rows:
                    break
                end = rows[-1][0] - 1
                fitting = (row for row in rows if pattern is None or pattern.matches(row[5]))
                found += [Message(row, self._blobs) for row in fitting]
        return found[:count][::-1]

    def addressed_to(self, agent: str, after_seq: int, limit: int) -> list[Message]:
        """Return up to `limit` messages to an agent, and broadcasts, above `after_seq`, in order.

        Reads no more rows than it returns, and one more of each kind.
        """
        rows = self._database.rows(SQL["addressed_to"], (agent, after_seq, limit))
        return [Message(row, self._blobs) for row in rows]

    def count_addressed_to(self, agent: str, after_seq: int, limit: int) -> int:
        """Return how many messages `addressed_to` would give, counted up to `limit`."""
        count: int = self._database.value(SQL["count_addressed_to"], (agent, after_seq, limit))
        return count

    def between(self, after_seq: int, upto_seq: int, *, type: str | None = None) -> list[Message]:
        """Return the messages of a short range, without the first and with the last seq.

        Args:
            after_seq, upto_seq: the range.
            type: only messages of exactly this type.
        """
        span = (after_seq, upto_seq, upto_seq - after_seq)
        if type is None:
            rows = self._database.rows(SQL["in_span"], span)
        else:
            rows = self._database.rows(SQL["in_span_of_type"], (*span, type))
        return [Message(row, self._blobs) for row in rows]

    def names_blob(self, ref: str) -> bool:
        """Whether a message's payload is this blob."""
        return bool(self._database.value(SQL["blob_is_named"], (ref,)))

    def read(
        self,
        *,
        after_seq: int = 0,
        upto_seq: int | None = None,
        type: str | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        since_ms: int | None = None,
    ) -> Iterator[Message]:
        """Yield the messages that fit every filter that is given, in order of seq.

        A page is held in memory at a time; no transaction is open while the caller works. The
        end is where the log ended when the reading began.

        Args:
            after_seq, upto_seq: the range, without the first and with the last.
            type: a type pattern.
            conversation: only this conversation.
            agent: only messages from or to this agent.
            since_ms: only messages of this epoch millisecond or later.
        """
        last = self.newest_seq() if upto_seq is None else min(upto_seq, self.newest_seq())
        pattern = None if type is None else TypePattern(type)
        for row in self._rows(after_seq, last, pattern, conversation, agent, since_ms):
            if since_ms is not None and row[2] < since_ms:
                continue
            if agent is not None and agent not in (row[3], row[4]):
                continue
            if pattern is not None and not pattern.matches(row[5]):
                continue
            yield Message(row, self._blobs)

    def _rows(
        self,
        after: int,
        last: int,
        pattern: TypePattern | None,
        conversation: str | None,
        agent: str | None,
        since_ms: int | None,
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows that hold all that fit the filters, by the cheapest walk; some may not fit."""
        if conversation is not None:
            yield from self._walk("in_conversation", (conversation,), after, last)
        elif agent is not None:
            sent = self._spans(after, last, pattern, agent, since_ms)
            received = self._walk("sent_to", (agent,), after, last)
            yield from _distinct(heapq.merge(sent, received))
        else:
            yield from self._spans(after, last, pattern, None, since_ms)

    def _spans(
        self,
        after: int,
        last: int,
        pattern: TypePattern | None,
        sender: str | None,
        since_ms: int | None,
    ) -> Iterator[tuple[Any, ...]]:
        for start, end in self._catalog.spans(after, last, pattern, sender, since_ms):
            yield from self._walk("in_span", (), start, end)

    def _walk(
        self, statement: str, keys: tuple[object, ...], after: int, last: int
    ) -> Iterator[tuple[Any, ...]]:
        def page(after_seq: int) -> list[tuple[Any, ...]]:
            return self._database.rows(SQL[statement], (*keys, after_seq, last, PAGE_MESSAGES))

        for rows in pages(page, after, PAGE_MESSAGES):
            yield from rows


def _distinct(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Drop what stands twice in a row: a message from an agent to itself."""
    previous = -1
    for row in rows:
        if row[0] != previous:
            yield row
        previous = row[0]
