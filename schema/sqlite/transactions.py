"""Write transactions: the only BEGIN, COMMIT and ROLLBACK of the package."""

from __future__ import annotations

import time
from contextlib import contextmanager

import apsw

from ..directory.file_lock import FileLock
from ..directory.folder import TRUSTED_S
from ..directory.layout import Layout
from ..errors import AckbusError, BusUnusable
from .checkpoints import LOOK_AFTER_CHANGES
from .hardening import WorkLimit, is_as_ours
from .sqlite_errors import translate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any

    from ..directory.folder import FileIdentity
    from .database import Database


#: How often a writer looks whether git has swept the `.gitignore` of its bus away, in seconds; the
#: first write looks.
IGNORING_LOOK_S = 1.0


class WriteTransaction:
    """The result of `Database.write`: a transaction, or a savepoint in the open transaction."""

    __slots__ = ("_database", "_thread", "_timeout_s")

    def __init__(
        self, thread: ThreadState, database: Database, timeout_s: float | None = None
    ) -> None:
        self._thread = thread
        self._database = database
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        self._database.check_process()
        thread = self._thread
        if thread.depth:
            thread.require_transaction()
            thread.connection.execute("SAVEPOINT part")
        elif self._timeout_s is None:
            thread.begin(self._database.write_timeout_s)
        else:
            thread.begin_within(self._timeout_s)
        thread.depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The child of a fork must not end what is its parent's: both would write the same pages.
        self._database.check_process()
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


@contextmanager
def without_triggers(connection: apsw.Connection) -> Iterator[None]:
    """Disable triggers for this connection in the block; other connections keep theirs.

    SQLite plans each statement of the connection again after it, and those in the block too.
    """
    try:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        yield
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)


@contextmanager
def without_rules(connection: apsw.Connection) -> Iterator[None]:
    """Disable triggers and CHECKs for this connection in the block: a repair mends by columns."""
    with without_triggers(connection):
        try:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            yield
        finally:
            connection.execute("PRAGMA ignore_check_constraints = OFF")


@contextmanager
def unsynced(connection: apsw.Connection) -> Iterator[None]:
    """Wait for no disk at a commit in the block, which is outside of transactions."""
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        yield
    finally:
        connection.execute("PRAGMA synchronous = FULL")


