"""The hash chain, if switched on: for each message a digest of it and of all before it.

The digests are over the lines of `bus.jsonl`, which are the same whether a message is in the file,
in the archive or in an export: so the lines are enough to compute the chain, and one digest that
was kept elsewhere is enough to detect any change up to it.

Like the catalog, it has a position of its own: an append also chains all messages since the
position, of any program. So messages that were appended without it are chained a little later.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ...schema.arguments import with_checked_arguments
from ...schema.callbacks import check_progress
from ...schema.message.limits import MAX_SEQ
from ...schema.paging import further, pages
from ..statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...schema.engine import Engine
    from ..log.log import Log

#: The digest before the first message.
GENESIS = bytes(32)

#: The most that one transaction chains, whichever is reached first: a few tens of milliseconds.
STEP_MESSAGES, STEP_BYTES = 4096, 4 * 1024 * 1024

#: How many links a reader holds at a time.
_PAGE_LINKS = 4096


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain.

    Attributes:
        seq: the message.
        digest: of its line, and of the digest before it.
    """

    seq: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest.hex()}"


def digest_of(before: bytes, line: bytes) -> bytes:
    """Return the digest of a line, without its newline, that follows a digest."""
    return hashlib.sha256(before + line).digest()


@with_checked_arguments
class Chain:
    """The hash chain over a log: the table `chain`, and the entry `chain` of the table `meta`."""

    def __init__(self, engine: Engine, log: Log) -> None:
        self._engine = engine
        self._log = log

    def is_on(self) -> bool:
        """Whether appends extend the chain."""
        return self._engine.value(SQL["chain_switch"]) is not None

    def switch_on(self) -> None:
        """Make appends extend the chain from now on; other programs notice it within a minute.

        Messages that are in the log already are chained by `catch_up`.
        """
        self._engine.change(SQL["switch_chain_on"])
        self._log.look_again()

    def switch_off(self) -> None:
        """Stop extending the chain; its links can still be verified."""
        self._engine.change(SQL["switch_chain_off"])
        self._log.look_again()

    def head(self, upto_seq: int = MAX_SEQ) -> Link | None:
        """Return the last link up to a seq, or None before the first."""
        row = self._engine.row(SQL["chain_head"], (upto_seq,))
        return None if row is None else Link(*row)

    def behind(self) -> int:
        """Return how many messages are not in the chain yet."""
        head = self.head()
        return max(0, self._log.newest_seq() - (head.seq if head else 0))

    def extend(self, at_least: int = 0) -> bool:
        """Chain new messages, one step or at least so many; return False when there are none.

        Raises:
            SegmentMissing: the next message is archived, and can't be read.
        """
        with self._engine.write():
            head = self.head() or Link(0, GENESIS)
            digest = head.digest
            links: list[tuple[int, bytes]] = []
            size = 0
            for message in self._log.read(after_seq=head.seq):
                line = message.to_line()
                digest = digest_of(digest, line)
                links.append((message.seq, digest))
                size += len(line)
                is_step = len(links) >= STEP_MESSAGES or size >= STEP_BYTES
                if is_step and len(links) >= at_least:
                    break
            self._engine.run_many(SQL["add_link"], links)
        return bool(links)

    def catch_up(self, on_progress: Callable[[int], object] = lambda seq: None) -> None:
        """Chain the whole log, in short transactions.

        Args:
            on_progress: called now and then with the last chained seq.

        Raises:
            SegmentMissing: a part of the archive can't be read.
            BusBusy: the write lock could not be had in time; finished steps stay.
        """
        check_progress(on_progress)
        upto = 0
        while self.extend():
            head = self.head()
            upto = further("links of the chain", upto, head and head.seq)
            on_progress(upto)

    def links(self, after_seq: int, upto_seq: int) -> Iterator[Link]:
        """Yield the links of a range, without the first and with the last seq."""

        def page(after: int) -> list[tuple[int, bytes]]:
            return self._engine.rows(SQL["chain_links"], (after, upto_seq, _PAGE_LINKS))

        for rows in pages(page, after_seq, _PAGE_LINKS, what="links of the chain"):
            yield from (Link(*row) for row in rows)
