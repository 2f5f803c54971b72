"""Verifying a log: whether its messages are what their senders signed, and what was chained.

One walk over the log, archived messages included, answers both. It says in words what is wrong
with which message; what it can't judge (a signature whose key is not here) it counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..schema import (
    MAX_SEQ,
    SIGNATURE_HEADER,
    AckbusError,
    BlobAltered,
    BlobMissing,
    InvalidInput,
)
from .archive import SegmentMissing
from .chain import GENESIS, Link, digest_of
from .signing import VERSION, is_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..schema import Message
    from .bus import Bus
    from .keys import Key, Keyring

#: After how many messages whoever waits is told how far the walk is.
_PROGRESS_MESSAGES = 1000

#: What a row that no program of ours stored can make of its decoding.
_NONSENSE = (AckbusError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a message, or with a range of the log.

    Attributes:
        kind: `altered`: it is not what was signed, or chained. `forged`: its sender has a key, and
            did not sign it. `missing`, `inserted`: the chain has it, or goes past it. `payload`:
            its blob is missing or altered. `unreadable`: its part of the archive is. `head`: the
            chain does not have what it once had. `unsigned`, `unknown_key`: nothing shows who
            sent it, where that is asked for.
        seq: the message, or the first of a range.
        text: the whole of it, for people.
        id, from_agent: of the message, where there is one.
    """

    kind: str
    seq: int
    text: str
    id: str | None = None
    from_agent: str | None = None


@dataclass(slots=True)
class Counts:
    """What a verification has come by.

    Attributes:
        messages: how many messages were read.
        signed: how many are signed, and as their senders signed them.
        unsigned: how many have no signature.
        unknown: how many are signed with a key that is not here, so that nothing is known of them.
        chained: how many are in the chain, and as they were.
        gaps: how many numbers between messages no message has.
    """

    messages: int = 0
    signed: int = 0
    unsigned: int = 0
    unknown: int = 0
    chained: int = 0
    gaps: int = 0


class SignatureCheck:
    """Judges messages one after the other by the keys that are here.

    An agent that has a key must sign what it sends from the time on when the key was made, and
    after the first message that it has signed: else to leave the signature out would be to forge.

    Args:
        keyring: the keys.
        counts: where to count.
        strict: every message must be signed with a key that is here.
    """

    def __init__(self, keyring: Keyring, counts: Counts, *, strict: bool) -> None:
        self._keyring = keyring
        self._counts = counts
        self._is_strict = strict
        self._keys: dict[str, list[Key]] = {}
        self._has_signed: set[str] = set()

    def of(self, message: Message) -> Problem | None:
        """Return what is wrong with the signature of a message, or None."""
        agent = message.from_agent
        keys = self._keys_of(agent)
        signature = message.headers.get(SIGNATURE_HEADER)
        if not isinstance(signature, str):
            return self._of_unsigned(message, keys)
        version, key_id, *_ = *signature.split("."), ""
        key = next((key for key in keys if key.id == key_id), None)
        if version == VERSION and key is not None:
            if not is_right(signature, message, key):
                return _problem("altered", message, "is not what its sender signed")
            self._counts.signed += 1
            self._has_signed.add(agent)
            return None
        if keys:
            return _problem("forged", message, f"is signed, but with no key of {agent}")
        self._counts.unknown += 1
        if not self._is_strict:
            return None
        return _problem("unknown_key", message, "is signed with a key that is not here")

    def _of_unsigned(self, message: Message, keys: list[Key]) -> Problem | None:
        self._counts.unsigned += 1
        agent = message.from_agent
        since_ms = min((key.created_at_ms for key in keys), default=None)
        if since_ms is not None and (message.ts_ms >= since_ms or agent in self._has_signed):
            return _problem("forged", message, f"is not signed, and {agent} has a key")
        return _problem("unsigned", message, "is not signed") if self._is_strict else None

    def _keys_of(self, agent: str) -> list[Key]:
        if agent not in self._keys:
            self._keys[agent] = self._keyring.of(agent)
        return self._keys[agent]


