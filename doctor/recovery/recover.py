"""All rows of a damaged bus file, brought into a new one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import apsw

from ...schema.directory.folder import locate
from ...schema.errors import BusUnusable
from ...schema.message.names import MAX_SEQ
from ...schema.sqlite.database import SCHEMA_VERSION
from ...schema.sqlite.rules.damaged_rows import checks_in
from ...schema.sqlite.sqlite_errors import make_file, open_file, rows_with_broken_text
from ...schema.sqlite.transactions import without_triggers
from .pages import Pages
from .records import BrokenText, ReadOnlyDatabase, parts_of_a_bus, quoted
from .salvage import Salvage, lost_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from .records import Row, TableSchema, Value

# A new bus file, made of rows that were saved. The rules of the tables refuse what is no row.
#
# Triggers come last: they guard a bus in use, and would draw new tokens for leases that have
# theirs.

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

    def add(
        self, table: TableSchema, rows: Iterable[tuple[int, Sequence[Value]]]
    ) -> tuple[int, int]:
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

    def add_row(self, table: TableSchema, row: Sequence[Value]) -> bool:
        """Add one row, with all its columns in the order of the table; say whether it is new.

        Messages are never changed; elsewhere, text that is not UTF-8 is put right.
        """
        if table.name != "messages":
            row = [
                value.decode(errors="replace") if isinstance(value, BrokenText) else value
                for value in row
            ]
        places = ", ".join(
            "CAST(? AS TEXT)" if isinstance(value, BrokenText) else "?" for value in row
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
        return self._connection.changes() > 0 or self._add_beyond_bounds(table, row)

    def _add_beyond_bounds(self, table: TableSchema, row: Sequence[Value]) -> bool:
        """Add a row that only breaks named bounds, which a repair puts right later on."""
        if 'CONSTRAINT "' not in table.sql:
            return False
        run = self._connection.execute
        checks = checks_in(table.sql, named=False)
        others = " AND ".join(f"CASE WHEN NOT ({check}) THEN 0 ELSE 1 END" for check in checks)
        places = ", ".join("?" * len(row))
        run("SAVEPOINT one; PRAGMA ignore_check_constraints = ON")
        try:
            is_right = run(
                f"INSERT OR IGNORE INTO {table.name} ({', '.join(table.columns)})"
                f" VALUES ({places}) RETURNING {others or 1}",
                row,
            ).fetchall()
        except _REFUSALS:
            is_right = []
        finally:
            run("PRAGMA ignore_check_constraints = OFF")
        if is_right != [(1,)]:
            run("ROLLBACK TO one")
        run("RELEASE one")
        return is_right == [(1,)]

    def take_over(self, source: ReadOnlyDatabase, name: str) -> bool:
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
            rows: list[Any] = self._connection.execute(sql, values).fetchall()
        except UnicodeDecodeError:
            rows = rows_with_broken_text(self._connection, sql, values)
        return rows[0] if rows else None

    def replace(self, table: TableSchema, row: Sequence[Value]) -> bool:
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
        row = self.row(
            "SELECT 1 FROM messages WHERE seq = ?1 UNION SELECT 1 FROM archive_state"
            " WHERE last_seq >= ?1",
            (seq,),
        )
        return row is not None

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges of numbers, up to the last one given, that no message has."""
        last = self._highest(_SEQS)
        ranges: list[Any] = self._connection.execute(_GAPS, (last,)).fetchall()
        return ranges

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
        count: int = self._connection.execute(f"SELECT count(*) FROM {name}").get
        return count

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
        highest = [at_least, *(row[0] for row in map(self.row, queries) if row)]
        numbers = (number for number in highest if isinstance(number, int) and number <= MAX_SEQ)
        return max(numbers, default=0)

    def close(self) -> None:
        """Close the file; an unfinished one is useless."""
        self._connection.close()


# Comparing a new file with what SQLite still reads of the damaged one: no row may be lost.
#
# It compares the rows of both files, and trusts nothing of the code that made the new one.

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
            closing(ReadOnlyDatabase(self._damaged)) as old,
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
            lacking = (self._first_lacking(table, old, new) for table in compared)
            return next(filter(None, lacking), "")

    def _first_lacking(
        self, table: TableSchema, old: ReadOnlyDatabase, new: apsw.Connection
    ) -> str:
        places = [table.columns.index(name) for name in table.key]
        where = " AND ".join(f"{quoted(name)} = ?" for name in table.key)
        columns = ", ".join(map(quoted, table.columns))
        find = f"SELECT {columns} FROM {quoted(table.name)} WHERE {where}"
        for row in old.rows(table.name, table.columns):
            key = tuple(row[place] for place in places)
            if any(isinstance(part, BrokenText) for part in key):
                continue
            new_row = _row(new, find, key)
            if new_row is None and self._belongs(table, row, new):
                return (
                    f"{table.name} has a row {', '.join(map(repr, key))}, which the new one lacks"
                )
            if table.name == _LOG and new_row is not None and self._is_other(table, row, new_row):
                return f"message {key[0]!r} is another one in the new file"
        return ""

    def _is_other(self, table: TableSchema, row: Sequence[Value], new_row: Sequence[Value]) -> bool:
        """Whether the new file has another message. Work may have become mail, without a queue."""
        ours = [place for place, name in enumerate(table.columns) if name != "work"]
        is_same = [_readable(row)[place] for place in ours] == [new_row[place] for place in ours]
        return not is_same and row[table.columns.index("seq")] not in self._corrected

    def _belongs(self, table: TableSchema, row: Sequence[Value], new: apsw.Connection) -> bool:
        """Whether a row belongs to its table, and is no debris of damage."""
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
        value.decode(errors="backslashreplace") if isinstance(value, BrokenText) else value
        for value in row
    )


