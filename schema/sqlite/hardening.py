"""Hardening of connections: a bus file runs nothing of its own in the process that opens it.

Triggers and views of a file run in each program that uses it. So each connection distrusts the
file, the file must be made of what schema.sql makes, and no statement works without end.

SQLite makes tables, indexes, triggers and views of their texts (the column `sql` of sqlite_schema)
whenever it opens a file; the names that stand beside may be false. So the texts are compared, byte
for byte: what says the same in other words is not ours.
"""

from __future__ import annotations

import os
import re

import apsw

from ..errors import BusUnusable, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..directory.layout import Layout

#: The file of the statements that make a bus.
SCHEMA = os.path.join(os.path.dirname(__file__), "schema.sql")

#: After how many steps of its machine SQLite asks whether a statement may go on; Ctrl-C takes
#: effect then. It does some 100 million steps a second.
STEPS = 10_000_000

#: How often it may ask within a statement: a thousand million steps, or a million times a million
#: for reads and writes of a whole file, as by the doctor. The longest other statement, which reads
#: each of ten million messages, takes half of a thousand million.
WORK, BULK_WORK = 100, 100_000

_TEXTS = "SELECT CAST(sql AS BLOB) FROM sqlite_schema WHERE sql IS NOT NULL"

#: SQLite itself makes this table beside ours.
_OF_SQLITE = b"CREATE TABLE sqlite_sequence(name,seq)"

_ours: frozenset[bytes] = frozenset()


class WorkLimit:
    """A bound on the work of a connection since it was last reset.

    Attributes:
        asked: how often SQLite has asked since `asked` was set to 0.
    """

    __slots__ = ("_most", "asked")

    def __init__(self, most: int) -> None:
        self._most = most
        self.asked = 0

    def __call__(self) -> bool:
        """Return whether the statement is to end: SQLite calls this."""
        self.asked += 1
        return self.asked > self._most


def harden(connection: apsw.Connection) -> None:
    """Make a connection distrust the schema of its file, and end statements that would not end.

    Only functions without side effects work in views, triggers, checks and indexes, and what would
    damage the file, such as writing to sqlite_schema, is refused. A statement may read and write
    all of the file.
    """
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    bound_work(connection, WorkLimit(BULK_WORK))


def bound_work(connection: apsw.Connection, bound: WorkLimit) -> None:
    """Set how long a connection may work at a time."""
    connection.set_progress_handler(bound, STEPS)


def is_as_ours(connection: apsw.Connection) -> bool:
    """Whether a file is made of what schema.sql makes, and of nothing else."""
    return {text for (text,) in connection.execute(_TEXTS).fetchall()} == our_texts()


def our_texts() -> frozenset[bytes]:
    """Return the texts that SQLite stores when schema.sql is run."""
    global _ours
    if not _ours:
        with open(SCHEMA, "rb") as file:
            _ours = frozenset((_OF_SQLITE, *texts_in(file.read())))
    return _ours


def texts_in(script: bytes) -> list[bytes]:
    """Return the statements of a script that make something, without the semicolon at their end.

    Each begins a line with CREATE, and ends with the first line that ends with a semicolon; a
    trigger with the line `END;`. A test compares them with what SQLite stores.
    """
    texts = []
    for part in script.split(b"\nCREATE ")[1:]:
        end = b"\nEND;" if part.startswith(b"TRIGGER ") else b";\n"
        whole = part + b"\n"
        texts.append(b"CREATE " + whole[: whole.index(end) + end.index(b";")])
    return texts


# The tables, triggers, indexes and views in a file that a new bus does not have.
#
# Some of them make the file be refused. This module is loaded only for files that differ.

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


class ForeignObjects:
    """The differences of a file from a new bus.

    By hand: the module that makes dataclasses takes as long to load as Python takes to start.

    Attributes:
        refused: the parts that could do something, or no longer do what they should, in words.
        reported: the parts of other programs that do nothing: tables, plain indexes, views.
    """

    __slots__ = ("refused", "reported")

    def __init__(self, refused: list[str], reported: list[str]) -> None:
        self.refused, self.reported = refused, reported


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
