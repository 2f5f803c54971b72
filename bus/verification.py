"""The verification of a log against the signatures of its messages, and against its chain.

One walk over the log, archived messages included, checks both. It reports a problem for each wrong
message; messages that it can't judge (signed with a key that is not here) are counted.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ..schema.arguments import with_checked_arguments
from ..schema.callbacks import check_progress
from ..schema.errors import BlobAltered, BlobMissing, InvalidInput, RowDamaged
from ..schema.message.draft import SIGNATURE_HEADER
from ..schema.message.names import MAX_SEQ
from ..schema.paging import further, pages
from ..schema.queries import file_of
from ..schema.sqlite.rules.column_rules import broken_state
from .errors import SegmentMissing
from .signing import VERSION, is_right
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..schema.engine import Engine
    from ..schema.message.message import Message
    from .local_bus import LocalBus
    from .log.log import Log
    from .signing import Keyring, SigningKey

# The hash chain, if switched on: for each message a digest of it and of all before it.
#
# The digests are over the lines of `bus.jsonl`, which are the same whether a message is in the
# file, in the archive or in an export: so the lines are enough to compute the chain, and one
# digest that was kept elsewhere is enough to detect any change up to it.
#
# Like the catalog, it has a position of its own: an append also chains all messages since the
# position, of any program. So messages that were appended without it are chained a little later.

#: The digest before the first message.
GENESIS = bytes(32)

#: The most messages and bytes that one transaction chains: a few tens of milliseconds.
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
        """Chain new messages, a step or at least so many; return False when there are none.

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


# The checks of verification, message by message: the signature, and the chain.


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a message, or with a range of the log.

    Attributes:
        kind: `altered`: it is not what was signed, or chained. `forged`: its sender has a key, and
            did not sign it. `missing`, `inserted`: the chain has it, or goes past it. `payload`:
            its blob is missing or altered. `unreadable`: its part of the archive is. `head`: the
            chain does not have what it once had. `unsigned`, `unknown_key`: nothing shows who
            sent it, where that is asked for. `state`: a row of another table breaks its rule.
        seq: the message, or the first of a range; 0 for none.
        text: the whole of it, for people.
        id, from_agent: of the message, where there is a message.
    """

    kind: str
    seq: int
    text: str
    id: str | None = None
    from_agent: str | None = None


@dataclass(slots=True)
class VerificationCounts:
    """The counts of a verification.

    Attributes:
        messages: how many messages were read.
        signed: how many are signed, and as their senders signed them.
        unsigned: how many have no signature.
        wrong: how many have a signature of another sender, or of other content.
        unknown: how many are signed with a key that is not here, so that nothing is known of them.
        chained: how many are in the chain, and as they were.
        gaps: how many numbers between messages no message has.
        discarded: how many messages were archived, and discarded.
    """

    messages: int = 0
    signed: int = 0
    unsigned: int = 0
    wrong: int = 0
    unknown: int = 0
    chained: int = 0
    gaps: int = 0
    discarded: int = 0


class SignatureCheck:
    """Judges messages one after the other by the keys that are here.

    An agent that has a key must sign what it sends from the time on when the key was made, and
    after the first message that it has signed: else to leave the signature out would be to forge.

    Args:
        keyring: the keys.
        counts: where to count.
        strict: every message must be signed with a key that is here.
        earlier: returns what an agent sent before the first message that is judged.
    """

    def __init__(
        self,
        keyring: Keyring,
        counts: VerificationCounts,
        *,
        strict: bool,
        earlier: Callable[[str], Iterable[Message]],
    ) -> None:
        self._keyring = keyring
        self._counts = counts
        self._is_strict = strict
        self._earlier = earlier
        self._keys: dict[str, list[SigningKey]] = {}
        self._has_signed: set[str] = set()

    def of(self, message: Message) -> Problem | None:
        """Return the problem with the signature of a message, or None."""
        agent = message.from_agent
        keys = self._keys_of(agent)
        signature = message.headers.get(SIGNATURE_HEADER)
        if not isinstance(signature, str):
            return self._of_unsigned(message, keys)
        version, key_id, *_ = *signature.split("."), ""
        key = next((key for key in keys if key.id == key_id), None)
        if version == VERSION and key is not None:
            if not is_right(signature, message, key):
                self._counts.wrong += 1
                return problem_with("altered", message, "is not what its sender signed")
            self._counts.signed += 1
            self._has_signed.add(agent)
            return None
        if keys:
            self._counts.wrong += 1
            return problem_with("forged", message, f"is signed, but with no key of {agent}")
        self._counts.unknown += 1
        if not self._is_strict:
            return None
        return problem_with("unknown_key", message, "is signed with a key that is not here")

    def _of_unsigned(self, message: Message, keys: list[SigningKey]) -> Problem | None:
        self._counts.unsigned += 1
        agent = message.from_agent
        since_ms = min((key.created_at_ms for key in keys), default=None)
        if since_ms is not None and (message.ts_ms >= since_ms or agent in self._has_signed):
            return problem_with("forged", message, f"is not signed, and {agent} has a key")
        return problem_with("unsigned", message, "is not signed") if self._is_strict else None

    def _keys_of(self, agent: str) -> list[SigningKey]:
        if agent not in self._keys:
            keys = self._keys[agent] = self._keyring.of(agent)
            if any(_is_signed(message, keys) for message in self._earlier(agent) if keys):
                self._has_signed.add(agent)
        return self._keys[agent]


def _is_signed(message: Message, keys: list[SigningKey]) -> bool:
    signature = message.headers.get(SIGNATURE_HEADER)
    return isinstance(signature, str) and any(is_right(signature, message, key) for key in keys)


class ChainCheck:
    """Follows the chain along messages, which are given to it in the order of the log.

    After a problem it goes on from the stored digest, so that each change is one problem.

    Args:
        links: of the messages that will be given.
        before: the digest before them.
        counts: where to count.
    """

    def __init__(self, links: Iterator[Link], before: bytes, counts: VerificationCounts) -> None:
        self._links = links
        self._counts = counts
        self._next = next(links, None)
        self._digest = before

    def of(self, message: Message) -> Iterator[Problem]:
        """Yield the problems with a message, and messages that are missing before it."""
        yield from self.missing_below(message.seq)
        link = self._next
        if link is None:
            return  # the chain does not go so far
        if link.seq > message.seq:
            yield problem_with("inserted", message, "was put there later: the chain goes past it")
            return
        if digest_of(self._digest, message.to_line()) == link.digest:
            self._counts.chained += 1
        else:
            yield problem_with(
                "altered", message, "is not what was chained, or the chain is altered"
            )
        self._go_on(link)

    def missing_below(self, seq: int) -> Iterator[Problem]:
        """Yield a problem for messages below a seq that are in the chain but not in the log."""
        first = last = self._next
        while self._next is not None and self._next.seq < seq:
            last = self._next
            self._go_on(last)
        if first is not self._next and first is not None and last is not None:
            absent = range_of(first.seq, last.seq)
            yield Problem("missing", first.seq, f"{absent} gone: the chain was there")

    def skip_to(self, seq: int) -> None:
        """Skip messages that can't be read, up to and with a seq."""
        while self._next is not None and self._next.seq <= seq:
            self._go_on(self._next)

    def _go_on(self, link: Link) -> None:
        self._digest = link.digest
        self._next = next(self._links, None)