#: A table that no older version of a bus has.
_NEWEST_TABLE = "tasks"


@dataclass(frozen=True, slots=True)
class RecoveredTable:
    """The recovered rows of a table.

    Attributes:
        rows: how many are in the new file.
        refused: how many were read, and are no rows of that table.
        is_whole: whether nothing of it is known to be lost.
    """

    rows: int
    refused: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class RecoveredContent:
    """The recovered content of a damaged file.

    Attributes:
        tables: each table, by name.
        lost: the ids of messages that the file had once, and that can't be read, by seq.
        is_newest: whether nothing that was committed last can be missing without a trace.
        is_later: whether rows from behind damage in the log are among them, where SQLite stops.
        strangers: the tables that no bus has and that can't be read: other programs made them.
        taken_over: those that SQLite finds whole, and that are in the new file too.
    """

    tables: dict[str, RecoveredTable]
    lost: dict[int, str]
    is_newest: bool
    is_later: bool
    strangers: list[str]
    taken_over: list[str]


def read_into(new: NewFile, database: str, log: str) -> RecoveredContent:
    """Bring the rows of a damaged file and its write-ahead log into a new file.

    A table that SQLite finds whole is taken as SQLite reads it; of another its pages are read, and
    then whatever SQLite reads beyond. Only where the log is damaged, which SQLite does not tell,
    the pages come first: behind the damage may be newer rows.

    Raises:
        BusUnusable: the file is of an older or newer ackbus.
    """
    tables = parts_of_a_bus().tables
    with (
        closing(_pages(database, log, tables)) as pages,
        closing(ReadOnlyDatabase(database)) as sqlite,
    ):
        salvage = Salvage(pages, tables)
        _refuse_other_version(salvage)
        is_log_whole = _is_whole(pages)
        tables_found = {}
        for table in tables.values():
            if is_log_whole and sqlite.finds_whole(table.name):
                tables_found[table.name] = _taken(new, table, sqlite)
            else:
                tables_found[table.name] = _salvaged(
                    new, table, salvage, sqlite if is_log_whole else None
                )
        if not is_log_whole:  # of an earlier moment: what is deleted since must not come back
            new.add(tables["messages"], _not_archived(new, sqlite.rows_of(tables["messages"])))
        there = (seq for seq, _ in salvage.rows("messages"))
        lost = {} if tables_found["messages"].is_whole else lost_messages(salvage, there)
        taken_over = [name for name in salvage.strangers if new.take_over(sqlite, name)]
        strangers = [name for name in salvage.strangers if name not in taken_over]
        return RecoveredContent(
            tables_found,
            lost,
            _is_newest(pages, tables_found),
            not is_log_whole,
            strangers,
            taken_over,
        )


def _taken(new: NewFile, table: TableSchema, sqlite: ReadOnlyDatabase) -> RecoveredTable:
    added, refused = new.add(table, sqlite.rows_of(table))
    return RecoveredTable(added, refused, not refused)


def _salvaged(
    new: NewFile, table: TableSchema, salvage: Salvage, sqlite: ReadOnlyDatabase | None
) -> RecoveredTable:
    added, refused = new.add(table, salvage.rows(table.name))
    is_whole = salvage.is_whole(table.name) and not refused
    if sqlite is not None:
        added += new.add(table, sqlite.rows_of(table))[0]
    return RecoveredTable(added, refused, is_whole)


def _not_archived(new: NewFile, rows: Iterable[Row]) -> Iterable[Row]:
    return ((seq, row) for seq, row in rows if not new.has_message(seq))


def _is_newest(pages: Pages, tables: dict[str, RecoveredTable]) -> bool:
    """Whether the last commits are there: where rows are lost, the numbers and a log must show it.

    Without a log a file is as it was left by a program that ended well, or its log was removed.
    Where every row is there, it is taken for the one, as SQLite takes it.
    """
    if not _is_whole(pages):
        return False
    if all(table.is_whole for table in tables.values()):
        return True
    counters = all(tables[name].is_whole for name in ("messages", "sqlite_sequence", "fencing"))
    return counters and not pages.log.is_empty


def _pages(database: str, log: str, tables: dict[str, TableSchema]) -> Pages:
    """Return the pages as they were last, also behind what is damaged in the log.

    Unless it is a power loss that took the end of a log: what is behind it then is of transactions
    that never were, and others have been given their numbers.
    """
    pages = Pages(database, log)
    if _is_whole(pages):
        return pages
    before = Pages(database, log, whole_log=False)
    earlier, later = (_ids(Salvage(state, tables)) for state in (before, pages))
    is_other = any(later.get(seq, id) != id for seq, id in earlier.items())
    (pages if is_other else before).close()
    return before if is_other else pages


def _is_whole(pages: Pages) -> bool:
    return pages.log.is_header_whole and not pages.log.damaged()


def _ids(salvage: Salvage) -> dict[int, object]:
    return {seq: values[1] for seq, values in salvage.rows("messages") if len(values) > 1}


def _refuse_other_version(salvage: Salvage) -> None:
    versions = [v[1] for _, v in salvage.rows("meta") if v[:1] == ["schema_version"]]
    version = str(versions[0]) if versions else ""
    number = int(version) if version.isdecimal() else SCHEMA_VERSION
    # The tables show the version better than a damaged number.
    lacks_some = number < SCHEMA_VERSION and not salvage.is_whole(_NEWEST_TABLE)
    if lacks_some or (number != SCHEMA_VERSION and salvage.strangers):
        raise BusUnusable(
            f"the damaged file has schema version {version}, and only version {SCHEMA_VERSION} can"
            " be repaired; put a backup in its place"
        )
