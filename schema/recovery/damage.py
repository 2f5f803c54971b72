"""What of a bus file can be read, and what can't, table by table."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from .pages import Pages
from .salvage import Salvage
from .tables import parts_of_a_bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..layout import Layout

#: SQLite's index of the ids of messages: it knows those whose rows are lost.
_IDS = "sqlite_autoindex_messages_1"


@dataclass(frozen=True, slots=True)
class Damage:
    """What was found in a table that can't be read to its end.

    Attributes:
        table: its name.
        readable: how many rows can be read.
        holes: how many pages, or rows within a page, can't.
        lost: of messages, those that are known to be lost: their ids by seq.
    """

    table: str
    readable: int
    holes: int
    lost: dict[int, str]

    def __str__(self) -> str:
        text = f"{self.table} ({self.readable:,} rows can be read"
        return f"{text}; not {ranges(self.lost)})" if self.lost else f"{text})"


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
                lost = lost_messages(salvage, seqs) if name == "messages" else {}
                found.append(Damage(name, readable, salvage.trees[name].holes, lost))
        return found


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


def ranges(seqs: Iterable[int], most: int = 8) -> str:
    """Return numbers in words: `3, 7-9, 12`; of many pieces the first."""
    pieces: list[list[int]] = []
    for seq in sorted(seqs):
        if pieces and seq == pieces[-1][1] + 1:
            pieces[-1][1] = seq
        else:
            pieces.append([seq, seq])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in pieces[:most]]
    return ", ".join(shown) + (" …" if len(pieces) > most else "")
