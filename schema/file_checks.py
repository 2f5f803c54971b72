"""Checks of the bus file: its version, its tables, its pages, its write-ahead log."""

from __future__ import annotations

import os
import time
from contextlib import closing

import apsw

from .database import SCHEMA_VERSION
from .health import Finding, bad, ok, warn
from .lock_holders import readers
from .sqlite import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .database import Database
    from .health import Check

#: For how long the pages are looked at unless all of them are to be, in seconds.
_QUICK_S = 3.0

#: After how many steps of SQLite's machine the clock is looked at.
_STEPS = 10_000

#: SQLite empties the log into the file every 1,000 pages; so many more show that it can't.
_MANY_PAGES = 8000

_RESTORE = "put a backup in its place, as docs/how-to/look-after-a-bus.md shows"

_NAMES = "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'"


def checks_of_file(database: Database, *, full: bool = False) -> dict[str, Check]:
    """Return the checks of a file that SQLite can open.

    Args:
        database: opened with `any_version`.
        full: read everything, however long it takes.
    """
    checks: dict[str, Check] = {
        "schema": lambda: _schema(database),
        "pages": lambda: _pages(database, full),
        "references": lambda: _references(database, full),
        "log": lambda: _log(database),
    }
    return checks


def _schema(database: Database) -> Finding:
    found = database.schema_version()
    if found != SCHEMA_VERSION:
        advice = "run 'bus upgrade'" if found < SCHEMA_VERSION else "use a newer ackbus"
        return bad(f"version {found}, and this ackbus knows {SCHEMA_VERSION}", advice)
    missing = sorted(_wanted() - set(database.rows(_NAMES)))
    if missing:
        names = ", ".join(f"{kind} {name}" for kind, name in missing)
        return bad(f"missing: {names}", _RESTORE)
    return ok(f"version {found}, with all its tables")


def _wanted() -> set[tuple[str, str]]:
    """Return what a new bus is made of."""
    path = os.path.join(os.path.dirname(__file__), "schema.sql")
    with open(path, encoding="utf-8") as ddl, closing(apsw.Connection(":memory:")) as fresh:
        fresh.execute(ddl.read()).fetchall()
        return {(str(kind), str(name)) for kind, name in fresh.execute(_NAMES)}


def _pages(database: Database, full: bool) -> Finding:
    rows = _look(database, "PRAGMA integrity_check(3)" if full else "PRAGMA quick_check(3)", full)
    if rows is None:
        return ok(f"no damage within {_QUICK_S:g} s of looking; --full reads all of it")
    found = [str(row[0]).replace("\n", " ") for row in rows]
    if found != ["ok"]:
        return bad(f"damaged: {'; '.join(found)}", _RESTORE)
    return ok("undamaged" if full else "undamaged; --full reads the indexes too")


def _references(database: Database, full: bool) -> Finding:
    rows = _look(database, "PRAGMA foreign_key_check", full)
    if rows is None:
        return ok(f"none broken within {_QUICK_S:g} s of looking; --full looks at all")
    if rows:
        text = f"{len(rows)} rows refer to rows that are not there, the first in {rows[0][0]}"
        return bad(text, _RESTORE)
    return ok("every row that is referred to is there")


def _look(database: Database, sql: str, full: bool) -> list[tuple[object, ...]] | None:
    """Return the rows of a statement, or None when it did not end in time."""
    with closing(database.connect()) as connection:
        deadline = time.monotonic() + _QUICK_S
        if not full:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            return connection.execute(sql).fetchall()
        except apsw.InterruptError:
            return None
        except apsw.Error as error:
            raise translate(error, database.layout) from error


def _log(database: Database) -> Finding:
    """Let SQLite move into the file what it can, as any commit would; nobody waits for that."""
    _, pages, moved = database.rows("PRAGMA wal_checkpoint(PASSIVE)")[0]
    size = os.stat(database.layout.database + "-wal").st_size / 1024**2
    text = f"{pages:,} pages not yet reused, {size:,.1f} MiB"
    if pages - moved < _MANY_PAGES:
        return ok(text)
    who = ", ".join(map(str, readers(database.layout.database))) or "a reader"
    return warn(
        f"{text}; it grows, since {who} has been reading for long",
        "let it end its transaction, or end it",
    )
