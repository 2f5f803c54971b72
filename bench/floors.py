"""What nothing on SQLite and Python can be faster than: the rows without the bus around them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import apsw
from payloads import as_stored

Row = tuple[object, ...]

#: The columns of a message, and no index, check or trigger.
TABLE = """
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY, id TEXT, ts_ms INTEGER, from_agent TEXT, to_agent TEXT, type TEXT,
  correlation_id TEXT, in_reply_to TEXT, payload TEXT, payload_ref TEXT, priority INTEGER,
  headers TEXT
) STRICT
"""

_INSERT = """
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to,
                      payload, payload_ref, priority, headers)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class BareTable:
    """A table like the log's in a file of its own, written with apsw alone.

    Nothing of a row is made here: not its id, its time or its JSON.

    Args:
        path: the file.
        synchronous: how durable a commit is.
        ddl: what makes the table, and what else there is to be.
    """

    def __init__(self, path: Path, synchronous: str = "NORMAL", ddl: str = TABLE) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute(
            f"PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}"
        ).fetchall()
        self._connection.execute(ddl)

    def insert(self, rows: Sequence[Row]) -> None:
        """Insert rows, one commit each."""
        execute = self._connection.execute
        for row in rows:
            execute(_INSERT, row)

    def insert_many(self, rows: Sequence[Row]) -> None:
        """Insert rows in one transaction."""
        with self._connection:
            self._connection.executemany(_INSERT, rows)


_numbers = itertools.count()


def rows_of(texts: Sequence[str]) -> list[Row]:
    """Return the rows that the bus would make of texts; their ids grow, as those of the bus do."""
    return [
        (
            f"{next(_numbers):036x}",
            1_790_000_000_000,
            "bench",
            "reader",
            "bench.note",
            None,
            None,
            as_stored(text),
            None,
            1,
            None,
        )
        for text in texts
    ]
