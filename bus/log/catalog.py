"""The catalog: the types, senders and times of each block of the log.

An index on types and senders would cost every publisher a third of its rate, for the sake of rare
looks at history. So the log is cut into blocks, and the catalog lists which types and senders each
block has: a query reads only blocks that can hold an answer. The catalog has a position, up to
which it has counted. A query that needs many later messages has them counted first; a few it reads.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import groupby

from ...schema.errors import AckbusError
from ...schema.queries import Table
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...schema.message.message import Message
    from ...schema.message.patterns import AnyPattern, TypePattern
    from .log import Log

#: How many seqs make a block: small enough to skip much, large enough to keep the catalog small.
BLOCK_SEQS = 2048

#: How many messages one transaction of the catalog counts: a few tens of milliseconds, so that
#: publishers hardly notice.
STEP_MESSAGES = 16 * BLOCK_SEQS


def _block_of(message: Message) -> int:
    return message.seq // BLOCK_SEQS


class Catalog(Table):
    """The tables `catalog`, `catalog_blocks` and `catalog_state`.

    They have the counts of types and senders of each block, its newest time, and the position.
    """

    def catch_up(self, newest_seq: int) -> None:
        """Count the messages up to `newest_seq`, in steps; each is a short transaction.

        A step begins at a message: seqs that no message has, of which a repair may leave millions,
        cost no steps.

        In a backup, which is read-only, it does nothing: the copy was counted when it was made.

        Raises:
            BusBusy: the write lock could not be had in time; the steps before it stay.
        """
        while self._engine.backup_made_at_ms is None and self.position() < newest_seq:
            with self._engine.write():
                position = self.position()  # another process may have counted
                upto = min(newest_seq, self._before_next(position, newest_seq) + STEP_MESSAGES)
                if upto > position:
                    span = (position, upto, BLOCK_SEQS)
                    self._engine.rows(SQL["catalog_names"], span)
                    self._engine.rows(SQL["catalog_times"], span)
                    self._engine.rows(SQL["catalog_advance"], (upto,))

    def _before_next(self, position: int, newest_seq: int) -> int:
        """Return the seq before the next message; the position, where one step is enough anyway."""
        if newest_seq - position <= STEP_MESSAGES:
            return position
        next_seq: int | None = self._engine.value(SQL["catalog_next"], (position,))
        return newest_seq if next_seq is None else next_seq - 1

    def recount(self, log: Log) -> None:
        """Count all messages again, also those in the archive, a block in memory at a time.

        Messages in a lost part of the archive are not counted.
        """
        with self._engine.write():
            for statement in ("catalog_empty", "catalog_empty_blocks"):
                self._engine.rows(SQL[statement])
            newest = log.newest_seq()
            for block, messages in groupby(log.all_readable(), key=_block_of):
                self._count(block, list(messages))
            self._engine.rows(SQL["catalog_advance"], (newest,))

    def _count(self, block: int, messages: list[Message]) -> None:
        names = Counter(("type", message.type) for message in messages)
        names.update(("from", message.from_agent) for message in messages)
        for (kind, name), count in names.items():
            self._engine.rows(SQL["catalog_name"], (kind, name, block, count))
        newest_ms = max(message.ts_ms for message in messages)
        self._engine.rows(SQL["catalog_block"], (block, newest_ms))

    def position(self) -> int:
        """Return the seq up to which messages have been counted."""
        seq: int = self._engine.one_number(SQL["catalog_position"], "catalog_state")
        return max(0, seq)  # a damaged one may be negative, and would cost steps without end

    def counts(self, kind: str) -> dict[str, int]:
        """Return the number of counted messages of each type (kind `type`) or sender (`from`)."""
        return dict(self._engine.rows(SQL["catalog_counts"], (kind,)))

    def spans(
        self,
        after: int,
        last: int,
        pattern: TypePattern | AnyPattern | None,
        sender: str | None,
        since_ms: int | None,
    ) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the log that can hold matches, in order.

        Each is a pair: the seq before its first, and its last.
        """
        is_filtered = pattern is not None or sender is not None or since_ms is not None
        if not is_filtered or last - after <= BLOCK_SEQS:  # so few are read as fast as looked up
            yield after, last
            return
        if last - self.position() > STEP_MESSAGES:
            self.try_to_catch_up(last)
        position = min(self.position(), last)
        for block in sorted(self._blocks(after, position, pattern, sender, since_ms)):
            start = max(after, block * BLOCK_SEQS - 1)
            yield start, min(position, (block + 1) * BLOCK_SEQS - 1)
        yield max(after, position), last

    def _blocks(
        self,
        after: int,
        position: int,
        pattern: TypePattern | AnyPattern | None,
        sender: str | None,
        since_ms: int | None,
    ) -> set[int]:
        """Return the counted blocks that match every filter."""
        within = (after // BLOCK_SEQS, position // BLOCK_SEQS)  # the first block, and the last
        fitting: list[set[int]] = []  # for each filter
        if pattern is not None:
            types = (
                [pattern.exact] if pattern.exact else filter(pattern.matches, self.counts("type"))
            )
            fitting.append(set().union(*(self._blocks_of("type", name, within) for name in types)))
        if sender is not None:
            fitting.append(self._blocks_of("from", sender, within))
        if since_ms is not None:
            rows = self._engine.rows(SQL["catalog_blocks_since"], (since_ms, *within))
            fitting.append({block for (block,) in rows})
        return set.intersection(*fitting)

    def _blocks_of(self, kind: str, name: str, within: tuple[int, int]) -> set[int]:
        rows = self._engine.rows(SQL["catalog_blocks_of"], (kind, name, *within))
        return {block for (block,) in rows}

    def last_sent_ms(self, agent: str, newest_seq: int) -> int | None:
        """Return when an agent sent its newest message; see `Log.last_sent_ms`."""
        self.try_to_catch_up(newest_seq)
        sent_ms: int | None = self._engine.value(SQL["last_sent_ms"], (agent, BLOCK_SEQS))
        return sent_ms

    def try_to_catch_up(self, newest_seq: int) -> None:
        """Catch up, if this process can write; else queries have the same answers, only slower."""
        with suppress(AckbusError):
            self.catch_up(newest_seq)
