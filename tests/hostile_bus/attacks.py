"""Each column of each table, and what a hostile writer may put there."""

import ctypes
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from ..looking.full_bus import tables_of
from ..looking.surroundings import Surroundings
from ..programs import connect

#: The command that values name; it leaves this mark.
NAME = "attack"

#: Values by name: an expression of SQL over the old value `old`, in which words in braces are those
#: of `Target.words`.
VALUES = {
    "relative-file": "'../abroad/outside/secret'",
    "relative-folder": "'../abroad/outside/x.git'",
    "absolute-file": "'{outside}/secret'",
    "absolute-folder": "'{outside}/x.git'",
    "option": "'--upload-pack={command}'",
    "short-option": "'-o'",
    "escapes": "'x' || char(10) || char(27) || '[2J' || char(7, 8239, 0) || 'y'",
    "substitution": "'$({command})'",
    "commands": "'x; {command}'",
    "external": "'ext::sh -c {command}'",
    "file-url": "'file://{outside}/secret'",
    "url": "'http://127.0.0.1:{port}/x'",
    "minus-one": "-1",
    "zero": "0",
    "largest": "9223372036854775807",
    "smallest": "-9223372036854775807 - 1",
    "bytes": "x'ff00ff'",
    "no-text": "CAST(x'ff41fe' AS TEXT)",
    "first-byte": "CAST(x'ff' || substr(CAST(old AS BLOB), 2) AS TEXT)",
    "cut-byte": "CAST(CAST(old AS BLOB) || x'e2' AS TEXT)",
    "empty": "''",
    "long": "replace(hex(zeroblob(524288)), '00', 'ab')",
    "deep": "replace(hex(zeroblob(50000)), '00', '[')",
    "large-number": "'[1e999, 99999999999999999999999999]'",
    "other-type": "'{{\"a\": [null]}}'",
}

#: Events of inotify: a file or a folder is opened, read, written, made or removed.
_EVENTS = 0x20 | 0x1 | 0x2 | 0x100 | 0x200

_NON_BLOCKING = os.O_NONBLOCK


@dataclass(frozen=True, order=True)
class Column:
    """A column of a table."""

    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(frozen=True)
class Target:
    """The targets of values: another user's folder, and a socket that listens."""

    outside: Path
    around: Surroundings
    listener: socket.socket
    watch: int

    @classmethod
    def make(cls, folder: Path, around: Surroundings) -> "Target":
        outside = folder / "abroad" / "outside"
        (outside / "x.git").mkdir(parents=True)
        (outside / "secret").write_text("secret\n")
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(_NON_BLOCKING)
        for path in (outside, outside / "x.git"):
            assert libc.inotify_add_watch(watch, os.fsencode(path), _EVENTS) > 0
        return cls(outside, around, listener, watch)

    def close(self) -> None:
        """Ends listening and watching."""
        self.listener.close()
        os.close(self.watch)

    @property
    def words(self) -> dict[str, object]:
        """The names in expressions of values."""
        command = self.around.command(NAME)
        port = self.listener.getsockname()[1]
        return {"outside": self.outside, "command": command, "port": port}

    def touched(self) -> list[str]:
        """Returns what was done to them since the last call."""
        found = []
        with suppress(BlockingIOError):
            os.read(self.watch, 1 << 16)
            found.append("something outside was opened, read or changed")
        with suppress(BlockingIOError):
            self.listener.accept()[0].close()
            found.append("the address was connected to")
        found += [
            f"{start.program} was started: {start}"
            for start in self.around.started()
            if start.program != "git" or start.names(self.outside)
        ]
        return found


def columns_of(directory: Path) -> list[Column]:
    """Returns all columns of a bus."""
    with connect(directory) as connection:
        tables = tables_of(connection)
    return [Column(table, name) for table, columns in tables.items() for name, _ in columns]


def attack(directory: Path, column: Column, value: str, target: Target, row: int = 0) -> bool:
    """Puts a value into a row, as a program may that leaves no other trace.

    Nothing holds it back: neither triggers, nor checks, nor types of columns.

    Returns:
        Whether SQLite can store it there: not in each index, and not as a rowid.
    """
    expression = VALUES[value].format(**target.words).replace("old", column.name)
    return store(directory, column, expression, row)


def store(directory: Path, column: Column, expression: str, row: int = 0) -> bool:
    """Puts the value of an expression of SQL into a row, as `attack` does."""
    with connect(directory) as connection:
        schema = _schema_of(connection, column.table)
        _rewrite(connection, column.table, _loosened(schema))
    with connect(directory) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        try:
            connection.execute(_update(connection, column, expression, row))
            stored = True
        except (apsw.SQLError, apsw.MismatchError, apsw.ConstraintError):
            stored = False
        _rewrite(connection, column.table, schema)
    return stored


def _schema_of(connection: apsw.Connection, table: str) -> str:
    return str(connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get)


def _loosened(schema: str) -> str:
    """Returns the definition of a table without the types that SQLite would hold to."""
    head, _, tail = schema.rpartition(")")
    return f"{head}) {re.sub(r',? *STRICT *,? *', ' ', tail)}".rstrip()


def _rewrite(connection: apsw.Connection, table: str, schema: str) -> None:
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_schema SET sql = ? WHERE type = 'table' AND name = ?", (schema, table)
    )
    connection.execute("PRAGMA writable_schema = OFF")


def _update(connection: apsw.Connection, column: Column, expression: str, row: int) -> str:
    info = connection.execute(f"PRAGMA table_info({column.table})").fetchall()
    key = ", ".join(name for _, name, _, _, _, place in info if place)
    count = connection.execute(f"SELECT count(*) FROM {column.table}").get
    return (
        f"UPDATE OR REPLACE {column.table} SET {column.name} = {expression} WHERE ({key}) ="
        f" (SELECT {key} FROM {column.table} ORDER BY {key} LIMIT 1 OFFSET {row % count})"
    )
