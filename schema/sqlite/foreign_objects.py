"""The tables, triggers, indexes and views in a file that a new bus does not have.

Some of them make the file be refused. This module is loaded only for files that differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import apsw

from ..errors import BusUnusable, shown
from .hardening import our_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..directory.layout import Layout

_PARTS = "SELECT type, name, CAST(sql AS BLOB) FROM sqlite_schema WHERE sql IS NOT NULL"

_BY_ROW = "SELECT rowid, CAST(sql AS BLOB) FROM sqlite_schema"

#: The texts of parts that run nothing by themselves begin so: SQLite stores them in this form,
#: however they were written. Any other part is a trigger, or was not stored by SQLite.
_INERT = (
    *(b"CREATE TABLE ", b"CREATE VIRTUAL TABLE ", b"CREATE VIEW "),
    *(b"CREATE INDEX ", b"CREATE UNIQUE INDEX "),
)

_INDEXES = """
SELECT name FROM pragma_index_list(?1) AS list
 WHERE origin = 'c' AND ("unique" OR partial OR EXISTS (
       SELECT 1 FROM pragma_index_xinfo(list.name) WHERE cid = -2))
"""

#: The tokens of SQL: comments and white space say nothing, and are nothing within quotes.
_TOKENS = re.compile(
    rb"(--[^\n]*|/\*.*?(?:\*/|\Z)|[ \t\n\f\r]+)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`"
    rb"|\[[^\]]*\]|[0-9A-Za-z_$\x80-\xff]+|.",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ForeignObjects:
    """The differences of a file from a new bus.

    Attributes:
        refused: the parts that could do something, or no longer do what they should, in words.
        reported: the parts of other programs that do nothing: tables, plain indexes, views.
    """

    refused: list[str]
    reported: list[str]


def foreign_objects_in(connection: apsw.Connection) -> ForeignObjects:
    """Return how a file differs from a new bus."""
    rows = _rows(connection, _PARTS)
    texts = {text for _, _, text in rows}
    expected = {_name(text): text for text in our_texts()}
    there = {(str(kind), str(name)) for kind, name, _ in rows}
    refused = [
        f"{' '.join(part)} is {'altered' if part in there else 'missing'}"
        for part, text in expected.items()
        if text not in texts
    ]
    reported = []
    for kind, name, text in rows:
        if text in our_texts():
            continue
        part = _description(str(kind), str(name))
        if not text.startswith(_INERT):
            refused.append(f"{part} is not of ackbus")
        elif (kind, name) not in expected:
            reported.append(part)
    refused += _rules(connection)
    return ForeignObjects(sorted(refused), sorted(reported))


def _rows(connection: apsw.Connection, sql: str) -> list[Any]:
    """Return rows that end with a text, as UTF-8, in which schema.sql is."""
    rows: list[Any] = connection.execute(sql).fetchall()
    encoding = str(connection.pragma("encoding"))
    if encoding == "UTF-8":
        return rows
    return [(*row, text and text.decode(encoding, "replace").encode()) for *row, text in rows]


def our_tables() -> set[str]:
    """Return the names of our tables, but for SQLite's own."""
    return set(our_table_texts())


def our_table_texts() -> dict[str, str]:
    """Return the statements that make our tables, but for SQLite's own, by their names."""
    named = ((*_name(text), text.decode()) for text in our_texts())
    return {
        name: text for kind, name, text in named if kind == "table" and name != "sqlite_sequence"
    }


def _rules(connection: apsw.Connection) -> Iterator[str]:
    """Yield the foreign indexes on our tables that refuse rows, or compute something."""
    ours = {name for _, name in map(_name, our_texts())}
    for table in sorted(our_tables()):
        for (name,) in connection.execute(_INDEXES, (table,)).fetchall():
            if name not in ours:
                part = _description("index", str(name))
                yield f"{part} on {table} is not plain, and not of ackbus"


def _description(*words: str) -> str:
    """Return the name of a part, escaped: any program can have chosen it."""
    return " ".join(word if word.isidentifier() else shown(word) for word in words)


def _name(text: bytes) -> tuple[str, str]:
    """Return the kind and the name of a part of ours."""
    words = text.decode().replace("(", " ").replace("UNIQUE ", "").split(maxsplit=3)
    return words[1].lower(), words[2]


def refuse_foreign_objects(connection: apsw.Connection, layout: Layout) -> None:
    """Raise where a file differs from a new bus in a way that is refused.

    Raises:
        BusUnusable: it does.
    """
    refused = foreign_objects_in(connection).refused
    if refused:
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        raise BusUnusable(
            f"the bus in {layout.directory} is not as ackbus makes one: {refused[0]}{more}; see"
            " 'bus doctor'"
        )


def restate(connection: apsw.Connection) -> None:
    """Replace the text of each part by ours, where both say the same in other words.

    An older ackbus wrote other comments. The connection is in a transaction, and not defensive.
    """
    ours = {_tokens(text): text for text in our_texts()}
    rows = _rows(connection, _BY_ROW)
    others = [
        (ours.get(_tokens(text)), row) for row, text in rows if text not in (None, *ours.values())
    ]
    changes = [(text.decode(), row) for text, row in others if text is not None]
    connection.execute("PRAGMA writable_schema = ON")
    connection.executemany("UPDATE sqlite_schema SET sql = ? WHERE rowid = ?", changes)
    connection.execute("PRAGMA writable_schema = OFF")


def _tokens(text: bytes | None) -> tuple[bytes, ...]:
    """Return the tokens of a statement, without comments and white space."""
    return tuple(match[0] for match in _TOKENS.finditer(text or b"") if not match[1])
