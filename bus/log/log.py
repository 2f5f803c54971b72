"""The log: all reading of the table `messages` and of the archived messages before it."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from itertools import chain, islice

from ...schema.arguments import with_checked_arguments
from ...schema.message import lazy_orjson as orjson
from ...schema.message.draft import Draft
from ...schema.message.message import Message, Receipt, message_of
from ...schema.message.names import check_unicode, did_you_mean, seq_in
from ...schema.message.patterns import pattern_of
from ...schema.paging import further, pages
from ..errors import SegmentMissing
from ..statements import SQL
from .append import Appender
from .catalog import Catalog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Unpack

    from ...blobs.store import BlobStore
    from ...schema.engine import Engine
    from ...schema.message.patterns import TypePattern
    from ..doorbell import Doorbell
    from ..local_bus import LocalBus
    from ..options import ReadFilters
    from .append import Parents
    from .archive_reader import Archive

# The filters of a reader of the log.


@with_checked_arguments
class Criteria:
    """Filters of messages; None filters nothing.

    It is no dataclass: every command loads this, and the decorator would slow each start.

    Args:
        type: a type pattern, or several; a message must fit any of them.
        conversation: their conversation.
        agent: their sender or recipient.
        since_ms, until_ms: their least and their greatest time, in epoch milliseconds.
        from_agent, to_agent: their sender; their recipient.

    Attributes:
        pattern: the pattern of their types.
        The others: as in the arguments.

    Raises:
        InvalidInput: `type` is not a type pattern, or a name is no Unicode text.
    """

    __slots__ = (
        "agent",
        "conversation",
        "from_agent",
        "pattern",
        "since_ms",
        "to_agent",
        "until_ms",
    )

    def __init__(
        self,
        type: str | Sequence[str] | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        since_ms: int | None = None,
        *,
        until_ms: int | None = None,
        from_agent: str | None = None,
        to_agent: str | None = None,
    ) -> None:
        self.pattern = pattern_of(type)
        for name in (conversation, agent, from_agent, to_agent):
            if name is not None:
                check_unicode(name)
        self.conversation = conversation
        self.agent = agent
        self.from_agent = from_agent
        self.to_agent = to_agent
        self.since_ms = since_ms
        self.until_ms = until_ms

    @property
    def is_all(self) -> bool:
        """Whether nothing is filtered."""
        return all(getattr(self, name) is None for name in self.__slots__)

    def fits(self, message: Message) -> bool:
        """Whether a message passes every filter."""
        return (
            (self.pattern is None or self.pattern.matches(message.type))
            and (self.agent is None or self.agent in (message.from_agent, message.to_agent))
            and (self.from_agent is None or self.from_agent == message.from_agent)
            and (self.to_agent is None or self.to_agent == message.to_agent)
            and (self.since_ms is None or message.ts_ms >= self.since_ms)
            and (self.until_ms is None or message.ts_ms <= self.until_ms)
            and (self.conversation is None or self.conversation == message.conversation)
        )


# Messages as people name them: by seq or by id.


def find_message(bus: LocalBus, key: str) -> Message | None:
    """Return the message with this seq, or else with this id, or None."""
    seq = seq_in(key)
    return (None if seq is None else bus.get(seq)) or bus.get(key)


#: Among how many of the newest messages a mistyped id is looked for.
_COMPARED = 1000

#: How similar an id must be: those of the same hour have half of their digits in common.
_ALIKE = 0.85


def near_ids(bus: LocalBus, key: str) -> str:
    """Return `; did you mean …?` for a mistyped id of a message or conversation, or ""."""
    newest = bus.log.newest(_COMPARED)
    ids = {id: None for message in reversed(newest) for id in (message.conversation, message.id)}
    beginning = [id for id in ids if len(key) >= 4 and id.startswith(key)][:1]
    return did_you_mean(key, beginning or ids, cutoff=0.0 if beginning else _ALIKE)


#: How many messages a reader of history holds at a time. More make no reader faster, and a reader
#: that takes a few large messages at a time, like a live stream, would read the rest repeatedly.
PAGE_MESSAGES = 100


#: How many of the newest messages are searched for an agent's acquaintances.
_ACQUAINTED_MESSAGES = 5000

#: How far another clock may be ahead of this clock, in milliseconds.
_A_DAY_MS = 86_400_000


class _MovedToArchive(Exception):
    """Messages left the log for the archive while they were read."""


class Log:
    """The messages of one bus: archived messages, and then the messages in the file."""

    def __init__(
        self,
        engine: Engine,
        blobs: BlobStore,
        catalog: Catalog,
        archive: Archive,
        doorbell: Doorbell,
    ) -> None:
        self._engine = engine
        self._blobs = blobs
        self._catalog = catalog
        self._archive = archive
        self._appender = Appender(engine, blobs, self.get, doorbell.ring, self._extend_chain)

    def append(
        self,
        drafts: Iterable[Draft],
        *,
        as_history: bool = False,
        parents: Parents | None = None,
    ) -> list[Receipt]:
        """Store messages in one transaction, all or none, and wake the waiters after it.

        Large payloads are on disk as blobs before their rows are stored. Repeating a call whose
        drafts have ids is safe: stored messages are not stored again.

        Args:
            drafts: the messages, in order.
            as_history: store them as they are: their parents may be missing, and they join no
                conversation but the one that they name.
            parents: what `parents` has returned for the drafts; None looks it up.

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
        return self._appender.append(drafts, as_history, parents)

    def parents(self, drafts: Iterable[Draft]) -> Parents:
        """Return what drafts reply to: the conversation and the type of each message, by its id.

        A message that is archived, or not stored yet, is left out.
        """
        return self._appender.parents(drafts)

    def look_again(self) -> None:
        """Look up the chain and the keys again before the next append."""
        self._appender.look_again()

    def _extend_chain(self, appended: int) -> None:
        from ..verification import Chain  # only where it is switched on

        with suppress(SegmentMissing):  # publishing goes on without it: 'bus verify' reports it
            # No less than was appended: else it would fall further behind with each large batch.
            Chain(self._engine, self).extend(at_least=appended)

    def get(self, id: str) -> Message | None:
        """Return the message with this id, or None.

        Raises:
            SegmentMissing: it is archived, and its segment is missing or damaged.
        """
        return self._one("message_by_id", id) or self._archived(id)

    def at(self, seq: int) -> Message | None:
        """Return the message at this place, or None.

        Raises:
            SegmentMissing: it is archived, and its segment is missing or damaged.
        """
        return self._one("message_by_seq", seq) or self._archive.at(seq)

    def acquaintances(self, agent: str, base: str) -> tuple[set[str], set[str]]:
        """Return the agents and the types that an agent has sent to or answered.

        Only the newest messages of the log are read: an agent that is not in these is a stranger.

        Args:
            agent: its name, or the name of its session.
            base: the base name of the session; the same name where there is no session.
        """
        rows = self._engine.rows(SQL["sent_and_answered"], (agent, base, _ACQUAINTED_MESSAGES))
        return {name for name, _ in rows if name is not None}, {type for _, type in rows}

    def all_readable(self) -> Iterator[Message]:
        """Yield all messages in order, without those in lost parts of the archive."""
        after = 0
        while True:
            try:
                yield from self.read(after_seq=after)
                return
            except SegmentMissing as lost:
                after = further("messages of the archive", after, lost.last_seq)

    def readable(self, seq: int) -> Message | None:
        """Return the message at this place; None, and a warning, when its segment is lost too.

        For callers that can go on without the message.
        """
        try:
            return self.at(seq)
        except SegmentMissing as lost:
            import logging  # hardly ever needed

            logging.getLogger("ackbus.log").warning("message %s: %s", seq, lost)
            return None

    def _one(self, statement: str, key: str | int) -> Message | None:
        row = self._engine.row(SQL[statement], (key,))
        return None if row is None else message_of(row, self._blobs)

    def _archived(self, id: str) -> Message | None:
        seq = self._archive.seq_of(id)
        return None if seq is None else self._archive.at(seq)

    def newest_seq(self) -> int:
        """Return the seq of the newest message ever stored; 0 before the first."""
        seq: int | None = self._engine.value(SQL["newest_seq"])
        return seq or 0

    def is_work(self, seq: int) -> bool | None:
        """Whether a message is work; None if it is not in the file (archived, or unknown)."""
        row = self._engine.row(SQL["is_work"], (seq,))
        return None if row is None else bool(row[0])

    def work_between(self, after_seq: int, upto_seq: int) -> set[str]:
        """Return the types of the messages in a range that are work; a walk over the range."""
        return {type for (type,) in self._engine.rows(SQL["work_between"], (after_seq, upto_seq))}

    def wrong_times(self, after_seq: int) -> list[int]:
        """Return the seqs of messages in the file with impossible times, or over a day ahead."""
        values = (after_seq, self._engine.now_ms() + _A_DAY_MS)
        return [row[0] for row in self._engine.rows(SQL["wrong_times"], values)]

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges of seqs, after the archive, without a message."""
        return self._engine.rows(SQL["gaps"], (self._archive.upto(),))

    def newest(
        self,
        count: int,
        *,
        before_seq: int | None = None,
        after_seq: int = 0,
        **filters: Unpack[ReadFilters],
    ) -> list[Message]:
        """Return the newest `count` messages that match every filter, the oldest of them first.

        Args:
            count: how many at most.
            before_seq: only messages below this seq; None: from the end of the log.
            after_seq: only messages above this seq.
            filters: `ReadFilters`.
        """
        criteria = Criteria(**filters)
        last = self.newest_seq() if before_seq is None else min(before_seq - 1, self.newest_seq())
        if criteria.conversation is not None:  # an index has them; it is shorter than the log
            messages = self.find(criteria, after_seq=after_seq, upto_seq=last)
            return list(deque(messages, maxlen=count))
        size = min(count, PAGE_MESSAGES)
        if criteria.to_agent is not None:  # an index has these, too
            messages = self._backwards(after_seq, last, size, "newest_sent_to", criteria.to_agent)
        else:
            spans = list(self._spans(after_seq, last, criteria, criteria.from_agent))
            parts = (self._backwards(start, end, size) for start, end in reversed(spans))
            messages = chain.from_iterable(parts)
        return list(islice(filter(criteria.fits, messages), count))[::-1]

    def _backwards(
        self, after: int, last: int, size: int, walk: str = "newest_in_span", *key: str
    ) -> Iterator[Message]:
        """Yield the messages of a range, the newest first, `size` in memory at a time.

        Archived messages are all of the range, also those that the walk would leave out.
        """

        def rows(upto: int) -> list[tuple[Any, ...]]:
            return self._engine.rows(SQL[walk], (after, upto, size, *key))

        for page in pages(rows, last, place=_before, what="messages", backwards=True):
            for row in page:
                yield message_of(row, self._blobs)
            last = _before(page[-1])
        yield from self._archive.read_backwards(after, last)

    def last_sent_ms(self, agent: str) -> int | None:
        """Return when an agent sent its newest message, in epoch milliseconds; None for never.

        Where that message is archived, it may be up to a block of the catalog too late.
        """
        return self._catalog.last_sent_ms(agent, self.newest_seq())

    def has_sent(self, agent: str, *, after_seq: int) -> bool:
        """Whether an agent sent a message after a seq. All of them are looked through."""
        return bool(self._engine.value(SQL["has_sent"], (after_seq, agent)))

    def between(
        self, after_seq: int, upto_seq: int, *, pattern: TypePattern | None = None
    ) -> list[Message]:
        """Return the messages of a short range, without the first and with the last seq.

        Args:
            after_seq, upto_seq: the range.
            pattern: only messages whose types fit it.
        """
        limit = upto_seq - after_seq
        glob = None if pattern is None else pattern.glob
        rows = self._span(glob, after_seq, upto_seq, limit)
        archived = self._archive.upto()
        messages = [message_of(row, self._blobs) for row in rows if row[0] > archived]
        if archived > after_seq:
            messages = [*self._archive.read(after_seq, min(upto_seq, archived)), *messages]
        return [message for message in messages if pattern is None or pattern.matches(message.type)]

    def named_blobs(self) -> Iterator[str]:
        """Yield the names of the blobs that messages name, also archived ones, in their order."""

        def named(after: bytes) -> list[tuple[bytes, str]]:
            return self._engine.rows(SQL["named_blobs"], (after, PAGE_MESSAGES))

        for page in pages(named, b"", what="names of blobs"):
            yield from (ref for _, ref in page)

    def recipients(self) -> list[str]:
        """Return every name that messages in the log are addressed to."""
        return [name for (name,) in self._engine.rows(SQL["recipients"])]

    def last_of(self, after_seq: int, count: int, upto_seq: int) -> int | None:
        """Return the seq of the last of up to `count` messages of a range; None for none."""
        seq: int | None = self._engine.value(SQL["last_of"], (after_seq, count, upto_seq))
        return seq

    def count(self, after_seq: int, upto_seq: int) -> int:
        """Return how many messages of a range are in the log and not archived."""
        count: int = self._engine.value(SQL["count_in_span"], (after_seq, upto_seq))
        return count

    def names_blob(self, ref: str) -> bool:
        """Whether a message's payload is this blob."""
        return bool(self._engine.value(SQL["blob_is_named"], (ref,))) or (
            self._archive.names_blob(ref)
        )

    def read(
        self,
        *,
        after_seq: int = 0,
        upto_seq: int | None = None,
        **filters: Unpack[ReadFilters],
    ) -> Iterator[Message]:
        """Yield the messages that match every given filter, in order of seq.

        A page is held in memory at a time; no transaction is open while the caller works. The
        end is where the log ended when the reading began.

        Args:
            after_seq, upto_seq: the range, without the first and with the last.
            filters: `ReadFilters`.
        """
        return self.find(Criteria(**filters), after_seq=after_seq, upto_seq=upto_seq)

    def find(
        self, criteria: Criteria, *, after_seq: int = 0, upto_seq: int | None = None
    ) -> Iterator[Message]:
        """Yield the messages that fit the criteria, as `read` does."""
        last = self.newest_seq() if upto_seq is None else min(upto_seq, self.newest_seq())
        while True:
            try:
                for message in self._matching(after_seq, last, criteria):
                    after_seq = message.seq
                    yield message
                return
            except _MovedToArchive:
                continue  # from where the reader is: what has left is in the archive now

    def _matching(self, after: int, last: int, criteria: Criteria) -> Iterator[Message]:
        archived = self._archive.upto()
        if after < archived:
            holding = orjson.dumps(criteria.conversation or "")[1:-1]  # as it stands in a line
            for start, end in self._spans(after, min(last, archived), criteria):
                yield from filter(criteria.fits, self._archive.read(start, end, holding))
            after = archived
        if last > archived or not archived:
            for row in self._rows(after, last, criteria):
                message = message_of(row, self._blobs)
                if criteria.fits(message):
                    yield message

    def _rows(self, after: int, last: int, criteria: Criteria) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of all messages that fit, by the cheapest walk; some rows may not fit."""
        if criteria.conversation is not None:
            yield from self._walk("in_conversation", (criteria.conversation,), after, last)
        elif criteria.agent is not None:
            import heapq  # no poll or publication reads by an agent

            sent = self._in_spans(self._spans(after, last, criteria, criteria.agent))
            received = self._walk("sent_to", (criteria.agent,), after, last)
            yield from _distinct(heapq.merge(sent, received))
        elif criteria.to_agent is not None:
            yield from self._walk("sent_to", (criteria.to_agent,), after, last)
        else:
            pattern = criteria.pattern
            spans = self._spans(after, last, criteria, criteria.from_agent)
            yield from self._in_spans(spans, None if pattern is None else pattern.glob)

    def _spans(
        self, after: int, last: int, criteria: Criteria, sender: str | None = None
    ) -> Iterator[tuple[int, int]]:
        return self._catalog.spans(after, last, criteria.pattern, sender, criteria.since_ms)

    def _in_spans(
        self, spans: Iterable[tuple[int, int]], glob: str | None = None
    ) -> Iterator[tuple[Any, ...]]:
        for start, end in spans:
            yield from self._pages(partial(self._span, glob), start, end)

    def _span(self, glob: str | None, after: int, last: int, limit: int) -> list[tuple[Any, ...]]:
        """Return rows of a range; with a glob, rows of other types are not read."""
        if glob is None:
            return self._engine.rows(SQL["in_span"], (after, last, limit))
        return self._engine.rows(SQL["in_span_of_types"], (glob, after, last, limit))

    def _walk(
        self, statement: str, keys: tuple[object, ...], after: int, last: int
    ) -> Iterator[tuple[Any, ...]]:
        def rows(after: int, last: int, limit: int) -> list[tuple[Any, ...]]:
            return self._engine.rows(SQL[statement], (*keys, after, last, limit))

        return self._pages(rows, after, last)

    def _pages(
        self, read: Callable[[int, int, int], list[tuple[Any, ...]]], after: int, last: int
    ) -> Iterator[tuple[Any, ...]]:
        def page(after_seq: int) -> list[tuple[Any, ...]]:
            rows = read(after_seq, last, PAGE_MESSAGES)
            if self._archive.upto() > after_seq:  # asked after the rows, so that none is missed
                raise _MovedToArchive
            return rows

        for rows in pages(page, after, PAGE_MESSAGES, what="messages"):
            yield from rows


def _before(row: tuple[Any, ...]) -> Any:
    return row[0] - 1


def _distinct(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Drop adjacent duplicates: messages from an agent to itself."""
    previous = -1
    for row in rows:
        if row[0] != previous:
            yield row
        previous = row[0]
