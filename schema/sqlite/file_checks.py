"""Checks of the bus file by SQLite itself: its version, tables, pages and references."""

from __future__ import annotations

import time
from contextlib import closing

import apsw

from ..findings import Finding, bad, ok, warn
from .database import SCHEMA_VERSION
from .foreign_objects import foreign_objects_in, our_tables
from .hardening import is_as_ours
from .sqlite_errors import translate
from .versions import upgrade_hint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..findings import Check
    from .database import Database

#: The advice for a file that SQLite no longer reads.
REPAIR = "stop all programs, then 'bus doctor --repair'"

#: For how long the pages are looked at unless all of them are to be, in seconds.
_QUICK_S = 3.0

#: After how many steps of SQLite's machine the clock is looked at.
_STEPS = 10_000

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"


def checks_of_database(database: Database, *, full: bool = False) -> dict[str, Check]:
    """Return the checks of a file that SQLite can open.

    Args:
        database: opened with `any_version`.
        full: read everything, however long it takes.
    """
    checks: dict[str, Check] = {
        "schema": lambda: _schema(database),
        "pages": lambda: _pages(database, full),
        "references": lambda: _references(database, full),
        "texts": lambda: _texts(database, full),
        "journal": lambda: _journal(database),
    }
    return checks


def _schema(database: Database) -> Finding:
    version = database.schema_version()
    if version != SCHEMA_VERSION:
        text = f"version {version}, and this ackbus knows {SCHEMA_VERSION}"
        return bad(text, upgrade_hint(version, SCHEMA_VERSION))
    strangers = foreign_objects_in(database.connection)
    if strangers.refused:
        return bad(", ".join(strangers.refused), REPAIR)
    others = f"; of others: {', '.join(strangers.reported)}" if strangers.reported else ""
    return ok(f"version {version}, with all its tables{others}")


def is_of_other_version(database: Database) -> bool:
    """Whether a file is of another ackbus: another version number alone is a damage."""
    return database.schema_version() != SCHEMA_VERSION and not is_as_ours(database.connection)


def _pages(database: Database, full: bool) -> Finding:
    rows = _look(database, "PRAGMA integrity_check(3)" if full else "PRAGMA quick_check(3)", full)
    if rows is None:
        return ok(f"no damage within {_QUICK_S:g} s of looking; --full reads all of it")
    lines = [str(row[0]).replace("\n", " ") for row in rows]
    if lines != ["ok"]:
        return bad(f"damaged: {'; '.join(lines)}", REPAIR)
    return ok("undamaged" if full else "undamaged; --full reads the indexes too")


def _references(database: Database, full: bool) -> Finding:
    rows = _look(database, "PRAGMA foreign_key_check", full)
    if rows is None:
        return ok(f"none broken within {_QUICK_S:g} s of looking; --full looks at all")
    if rows:
        text = f"{len(rows)} rows refer to rows that are not there, the first in {rows[0][0]}"
        return bad(text, REPAIR)
    return ok("every row that is referred to is there")


def _journal(database: Database) -> Finding:
    """Look at the journal mode, which any program can change."""
    mode = str(database.value("PRAGMA journal_mode"))
    if mode == "wal":
        return ok("journal mode wal")
    return warn(
        f"another program has set the journal mode {mode}: readers and writers keep each other"
        " waiting",
        "run 'bus stats' while no other program has bus.db open: it sets the mode wal again",
    )


def _texts(database: Database, full: bool) -> Finding:
    """Look for text that is not UTF-8, which SQLite never looks at; messages may hold any."""
    if not full:
        return ok("not looked at; --full reads them")
    there = {name for (name,) in database.rows(_TABLES)}
    names = (our_tables() & there) - {"messages"}
    harmed = [name for name in sorted(names) if not _is_readable(database, name)]
    if harmed:
        return bad(f"text in {', '.join(harmed)} is damaged: it is not UTF-8", REPAIR)
    return ok("every text is UTF-8")


def _is_readable(database: Database, table: str) -> bool:
    try:
        for _ in database.connection.execute(f"SELECT * FROM {table}"):
            pass
    except UnicodeDecodeError:
        return False
    except apsw.Error as error:
        raise translate(error, database.layout) from error
    return True


def _look(database: Database, sql: str, full: bool) -> list[tuple[object, ...]] | None:
    """Return the rows of a statement, or None when it did not end in time.

    Rows that break a CHECK are no damage of the file, and `check_state` names them.
    """
    with closing(database.connect()) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        deadline = time.monotonic() + _QUICK_S
        if not full:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            return connection.execute(sql).fetchall()
        except apsw.InterruptError:
            return None
        except apsw.Error as error:
            raise translate(error, database.layout) from error
