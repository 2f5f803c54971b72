"""The verification of a log against the signatures of its messages, and against its chain.

One walk over the log, archived messages included, checks both. It reports a problem for each wrong
message; messages that it can't judge (signed with a key that is not here) are counted.
"""

from __future__ import annotations

from ...schema.callbacks import check_progress
from ...schema.errors import BlobAltered, BlobMissing, InvalidInput, RowDamaged
from ...schema.message.limits import MAX_SEQ
from ...schema.paging import further
from ...schema.queries import file_of
from ...schema.sqlite.rules.state_rules import broken_state
from ..errors import SegmentMissing
from .chain import GENESIS, Link
from .verification_checks import (
    ChainCheck,
    Counts,
    Problem,
    SignatureCheck,
    problem_with,
    range_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...schema.message.message import Message
    from ..bus import Bus
    from .keys import Keyring

#: The number of messages between two reports of progress.
_PROGRESS_MESSAGES = 1000

#: The errors of decoding a row that was not stored by this package.
_NONSENSE = (InvalidInput, RowDamaged, LookupError, TypeError, ValueError)


class Verification:
    """One walk over a log.

    Args:
        bus: an open bus.
        keyring: the keys to check signatures with; None leaves signatures alone.
        chain: whether to follow the chain, as far as there is one.
        strict: every message must be signed with a key that is here.
        from_seq: where to begin.
        expected: links that were kept elsewhere; the chain must have them.

    Attributes:
        counts: the counts of the walk so far.
        head: the last link, when the walk began; None where nothing is chained.
        discarded: the discarded ranges from there on.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        keyring: Keyring | None = None,
        chain: bool = True,
        strict: bool = False,
        from_seq: int = 1,
        expected: Link | None = None,
    ) -> None:
        self._bus = bus
        self._chain = bus.chain
        self._from_seq = from_seq
        self._expected = expected
        self.counts = Counts()
        self.head = self._chain.head() if chain else None
        # Asked after the head, so that all that is in the chain is read.
        self.newest_seq = bus.log.newest_seq()
        self.discarded = [each for each in bus.archive.discarded() if each.last_seq >= from_seq]
        self._signatures = (
            None
            if keyring is None
            else SignatureCheck(keyring, self.counts, strict=strict, earlier=self._earlier_of)
        )

    def problems(
        self, on_progress: Callable[[int], object] = lambda seq: None
    ) -> Iterator[Problem]:
        """Yield the problems, in the order of the log; reads it in bounded memory.

        Args:
            on_progress: called now and then with the last checked seq.

        Raises:
            BusUnusable: a key can't be read.
        """
        check_progress(on_progress)
        for text in broken_state(file_of(self._bus)):
            yield Problem("state", 0, text)
        if self._expected is not None:
            yield from self._unexpected(self._expected)
        chain = self._chain_check()
        last = self._from_seq - 1
        for each in self.discarded:
            chain.skip_to(each.last_seq)
            last = max(last, each.last_seq)
            self.counts.discarded += each.messages
        blobs: set[str] = set()
        for item in self._messages():
            if isinstance(item, SegmentMissing):
                yield Problem("unreadable", item.first_seq, str(item))
                chain.skip_to(item.last_seq)
                last = max(last, item.last_seq)
                continue
            yield from self._of(item, chain, blobs)
            self.counts.messages += 1
            self.counts.gaps += max(0, item.seq - last - 1)
            last = item.seq
            if self.counts.messages % _PROGRESS_MESSAGES == 0:
                on_progress(last)
        yield from chain.missing_below(MAX_SEQ)
        last = max(last, self.head.seq if self.head else 0)
        if last < self.newest_seq:
            gone = range_of(last + 1, self.newest_seq)
            yield Problem("missing", last + 1, f"{gone} gone: the log once ended there")

    def _chain_check(self) -> ChainCheck:
        if self.head is None:
            return ChainCheck(iter(()), GENESIS, self.counts)
        before = self._chain.head(self._from_seq - 1) or Link(0, GENESIS)
        links = self._chain.links(before.seq, self.head.seq)
        return ChainCheck(links, before.digest, self.counts)

    def _earlier_of(self, agent: str) -> Iterator[Message]:
        sent = self._bus.log.read(upto_seq=self._from_seq - 1, agent=agent)
        return (message for message in sent if message.from_agent == agent)

    def _messages(self) -> Iterator[Message | SegmentMissing]:
        """Yield the messages, and errors in place of those that can't be read."""
        after = self._from_seq - 1
        while after < self.newest_seq:
            try:
                for message in self._bus.log.read(after_seq=after, upto_seq=self.newest_seq):
                    after = message.seq
                    yield message
                return
            except SegmentMissing as lost:
                after = further("messages of the archive", after, lost.last_seq)
                yield lost

    def _of(self, message: Message, chain: ChainCheck, blobs: set[str]) -> Iterator[Problem]:
        try:
            yield from chain.of(message)
            problem = self._signatures and self._signatures.of(message)
        except _NONSENSE as error:
            chain.skip_to(message.seq)
            problem = problem_with("altered", message, f"can't be one that was published: {error}")
        if problem:
            yield problem
        ref = message.payload_ref
        if ref is not None and ref not in blobs:
            blobs.add(ref)
            state = self._state_of_blob(ref)
            if state:
                yield problem_with("payload", message, f"has lost its payload: {state}")

    def _state_of_blob(self, ref: str) -> str | None:
        try:
            self._bus.blobs.verify(ref)
        except (BlobMissing, BlobAltered, InvalidInput) as error:
            return str(error)
        return None

    def _unexpected(self, kept: Link) -> Iterator[Problem]:
        found = self._chain.head(kept.seq)
        if found == kept:
            return
        is_there = found is not None and found.seq == kept.seq
        what = f"is {found.digest.hex()}" if found and is_there else "is not there"
        text = f"the digest of message {kept.seq} {what}: the log up to it is not what it was"
        yield Problem("head", kept.seq, text)
