"""Searching the log by words."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from ...schema.arguments import checked
from ...schema.callbacks import check_progress
from ...schema.directory.layout import Layout
from ...schema.errors import InvalidInput
from ...schema.message.names import MAX_COUNT
from ...schema.paging import further
from ..errors import SegmentMissing
from ..log.catalog import Catalog
from ..log.log import Criteria
from .index import SearchIndex
from .text import Words, as_phrase, has_words, payload_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Unpack

    from ...schema.message.message import Message
    from ..local_bus import LocalBus
    from ..options import ReadFilters

#: How many messages with the words are rated together, the newest first, to find the best.
RATED = 1000

#: How many messages a search returns by default.
SEARCH_LIMIT = 20

#: The advice about missing files.
_SEE = "see 'bus doctor'"

_log = logging.getLogger("ackbus.search")


@dataclass(frozen=True, slots=True)
class Found:
    """A message that a search found.

    Attributes:
        message: the message.
        snippet: a passage of its payload with the words in it.
        marks: where in the snippet they are: pairs of beginning and end.
    """

    message: Message
    snippet: str
    marks: list[tuple[int, int]]


class Search:
    """Finds messages by the words of their payloads.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._log = bus.log
        self._catalog = Catalog.of(bus)
        self._blobs = bus.blobs
        self._index = SearchIndex(bus.layout, bus.log, bus.blobs)
        self._warned_of: set[int] = set()  # the lost segments that a warning has named

    def behind(self) -> int:
        """Return how far the index is behind the log, in seqs; the next search catches up."""
        return self._log.newest_seq() - self._index.position()

    def damage(self, *, full: bool) -> str:
        """Return the damage of the index, in words; "" when none is known."""
        return self._index.damage(full=full)

    def clear(self) -> None:
        """Empty the index; the next search fills it again."""
        self._index.clear()

    @checked
    def find(
        self,
        words: Iterable[str],
        *,
        limit: int = SEARCH_LIMIT,
        skip: int = 0,
        upto_seq: int | None = None,
        by_age: bool = False,
        on_progress: Callable[[int], object] | None = None,
        **filters: Unpack[ReadFilters],
    ) -> list[Found]:
        """Do as `Bus.search` does.

        Args:
            words, limit, filters: as there.
            skip: how many of them to leave out, the first.
            upto_seq: only messages up to here, so that what comes meanwhile moves no page.
            by_age: the newest messages first, not the best.
            on_progress: is called with the seq up to which messages are indexed.
        """
        if limit < 1:
            raise InvalidInput(f"limit must be at least 1, not {limit}")
        check_progress(on_progress)
        asked = Words.of(words)
        criteria = Criteria(**filters)
        with self._opened_index() as index:
            lacking = index.catch_up(on_progress)
            if lacking:
                text = "%s messages can't be searched, some files are missing; %s"
                _log.warning(text, lacking, _SEE)
            messages = (
                message
                for seq in self._seqs(index, asked, criteria, upto_seq, by_age)
                if (message := self._message(seq)) is not None and criteria.fits(message)
            )
            chosen = islice(messages, skip, skip + min(limit, MAX_COUNT))
            return [
                Found(match, *asked.snippet(payload_text(match, self._blobs) or ""))
                for match in chosen
            ]

    @contextmanager
    def _opened_index(self) -> Iterator[SearchIndex]:
        """Yield the index; for a read-only backup, a temporary index."""
        if self._bus.backup_made_at_ms is None:
            yield self._index
            return
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="ackbus-") as directory:
            layout = Layout(directory)
            try:
                yield SearchIndex(layout, self._log, self._blobs)
            finally:
                layout.files.close()

    def _seqs(
        self,
        index: SearchIndex,
        words: Words,
        criteria: Criteria,
        upto_seq: int | None,
        by_age: bool,
    ) -> Iterator[int]:
        """Yield the matches: the best of the newest first, then the best of those before them."""
        after = self._first_since(criteria.since_ms)
        phrases = [f"text : {phrase}" for phrase in words.as_phrases()]
        filters = _filters(criteria)
        before = (self._log.newest_seq() if upto_seq is None else upto_seq) + 1
        while True:
            rated = index.newest(phrases, filters, after, before, RATED)
            rank = _newest_first if by_age else _best_first
            yield from (seq for seq, _ in sorted(rated, key=rank))
            if len(rated) < RATED:
                return
            oldest = min(seq for seq, _ in rated)
            before = further("words of the index", before, oldest, backwards=True)

    def _message(self, seq: int) -> Message | None:
        try:
            return self._log.at(seq)
        except SegmentMissing as error:
            if error.first_seq not in self._warned_of:
                self._warned_of.add(error.first_seq)
                _log.warning("%s; what is found in it is left out", error)
            return None

    def _first_since(self, since_ms: int | None) -> int:
        """Return a seq with nothing of that time or later below it."""
        if since_ms is None:
            return 0
        newest = self._log.newest_seq()
        spans = self._catalog.spans(0, newest, None, None, since_ms)
        return next(spans, (newest, newest))[0]


def _best_first(rated: tuple[int, float]) -> tuple[float, int]:
    return (rated[1], -rated[0])


def _newest_first(rated: tuple[int, float]) -> int:
    return -rated[0]


def _filters(criteria: Criteria) -> list[str]:
    """Return the filters as expressions of words; inexact filters are checked again later."""
    type = (
        re.split("[*>]", criteria.pattern.text)[0] if criteria.pattern else None
    )  # up to a wildcard
    filters = [("type", type), ("conversation", criteria.conversation)]
    filters += [
        ("agents", name) for name in (criteria.agent, criteria.from_agent, criteria.to_agent)
    ]
    return [f"{column} : {as_phrase(text)}" for column, text in filters if text and has_words(text)]
