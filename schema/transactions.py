"""Write transactions: the only BEGIN, COMMIT and ROLLBACK of the package."""

from __future__ import annotations

import time

import apsw

from .errors import AckbusError, BusUnusable
from .file_lock import FileLock
from .layout import Layout
from .sqlite import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .database import Database


class WriteTransaction:
    """What `Database.write` returns: a transaction, or a savepoint in the one that is open."""

    __slots__ = ("_database", "_thread")

    def __init__(self, thread: ThreadState, database: Database) -> None:
        self._thread = thread
        self._database = database

    def __enter__(self) -> apsw.Connection:
        thread = self._thread
        if thread.depth == 0:
            thread.begin(self._database.write_timeout_s)
        elif thread.connection.in_transaction:
            thread.connection.execute("SAVEPOINT part")
        else:  # after a full disk, SQLite rolls back all of it; what follows must not stand alone
            raise AckbusError("an error has undone this transaction; begin another")
        thread.depth += 1
        return thread.connection

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call something once when the outermost transaction has been committed."""
        self._thread.after_commit[call] = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread = self._thread
        thread.depth -= 1
        try:
            if thread.depth == 0:
                thread.end(commit=error is None)
            elif error is None:
                thread.connection.execute("RELEASE part")
            elif thread.connection.in_transaction:  # SQLite itself may have rolled back
                thread.connection.execute("ROLLBACK TO part; RELEASE part")
        except apsw.Error as failure:
            raise translate(failure, self._database.layout) from failure
        if isinstance(error, apsw.Error):
            raise translate(error, self._database.layout) from error


class ThreadState:
    """One thread's connection, its write lock, and how deep it is in transactions."""

    __slots__ = ("after_commit", "connection", "depth", "layout", "lock")

    def __init__(self, database: Database) -> None:
        self.connection = database.connect()
        self.layout = database.layout
        self.lock: FileLock | None = None
        self.depth = 0
        self.after_commit: dict[Callable[[], None], None] = {}

    def begin(self, timeout_s: float) -> None:
        """Take the write lock and begin; raises `BusBusy` when that does not work out in time."""
        lock = self.lock
        if lock is None:
            lock = self.lock = _open_lock(self.layout)
        deadline = time.monotonic() + timeout_s
        lock.acquire(timeout_s)
        try:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:
                if time.monotonic() >= deadline:
                    raise
                self._begin_patiently(deadline)
        except BaseException as error:
            lock.release()
            if isinstance(error, apsw.Error):
                raise translate(error, self.layout) from error
            raise

    def _begin_patiently(self, deadline: float) -> None:
        """Go on trying: a program that doesn't know the write lock is in a long transaction."""
        import tenacity  # loaded only by a process that has to wait

        for attempt in tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(apsw.BusyError),
            wait=tenacity.wait_random_exponential(multiplier=0.01, max=1),
            stop=lambda _: time.monotonic() >= deadline,
            reraise=True,
        ):
            with attempt:
                self.connection.execute("BEGIN IMMEDIATE")

    def end(self, *, commit: bool) -> None:
        """Commit or roll back, free the write lock, and then call what waits for the commit."""
        calls, self.after_commit = self.after_commit, {}
        try:
            if commit:
                self._commit()
            elif self.connection.in_transaction:  # SQLite itself may have rolled back
                self.connection.execute("ROLLBACK")
        finally:
            assert self.lock is not None
            self.lock.release()
        if commit:
            for call in calls:
                call()

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except apsw.Error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the connection, and give the lock's descriptor back."""
        self.connection.close()
        if self.lock is not None:
            self.lock.close()


def _open_lock(layout: Layout) -> FileLock:
    try:
        return FileLock(layout.write_lock)
    except OSError as error:
        raise BusUnusable(f"can't open {layout.write_lock}: {error.strerror}") from error
