"""The rows of a damaged database: what the trees still lead to, and what they have lost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import closing
from dataclasses import dataclass, field

from ...schema.message.names import MAX_SEQ
from .pages import BELOW, FREE, ROOT, Pages
from .records import (
    TABLE_INTERIOR,
    TABLE_LEAF,
    Damaged,
    TreePage,
    page_of,
    parts_of_a_bus,
    row_at,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ...schema.directory.layout import Layout
    from .records import Row, TableSchema

    #: The first and the last of some numbers.
    Range = tuple[int, int]

#: The table of all tables, whose first page is the first of the file.
_SCHEMA = "sqlite_schema"

#: How SQLite can store texts; a bus is made with the first.
CODECS = ("utf-8", "utf-16-le", "utf-16-be")

#: How many values a row of it has: type, name, table, first page, SQL.
_SCHEMA_COLUMNS = 5

#: More levels than a tree has.
_MAX_DEPTH = 30


@dataclass(slots=True)
class SalvagedTree:
    """One table or index, as far as it can be read.

    Attributes:
        name: its name.
        pages: the numbers of the pages that are its own.
        holes: how many pages or cells of it can't be read.
    """

    name: str
    pages: list[int] = field(default_factory=list)
    holes: int = 0


class Salvage:
    """All trees of a database.

    Args:
        pages: its pages.
        tables: the tables that it should have, by name.

    Attributes:
        trees: what was found, by name.
        strangers: the tables of which nothing is known here.
    """

    def __init__(self, pages: Pages, tables: Mapping[str, TableSchema]) -> None:
        self._pages = pages
        self._tables = tables
        self._owner: dict[int, str] = {}
        self._claimed: dict[int, str] = {}
        self.trees: dict[str, SalvagedTree] = {}
        self.strangers: list[str] = []
        self._codec = "utf-8"
        self._free = pages.free()
        self._walk(_SCHEMA, 1)
        self._codec = self._find_codec()
        if self.trees[_SCHEMA].holes:
            self._adopt(only=_SCHEMA)
        for name, root in self._roots().items():
            self._walk(name, root)
        if any(tree.holes for tree in self.trees.values()):
            self._adopt()

    def rows(self, name: str) -> Iterator[Row]:
        """Yield the rows of a table or index, those that were written last first.

        Where a page is an older one than it should be, a row may come twice.
        """
        tree = self.trees.get(name)
        if tree is None:
            return
        for number in sorted(tree.pages, key=self._pages.age, reverse=True):
            page = self._page(number)
            if page is None or page.kind == TABLE_INTERIOR:
                continue
            for start in page.cells:
                try:
                    yield row_at(page, start, self._pages.read, self._codec)
                except Damaged:
                    tree.holes += 1

    def is_whole(self, name: str) -> bool:
        """Whether nothing of a table is known to be lost; call it after reading its rows."""
        return name in self.trees and not self.trees[name].holes

    def _find_codec(self) -> str:
        """Return how texts are stored, as the kinds in the schema show it."""
        for codec in CODECS:
            self._codec = codec
            if any(values[:1] == ["table"] for _, values in self.rows(_SCHEMA)):
                return codec
        return CODECS[0]

    # Walking -----------------------------------------------------------------------------------

    def _roots(self) -> dict[str, int]:
        """Return the first page of each tree; of one that the file does not tell, as it is new."""
        roots = {}
        for _, values in self.rows(_SCHEMA):
            if len(values) == _SCHEMA_COLUMNS and values[0] in ("table", "index"):
                name, root = values[1], values[3]
                if isinstance(name, str) and isinstance(root, int) and root > 0:
                    roots[name] = root
                    if values[0] == "table" and not self._is_own(name):
                        self.strangers.append(name)
        for table in self._tables.values():
            if table.name in roots:
                continue
            self.trees[table.name] = SalvagedTree(table.name, holes=1)
            if table.root not in roots.values() and self._fits(table, table.root):
                roots[table.name] = table.root
        return roots

    def _is_own(self, name: str) -> bool:
        return name in self._tables or name.startswith("sqlite_")

    def _fits(self, table: TableSchema, root: int) -> bool:
        """Whether a page looks like the first one of a table."""
        page = self._page(root)
        return page is not None and self._is_kind(table, page) and self._has_shape(table, page)

    def _is_kind(self, table: TableSchema, page: TreePage) -> bool:
        is_table = page.kind in (TABLE_LEAF, TABLE_INTERIOR)
        return is_table == table.has_rowid

    def _has_shape(self, table: TableSchema, page: TreePage) -> bool:
        if page.kind == TABLE_INTERIOR:
            return all(
                child is not None and self._has_shape(table, child)
                for child in map(self._page, list(page.children())[:1])
            )
        return all(len(values) == len(table.columns) for _, values in self._cells(page))

    def _cells(self, page: TreePage) -> Iterator[Row]:
        for start in page.cells:
            try:
                yield row_at(page, start, self._pages.read, self._codec)
            except Damaged:
                continue

    def _page(self, number: int) -> TreePage | None:
        if not 1 <= number <= self._pages.count:
            return None
        try:
            return page_of(number, self._pages.read(number))
        except Damaged:
            return None

    def _walk(self, name: str, root: int) -> None:
        """Take all pages of a tree that lead on from its first."""
        tree = self.trees.setdefault(name, SalvagedTree(name))
        ahead = [(root, 0, 0)]
        while ahead:
            number, above, depth = ahead.pop()
            if not self._leads_to(number, above):
                self._claimed.setdefault(number, name)
                tree.holes += 1
                continue
            page = self._page(number)
            if page is None or number in self._owner or depth > _MAX_DEPTH:
                tree.holes += 1
                continue
            self._take(tree, page)
            ahead += [(child, number, depth + 1) for child in page.children()]

    def _leads_to(self, number: int, above: int) -> bool:
        """Whether the pointer map has this page below that one, or has no entry for it."""
        entry = self._pages.entry(number)
        if entry is None or entry == ((BELOW, above) if above else (ROOT, 0)):
            return True
        return not above  # a first page is named by the schema, which is enough

    def _take(self, tree: SalvagedTree, page: TreePage) -> None:
        self._owner[page.number] = tree.name
        tree.pages.append(page.number)

    # Pages that no tree leads to -----------------------------------------------------------------

    def _adopt(self, *, only: str | None = None) -> None:
        """Assign orphaned pages to the trees that they were part of."""
        for number in range(1, self._pages.count + 1):
            if number in self._owner or number in self._free:
                continue
            page = self._page(number)
            entry = self._pages.entry(number)
            if page is None or (entry is not None and entry[0] == FREE):
                continue
            name = self._owner_by_map(number) or self._owner_by_shape(page)
            if name is None or (only is not None and name != only):
                continue
            self._take(self.trees.setdefault(name, SalvagedTree(name)), page)

    def _owner_by_map(self, number: int) -> str | None:
        """Climb to a page whose tree is known."""
        for _ in range(_MAX_DEPTH):
            if number == 1:
                return _SCHEMA
            if number in self._owner:
                return self._owner[number]
            entry = self._pages.entry(number)
            if entry is None or entry[0] != BELOW:
                break
            number = entry[1]
        return self._claimed.get(number)

    def _owner_by_shape(self, page: TreePage) -> str | None:
        """Return the one table whose rows look like those of a page."""
        if page.kind != TABLE_LEAF or self._pages.entry(page.number) is not None:
            return None  # many an index looks like another one
        if not any(True for _ in self._cells(page)):
            return None
        named = [table for table in self._tables.values() if self._is_kind(table, page)]
        fitting = [table.name for table in named if self._has_shape(table, page)]
        return fitting[0] if len(fitting) == 1 else None


# The readable and the lost parts of a bus file, table by table.

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
        damages = []
        for name in parts.tables:
            seqs = {rowid for rowid, _ in salvage.rows(name)} if name == "messages" else set()
            readable = len(seqs) or sum(1 for _ in salvage.rows(name))
            if not salvage.is_whole(name):
                lost = _gaps(salvage, seqs) if name == "messages" else []
                damages.append(Damage(name, readable, salvage.trees[name].holes, lost))
        return damages


def _gaps(salvage: Salvage, there: set[int]) -> list[Range]:
    """Return the ranges that are neither there nor archived, up to the last known number."""
    archived = _numbers(salvage, "archive_state", 1) + _numbers(salvage, "archive_segments", 1)
    first = max(archived, default=0) + 1
    last = max([*there, *lost_messages(salvage, there)], default=0)
    gaps = []
    for seq in sorted({number for number in there if number >= first} | {last + 1}):
        if seq > first:
            gaps.append((first, seq - 1))
        first = seq + 1
    return gaps


def _numbers(salvage: Salvage, name: str, place: int) -> list[int]:
    rows = (values for _, values in salvage.rows(name) if len(values) > place)
    numbers = (values[place] for values in rows)
    return [number for number in numbers if isinstance(number, int) and 0 < number <= MAX_SEQ]


def lost_messages(salvage: Salvage, there: Iterable[int]) -> dict[int, str]:
    """Return the ids of the messages whose rows are lost, by seq, as their index knows them."""
    seqs = set(there)
    return {
        seq: id
        for _, (id, seq) in _pairs(salvage)
        if isinstance(seq, int) and isinstance(id, str) and seq not in seqs
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


#: How many ranges are said in words.
_MOST = 8


def in_words(pieces: Sequence[Range]) -> str:
    """Return ranges in words, the first of them where they are many."""
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in pieces[:_MOST]]
    return ", ".join(shown) + (" …" if len(pieces) > _MOST else "")


def ranges_without(pieces: Iterable[Range], seqs: Iterable[int]) -> Iterator[Range]:
    """Yield what remains of ranges without some numbers."""
    cuts = sorted(seqs)
    for first, last in pieces:
        for seq in cuts[bisect_left(cuts, first) : bisect_right(cuts, last)]:
            if first < seq:
                yield first, seq - 1
            first = seq + 1
        if first <= last:
            yield first, last
