"""Hardening of connections: a bus file runs nothing of its own in the process that opens it.

Triggers and views of a file run in each program that uses it. So each connection distrusts the
file, the file must be made of what schema.sql makes, and no statement works without end.

SQLite makes tables, indexes, triggers and views of their texts (the column `sql` of sqlite_schema)
whenever it opens a file; the names that stand beside may be false. So the texts are compared, byte
for byte: what says the same in other words is not ours.
"""

from __future__ import annotations

import os

import apsw

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
