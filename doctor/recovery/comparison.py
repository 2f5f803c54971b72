"""Comparing a new file with what SQLite still reads of the damaged one: no row may be lost.

It goes by the rows that both files give, and takes no word of the code that made the new one.
"""

from __future__ import annotations

from contextlib import closing

import apsw

from ...schema.directory.folder import locate
from ...schema.sqlite.broken_text import rows_with_broken_text
from ...schema.sqlite.sqlite_errors import open_file
from ...schema.sqlite.transactions import without_triggers
from .as_sqlite import AsSqlite, quoted
from .records import BrokenText
from .tables import parts_of_a_bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .records import Value
    from .tables import Table

#: The tables that are counted again, or made again of whole segments of the archive.
_MADE_AGAIN = {"sqlite_sequence", "catalog", "catalog_blocks", "archived_ids", "archive_frames"}

_LOG = "messages"


class Comparison:
    """A new file beside the damaged one.

    Args:
        damaged, new: the files; nobody writes either.
        corrected: the seqs of messages that another copy has put right.
    """

    def __init__(self, damaged: str, new: str, corrected: Collection[int]) -> None:
        self._damaged = damaged
        self._new = new
        self._corrected = corrected

    def lacking(self, *, only_messages: bool) -> str:
        """Return in words what the new file lacks; "" where it has every row.

        Args:
            only_messages: compare no state: the new file is of a later moment than SQLite reads.
        """
        with (
            closing(AsSqlite(self._damaged)) as old,
            closing(open_file(*locate(self._new))) as new,
            without_triggers(new),
        ):
            new.execute("PRAGMA foreign_keys = ON")  # a row of what is nowhere is none
            new.execute("BEGIN")
            compared = (
                table
                for table in parts_of_a_bus().tables.values()
                if table.name == _LOG or not (only_messages or table.name in _MADE_AGAIN)
            )
            found = (self._first_lacking(table, old, new) for table in compared)
            return next(filter(None, found), "")

    def _first_lacking(self, table: Table, old: AsSqlite, new: apsw.Connection) -> str:
        places = [table.columns.index(name) for name in table.key]
        where = " AND ".join(f"{quoted(name)} = ?" for name in table.key)
        columns = ", ".join(map(quoted, table.columns))
        find = f"SELECT {columns} FROM {quoted(table.name)} WHERE {where}"
        for row in old.rows(table.name, table.columns):
            key = tuple(row[place] for place in places)
            if any(isinstance(each, BrokenText) for each in key):
                continue
            found = _row(new, find, key)
            if found is None and self._belongs(table, row, new):
                return (
                    f"{table.name} has a row {', '.join(map(repr, key))}, which the new one lacks"
                )
            if table.name == _LOG and found is not None and self._is_other(table, row, found):
                return f"message {key[0]!r} is another one in the new file"
        return ""

    def _is_other(self, table: Table, row: Sequence[Value], found: Sequence[Value]) -> bool:
        """Whether a message is another one than it was. Work may be mail again, without a queue."""
        ours = [place for place, name in enumerate(table.columns) if name != "work"]
        is_same = [_readable(row)[place] for place in ours] == [found[place] for place in ours]
        return not is_same and row[table.columns.index("seq")] not in self._corrected

    def _belongs(self, table: Table, row: Sequence[Value], new: apsw.Connection) -> bool:
        """Whether a row is one of its table, and no remains of damage."""
        if table.name == _LOG and _row(new, _IS_ARCHIVED, (row[0],)):
            return False
        values = ", ".join("?" * len(row))
        new.execute("SAVEPOINT row")
        try:
            new.execute(f"INSERT INTO {quoted(table.name)} VALUES ({values})", row)
        except (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError):
            return False
        finally:
            new.execute("ROLLBACK TO row; RELEASE row")
        return True


_IS_ARCHIVED = "SELECT 1 FROM archive_state WHERE last_seq >= ?"


def _row(new: apsw.Connection, sql: str, values: tuple[Value, ...]) -> tuple[Value, ...] | None:
    try:
        rows = new.execute(sql, values).fetchall()
    except UnicodeDecodeError:
        rows = rows_with_broken_text(new, sql, values)
    return tuple(rows[0]) if rows else None


def _readable(row: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(
        each.decode(errors="backslashreplace") if isinstance(each, BrokenText) else each
        for each in row
    )
