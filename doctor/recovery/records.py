"""Rows out of the cells of pages, and the tables that they belong to.

Nothing that stands in a page is believed: a cell that can't be read is counted, and those around it
are read on.
"""

from __future__ import annotations

import struct
from contextlib import closing
from dataclasses import dataclass
from functools import cache

import apsw

from ...schema.directory.folder import locate
from ...schema.sqlite.hardening import SCHEMA
from ...schema.sqlite.sqlite_errors import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Value = None | int | float | str | bytes

    #: The rowid (0 in an index) and the values of a row.
    Row = tuple[int, list[Value]]

#: The kinds of pages, by their first byte.
INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13

KINDS = frozenset((INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF))

#: Where the header of page 1 begins: that of the file is before it.
_FIRST_PAGE_START = 100

#: How many bytes the serial types 0 to 9 of a record take.
_SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)

#: A longer row than any that SQLite stores, in bytes.
_MAX_ROW = 1_000_000_000


class BrokenText(bytes):
    """Text that is not UTF-8: another program stored it, or it is damaged."""


class Damaged(Exception):
    """A cell, or a page, makes no sense."""


@dataclass(frozen=True, slots=True)
class TreePage:
    """A page of a tree.

    Attributes:
        number: which one.
        kind: one of `KINDS`.
        data: its bytes.
        cells: where its cells begin.
        last_child: the child behind its last cell; 0 in a leaf.
    """

    number: int
    kind: int
    data: bytes
    cells: tuple[int, ...]
    last_child: int

    @property
    def is_interior(self) -> bool:
        """Whether it has pages below it."""
        return self.kind in (INDEX_INTERIOR, TABLE_INTERIOR)

    def children(self) -> Iterator[int]:
        """Yield the pages below it."""
        if self.is_interior:
            for start in self.cells:
                yield int.from_bytes(self.data[start : start + 4])
            yield self.last_child


def page_of(number: int, data: bytes) -> TreePage:
    """Return a page of a tree.

    Raises:
        Damaged: it is no page of a tree.
    """
    start = _FIRST_PAGE_START if number == 1 else 0
    header = data[start : start + 12]
    if len(header) < 12 or header[0] not in KINDS:
        raise Damaged(f"page {number} is none of a tree")
    is_interior = header[0] in (INDEX_INTERIOR, TABLE_INTERIOR)
    begin = start + (12 if is_interior else 8)
    count = int.from_bytes(header[3:5])
    if begin + 2 * count > len(data):
        raise Damaged(f"page {number} has no room for {count} cells")
    cells = struct.unpack_from(f">{count}H", data, begin)
    last_child = int.from_bytes(header[8:12]) if is_interior else 0
    return TreePage(number, header[0], data, cells, last_child)


def row_at(
    page: TreePage, start: int, read_page: Callable[[int], bytes], codec: str = "utf-8"
) -> Row:
    """Return the row in a cell; a long row continues in other pages.

    Args:
        page, start: where it is.
        read_page: returns other pages.
        codec: how its texts are stored.

    Raises:
        Damaged: it makes no sense.
    """
    rowid, size, start = _head(page, start)
    try:
        payload = _payload(page.data, start, size, page.kind == TABLE_LEAF, read_page)
        return _signed(rowid), _values(payload, codec)
    except (IndexError, struct.error) as error:
        raise Damaged("a cell ends outside its page") from error


def _head(page: TreePage, start: int) -> tuple[int, int, int]:
    """Return the rowid of a row, how long the row is, and where it begins."""
    if not 8 <= start < len(page.data):
        raise Damaged("a cell is outside its page")
    try:
        if page.kind == INDEX_INTERIOR:
            start += 4
        size, start = _varint(page.data, start)
        rowid = 0
        if page.kind == TABLE_LEAF:
            rowid, start = _varint(page.data, start)
    except IndexError as error:
        raise Damaged("a cell ends outside its page") from error
    return rowid, size, start


def end_of_content(page: TreePage) -> int:
    """Return where in a page the last of its cells and free blocks ends.

    Raises:
        Damaged: a cell makes no sense.
    """
    data = page.data
    ends = [_end_of_cell(page, start) for start in page.cells]
    begin = int.from_bytes(data[5:7]) or 65536
    block = int.from_bytes(data[1:3])
    while 0 < block <= len(data) - 4 and len(ends) <= len(data):
        ends.append(block + int.from_bytes(data[block + 2 : block + 4]))
        block = int.from_bytes(data[block : block + 2])
    return max(ends, default=begin)


