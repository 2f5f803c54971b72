"""The mail that an agent was shown: tools acknowledge only that, and hooks show it only once."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain

from ...schema.errors import BusBusy, BusUnusable, Refused, RowRefused
from ...schema.message.names import MAX_SEQ
from ...schema.paging import pages
from .failed_deliveries import Cursors, Deliveries
from .session_names import SessionNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...bus.local_bus import LocalBus
    from ...schema.engine import HasEngine

    #: A displayed part of a message: its seq, and from which character to which; None: to the end.
    Span = tuple[int, int, int | None]

#: How many ranges of seqs are kept (the lowest), and how many messages that were shown in part.
_MAX_RANGES, _MAX_PARTS = 1000, 200

#: How many messages are read at a time.
_READ = 500

#: How often a note is tried that others note beside it.
_TRIES = 100


class SeenMail:
    """The mail that an agent was shown, as the row of its name has it.

    Attributes:
        upto: hooks after a tool show no mail up to this seq: it was shown, or announced.
        older: broadcasts below this seq were counted, and not shown: they may be acknowledged.
        ranges: the seqs that were shown whole: first and last of each range, in order.
        parts: of messages that were shown in part: up to which character.
    """

    __slots__ = ("older", "parts", "ranges", "upto")

    def __init__(
        self,
        upto: int = 0,
        ranges: Iterable[tuple[int, int]] = (),
        parts: dict[int, int] | None = None,
        older: int = 0,
    ) -> None:
        self.upto, self.ranges, self.parts = upto, list(ranges), parts or {}
        self.older = older

    def __contains__(self, seq: int) -> bool:
        from bisect import bisect_right

        place = bisect_right(self.ranges, (seq, MAX_SEQ))
        return place > 0 and seq <= self.ranges[place - 1][1]

    def has_begun(self, seq: int) -> bool:
        """Whether the agent was shown the beginning of a message, or all of it."""
        return seq in self or seq in self.parts

    def add(self, spans: Iterable[Span]) -> None:
        """Add displayed parts; a message is seen once all of it was shown from its beginning on."""
        for seq, begin, end in spans:
            shown = self.parts.get(seq, 0)
            if begin > shown:  # what comes before it was never displayed
                continue
            self.parts.pop(seq, None)
            if end is None:
                self.ranges.append((seq, seq))
            else:
                self.parts[seq] = max(shown, end)
        self.ranges = _merged(self.ranges)

    def keep(self, cursor: int, requeued: Iterable[int]) -> None:
        """Forget acknowledged messages, except requeued ones; bound the rest."""
        requeued_ranges = [(seq, seq) for seq in requeued if seq <= cursor and seq in self]
        waiting = [(max(first, cursor + 1), last) for first, last in self.ranges if last > cursor]
        self.ranges = [*requeued_ranges, *waiting][:_MAX_RANGES]
        self.parts = dict(list(self.parts.items())[-_MAX_PARTS:])

    @classmethod
    def parse(cls, upto: int, older: int, ranges: str, parts: str) -> SeenMail:
        """Return the notes of a row; empty ones where its texts are not ours."""
        import orjson

        with suppress(ValueError, TypeError, AttributeError):
            return cls(
                int(upto),
                _merged(
                    (int(first), int(last))
                    for first, last in orjson.loads(ranges)
                    if 0 < first <= last <= MAX_SEQ
                ),
                {int(seq): int(end) for seq, end in orjson.loads(parts).items()},
                int(older),
            )
        return cls()

    def row(self) -> tuple[int, int, str, str]:
        """Return what `parse` takes."""
        import orjson

        parts = {str(seq): end for seq, end in self.parts.items()}
        return (
            self.upto,
            self.older,
            orjson.dumps(self.ranges).decode(),
            orjson.dumps(parts).decode(),
        )


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order; ranges that touch are joined."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


class SeenMailNotes:
    """The notes about the mail that an agent was shown.

    They are no cursor. If they are lost, mail is shown again, and no agent acknowledges mail that
    it has not seen; so a failure to write them is no error for readers, and writing waits for no
    disk. Any number of processes may use them.

    Args:
        bus, agent: the bus, and the agent that reads.
    """

    def __init__(self, bus: HasEngine, agent: str) -> None:
        self._sessions = SessionNames.of(bus)
        self._agent = agent

    def read(self) -> SeenMail:
        """Return the mail that was shown to the session which has the agent's name."""
        _, *row, _, _ = self._sessions.shown_to(self._agent)
        return SeenMail.parse(*row)

    def note(
        self,
        spans: Iterable[Span] = (),
        *,
        upto: int = 0,
        afresh: bool = False,
        older: int | None = None,
    ) -> bool:
        """Note what was displayed, and say whether that could be noted.

        Nothing is written where nothing changes.

        Args:
            spans: the displayed parts of messages.
            older: below which seq broadcasts were only counted; None: as noted before.
            upto: up to where hooks after a tool show no more mail.
            afresh: whether this begins a session, which has seen nothing yet.
        """
        import orjson

        spans = list(spans)
        with suppress(BusBusy, BusUnusable, Refused, RowRefused):
            for _ in range(_TRIES):  # another process may note beside this
                revision, *row, cursor, requeued = self._sessions.shown_to(self._agent)
                notes = SeenMail() if afresh else SeenMail.parse(*row)
                notes.add(spans)
                notes.upto = max(notes.upto, upto)
                notes.older = notes.older if older is None else older
                notes.keep(cursor, sorted(orjson.loads(requeued)))
                noted = notes.row()
                if noted == tuple(row) or self._sessions.note_shown(self._agent, noted, revision):
                    return True
        return False


