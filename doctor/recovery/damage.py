"""The readable and the lost parts of a bus file, table by table."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import closing
from dataclasses import dataclass

from ...schema.message.limits import MAX_SEQ
from .pages import Pages
from .salvage import Salvage
from .tables import parts_of_a_bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ...schema.directory.layout import Layout

    #: The first and the last of some numbers.
    Range = tuple[int, int]

#: SQLite's index of the ids of messages: it knows those whose rows are lost.
_IDS = "sqlite_autoindex_messages_1"


@dataclass(frozen=True, slots=True)
class Damage:
    """The damage of a table that can't be read to its end.

    Attributes:
        table: its name.
        readable: how many rows can be read.
        holes: how many pages, or rows within a page, can't.
        lost: of messages, the ranges of numbers below the last one that can't be read.
    """

    table: str
    readable: int
    holes: int
    lost: list[Range]

    def __str__(self) -> str:
        text = f"{self.table} ({self.readable:,} rows can be read"
        return f"{text}; not {in_words(self.lost)})" if self.lost else f"{text})"


def damage_in(layout: Layout) -> list[Damage]:
    """Read a bus file page by page, and return which tables have lost something, and what."""
    parts = parts_of_a_bus()
    with closing(Pages(layout.database, layout.database + "-wal")) as pages:
        salvage = Salvage(pages, parts.tables)
        found = []
        for name in parts.tables:
            seqs = {rowid for rowid, _ in salvage.rows(name)} if name == "messages" else set()
            readable = len(seqs) or sum(1 for _ in salvage.rows(name))
            if not salvage.is_whole(name):
                lost = _gaps(salvage, seqs) if name == "messages" else []
                found.append(Damage(name, readable, salvage.trees[name].holes, lost))
        return found


def _gaps(salvage: Salvage, there: set[int]) -> list[Range]:
    """Return the ranges that are neither there nor archived, up to the last known number."""
    archived = _numbers(salvage, "archive_state", 1) + _numbers(salvage, "archive_segments", 1)
    first = max(archived, default=0) + 1
    last = max([*there, *lost_messages(salvage, there)], default=0)
    found = []
    for seq in sorted({each for each in there if each >= first} | {last + 1}):
        if seq > first:
            found.append((first, seq - 1))
        first = seq + 1
    return found


def _numbers(salvage: Salvage, name: str, place: int) -> list[int]:
    rows = (values for _, values in salvage.rows(name) if len(values) > place)
    numbers = (values[place] for values in rows)
    return [each for each in numbers if isinstance(each, int) and 0 < each <= MAX_SEQ]


def lost_messages(salvage: Salvage, there: Iterable[int]) -> dict[int, str]:
    """Return the ids of the messages whose rows are lost, by seq, as their index knows them."""
    known = set(there)
    return {
        seq: id
        for _, (id, seq) in _pairs(salvage)
        if isinstance(seq, int) and isinstance(id, str) and seq not in known
    }


def _pairs(salvage: Salvage) -> Iterable[tuple[int, list[object]]]:
    rows = salvage.rows(_IDS)
    return ((rowid, list(values)) for rowid, values in rows if len(values) == 2)


def ranges(seqs: Iterable[int]) -> str:
    """Return numbers in words: `3, 7-9, 12`; of many pieces the first."""
    pieces: list[Range] = []
    for seq in sorted(seqs):
        if pieces and seq == pieces[-1][1] + 1:
            pieces[-1] = (pieces[-1][0], seq)
        else:
            pieces.append((seq, seq))
    return in_words(pieces)


def in_words(pieces: Sequence[Range], most: int = 8) -> str:
    """Return ranges in words, the first of them where they are many."""
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in pieces[:most]]
    return ", ".join(shown) + (" …" if len(pieces) > most else "")


def ranges_without(pieces: Iterable[Range], seqs: Iterable[int]) -> Iterator[Range]:
    """Yield the rest of ranges, from which some numbers are taken out."""
    cuts = sorted(seqs)
    for first, last in pieces:
        for seq in cuts[bisect_left(cuts, first) : bisect_right(cuts, last)]:
            if first < seq:
                yield first, seq - 1
            first = seq + 1
        if first <= last:
            yield first, last