def _end_of_cell(page: TreePage, start: int) -> int:
    if page.kind == TABLE_INTERIOR:
        if not 8 <= start < len(page.data) - 4:
            raise Damaged("a cell is outside its page")
        return _varint(page.data, start + 4)[1]
    _, size, begin = _head(page, start)
    local = _local(len(page.data), size, page.kind == TABLE_LEAF)
    return max(start + 4, begin + local + (4 if local < size else 0))


def _local(usable: int, size: int, is_table: bool) -> int:
    """Return how much of a row is in its own page."""
    most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    return local if local <= most else least


def _payload(
    data: bytes, start: int, size: int, is_table: bool, read_page: Callable[[int], bytes]
) -> bytes:
    usable = len(data)
    if size > _MAX_ROW:
        raise Damaged(f"a row of {size} bytes")
    local = _local(usable, size, is_table)
    if start + local > usable:
        raise Damaged("a row ends outside its page")
    pieces = [data[start : start + local]]
    lacking = size - local
    following = int.from_bytes(data[start + local : start + local + 4]) if lacking else 0
    numbers = set()
    while lacking > 0:
        if following in numbers:
            raise Damaged("the rest of a row leads in a circle")
        numbers.add(following)
        page = read_page(following)
        if len(page) != usable:
            raise Damaged("the rest of a row is not in the file")
        following = int.from_bytes(page[:4])
        pieces.append(page[4 : 4 + lacking])
        lacking -= usable - 4
    if following:
        raise Damaged("the rest of a row is longer than the row")
    return b"".join(pieces)


def _values(payload: bytes, codec: str) -> list[Value]:
    header_bytes, at = _varint(payload, 0)
    if header_bytes > len(payload):
        raise Damaged("a row whose header is longer than the row")
    kinds = []
    while at < header_bytes:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        size = (kind - 12) // 2 if kind >= 12 else _SIZES[kind]
        values.append(_value(kind, payload[at : at + size], codec))
        at += size
    if at != len(payload):
        raise Damaged("a row that is not as long as its values")
    return values


def _value(kind: int, data: bytes, codec: str) -> Value:
    if kind == 0:
        return None
    if kind in (8, 9):
        return kind - 8
    if kind == 7:
        number: float = struct.unpack(">d", data)[0]
        return number
    if kind < 7:
        return int.from_bytes(data, signed=True)
    if kind < 12:
        raise Damaged("a value of no known kind")
    if kind % 2 == 0:
        return data
    return text_of(data, codec)


def text_of(data: bytes, codec: str) -> str | BrokenText:
    """Return the text that bytes are, or the bytes where they are none."""
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return BrokenText(data)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    number = 0
    for place in range(at, at + 8):
        byte = data[place]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, place + 1
    return number << 8 | data[at + 8], at + 9


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


# The parts of a bus file: its tables, the form of their rows, and the objects around them.

_SCHEMA = "SELECT type, name, sql, rootpage FROM sqlite_schema WHERE sql IS NOT NULL"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table.

    Attributes:
        name: its name.
        sql: what makes it.
        columns: their names, in the order in which a row has them.
        key: those of its primary key.
        defaults: what stands in each where a row ends before it: it is older than the column.
        alias: which of them is the rowid, which a row stores elsewhere; None for none.
        has_rowid: whether its rows have one: else they stand in an index.
        root: its first page in a new file.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    defaults: tuple[Any, ...]
    alias: int | None
    has_rowid: bool
    root: int


@dataclass(frozen=True, slots=True)
class SchemaParts:
    """The tables, rows and other objects of a new bus.

    Attributes:
        tables: by name, also SQLite's own of numbers.
        rows: what a new bus has in them.
        others: what makes indexes, triggers and views, in order.
    """

    tables: dict[str, TableSchema]
    rows: dict[str, list[tuple[object, ...]]]
    others: list[str]


def parts_of_a_bus() -> SchemaParts:
    """Return the parts of a new bus."""
    with open(SCHEMA, encoding="utf-8") as ddl, closing(apsw.Connection(":memory:")) as fresh:
        fresh.execute("PRAGMA auto_vacuum = INCREMENTAL")
        fresh.execute(ddl.read()).fetchall()
        tables: dict[str, TableSchema] = {}
        rows: dict[str, list[tuple[object, ...]]] = {}
        others: list[str] = []
        objects: Iterable[Any] = fresh.execute(_SCHEMA).fetchall()
        for kind, name, sql, root in objects:
            if kind == "table":
                tables[name] = _table(fresh, name, sql, root)
                rows[name] = fresh.execute(f"SELECT * FROM {name}").fetchall()
            else:
                others.append(sql)
        return SchemaParts(tables, rows, others)


