"""Appending to the log: from drafts to rows, all or none."""

from __future__ import annotations

import os
import sys

from ...schema.directory.layout import NoHome, keys_directory
from ...schema.errors import BlobMissing, IdConflict, InvalidInput, RowRefused, UnknownParent, shown
from ...schema.message import lazy_orjson as orjson
from ...schema.message.message import Receipt
from ...schema.queries import Table
from ..errors import MessageDiscarded
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from ...blobs.store import BlobStore
    from ...schema.engine import Engine
    from ...schema.message.draft import Draft, MessageRow
    from ...schema.message.message import Message
    from ..signing import Signer

    #: First seq, last seq, and the epoch millisecond at which the first of them came.
    Range = tuple[int, int, int]

    #: The conversation and the type of each message that is replied to, by its id.
    Parents = Mapping[str, tuple[str, str]]

# The imported messages and the times of their imports: an entry of the table `meta`.
#
# An imported message keeps the time at which it was sent, perhaps on another bus and long ago.
# Retention needs the time that it has waited here.

#: Imports within this time of the first count as one, in milliseconds: an hour. Retention counts
#: in days.
_JOIN_MS = 3_600_000

#: How many imports are remembered. Messages of older imports count by the time they were sent.
_MAX_RANGES = 1000


class Imports(Table):
    """The entry `imports` of the table `meta`."""

    def note(self, first_seq: int, last_seq: int) -> None:
        """Note that these messages have come now; in the transaction that stores them."""
        at_ms = self._engine.now_ms()
        ranges = self._ranges()
        if ranges and 0 <= at_ms - ranges[-1][2] < _JOIN_MS:
            first_seq, _, at_ms = ranges.pop()
        ranges.append((first_seq, last_seq, at_ms))
        text = orjson.dumps(ranges[-_MAX_RANGES:]).decode()
        self._engine.change(SQL["set_imports"], (text,))

    def came_ms(self, seq: int) -> int | None:
        """Return when a message came by an import, in epoch milliseconds; None for others.

        A message published between imports that count as one counts as imported too.
        """
        for first_seq, last_seq, at_ms in self._ranges():
            if first_seq <= seq <= last_seq:
                return at_ms
        return None

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and the last seq of each import."""
        return [(first_seq, last_seq) for first_seq, last_seq, _ in self._ranges()]

    def _ranges(self) -> list[Range]:
        text = self._engine.value(SQL["imports"])
        return [] if text is None else [tuple(pair) for pair in orjson.loads(text)]


#: After how long a publisher looks again whether it signs, and the log is chained, in milliseconds.
_LOOK_AGAIN_MS = 60_000

#: The module that every process with spans has loaded; others need not load `tracing`.
_SPANS = "opentelemetry.sdk.trace"

#: The ids of no messages.
_NO_IDS: AbstractSet[str] = frozenset()

#: Where the type stands among the values of a row.
_TYPE = 4

#: From this many messages on, skipping the guard outweighs planning the statements again.
UNGUARDED_FROM = 100


class Appender:
    """Stores messages in the table `messages`.

    Args:
        engine, blobs: of the bus.
        find: returns the message with an id, in the log or archived, or None.
        ring: wakes the waiters; it is called as soon as messages are committed.
        extend_chain: takes what was appended, so many messages, into the hash chain.
    """

    def __init__(
        self,
        engine: Engine,
        blobs: BlobStore,
        find: Callable[[str], Message | None],
        ring: Callable[[], None],
        extend_chain: Callable[[int], None],
    ) -> None:
        self._engine = engine
        self._blobs = blobs
        self._find = find
        self._ring = ring
        self._extend_chain = extend_chain
        # Looked up now and then: publishers without signatures and chain pay nothing a message.
        self._is_chained = False
        self._signer: Signer | None = None
        self.look_again()

    def append(
        self,
        drafts: Iterable[Draft],
        as_history: bool,
        parents: Parents | None = None,
        *,
        is_traced: bool = False,
    ) -> list[Receipt]:
        """Store messages in one transaction, and wake the waiters; see `Log.append`."""
        if _SPANS in sys.modules and not (is_traced or as_history):
            from .. import tracing

            drafts = list(drafts)
            with tracing.publishing(drafts):
                traced = tracing.traced(drafts, tracing.current_trace())
                return self.append(traced, as_history, parents, is_traced=True)
        now_ms = self._engine.now_ms()
        rows = [draft.prepare(now_ms) for draft in drafts]
        large = [row for row in rows if row.large_payload is not None]
        if large:
            self._put_payloads(large)
        if abs(now_ms - self._looked_ms) > _LOOK_AGAIN_MS:
            self._look(now_ms)
        replies = [] if as_history else [row for row in rows if row.in_reply_to is not None]
        orphans = self._join_conversations(replies, parents) if replies else _NO_IDS
        if self._signer is not None and not as_history:  # what is signed has its conversation
            self._signer.sign(row for row in rows if row.id not in orphans)
        if not self._is_chained:
            return self._append_all(rows, orphans, as_history)
        with self._engine.write():
            receipts = self._append_all(rows, orphans, as_history)
            self._extend_chain(len(rows))
        return receipts

    def parents(self, drafts: Iterable[Draft | MessageRow]) -> Parents:
        """Look up the messages of the log that some drafts reply to; see `Log.parents`."""
        # A draft is refused later if this is no text.
        ids = {d.in_reply_to for d in drafts if isinstance(d.in_reply_to, str)}
        stored = ((key, self._engine.rows(SQL["parent"], (key,))) for key in ids)
        return {key: rows[0] for key, rows in stored if rows}

    def look_again(self) -> None:
        """Look up the chain and the keys again before the next append."""
        self._looked_ms = -_LOOK_AGAIN_MS - 1

    def _look(self, now_ms: int) -> None:
        """Look up whether the log is chained, and whether this user has signing keys."""
        self._looked_ms = now_ms
        self._is_chained = self._engine.value(SQL["chain_switch"]) is not None
        self._signer = None
        try:
            keys = keys_directory()
        except NoHome:  # and no keys, as in many a container
            return
        if os.path.isdir(keys) and os.access(keys, os.X_OK):  # else they are not this user's
            from ..signing import Signer

            self._signer = Signer()

    def _append_all(
        self, rows: list[MessageRow], orphans: AbstractSet[str], as_history: bool
    ) -> list[Receipt]:
        if as_history:
            return self._append_history(rows)
        return self._append_rows(rows, orphans)

    def _put_payloads(self, rows: list[MessageRow]) -> None:
        refs = self._blobs.put_all(row.large_payload for row in rows if row.large_payload)
        for row, ref in zip(rows, refs, strict=True):
            row.payload_ref = ref

    def _append_history(self, rows: list[MessageRow]) -> list[Receipt]:
        with self._engine.write():
            receipts = self._append_rows(rows, _NO_IDS)
            new = [receipt.seq for receipt in receipts if not receipt.duplicate]
            if new:
                Imports(self._engine).note(new[0], new[-1])
        return receipts

    def _append_rows(self, rows: list[MessageRow], orphans: AbstractSet[str]) -> list[Receipt]:
        """Store rows by the cheapest way that is possible."""
        if not orphans:
            try:
                if len(rows) == 1 and rows[0].payload_ref is None:
                    return [self._append(rows[0])]  # one statement is a transaction by itself
                return self._append_at_once(rows)
            except RowRefused:
                pass  # which row, and why, is found under the lock
        with self._engine.write():
            return [self._append_one(row, row.id in orphans) for row in rows]

    def _append_at_once(self, rows: list[MessageRow]) -> list[Receipt]:
        with self._engine.write():
            for row in rows:
                if row.payload_ref is not None:
                    self._secure_blob(row, row.payload_ref)
            newest = self._insert([row.values() for row in rows])
            self._engine.after_commit(self._ring)
        return [Receipt(seq, row.id) for seq, row in enumerate(rows, newest - len(rows) + 1)]

    def _insert(self, rows: list[tuple[object, ...]]) -> int:
        """Insert many rows, and return the seq of the last.

        The guard is skipped where it could refuse no row, and the trigger for queues if no queue
        hides messages of these types. That halves the time in SQLite. It is safe: under the write
        lock no other process can change this, the index refuses an id that is in the log, and
        SQLite gives the seqs.
        """
        if len(rows) < UNGUARDED_FROM:
            return self._engine.insert_many(SQL["append"], rows)
        types = orjson.dumps(list({row[_TYPE] for row in rows})).decode()
        ((guard, work),) = self._engine.rows(SQL["what_many_need"], (types,))
        statement = SQL["append" if work else "append_mail"]
        return self._engine.insert_many(statement, rows, guarded=bool(guard))

    def _append_one(self, row: MessageRow, is_orphan: bool) -> Receipt:
        if is_orphan and row.in_reply_to is not None:
            self._adopt(row, row.in_reply_to)
            if self._signer is not None:
                self._signer.sign([row])
        if row.payload_ref is not None:
            self._secure_blob(row, row.payload_ref)
        try:
            return self._append(row)
        except RowRefused as error:
            return self._receipt_of_refused(row, error)

    def _append(self, row: MessageRow) -> Receipt:
        seq = self._engine.insert(SQL["append"], row.values(), then=self._ring)
        return Receipt(seq, row.id)

    def _join_conversations(self, replies: list[MessageRow], parents: Parents | None) -> set[str]:
        """Join replies to conversations, and return the ids of those without a stored parent."""
        if parents is None:
            parents = self.parents(replies)
        orphans = set()
        for row in replies:
            parent = parents.get(row.in_reply_to or "")
            if parent is None:
                orphans.add(row.id)
            elif row.correlation_id is None:
                row.correlation_id = parent[0]
        return orphans

    def _adopt(self, row: MessageRow, parent: str) -> None:
        """Join a reply to its conversation, under the write lock.

        Its parent comes before it in the same transaction, or is archived.
        """
        message = self._find(parent)
        if message is None:
            raise UnknownParent(f"no message {parent!r} to reply to; see 'bus read'")
        if row.correlation_id is None:
            row.correlation_id = message.conversation

    def _secure_blob(self, row: MessageRow, ref: str) -> None:
        """Check, under the write lock, that the collector has not deleted the blob meanwhile."""
        if ref in self._blobs:
            return
        if row.large_payload is None:
            raise BlobMissing(f"no blob {shown(ref)} in the store; put it there first")
        self._blobs.put(row.large_payload)

    def _receipt_of_refused(self, row: MessageRow, error: RowRefused) -> Receipt:
        try:
            stored = self._find(row.id)
        except MessageDiscarded as discarded:  # it was stored once: nothing is left to compare with
            return Receipt(discarded.seq, row.id, duplicate=True)
        if stored is None:
            from ..waiting_limits import WaitingLimits

            reached = WaitingLimits(self._engine).reached_by(row.type, row.to_agent)
            refusal = reached or InvalidInput(f"the log refused message {row.id!r}: {error}")
            raise refusal from error
        differing = row.differs_from(stored)
        if differing:
            raise IdConflict(row.id, stored.seq, differing) from error
        return Receipt(stored.seq, stored.id, duplicate=True)
