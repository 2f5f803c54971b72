"""A new bus file, made of rows that were saved. The rules of the tables refuse what is no row.

Triggers come last: they guard a bus in use, and would draw new tokens for leases that have theirs.
"""

from __future__ import annotations

import apsw

from ...schema.directory.folder import locate
from ...schema.message.limits import MAX_SEQ
from ...schema.sqlite.broken_text import rows_with_broken_text
from ...schema.sqlite.sqlite_errors import make_file
from .as_sqlite import quoted
from .records import BrokenText
from .tables import parts_of_a_bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .as_sqlite import AsSqlite
    from .records import Value
    from .tables import Table

#: The errors by which SQLite refuses a row.
_REFUSALS = (apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, OverflowError)

#: Where seqs stand, and tokens of claims: none of them is given twice.
_SEQS = (
    "SELECT max(seq) FROM messages",
    "SELECT max(seq) FROM jobs",
    "SELECT max(seq) FROM deliveries",
    "SELECT max(seq) FROM archived_ids",
    "SELECT max(last_seq) FROM archive_segments",
)
_CLAIMS = (
    "SELECT max(token) FROM claims",
    "SELECT seq FROM sqlite_sequence WHERE name = 'claims'",  # other programs' tables count too
)

#: A message in the place of the newest one, which is lost or archived: the next seq follows it.
_CONTINUE = """
INSERT INTO messages (seq, id, ts_ms, from_agent, to_agent, type, payload)
SELECT ?1, lower(hex(randomblob(16))), CAST(unixepoch('subsec') * 1000 AS INTEGER),
       'ackbus', 'ackbus', 'log.continued', json_object('after', max(seq))
  FROM messages HAVING ?1 > ifnull(max(seq), 0)
"""

_TOKENS = """
UPDATE fencing SET last_token = max(last_token,
  ifnull((SELECT max(token) FROM task_claims), 0),
  ifnull((SELECT max(token) FROM reservations), 0)) + ?
"""

#: Rows that their tables take one by one, and that can't stand together: pages of different age
#: tell of two holders of a job, and frames may be left of a segment whose row is lost.
_CONTRADICTIONS = (
    """
    UPDATE claims SET status = 'lost', ended_at_ms = lease_until_ms, error = 'the bus was repaired'
     WHERE status = 'active' AND token NOT IN (
           SELECT max(token) FROM claims WHERE status = 'active' GROUP BY queue_id, seq)
    """,
    "DELETE FROM archive_frames WHERE segment NOT IN (SELECT first_seq FROM archive_segments)",
)

#: The ranges without a message, behind what is archived and up to the last number. Those that an
#: earlier repair has left out are none: its message comes right behind.
_GAPS = """
WITH archived (seq) AS (
  SELECT ifnull(max(last_seq), 0) FROM
         (SELECT last_seq FROM archive_state UNION ALL SELECT last_seq FROM archive_segments))
SELECT before + 1, seq - 1 FROM (
  SELECT seq, type, lag(seq, 1, (SELECT seq FROM archived)) OVER (ORDER BY seq) AS before
    FROM (SELECT seq, type FROM messages UNION ALL SELECT ?1 + 1, '')
   WHERE seq > (SELECT seq FROM archived))
 WHERE seq > before + 1 AND type NOT IN ('bus.repaired', 'log.continued')
"""


