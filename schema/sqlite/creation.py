"""Making a bus: the directory, the tables, the files beside them."""

from __future__ import annotations

import errno
import os

import apsw

from ..directory.file_lock import FileLock
from ..directory.folder import Obstructed
from ..directory.ignoring import write_ignoring
from ..directory.layout import (
    BUS_DIRECTORY,
    Layout,
    lost_file_hint,
    refuse_links,
    refuse_network_filesystem,
    sync_directory,
)
from ..errors import BusUnusable
from ..system_errors import disk_full, without_log
from .database import BUSY_TIMEOUT_MS
from .hardening import SCHEMA
from .sqlite_errors import check_sqlite_version, make_file, translate


def create(directory: str | os.PathLike[str]) -> bool:
    """Make a bus in `directory`; an existing one is left as it is.

    Safe to call from several processes at once, and again after a crash.

    Returns:
        Whether it was made now.

    Raises:
        BusUnusable: the directory can't be made or written, is on a network filesystem, or holds
            the write-ahead log or the archive of a bus whose file is missing, or a symbolic link.
    """
    check_sqlite_version(apsw.sqlite_lib_version())
    layout = Layout(directory)
    try:
        os.makedirs(layout.directory, mode=0o700, exist_ok=True)
        refuse_links(layout.directory)
        refuse_network_filesystem(layout.directory)
        layout.blob_folder.make()
        lock = FileLock(layout.write_lock)
    except Obstructed:
        raise
    except OSError as error:
        raise _unmakeable(layout, error) from error
    lock.acquire(timeout_s=BUSY_TIMEOUT_MS / 1000)
    try:
        write_ignoring(layout)  # first: with the file its name comes onto the disk
        is_new = _create_tables(layout)
        if is_new and os.path.basename(layout.directory) == BUS_DIRECTORY:
            os.chmod(layout.directory, 0o700)  # a clone of git made it, and gave all a look into it
    except apsw.Error as error:
        raise translate(error, layout) from error
    except Obstructed:
        raise
    except OSError as error:
        raise _unmakeable(layout, error) from error
    finally:
        lock.release()
        lock.close()
    return is_new


def _unmakeable(layout: Layout, error: OSError) -> BusUnusable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(layout.directory)
    return BusUnusable(f"can't make a bus in {layout.directory}: {error.strerror}")


def _create_tables(layout: Layout) -> bool:
    """Make the file beside its place and rename it: no program ever opens an unfinished bus."""
    layout.files.check("bus.db")
    status = layout.files.look("bus.db")
    if status is not None and status.st_size > 0:
        return False
    if remains := lost_file_hint(layout):  # SQLite would play the log into the new file
        raise BusUnusable(remains)
    _sync_names_of(layout.directory)
    connection = make_file(layout.files, "bus.db.new")
    try:
        # So that pages can be given back to the system after archiving, some at a time.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        with open(SCHEMA, encoding="utf-8") as file, connection:
            connection.execute(file.read())
        if ("wal",) not in connection.execute("PRAGMA journal_mode = WAL").fetchall():
            raise without_log(layout.directory)
    finally:
        connection.close()
    _begin_export(layout)  # before there is a bus: after a crash it would not be made any more
    layout.files.rename("bus.db.new", "bus.db")
    layout.files.sync()
    return True


def _begin_export(layout: Layout) -> None:
    """Make an empty `bus.jsonl`, to be followed from the first message on; a clone brings its own.

    The exporter appends to it.
    """
    os.close(layout.files.change(os.path.basename(layout.jsonl)))


def _sync_names_of(directory: str) -> None:
    """Wait until a directory is on the disk by name, and so are those above it.

    Which of them are new can't be known: who made them may have died. What this user may not read,
    and what is on a filesystem that does not sync, was there before.
    """
    above = os.path.dirname(directory)
    try:
        sync_directory(above)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS):
            raise
    if above != directory:
        _sync_names_of(above)
