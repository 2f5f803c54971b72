"""A copy of the bus file, made by SQLite while others use it."""

from __future__ import annotations

import os

import apsw

from ..directory.folder import locate
from ..directory.layout import Layout
from ..errors import BusUnusable
from .settings import BACKUP, SET_META
from .sqlite_errors import make_file, open_file, translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .database import Database

#: How much is copied at a time, in pages of 4 KiB: Ctrl-C is heard between two parts.
_PAGES_AT_A_TIME = 4096


def copy_database(
    database: Database,
    path: str,
    *,
    backup_made_at_ms: int | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> None:
    """Copy the file as it is at this moment, onto the disk, and read the copy from end to end.

    Publishers go on meanwhile: the copy is made inside a read transaction, so that their commits do
    not make SQLite begin again. Only the write-ahead log grows until it is done. The source is a
    connection of its own, since SQLite can't copy from inside a write transaction.

    Args:
        database: the bus.
        path: the path of the copy; nothing may be there.
        backup_made_at_ms: marks the copy as a backup of this time, in epoch milliseconds; None: it
            is no backup.
        on_progress: called now and then with the number of copied bytes.

    Raises:
        BusUnusable: the file is damaged, or the copy can't be written; the file at `path` is
            useless then.
    """
    source = database.connect()
    try:
        source.execute("BEGIN")
        page_bytes = source.pragma("page_size")
        with_progress = on_progress or (lambda done: None)
        mark = None if backup_made_at_ms is None else str(backup_made_at_ms)
        _copy_file(source, path, mark, lambda pages: with_progress(pages * page_bytes))
        damage = _examine(path)
    except apsw.Error as error:
        is_full = isinstance(error, apsw.FullError)  # it is the copy's disk that is written to
        where = Layout(os.path.dirname(path)) if is_full else database.layout
        raise translate(error, where) from error
    finally:
        source.close()
    if damage != "ok":
        raise BusUnusable(f"the file {database.layout.database} is damaged: {damage}")


def _copy_file(
    source: apsw.Connection, path: str, mark: str | None, on_progress: Callable[[int], object]
) -> None:
    copy = make_file(*locate(path))
    try:
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_AT_A_TIME)
                on_progress(backup.page_count - backup.remaining)
        if mark is not None:
            copy.execute(SET_META, (BACKUP, mark))
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, without a log beside it
    finally:
        copy.close()


def _examine(path: str) -> str:
    """Return `ok`, or what is wrong with a file, in one line.

    A row that breaks a CHECK is not wrong: the copy has it from the bus.
    """
    copy = open_file(*locate(path))
    try:
        copy.execute("PRAGMA ignore_check_constraints = ON")
        return "; ".join(str(copy.execute("PRAGMA integrity_check(1)").get).splitlines())
    finally:
        copy.close()
