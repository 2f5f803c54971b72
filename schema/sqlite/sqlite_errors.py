"""SQLite's errors, translated into advice; text that is not UTF-8; its version."""

from __future__ import annotations

import os

import apsw

from ..directory.folder import Folder
from ..directory.layout import Layout
from ..errors import (
    AckbusError,
    BusBusy,
    BusUnusable,
    InvalidInput,
    RowRefused,
    StatementRefused,
    Unfinished,
    shown,
)
from ..system_errors import disk_full, means_full, why_not_opened
from .hardening import harden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Reading text that is not UTF-8, as a careless program may store it.
#
# One such row must not block readers of the rows after it. Invalid bytes become escapes with a
# backslash and an x, which no JSON text may contain: so a broken payload is recognized, and a
# broken name can be shown.


def rows_with_broken_text(
    connection: apsw.Connection, sql: str, values: tuple[object, ...]
) -> list[tuple[Any, ...]]:
    """Return the rows of a query, with escapes for the bytes that are no UTF-8."""
    from apsw import ext  # it takes 30 ms, and such text is rare

    count = len(ext.query_info(connection, sql).description)
    names = [f"c{number}" for number in range(count)]
    bytes_of = [f"iif(typeof({c}) = 'text', CAST({c} AS BLOB), {c})" for c in names]
    are_text = [f"typeof({c}) = 'text'" for c in names]  # a BLOB stays as it is stored
    columns = ", ".join([*bytes_of, *are_text])
    query = f"WITH broken ({', '.join(names)}) AS ({sql}) SELECT {columns} FROM broken"
    return [
        tuple(
            value.decode(errors="backslashreplace") if is_text else value
            for value, is_text in zip(row[:count], row[count:], strict=True)
        )
        for row in connection.execute(query, values)
    ]


#: SQLite releases below these can corrupt a file when checkpoints run back to back
#: (the WAL-reset bug, fixed in 3.51.3 and, for older lines, in 3.50.7 and 3.44.6).
_SAFE_SQLITE = ((3, 51, 3), (3, 50, 7), (3, 44, 6))

#: The errors that a statement, or a value of it, may raise.
FAILURES = (apsw.Error, UnicodeEncodeError, OverflowError)

#: The file of a bus.
BUS_FILE = "bus.db"

#: The directories of the buses that this process opened last, to explain errors of calls that have
#: closed their bus by then; no command needs more than two.
opened_last: list[str] = []

#: The endings of a database's files: its own, and those that SQLite puts beside it.
ENDINGS = ("", "-wal", "-shm", "-journal")


def open_file(
    folder: Folder, name: str, flags: int = apsw.SQLITE_OPEN_READWRITE
) -> apsw.Connection:
    """Open a database file by SQLite, which takes it by its name: no link is followed to it.

    Nothing that the file brings is trusted: see `harden`.

    Raises:
        Obstructed: it, or what SQLite keeps beside it, is no ordinary file, or has another name.
        apsw.Error: there is none, or SQLite refuses it.
    """
    folder.check(*(name + ending for ending in ENDINGS))
    path = os.path.join(os.path.realpath(folder.path), name)
    connection = apsw.Connection(path, flags=flags | apsw.SQLITE_OPEN_NOFOLLOW)
    harden(connection)
    if name == BUS_FILE and folder.path not in opened_last:
        opened_last[:] = [*opened_last[-1:], folder.path]
    return connection


def make_file(folder: Folder, name: str) -> apsw.Connection:
    """Make a database file and open it; a file that a process left is replaced."""
    for ending in ENDINGS[1:]:
        folder.remove(name + ending)
    folder.new(name).close()  # it is new: no process has locks on it that this could lose
    return open_file(folder, name)


def check_sqlite_version(version: str) -> None:
    """Refuse an SQLite library whose write-ahead log can corrupt the file.

    Raises:
        BusUnusable: `version` has the WAL-reset bug.
    """
    parts = tuple(int(part) for part in version.split("."))
    if not any(parts >= safe and parts[:2] == safe[:2] for safe in _SAFE_SQLITE[1:]) and (
        parts < _SAFE_SQLITE[0]
    ):
        raise BusUnusable(
            f"SQLite {version} can corrupt a bus (its WAL-reset bug); install apsw 3.51.3 or later"
        )


def explain(error: Exception, layout: Layout) -> AckbusError:
    """Return our error for an error of the types in `FAILURES`."""
    if isinstance(error, apsw.Error):
        return translate(error, layout)
    if isinstance(error, UnicodeEncodeError):  # a command line that is not UTF-8 gives such text
        return InvalidInput(f"{shown(error.object)} is not valid Unicode text")
    return InvalidInput("a number is beyond the 64 bits that the bus can hold")


def translate(error: apsw.Error, layout: Layout) -> AckbusError:
    """Return the error of ours that says what an SQLite error means for the user."""
    where = layout.directory
    if isinstance(error, apsw.BusyError):
        return BusBusy(f"another program has kept the bus in {where} locked; try again")
    if isinstance(error, apsw.InterruptError):
        return BusUnusable(
            f"a statement on the bus in {where} took more work than any should, and was ended; see"
            " 'bus doctor'"
        )
    if means_full(error, where):
        return disk_full(where)
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_ROLLBACK:
        return Unfinished(
            f"a program was killed while it changed the bus in {where}, in another journal mode;"
            " run 'bus stats': any use of the bus undoes what was not committed"
        )
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)):
        text = f"the bus in {where} can't be written by this user: {error}"
        return why_not_opened(where) or BusUnusable(text)
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return BusUnusable(f"the file {layout.database} is damaged or is not a bus: {error}")
    if isinstance(error, apsw.IOError):
        return why_not_opened(where) or BusUnusable(f"the disk under {where} failed: {error}")
    is_type = getattr(error, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_DATATYPE
    is_row = isinstance(error, apsw.ConstraintError) and not is_type
    kind = RowRefused if is_row else StatementRefused
    return kind(f"the bus in {where} refused a statement: {_rule_of(str(error))}")


def _rule_of(text: str) -> str:
    """Return SQLite's words for a refused row; the sentence alone that a bound has for its name."""
    from .foreign_objects import our_table_texts

    sentence = text.removeprefix("CHECK constraint failed: ")
    has_name = any(f'CONSTRAINT "{sentence}"' in table for table in our_table_texts().values())
    return sentence if has_name else text