def _table(fresh: apsw.Connection, name: str, sql: str, root: int) -> TableSchema:
    info: list[Any] = fresh.execute(f"PRAGMA table_info({name})").fetchall()
    without_rowid = fresh.execute(
        "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", (name,)
    ).get
    if without_rowid:  # such a row begins with its key
        info = sorted(info, key=lambda column: column[5] or len(info))
    keys = [place for place, column in enumerate(info) if column[5]]
    is_alias = not without_rowid and len(keys) == 1 and info[keys[0]][2] == "INTEGER"
    columns = tuple(column[1] for column in info)
    key = tuple(columns[place] for place in keys)
    defaults = tuple(fresh.execute(f"SELECT {column[4] or 'NULL'}").get for column in info)
    alias = keys[0] if is_alias else None
    return TableSchema(name, sql, columns, key, defaults, alias, not without_rowid, root)


# A damaged file as SQLite itself reads it: a table that it finds whole needs no other reading.

#: How SQLite names the ways to store text, and Python does.
_CODECS = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}

#: An ordinary table: none that is virtual, or that an extension makes for itself.
_TABLE = (
    "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND EXISTS ("
    " SELECT 1 FROM pragma_table_list WHERE schema = 'main' AND name = ?1 AND type = 'table')"
)
_INDEXES = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql NOT NULL"


class ReadOnlyDatabase:
    """A file, open to read only; nothing is moved out of its write-ahead log.

    Args:
        path: the file. If SQLite can't open it, no table of it is whole, and none has rows.
    """

    def __init__(self, path: str) -> None:
        self._connection: apsw.Connection | None = None
        self._codec = ""
        try:
            connection = open_file(*locate(path), apsw.SQLITE_OPEN_READONLY)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._codec = _CODECS[str(connection.execute("PRAGMA encoding").get)]
            self._connection = connection
        except (apsw.Error, OSError, KeyError):
            self._is_whole = False
            return
        self._is_whole = self._passes("PRAGMA integrity_check(1)")

    def finds_whole(self, name: str) -> bool:
        """Whether SQLite finds nothing wrong with a table and its indexes."""
        return self._is_whole or self._passes(f"PRAGMA integrity_check({quoted(name)})")

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[list[Value]]:
        """Yield the rows of a table, up to the first that can't be read."""
        texts = ", ".join(_TEXT_AS_BYTES.format(quoted(column)) for column in columns)
        for row in self._rows(f"SELECT {texts} FROM {quoted(name)}"):
            yield [
                text_of(value, self._codec) if kind == "text" else value
                for kind, value in zip(row[::2], row[1::2], strict=True)
            ]

    def rows_of(self, table: TableSchema) -> Iterator[Row]:
        """Yield the rows of a table of ours as they are stored, each with its rowid."""
        for row in self.rows(table.name, table.columns):
            rowid = row[table.alias] if table.alias is not None else 0
            if table.alias is not None:
                row[table.alias] = None
            yield rowid if isinstance(rowid, int) else 0, row

    def makers_of(self, name: str) -> list[str]:
        """Return the SQL of an ordinary table and its indexes; nothing where it is not whole."""
        makers = list(self._rows(_TABLE, (name,)))
        if not makers or not self.finds_whole(name):
            return []
        return [row[0] for row in makers + list(self._rows(_INDEXES, (name,)))]

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the columns of a table that a row can be given."""
        return tuple(row[0] for row in self._rows("SELECT name FROM pragma_table_info(?)", (name,)))

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()

    def _passes(self, check: str) -> bool:
        rows = list(self._rows(check))
        return rows == [("ok",)]

    def _rows(self, sql: str, values: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
        if self._connection is None:
            return
        try:
            yield from self._connection.execute(sql, values)
        except (apsw.Error, UnicodeDecodeError):  # SQLite reads nothing behind the damage
            return


#: Text comes as its bytes: it may be no text.
_TEXT_AS_BYTES = "typeof({0}), iif(typeof({0}) = 'text', CAST({0} AS BLOB), {0})"


@cache
def quoted(name: str) -> str:
    """Quote the name of a table or column for SQL."""
    return '"' + name.replace('"', '""') + '"'