class ThreadState:
    """One thread's connection, its write lock, and how deep it is in transactions."""

    __slots__ = (
        "_cookie",
        "_database",
        "_due_s",
        "_ignoring_due_s",
        "_require_writable",
        "_work",
        "after_commit",
        "changes_seen",
        "checkpointer",
        "connection",
        "depth",
        "layout",
        "lock",
        "place",
    )

    def __init__(self, database: Database) -> None:
        self._database = database
        self._work = WorkLimit(database.most_work)
        self.connection = database.connect(self._work)
        self._cookie: object = None
        self._due_s = 0.0
        self._ignoring_due_s = 0.0
        self.checkpointer = database.checkpointer
        self.changes_seen = -LOOK_AFTER_CHANGES  # the first write looks: there may be no other
        self.layout = database.layout
        self.place = database.place
        self._require_writable = database.require_writable
        self.lock: FileLock | None = None
        self.depth = 0
        self.after_commit: dict[Callable[[], None], None] = {}

    def look(self) -> None:
        """Check that the file is where it was, and as it was made, unless that was just done."""
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self._due_s = 0.0
            self.place.look()
            self.refuse_foreign_objects()
            self._work.asked = 0  # the next statement begins
            self._due_s = now_s + TRUSTED_S

    def refuse_foreign_objects(self) -> None:
        """Raise if the file has foreign objects; it checks only after a change of the schema.

        Programs go on while a newer ackbus upgrades the file under them.
        """
        database = self._database
        if not database.refuses_foreign_objects:
            return
        try:
            ((cookie,),) = self.connection.execute("PRAGMA schema_version").fetchall()
            if cookie != self._cookie and not is_as_ours(self.connection):
                from .foreign_objects import refuse_foreign_objects

                if not database.is_upgraded(self.connection):
                    refuse_foreign_objects(self.connection, self.layout)
            self._cookie = cookie
        except apsw.Error as error:
            raise translate(error, self.layout) from error

    def require_transaction(self) -> None:
        """Raise if SQLite has undone the transaction: the rest of it must not be stored alone.

        SQLite does so after a full disk.
        """
        if not self.connection.in_transaction:
            raise AckbusError("an error has undone this transaction; begin another")

    def begin(self, timeout_s: float) -> None:
        """Take the write lock and begin; raise `BusBusy` when that takes too long."""
        self._begin(self._lock(timeout_s))

    def begin_within(self, timeout_s: float) -> None:
        """Begin as `begin` does, without a wait for programs that don't use the write lock."""
        self._lock(timeout_s)
        self.connection.set_busy_timeout(0)
        try:
            self._begin(deadline=0.0)
        finally:
            self.connection.set_busy_timeout(self._database.busy_timeout_ms)

    def _begin(self, deadline: float) -> None:
        try:
            self._first("BEGIN IMMEDIATE", (), deadline)
        except BaseException as error:
            self._unlock()
            if isinstance(error, apsw.Error):
                raise translate(error, self.layout) from error
            raise

    def alone(
        self,
        sql: str,
        values: tuple[object, ...],
        timeout_s: float,
        then: Callable[[], None] | None,
    ) -> list[tuple[Any, ...]]:
        """Run one writing statement as a transaction of its own, and return its rows.

        SQLite takes its lock before a writing statement reads anything, as for a transaction that
        begins IMMEDIATE; leaving out BEGIN and COMMIT saves a tenth of a publish.
        """
        deadline = self._lock(timeout_s)
        try:
            rows = self._first(sql, values, deadline)
            if then is not None:
                then()
        finally:
            self._unlock()
        self.place.check()  # after the commit: it may have waited for long
        self._checkpoint_if_due()
        return rows

    def _lock(self, timeout_s: float) -> float:
        """Take the write lock, and return the deadline of the wait for SQLite's own lock."""
        if self.lock is None:
            self._require_writable()  # asked here: so no later write of a bus in use pays for it
            self.lock = _open_lock(self.layout, self.place)
        now_s = time.monotonic()
        self.lock.acquire(timeout_s)
        if now_s >= self._ignoring_due_s:
            self._ignoring_due_s = now_s + IGNORING_LOOK_S
            from ..directory.ignoring import restore_ignoring  # a hook that only reads waits less

            restore_ignoring(self.layout)
        return now_s + timeout_s

    def _unlock(self) -> None:
        assert self.lock is not None
        self.lock.release()

    def _first(self, sql: str, values: tuple[object, ...], deadline: float) -> list[Any]:
        """Run the statement that takes SQLite's lock."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            return self._patiently(sql, values, deadline)

    def _patiently(self, sql: str, values: tuple[object, ...], deadline: float) -> list[Any]:
        """Go on trying: a program that doesn't know the write lock is in a long transaction."""
        import tenacity  # loaded only by a process that has to wait

        for attempt in tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(apsw.BusyError),
            wait=tenacity.wait_random_exponential(multiplier=0.01, max=1),
            stop=lambda _: time.monotonic() >= deadline,
            reraise=True,
        ):
            with attempt:
                return self.connection.execute(sql, values).fetchall()
        raise AssertionError("tenacity ends by an answer or by an error")

    def end(self, *, commit: bool) -> None:
        """Commit or roll back, call what waits for the commit, and free the write lock."""
        calls, self.after_commit = self.after_commit, {}
        try:
            if commit:
                self._commit()
                for call in calls:  # waiters are woken first: they need not wait for the lock
                    call()
            elif self.connection.in_transaction:  # SQLite itself may have rolled back
                self.connection.execute("ROLLBACK")
        finally:
            self._unlock()
        if commit:
            self.place.check()
            self._checkpoint_if_due()

    def _checkpoint_if_due(self) -> None:
        changes = self.connection.total_changes()
        if changes - self.changes_seen >= LOOK_AFTER_CHANGES:
            self.changes_seen = changes
            self.checkpointer.look(self.connection)

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except apsw.Error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the connection, and give the lock's descriptor back."""
        self.checkpointer.before_close(self.connection)
        self.connection.close()
        if self.lock is not None:
            self.lock.close()


def _open_lock(layout: Layout, place: FileIdentity) -> FileLock:
    try:
        return FileLock(layout.write_lock)
    except OSError as error:
        place.look()  # the directory may have gone with it
        raise BusUnusable(f"can't open {layout.write_lock}: {error.strerror}") from error