def problem_with(kind: str, message: Message, what: str) -> Problem:
    """Return a problem whose text begins with the message."""
    text = f"message {message.seq} from {message.from_agent} {what}"
    return Problem(kind, message.seq, text, message.id, message.from_agent)


def range_of(first: int, last: int) -> str:
    """Return `message 5 is` or `messages 5 to 9 are`."""
    return f"message {first} is" if first == last else f"messages {first} to {last} are"


#: The number of messages between two reports of progress.
_PROGRESS_MESSAGES = 1000

#: The errors of decoding a row that was not stored by this package.
_NONSENSE = (InvalidInput, RowDamaged, LookupError, TypeError, ValueError)


class Verification:
    """One walk over a log.

    Args:
        bus: an open bus.
        keyring: the keys to check signatures with; None leaves signatures alone.
        chain: whether to follow the chain, as far as it reaches.
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
        bus: LocalBus,
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
        self.counts = VerificationCounts()
        self.head = self._chain.head() if chain else None
        # Read after the head, so that every message in the chain is read.
        self.newest_seq = bus.log.newest_seq()
        self.discarded = [
            discarded for discarded in bus.archive.discarded() if discarded.last_seq >= from_seq
        ]
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
        for discarded in self.discarded:
            chain.skip_to(discarded.last_seq)
            last = max(last, discarded.last_seq)
            self.counts.discarded += discarded.messages
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
            absent = range_of(last + 1, self.newest_seq)
            yield Problem("missing", last + 1, f"{absent} gone: the log once ended there")

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
            problem = problem_with("altered", message, f"can't have been published: {error}")
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

    def _unexpected(self, expected: Link) -> Iterator[Problem]:
        link = self._chain.head(expected.seq)
        if link == expected:
            return
        is_there = link is not None and link.seq == expected.seq
        what = f"is {link.digest.hex()}" if link and is_there else "is not there"
        text = f"the digest of message {expected.seq} {what}: the log up to it is not what it was"
        yield Problem("head", expected.seq, text)
