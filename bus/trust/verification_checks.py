"""The checks of verification, message by message: the signature, and the chain."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.message.draft import SIGNATURE_HEADER
from .chain import digest_of
from .signing import VERSION, is_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...schema.message.message import Message
    from .chain import Link
    from .keys import Key, Keyring


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
        id, from_agent: of the message, where there is one.
    """

    kind: str
    seq: int
    text: str
    id: str | None = None
    from_agent: str | None = None


@dataclass(slots=True)
class Counts:
    """The counts of a verification.

    Attributes:
        messages: how many messages were read.
        signed: how many are signed, and as their senders signed them.
        unsigned: how many have no signature.
        wrong: how many have one that is not their sender's, or not of what they say.
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
        counts: Counts,
        *,
        strict: bool,
        earlier: Callable[[str], Iterable[Message]],
    ) -> None:
        self._keyring = keyring
        self._counts = counts
        self._is_strict = strict
        self._earlier = earlier
        self._keys: dict[str, list[Key]] = {}
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

    def _of_unsigned(self, message: Message, keys: list[Key]) -> Problem | None:
        self._counts.unsigned += 1
        agent = message.from_agent
        since_ms = min((key.created_at_ms for key in keys), default=None)
        if since_ms is not None and (message.ts_ms >= since_ms or agent in self._has_signed):
            return problem_with("forged", message, f"is not signed, and {agent} has a key")
        return problem_with("unsigned", message, "is not signed") if self._is_strict else None

    def _keys_of(self, agent: str) -> list[Key]:
        if agent not in self._keys:
            keys = self._keys[agent] = self._keyring.of(agent)
            if any(_is_signed(message, keys) for message in self._earlier(agent) if keys):
                self._has_signed.add(agent)
        return self._keys[agent]


def _is_signed(message: Message, keys: list[Key]) -> bool:
    signature = message.headers.get(SIGNATURE_HEADER)
    return isinstance(signature, str) and any(is_right(signature, message, key) for key in keys)


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
        """Yield a problem for messages below a seq that are in the chain but were not given."""
        first = last = self._next
        while self._next is not None and self._next.seq < seq:
            last = self._next
            self._go_on(last)
        if first is not self._next and first is not None and last is not None:
            gone = range_of(first.seq, last.seq)
            yield Problem("missing", first.seq, f"{gone} gone: the chain was there")

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
