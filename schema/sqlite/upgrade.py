"""Bringing the file of an older version up to date, with a copy of it kept as it was.

All of it happens in one write transaction, and a process that dies on the way leaves the old
version. No other program may have the file open: an older program would expect the tables of its
own version.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass

import apsw

from ..directory.file_lock import FileLock
from ..directory.ignoring import keep_out_of_git
from ..directory.layout import Layout
from ..directory.lock_holders import refuse_openers
from ..errors import BusUnusable
from ..system_errors import unwritable
from .database import SCHEMA_VERSION, WRITE_TIMEOUT_S, Database
from .file_copy import copy_database
from .foreign_objects import refuse_foreign_objects, restate
from .rules.column_rules import put_right
from .sqlite_errors import ENDINGS
from .transactions import without_triggers
from .versions import migrations, version_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..findings import Mended

#: How long to wait for programs that have the file open and are about to end, in seconds.
_PATIENCE_S = 5.0

#: The step that is possible once they have ended.
_THEN = "run 'bus upgrade' again"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The result of `upgrade`.

    Attributes:
        directory: the bus directory.
        from_version: the schema version that the file had.
        version: the schema version that it has now.
        backup: the file as it was; None when there was nothing to do.
        mended: the rows that broke the bounds of the new version, and were put right.
    """

    directory: str
    from_version: int
    version: int
    backup: str | None
    mended: tuple[Mended, ...] = ()


def upgrade(
    directory: str | os.PathLike[str], *, write_timeout_s: float = WRITE_TIMEOUT_S
) -> Upgrade:
    """Bring a bus to the schema version of this code; a bus that has it is left as it is.

    Safe to repeat, and to call from several processes at once. It leaves a copy beside the file,
    `bus.db.v13` of version 13; an older copy is replaced, since the new copy has all of it.

    Args:
        directory: the bus directory.
        write_timeout_s: how long to wait for other writers and other upgrades, in seconds.

    Raises:
        BusNotFound: there is no bus.
        BusUnusable: it is damaged, or can't be written; or it is of a newer version, or of an older
            version that can't be upgraded: the error says how to change over.
        Refused: another program has it open, and did not end within a few seconds.
        BusBusy: other writers, or another upgrade, kept it locked.
        AckbusError: SQLite refused a step, as when a foreign table has the name of a new table.

        After any of these the file is as it was.
    """
    layout = Layout(directory)
    with closing(_open(layout, write_timeout_s)) as database:
        version = database.schema_version()
    if version == SCHEMA_VERSION:
        return Upgrade(layout.directory, version, version, None)
    _scripts_from(version, layout)  # before it waits for anybody
    lock = FileLock(layout.upgrade_lock)  # first: an upgrade that waits has no file open
    try:
        lock.acquire(write_timeout_s)
        with closing(_open(layout, write_timeout_s)) as database:
            return _upgrade(database)
    finally:
        lock.close()


def _open(layout: Layout, write_timeout_s: float) -> Database:
    return Database(
        layout.directory, durability="full", write_timeout_s=write_timeout_s, any_version=True
    )


def _upgrade(database: Database) -> Upgrade:
    layout = database.layout
    refuse_openers(layout.database, _THEN, patience_s=_PATIENCE_S)
    connection = database.connection
    with database.write():
        version = database.schema_version()
        if version == SCHEMA_VERSION:
            return Upgrade(layout.directory, version, version, None)
        scripts = _scripts_from(version, layout)
        backup = _back_up(database, version)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)  # it changes a table's text
        with without_triggers(connection):  # somebody else's may be among them
            for script in scripts:
                connection.execute(script).fetchall()
        _check_strangers(database, connection)
        mended = tuple(put_right(database))
        _check_references(database)
        refuse_openers(
            layout.database, _THEN
        )  # a program that came meanwhile has read the old version
    return Upgrade(layout.directory, version, SCHEMA_VERSION, backup, mended)


def _scripts_from(version: int, layout: Layout) -> list[str]:
    """Return the scripts that lead from a version to ours; raise if there are none."""
    paths = migrations(version, SCHEMA_VERSION)
    if paths is None:
        raise version_error(layout, version, SCHEMA_VERSION)
    scripts = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            scripts.append(file.read())
    return scripts


def _check_references(database: Database) -> None:
    """Raise when a foreign key points nowhere, so that the transaction rolls back."""
    broken = database.rows("PRAGMA foreign_key_check")
    if broken:
        raise BusUnusable(
            f"rows of the table {broken[0][0]} in {database.layout.database} refer to rows that"
            " are not there; nothing was changed"
        )


def _check_strangers(database: Database, connection: apsw.Connection) -> None:
    """Raise when the file is not a bus of ours by now, so that the transaction rolls back."""
    restate(connection)
    try:
        refuse_foreign_objects(connection, database.layout)
    except BusUnusable as error:
        raise BusUnusable(f"nothing was changed: {error}") from error


def _back_up(database: Database, version: int) -> str:
    """Copy the file beside itself, and check the copy; the write lock keeps it as it is."""
    files = database.layout.files
    name = f"bus.db.v{version}"
    path, fresh = files.path_of(name), name + ".new"
    try:
        keep_out_of_git(database.layout, "bus.db.v*")
        try:
            _copy(database, files.path_of(fresh))
            files.rename(fresh, name)
        except BaseException:
            for ending in ENDINGS:
                files.remove(fresh + ending)
            raise
        files.sync()
    except OSError as error:
        raise BusUnusable(f"nothing was changed: {unwritable(path, error)}") from error
    return path


def _copy(database: Database, path: str) -> None:
    try:
        copy_database(database, path)
    except BusUnusable as error:
        raise BusUnusable(f"nothing was changed: {error}") from error
