"""Checkpoints beside the writers, so that no publisher waits for a checkpoint.

Left alone, SQLite checkpoints inside the commit that makes the write-ahead log a thousand pages
long: that publisher waits for the disk, and with it, behind the write lock, all others. Here a
thread of a process that writes does it, on its own connection, while writers go on.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress

import apsw

from ..directory.file_lock import FileLock
from ..errors import AckbusError
from ..processes import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
    from typing import Any

    from .database import Database

#: After how many changed rows a writer looks how long the log is.
LOOK_AFTER_CHANGES = 200

#: How many pages of the log are worth a checkpoint.
CHECKPOINT_PAGES = 1000

#: The last connection to close leaves a log that is shorter than this as it is, in pages.
LEFT_PAGES = 200

#: From this length on the log is to be written from its start again. SQLite does so once all of it
#: is in the file; under constant writing it never is, so writers are held up for the last pages.
LONG_PAGES = 8000

#: From this length on SQLite checkpoints inside a commit: something keeps the thread from its work.
INLINE_PAGES = 4 * LONG_PAGES

#: How long the thread waits for the writers, in seconds, and how long these then wait, in
#: milliseconds, for readers of the log to end.
_WRITERS_TIMEOUT_S, _READERS_TIMEOUT_MS = 5.0, 50

#: The checkpointers whose threads are running. A fork waits for them: a thread may have locked
#: SQLite's memory, and no thread of the child would unlock it.
_running: set[Checkpointer] = set()


def _wait_for_running() -> None:
    for checkpointer in tuple(_running):
        checkpointer.wait()


os.register_at_fork(before=_wait_for_running)


class Checkpointer:
    """Starts checkpoints for all threads of one `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread: Thread | None = None
        self._too_long = LONG_PAGES

    def look(self, connection: apsw.Connection) -> None:
        """Start a checkpoint if the log is long; does not wait for it, and never raises.

        What the caller committed is safe either way, and the next look tries again.
        """
        with suppress(apsw.Error):
            length, moved = _lengths(connection)
            if length - moved >= CHECKPOINT_PAGES and self not in _running:
                self._start()

    def before_close(self, connection: apsw.Connection) -> None:
        """Prepare for the close of a connection, which may be the last connection.

        The last close would move the log into the file and remove it, with four waits for the disk.
        A short log is left as it is: the next open reads it in no time.
        """
        if connection.in_transaction or self._database.read_only:
            return
        self.look(connection)
        self.wait()
        with suppress(apsw.Error):
            length, _ = _lengths(connection)
            if length < LEFT_PAGES:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def wait(self) -> None:
        """Wait for the running checkpoint, if there is any."""
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        _running.add(self)
        try:
            self._thread = start_thread(self._run, "ackbus-checkpoint")
        except RuntimeError:  # there are no more threads
            _running.discard(self)

    def _run(self) -> None:
        try:
            # Descriptors or threads may have run out: the next checkpoint tries again.
            with (
                suppress(AckbusError, apsw.Error, OSError, RuntimeError),
                closing(self._database.open()) as connection,
            ):
                # This opens the log. A pragma for the checkpoint would read the schema, which
                # takes twenty times as long as opening the file.
                connection.execute("PRAGMA data_version").fetchall()
                self._database.require_place()
                length, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                if length >= self._too_long:
                    self._restart_log(connection, length)
        finally:
            _running.discard(self)

    def _restart_log(self, connection: apsw.Connection, length: int) -> None:
        """Have the log written from its start again, with writers held up meanwhile."""
        self._too_long = length + LONG_PAGES  # the next try, if a reader stands in the way
        connection.set_busy_timeout(_READERS_TIMEOUT_MS)
        with closing(FileLock(self._database.layout.write_lock)) as writers:
            writers.acquire(_WRITERS_TIMEOUT_S)
            with suppress(apsw.BusyError):  # readers stay
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
                self._too_long = LONG_PAGES


def _lengths(connection: apsw.Connection) -> tuple[int, int]:
    """Return how many pages the log has, and how many of them are in the file."""
    rows: list[Any] = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchall()
    _, length, moved = rows[0]
    return length, moved
