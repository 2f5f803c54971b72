"""A damaged file as SQLite itself reads it: a table that it finds whole needs no other reading."""

from __future__ import annotations

from functools import cache

import apsw

from ...schema.directory.folder import locate
from ...schema.sqlite.sqlite_errors import open_file
from .records import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .records import Row, Value
    from .tables import Table

#: How SQLite names the ways to store text, and Python does.
_CODECS = {"UTF-8": "utf-8", "UTF-16le": "utf-16-le", "UTF-16be": "utf-16-be"}

#: An ordinary table: none that is virtual, or that an extension makes for itself.
_TABLE = (
    "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND EXISTS ("
    " SELECT 1 FROM pragma_table_list WHERE schema = 'main' AND name = ?1 AND type = 'table')"
)
_INDEXES = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql NOT NULL"


class AsSqlite:
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
        texts = ", ".join(_TEXT_AS_BYTES.format(quoted(each)) for each in columns)
        for row in self._rows(f"SELECT {texts} FROM {quoted(name)}"):
            yield [
                text_of(value, self._codec) if kind == "text" else value
                for kind, value in zip(row[::2], row[1::2], strict=True)
            ]

    def rows_of(self, table: Table) -> Iterator[Row]:
        """Yield the rows of a table of ours as they are stored, each with its rowid."""
        for row in self.rows(table.name, table.columns):
            rowid = row[table.alias] if table.alias is not None else 0
            if table.alias is not None:
                row[table.alias] = None
            yield rowid if isinstance(rowid, int) else 0, row

    def makers_of(self, name: str) -> list[str]:
        """Return the SQL of an ordinary table and its indexes; nothing where it is not whole."""
        made = list(self._rows(_TABLE, (name,)))
        if not made or not self.finds_whole(name):
            return []
        return [row[0] for row in made + list(self._rows(_INDEXES, (name,)))]

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the columns of a table that a row can be given."""
        return tuple(row[0] for row in self._rows("SELECT name FROM pragma_table_info(?)", (name,)))

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()

    def _passes(self, check: str) -> bool:
        found = list(self._rows(check))
        return found == [("ok",)]

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
    """Return the name of a table or column as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'
