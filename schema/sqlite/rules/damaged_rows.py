"""The first row of a bus that no ackbus wrote: a value of a wrong type, or refused by a CHECK.

The file refuses such rows, unless a program turns that off. Code that reads rows does not check
them, since that would cost each reader; after an unexpected error it asks here.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Lock

import apsw

from ...directory.folder import Folder
from ...errors import AckbusError, RowDamaged, StatementRefused, shown
from ..foreign_objects import our_table_texts
from ..forks import close_inherited
from ..sqlite_errors import BUS_FILE, open_file, opened_last

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: For how long rows are looked at, in seconds: some million of them.
LOOK_S = 3.0

#: After how many steps of SQLite's machine the clock is looked at.
_STEPS = 10_000

#: The words of SQLite for the values that a column of each type has.
_FITTING = {"INTEGER": "integer", "REAL": "real", "TEXT": "text", "BLOB": "blob"}

#: The types of values as people know them.
_WORDS = {
    "integer": "a whole number",
    "real": "a number",
    "text": "text",
    "blob": "bytes",
    "null": "nothing",
}

#: Tables whose texts may be none: a row of the log blocks no reader (`broken_text.py`).
_ANY_TEXT = ("messages",)

_looking = Lock()


@dataclass(frozen=True, slots=True)
class _Fault:
    """A thing that can be wrong with a row.

    Attributes:
        condition: whether it is, in SQL.
        column: where.
        words: the fault in words, with a place for the `kind` of value that is there.
    """

    condition: str
    column: str
    words: str


@contextmanager
def damage_named() -> Iterator[None]:
    """Raise `RowDamaged` in the place of an unexpected error that a row explains."""
    try:
        yield
    except Exception as error:
        damaged = damage_behind(error)
        if damaged is None:
            raise
        raise damaged from error


def damage_behind(error: Exception) -> RowDamaged | None:
    """Return the row that explains an unexpected error, in a bus that this process has opened.

    It takes up to 3 s. None where another thread is looking: requests that fail one after the other
    must not keep a server busy.
    """
    is_meant = isinstance(error, (AckbusError, OSError, ImportError, MemoryError))
    if is_meant and not isinstance(error, StatementRefused):
        return None
    if not _looking.acquire(blocking=False):
        return None
    try:
        damaged_rows = map(first_damaged_row, [*opened_last])
        return next((damaged for damaged in damaged_rows if damaged is not None), None)
    finally:
        _looking.release()


def first_damaged_row(directory: str) -> RowDamaged | None:
    """Return the first row of a bus that no ackbus wrote; None where none is found within 3 s."""
    try:
        close_inherited(os.path.join(directory, BUS_FILE))
        with (
            closing(Folder(directory)) as folder,
            closing(open_file(folder, BUS_FILE, apsw.SQLITE_OPEN_READONLY)) as connection,
        ):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            return _first_in(connection, directory)
    except (AckbusError, OSError, apsw.Error):
        return None  # the next open raises the reason


def _first_in(connection: apsw.Connection, directory: str) -> RowDamaged | None:
    deadline_s = time.monotonic() + LOOK_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline_s, _STEPS)
    is_utf8: Callable[..., bool] = _is_utf8
    connection.create_scalar_function("is_utf8", is_utf8, 1, deterministic=True)
    for table, text in sorted(our_table_texts().items()):
        try:
            damage = _first_of_table(connection, table, text)
        except apsw.InterruptError:
            return None
        except (apsw.Error, UnicodeError):  # a table that can't be read has other checks
            continue
        if damage is not None:
            return RowDamaged(directory, table, *damage)
    return None


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _first_of_table(
    connection: apsw.Connection, table: str, text: str
) -> tuple[str, str, str] | None:
    """Return the first damaged row of a table: its key, the column, and what is wrong there."""
    columns: list[Any] = connection.execute(f"PRAGMA table_info({table})").fetchall()
    if not columns:  # it is not there
        return None
    faults = [*_faults(table, text, columns)]
    conditions = [fault.condition for fault in faults]
    kinds = [f"typeof({fault.column})" for fault in faults]
    keys = [name for _, name, _, _, _, place in columns if place]
    selected = [*conditions, *kinds, *(f"CAST({name} AS BLOB)" for name in keys)]
    row: Any = connection.execute(
        f"SELECT {', '.join(selected)} FROM {table} WHERE {' OR '.join(conditions)} LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    place = next(number for number in range(len(faults)) if row[number])
    key = ", ".join(map(_shown_value, keys, row[2 * len(faults) :]))
    kind = _WORDS[row[len(faults) + place]]
    return key, faults[place].column, faults[place].words.format(kind=kind)


def _faults(table: str, text: str, columns: list[Any]) -> Iterator[_Fault]:
    """Yield all that can be wrong with a row of a table."""
    for _, name, kind, must_be_there, _, _ in columns:
        fitting = _FITTING[kind]
        allowed = f"'{fitting}'" if must_be_there else f"'{fitting}', 'null'"
        words = f"has {{kind}} in {name}, which takes {_WORDS[fitting]}"
        yield _Fault(f"typeof({name}) NOT IN ({allowed})", name, words)
    for _, name, kind, *_ in columns:
        if kind == "TEXT" and table not in _ANY_TEXT:
            words = f"has text in {name} that is not UTF-8"
            yield _Fault(f"NOT is_utf8(CAST({name} AS BLOB))", name, words)
    for check in checks_in(text):
        among = [name for _, name, *_ in columns if re.search(rf"\b{name}\b", check)]
        words = f"has in {' and '.join(among)} what no row may have there"
        # Only in a condition an AND ends at what is false: json_type fails at what is no JSON.
        yield _Fault(f"CASE WHEN NOT ({check}) THEN 1 ELSE 0 END", among[0], words)


def _shown_value(name: str, value: bytes | None) -> str:
    """Return a column of a key with its value, which any program may have chosen."""
    text = (value or b"").decode(errors="backslashreplace")
    return f"{name} {text if text.lstrip('-').isdecimal() else shown(text)}"


def checks_in(text: str, *, named: bool = True) -> list[str]:
    """Return the expressions of the CHECKs in the statement that makes a table of ours.

    Args:
        text: the statement.
        named: also those with a name, which are bounds that a repair puts right.
    """
    matches = re.finditer(r'(CONSTRAINT "[^"]*" )?\bCHECK \(', text)
    return [_enclosed(text, match.end()) for match in matches if named or match[1] is None]


def _enclosed(text: str, begin: int) -> str:
    depth, end = 1, begin
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[begin : end - 1]
