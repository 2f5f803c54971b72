"""Checkpoints beside the writers, so that no publisher waits for one.

Left alone, SQLite checkpoints inside the commit that makes the write-ahead log a thousand pages
long: that publisher waits for the disk, and with it, behind the write lock, all others. Here a
thread of a process that writes does it, on its own connection, while writers go on.
"""

from __future__ import annotations

from contextlib import closing, suppress

import apsw

from .errors import AckbusError
from .file_lock import FileLock
from .processes import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
    from typing import Any

    from .database import Database

#: After how many changed rows a writer looks how long the log is.
LOOK_AFTER_CHANGES = 200

#: How many pages of the log are worth a checkpoint.
CHECKPOINT_PAGES = 1000

#: How short a log is left behind by the last who closes the file, in pages.
LEFT_PAGES = 200

#: From this length on the log must begin anew, which it does when nothing in it is left to bring
#: over. Under constant writing something always is, so writers are held up for the last pages.
LONG_PAGES = 8000

#: Where SQLite checkpoints inside a commit after all: something keeps the thread from its work.
INLINE_PAGES = 4 * LONG_PAGES

#: How long the thread waits for the writers, in seconds; the next checkpoint tries again.
_WRITERS_TIMEOUT_S = 5.0


class Checkpointer:
    """Starts checkpoints for all threads of one `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread: Thread | None = None

    def look(self, connection: apsw.Connection) -> None:
        """Start a checkpoint if the log is long; does not wait for it, and never raises.

        What the caller committed is safe either way, and the next look tries again.
        """
        with suppress(apsw.Error, RuntimeError):  # the second: no more threads
            length, moved = _checkpoint(connection, "NOOP")
            if length - moved >= CHECKPOINT_PAGES and not self._runs():
                self._thread = start_thread(self._run, "ackbus-checkpoint")

    def before_close(self, connection: apsw.Connection) -> None:
        """Do what is due before a connection closes, which may be the last one.

        The last one brings all over and removes the log, with four waits for the disk. A short log
        is left as it is: the next to open the file reads it in no time.
        """
        if connection.in_transaction:
            return
        self.look(connection)
        self.wait()
        with suppress(apsw.Error):
            length, _ = _checkpoint(connection, "NOOP")
            if length < LEFT_PAGES:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def wait(self) -> None:
        """Wait for the checkpoint that is under way, if there is one."""
        if self._thread is not None:
            self._thread.join()

    def _runs(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        with (
            suppress(AckbusError, apsw.Error),
            closing(self._database.connect()) as connection,
        ):
            length, moved = _checkpoint(connection, "PASSIVE")
            if length >= LONG_PAGES and moved == length:  # else a reader stands in the way
                self._finish(connection)

    def _finish(self, connection: apsw.Connection) -> None:
        with closing(FileLock(self._database.layout.write_lock)) as writers:
            writers.acquire(_WRITERS_TIMEOUT_S)
            _checkpoint(connection, "PASSIVE")
            writers.release()


def _checkpoint(connection: apsw.Connection, mode: str) -> tuple[int, int]:
    """Return how many pages the log has, and how many of them have been brought over."""
    rows: list[Any] = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
    _, length, moved = rows[0]
    return length, moved