class ChainCheck:
    """Follows the chain along messages, which are given to it in the order of the log.

    From where something is wrong it goes on by the digest that is stored: one change, one problem.

    Args:
        links: of the messages that will be given.
        before: the digest before them.
        counts: where to count.
    """

    def __init__(self, links: Iterator[Link], before: bytes, counts: Counts) -> None:
        self._links = links
        self._counts = counts
        self._next = next(links, None)
        self._digest = before

    def of(self, message: Message) -> Iterator[Problem]:
        """Yield what is wrong with a message, and what is missing before it."""
        yield from self.missing_below(message.seq)
        link = self._next
        if link is None:
            return  # the chain does not go so far
        if link.seq > message.seq:
            yield _problem("inserted", message, "was put there later: the chain goes past it")
            return
        if digest_of(self._digest, message.to_line()) == link.digest:
            self._counts.chained += 1
        else:
            yield _problem("altered", message, "is not what was chained, or the chain is altered")
        self._go_on(link)

    def missing_below(self, seq: int) -> Iterator[Problem]:
        """Yield what the chain has below a seq, and was not given."""
        first = last = self._next
        while self._next is not None and self._next.seq < seq:
            last = self._next
            self._go_on(last)
        if first is not self._next and first is not None and last is not None:
            gone = _range(first.seq, last.seq)
            yield Problem("missing", first.seq, f"{gone} gone: the chain was there")

    def skip_to(self, seq: int) -> None:
        """Pass over what can't be read, up to and with a seq."""
        while self._next is not None and self._next.seq <= seq:
            self._go_on(self._next)

    def _go_on(self, link: Link) -> None:
        self._digest = link.digest
        self._next = next(self._links, None)


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
        counts: what the walk has come by.
        head: the last link, when the walk began; None where nothing is chained.
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
        self._signatures = (
            None if keyring is None else SignatureCheck(keyring, self.counts, strict=strict)
        )

    def problems(
        self, on_progress: Callable[[int], object] = lambda seq: None
    ) -> Iterator[Problem]:
        """Yield what is wrong, in the order of the log; reads it in bounded memory.

        Args:
            on_progress: told now and then up to which seq the walk is.

        Raises:
            BusUnusable: a key can't be read.
        """
        if self._expected is not None:
            yield from self._unexpected(self._expected)
        chain = self._chain_check()
        last = self._from_seq - 1
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
            gone = _range(last + 1, self.newest_seq)
            yield Problem("missing", last + 1, f"{gone} gone: the log once ended there")

    def _chain_check(self) -> ChainCheck:
        if self.head is None:
            return ChainCheck(iter(()), GENESIS, self.counts)
        before = self._chain.head(self._from_seq - 1) or Link(0, GENESIS)
        links = self._chain.links(before.seq, self.head.seq)
        return ChainCheck(links, before.digest, self.counts)

    def _messages(self) -> Iterator[Message | SegmentMissing]:
        """Yield the messages, and in place of those that can't be read, why."""
        after = self._from_seq - 1
        while after < self.newest_seq:
            try:
                for message in self._bus.log.read(after_seq=after, upto_seq=self.newest_seq):
                    after = message.seq
                    yield message
                return
            except SegmentMissing as lost:
                after = max(after, lost.last_seq)
                yield lost

    def _of(self, message: Message, chain: ChainCheck, blobs: set[str]) -> Iterator[Problem]:
        try:
            yield from chain.of(message)
            problem = self._signatures and self._signatures.of(message)
        except _NONSENSE as error:
            chain.skip_to(message.seq)
            problem = _problem("altered", message, f"can't be one that was published ({error!r})")
        if problem:
            yield problem
        ref = message.payload_ref
        if ref is not None and ref not in blobs:
            blobs.add(ref)
            state = self._state_of_blob(ref)
            if state:
                yield _problem("payload", message, f"has lost its payload: {state}")

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


def _problem(kind: str, message: Message, what: str) -> Problem:
    text = f"message {message.seq} from {message.from_agent} {what}"
    return Problem(kind, message.seq, text, message.id, message.from_agent)


def _range(first: int, last: int) -> str:
    return f"message {first} is" if first == last else f"messages {first} to {last} are"
