"""Maintenance of the file, in short steps beside other programs; it may stop after any step."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, nullcontext

import apsw

from ..schema.callbacks import check_progress
from ..schema.paging import further
from ..schema.queries import file_of
from ..schema.sqlite.sqlite_errors import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from .local_bus import LocalBus

#: The `auto_vacuum` of a file that can give pages back.
_INCREMENTAL = 2

#: How many pages of 4 KiB are given back in one transaction: a few milliseconds.
_PAGES_AT_A_TIME = 256

#: How many free pages are left for the messages to come.
SPARE_PAGES = 1024


class Maintenance:
    """Keeps the file and its write-ahead log small. Safe to repeat, and in several processes."""

    def __init__(self, bus: LocalBus) -> None:
        self._database = file_of(bus)

    def checkpoint(self) -> tuple[int, int]:
        """Copy the write-ahead log into the file, and empty it if no reader uses it.

        Writers go on meanwhile. A reader in a long transaction keeps the log from being emptied.

        Returns:
            The size of the write-ahead log before and after, in bytes.

        Raises:
            BusUnusable: the file can't grow, as on a full disk; the log stays as long as it is.
        """
        self._database.checkpointer.wait()  # of two at once, one does nothing
        before = self._wal_bytes()
        with closing(self._database.connect()) as connection:
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                connection.set_busy_timeout(0)  # to wait for readers would hold up writers
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except apsw.Error as error:
                raise translate(error, self._database.layout) from error
        return before, self._wal_bytes()

    def give_back(self, on_progress: Callable[[int], object] | None = None) -> int | None:
        """Give free pages of the file back to the system, but for 1,024 (4 MiB).

        Args:
            on_progress: called after each short transaction with the number of freed pages.

        Returns:
            The freed bytes; None where another program has rebuilt the file, which can't shrink
            then: its free pages are used again.
        """
        check_progress(on_progress)
        if self._database.value("PRAGMA auto_vacuum") != _INCREMENTAL:
            return None
        begun = self._database.value("PRAGMA page_count")
        count = 0
        while (spare := self._database.value("PRAGMA freelist_count") - SPARE_PAGES) > 0:
            pages = min(spare, _PAGES_AT_A_TIME)
            with self._database.write():
                before = self._database.value("PRAGMA page_count")
                self._database.rows(f"PRAGMA incremental_vacuum({pages})")
                after = self._database.value("PRAGMA page_count")
            further("free pages", before, after, backwards=True)  # a damaged list frees none
            count += pages
            if on_progress is not None:
                on_progress(count)
        fewer: int = begun - self._database.value("PRAGMA page_count")
        return fewer * int(self._database.value("PRAGMA page_size"))

    def synced_commits(self) -> AbstractContextManager[None]:
        """Have each commit of this thread in the block wait for the disk, as in a durable bus."""
        return self._synchronous("FULL")

    def unsynced_commits(self) -> AbstractContextManager[None]:
        """Have no commit of this thread in the block wait for the disk."""
        is_unsynced = self._database.durability == "normal"
        return nullcontext() if is_unsynced else self._synchronous("NORMAL")

    @contextmanager
    def _synchronous(self, mode: str) -> Iterator[None]:
        before = self._database.value("PRAGMA synchronous")
        self._database.rows(f"PRAGMA synchronous = {mode}")
        try:
            yield
        finally:
            self._database.rows(f"PRAGMA synchronous = {before}")

    def spare_bytes(self) -> int:
        """Return the free bytes of the file, for new messages."""
        pages: int = self._database.value("PRAGMA freelist_count")
        return pages * int(self._database.value("PRAGMA page_size"))

    def _wal_bytes(self) -> int:
        try:
            return os.stat(self._database.layout.database + "-wal").st_size
        except FileNotFoundError:
            return 0
