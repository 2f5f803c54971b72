"""Buses of older versions, made from their text, and what can be seen in any bus file."""

import base64
import re
from pathlib import Path
from typing import Any

import apsw

from ..programs import connect

FIXTURES = {path.stem: path for path in sorted(Path(__file__).parent.glob("fixtures/v*.sql"))}


def restore(sql: str, directory: Path) -> Path:
    """Makes a bus directory with a file that has this text, and returns the directory."""
    directory.mkdir()
    connection = connect(directory)
    connection.execute(sql).fetchall()
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.close()
    for name, content in re.findall(r"^-- (archive/\S+): (\S+)$", sql, re.MULTILINE):
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(base64.b64decode(content))
    return directory


def version_of(directory: Path) -> str:
    return str(
        connect(directory).execute("SELECT value FROM meta WHERE key = 'schema_version'").get
    )


def tables(connection: apsw.Connection) -> list[str]:
    """The names of the tables, but for SQLite's own."""
    found = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [str(name) for (name,) in found]


def rows(
    connection: apsw.Connection, *leave_out: str, like: apsw.Connection | None = None
) -> dict[str, list[Any]]:
    """All rows of each table; with the columns that it has in another file, where it is there."""
    return {
        table: sorted(
            connection.execute(f"SELECT {_names(like, table)} FROM {table}").fetchall(), key=repr
        )
        for table in tables(connection)
        if table not in leave_out
    }


def _names(connection: apsw.Connection | None, table: str) -> str:
    found = connection.execute(f"PRAGMA table_info({table})").fetchall() if connection else []
    return ", ".join(str(column[1]) for column in found) or "*"


def objects(connection: apsw.Connection) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Each table, view, index and trigger: its text, and its columns as SQLite understands them."""
    found: list[Any] = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    return {
        (kind, name): (_plain(sql), *_columns(connection, kind, name)) for kind, name, sql in found
    }


def _columns(connection: apsw.Connection, kind: str, name: str) -> list[list[Any]]:
    pragmas = {
        "table": ("table_xinfo", "foreign_key_list"),
        "view": ("table_xinfo",),
        "index": ("index_xinfo",),
        "trigger": (),
    }
    return [connection.execute(f"PRAGMA {one}({name})").fetchall() for one in pragmas[kind]]


def _plain(sql: str | None) -> str:
    """A statement without its comments, in one line."""
    return " ".join(re.sub("--.*", "", sql or "").split())
