"""The parts of a bus file: its tables, the form of their rows, and the objects around them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import apsw

from ...schema.sqlite.hardening import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_SCHEMA = "SELECT type, name, sql, rootpage FROM sqlite_schema WHERE sql IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Table:
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
class Parts:
    """All that a bus is made of.

    Attributes:
        tables: by name, also SQLite's own of numbers.
        rows: what a new bus has in them.
        others: what makes indexes, triggers and views, in order.
    """

    tables: dict[str, Table]
    rows: dict[str, list[tuple[object, ...]]]
    others: list[str]


def parts_of_a_bus() -> Parts:
    """Return what a new bus is made of."""
    with open(SCHEMA, encoding="utf-8") as ddl, closing(apsw.Connection(":memory:")) as fresh:
        fresh.execute("PRAGMA auto_vacuum = INCREMENTAL")
        fresh.execute(ddl.read()).fetchall()
        tables: dict[str, Table] = {}
        rows: dict[str, list[tuple[object, ...]]] = {}
        others: list[str] = []
        made: Iterable[Any] = fresh.execute(_SCHEMA).fetchall()
        for kind, name, sql, root in made:
            if kind == "table":
                tables[name] = _table(fresh, name, sql, root)
                rows[name] = fresh.execute(f"SELECT * FROM {name}").fetchall()
            else:
                others.append(sql)
        return Parts(tables, rows, others)


def _table(fresh: apsw.Connection, name: str, sql: str, root: int) -> Table:
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
    return Table(name, sql, columns, key, defaults, alias, not without_rowid, root)
