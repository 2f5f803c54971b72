"""A made-up version before this one, the script that leads on from it, and looks into any file."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from ackbus.schema.sqlite import versions
from ackbus.schema.sqlite.database import SCHEMA_VERSION
from ackbus.schema.sqlite.hardening import our_texts

from ..programs import connect, tamper
from .used_bus import BEGINNING_MS, fill

#: The version that is made up.
OLDER = SCHEMA_VERSION - 1

#: What makes a file of it: a column, a table, an index, a view and a trigger are missing, and
#: another table has another name and another column.
_BACK = f"""
DROP VIEW known_agents;
ALTER TABLE heartbeats DROP COLUMN pid;
DROP TABLE worker_states;
DROP INDEX idx_messages_payload_ref;
DROP TRIGGER archive_state_is_kept;
CREATE TABLE told (conversation TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
INSERT INTO told SELECT conversation, seq FROM notices;
DROP TABLE notices;
UPDATE meta SET value = '{OLDER}' WHERE key = 'schema_version';
"""

_TEXTS = {text.split()[2].decode(): text.decode() for text in our_texts()}

#: What leads on from it.
_ON = f"""
ALTER TABLE heartbeats ADD COLUMN pid INTEGER; -- as an older program wrote it
{_TEXTS["worker_states"]};
{_TEXTS["notices"]};
INSERT INTO notices SELECT conversation, seq, {BEGINNING_MS} FROM told;
DROP TABLE told;
{_TEXTS["idx_messages_payload_ref"]};
{_TEXTS["archive_state_is_kept"]};
{_TEXTS["known_agents"]};
UPDATE meta SET value = '{SCHEMA_VERSION}' WHERE key = 'schema_version';
"""

#: The file of that script.
SCRIPT = f"{SCHEMA_VERSION:04}_make_up.sql"


def make_older(directory: Path) -> Path:
    """Makes a bus of the made-up version, in use, and returns its directory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of recipients that are new
        fill(directory)
    set_back(directory)
    return directory


def set_back(directory: Path) -> None:
    """Makes a file of the made-up version of a bus."""
    tamper(directory, *_BACK.split(";\n"))


def write_script(folder: Path) -> Path:
    """Puts the script into a folder, and returns that."""
    folder.mkdir()
    (folder / SCRIPT).write_text(_ON, "utf-8")
    return folder


@contextmanager
def upgradable(folder: Path) -> Iterator[None]:
    """Within it, this process can upgrade the made-up version, by a script in a new folder."""
    with patch.object(versions, "MIGRATIONS", str(write_script(folder))):
        yield


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