class UnseenMail:
    """The mail that keeps an agent from acknowledging up to a seq: the agent was not shown it.

    Args:
        bus, agent, seq: the bus, the agent, and the seq up to which it acknowledges.
        limit: how many of the messages to return at most.
        besides: the seq of a message that does not keep it from that; 0: there is none.

    Attributes:
        first: seq, type and sender of the first messages that it was not shown whole; none when
            it was shown all.
        seen: the seq of the last message that it was shown before these; None when it was shown
            none.
    """

    __slots__ = ("first", "seen")

    def __init__(
        self, bus: LocalBus, agent: str, seq: int, limit: int, *, besides: int = 0
    ) -> None:
        from heapq import merge

        notes, cursors = SeenMailNotes(bus, agent).read(), Cursors.of(bus)
        self.first: list[tuple[int, str, str]] = []
        self.seen: int | None = None
        base = SessionNames.of(bus).base_claimed_by(agent)
        comes_again = any(seq in _requeued(bus, name) for name in (agent, base) if name)
        if comes_again and seq not in notes and seq != besides:
            message = bus.log.readable(seq)
            self.first = [] if message is None else [(seq, message.type, message.from_agent)]
        to_base = () if base is None else _covered(cursors, base, seq, broadcasts=False)
        broadcasts_upto = min(seq, notes.older - 1)  # older ones were counted: that is enough
        to_agent = chain(
            _covered(cursors, agent, broadcasts_upto, broadcasts=False),
            _covered(cursors, agent, seq, broadcasts=True, after_seq=max(0, broadcasts_upto)),
        )
        for entry in merge(to_agent, to_base):
            if len(self.first) == limit:
                return
            if entry[0] not in notes and entry[0] != besides:
                self.first.append(entry)
            elif not self.first:
                self.seen = entry[0]


def _requeued(bus: HasEngine, agent: str) -> list[int]:
    from .mail import NO_LIMIT  # loads messages, which hooks that find none don't need

    return Deliveries.of(bus).requeued(agent, NO_LIMIT)


def _covered(
    cursors: Cursors, agent: str, seq: int, *, broadcasts: bool, after_seq: int = 0
) -> Iterator[tuple[int, str, str]]:
    """Yield the seq, type and sender of the mail that acknowledging a seq covers, in order."""

    def covered(after: int) -> list[tuple[int, str, str]]:
        return cursors.covered(agent, seq, after, _READ, broadcasts=broadcasts)

    for page in pages(covered, after_seq, what="mail"):
        yield from page