class NewFile:
    """A file that is being filled.

    Args:
        path: where to; nothing may be there.
    """

    def __init__(self, path: str) -> None:
        self._parts = parts_of_a_bus()
        self._connection = make_file(*locate(path))
        self._connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._connection.execute("BEGIN")
        for table in self._parts.tables.values():
            if table.name != "sqlite_sequence":
                self._connection.execute(table.sql)
        self._connection.execute("DELETE FROM sqlite_sequence")

    def add(self, table: Table, rows: Iterable[tuple[int, Sequence[Value]]]) -> tuple[int, int]:
        """Add rows as they were stored: the first with a key stays.

        Returns:
            How many were added, and how many were not.
        """
        added = refused = 0
        for rowid, values in rows:
            row = [*values, *table.defaults[len(values) :]]
            is_row = bool(values) and len(row) == len(table.columns)
            if is_row and table.alias is not None:
                is_row = row[table.alias] is None
                row[table.alias] = rowid
            if is_row and self.add_row(table, row):
                added += 1
            else:
                refused += 1
        return added, refused

    def add_row(self, table: Table, row: Sequence[Value]) -> bool:
        """Add one row, with all its columns in the order of the table; say whether it is new.

        Messages are never changed; elsewhere, text that is not UTF-8 is put right.
        """
        if table.name != "messages":
            row = [
                each.decode(errors="replace") if isinstance(each, BrokenText) else each
                for each in row
            ]
        places = ", ".join(
            "CAST(? AS TEXT)" if isinstance(each, BrokenText) else "?" for each in row
        )
        columns = ", ".join(table.columns)
        if table.name == "sqlite_sequence":
            return self._add_number(*row)
        try:
            self._connection.execute(
                f"INSERT OR IGNORE INTO {table.name} ({columns}) VALUES ({places})", row
            )
        except _REFUSALS:
            return False
        return self._connection.changes() > 0

    def take_over(self, source: AsSqlite, name: str) -> bool:
        """Make a table of another program, with its rows; say whether that could be done."""
        run = self._connection.execute
        columns = source.columns(name)
        places = ", ".join("?" * len(columns))
        run("SAVEPOINT other")
        try:
            for sql in (makers := source.makers_of(name)):
                run(sql)
            for row in source.rows(name, columns) if makers else ():
                run(
                    f"INSERT INTO {quoted(name)} ({', '.join(map(quoted, columns))})"
                    f" VALUES ({places})",
                    row,
                )
        except apsw.Error:  # it needs something that only its own program has
            run("ROLLBACK TO other")
            makers = []
        run("RELEASE other")
        return bool(makers)

    def _add_number(self, name: Value, number: Value) -> bool:
        """Add the last number of a table, if it can be one; SQLite has no rule for it."""
        if name != "claims" or not isinstance(number, int) or not 0 < number <= MAX_SEQ:
            return False
        self._set_number(number)
        return True

    def _set_number(self, number: int) -> None:
        """Set the number that the token of the next claim follows."""
        self._connection.execute("DELETE FROM sqlite_sequence")
        self._connection.execute("INSERT INTO sqlite_sequence VALUES ('claims', ?)", (number,))

    def row(self, sql: str, values: tuple[object, ...] = ()) -> tuple[Value, ...] | None:
        """Return the first row of a query, or None."""
        try:
            found: list[Any] = self._connection.execute(sql, values).fetchall()
        except UnicodeDecodeError:
            found = rows_with_broken_text(self._connection, sql, values)
        return found[0] if found else None

    def replace(self, table: Table, row: Sequence[Value]) -> bool:
        """Put a row in the place of the one with its key; say whether the rules allow it.

        Columns that come after its values have their defaults.
        """
        columns, places = ", ".join(table.columns[: len(row)]), ", ".join("?" * len(row))
        self._connection.execute("SAVEPOINT one")
        try:
            key = table.columns[0]
            self._connection.execute(f"DELETE FROM {table.name} WHERE {key} = ?", (row[0],))
            self._connection.execute(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", row)
        except _REFUSALS:
            self._connection.execute("ROLLBACK TO one; RELEASE one")
            return False
        self._connection.execute("RELEASE one")
        return True

    def empty(self, *names: str) -> None:
        """Take all rows out of tables."""
        for name in names:
            self._connection.execute(f"DELETE FROM {name}")

    def has_message(self, seq: int) -> bool:
        """Whether a message is in the new file, or known to be archived."""
        found = self.row(
            "SELECT 1 FROM messages WHERE seq = ?1 UNION SELECT 1 FROM archive_state"
            " WHERE last_seq >= ?1",
            (seq,),
        )
        return found is not None

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges of numbers, up to the last one given, that no message has."""
        last = self._highest(_SEQS)
        found: list[Any] = self._connection.execute(_GAPS, (last,)).fetchall()
        return found

    def set_archived_ids(self, ids: Mapping[int, str]) -> None:
        """Set the ids of archived messages to those in their segment, by seq."""
        run = self._connection.execute
        run("DELETE FROM archived_ids WHERE seq BETWEEN ? AND ?", (min(ids), max(ids)))
        for seq, id in ids.items():
            run(
                "INSERT OR IGNORE INTO archived_ids (id, seq) SELECT ?1, ?2"
                " WHERE NOT EXISTS (SELECT 1 FROM messages WHERE seq = ?2)",
                (id, seq),
            )

    def count(self, name: str) -> int:
        """Return how many rows a table has."""
        found: int = self._connection.execute(f"SELECT count(*) FROM {name}").get
        return found

    def finish(self, *, gap: int, at_least: int) -> None:
        """Add what a new bus has, let the numbers go on, and commit, onto the disk.

        Args:
            gap: how many numbers to leave out, which may have been given by what is lost.
            at_least: the highest seq that was seen elsewhere.
        """
        run = self._connection.execute
        for name, rows in self._parts.rows.items():
            for row in rows:
                places = ", ".join("?" * len(row))
                run(f"INSERT OR IGNORE INTO {name} VALUES ({places})", row)
        run("UPDATE meta SET value = ? WHERE key = 'schema_version'", self._version())
        run(_CONTINUE, (self._highest(_SEQS, at_least) + gap,))
        if last_token := self._highest(_CLAIMS) + gap:
            self._set_number(last_token)
        run(_TOKENS, (gap,))
        for sql in (*_CONTRADICTIONS, *self._parts.others):
            run(sql)
        run("COMMIT")
        run("PRAGMA journal_mode = WAL").fetchall()

    def _version(self) -> tuple[object, ...]:
        return next(row[1:] for row in self._parts.rows["meta"] if row[0] == "schema_version")

    def _highest(self, queries: Sequence[str], at_least: int = 0) -> int:
        seen = [at_least, *(row[0] for row in map(self.row, queries) if row)]
        numbers = (each for each in seen if isinstance(each, int) and each <= MAX_SEQ)
        return max(numbers, default=0)

    def close(self) -> None:
        """Close the file; what was not finished is of no use."""
        self._connection.close()
