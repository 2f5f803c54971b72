"""The one way to the file: connections, and the only BEGIN, COMMIT and ROLLBACK of the package.

A `Database` may be shared by threads: each thread gets a connection of its own. Writing nests:
`with database.write():` inside another joins it, so that methods which write on their own also
take part in a larger transaction.
"""

from __future__ import annotations

import os
import time
from _thread import _local

import apsw

from .errors import (
    AckbusError,
    BusBusy,
    BusNotFound,
    BusUnusable,
    InvalidInput,
    WrongProcess,
)
from .file_lock import FileLock
from .layout import BUS_DIRECTORY, Layout, refuse_network_filesystem
from .times import now_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any

    from .times import Clock

#: The version of the tables that this code reads and writes.
SCHEMA_VERSION = 1

#: How long SQLite itself waits for a lock that another connection holds, in milliseconds.
BUSY_TIMEOUT_MS = 5000

#: How long a write tries to get in before it gives up with `BusBusy`, in seconds.
WRITE_TIMEOUT_S = 30.0

#: SQLite releases below these can corrupt a file when checkpoints run back to back
#: (the WAL-reset bug, fixed in 3.51.3 and, for older lines, in 3.50.7 and 3.44.6).
_SAFE_SQLITE = ((3, 51, 3), (3, 50, 7), (3, 44, 6))

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}


class Database:
    """The bus file, as one process sees it.

    Args:
        directory: the bus directory; it must hold a bus.
        durability: `normal` (a power loss may take the newest commits, never the order or the
            file) or `full` (it takes nothing that was committed).
        write_timeout_s: how long a write waits for other writers before it raises `BusBusy`.
        clock: the present time in epoch milliseconds.

    Raises:
        BusNotFound: there is no bus.
        BusUnusable: there is one that this process can't use.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durability: str = "normal",
        write_timeout_s: float = WRITE_TIMEOUT_S,
        clock: Clock = now_ms,
    ) -> None:
        if durability not in _SYNCHRONOUS:
            raise ValueError(f"durability must be 'normal' or 'full', not {durability!r}")
        check_sqlite_version(apsw.sqlite_lib_version())
        self.layout = Layout(directory)
        self.now_ms = clock
        self._synchronous = _SYNCHRONOUS[durability]
        self._write_timeout_s = write_timeout_s
        self._busy_timeout_ms = min(BUSY_TIMEOUT_MS, round(write_timeout_s * 1000))
        self._pid = os.getpid()
        self._threads = _local()
        self._closed = False
        self._check_directory()
        self._check_schema_version()

    @property
    def connection(self) -> apsw.Connection:
        """This thread's connection; made at the first use."""
        return self._thread().connection

    def rows(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return all its rows."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except apsw.Error as error:
            raise translate(error, self.layout) from error
        except UnicodeDecodeError:
            from .broken_text import rows_with_broken_text

            return rows_with_broken_text(self.connection, sql, values)
        except UnicodeEncodeError as error:  # a command line that is no UTF-8 gives such text
            raise InvalidInput(f"{error.object!a} is not valid Unicode text") from error
        except OverflowError as error:
            raise InvalidInput("a number is beyond the 64 bits that the bus can hold") from error

    def row(self, sql: str, values: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
        """Run one statement and return its first row, or None."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def value(self, sql: str, values: tuple[object, ...] = ()) -> Any:
        """Run one statement and return the first value of its first row, or None."""
        row = self.row(sql, values)
        return row[0] if row else None

    def change(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one writing statement in this thread's transaction, or else in one of its own.

        Returns:
            What the statement returns.
        """
        if self._thread().depth:  # SQLite undoes a failed statement by itself: no savepoint
            return self.rows(sql, values)
        with self.write():
            return self.rows(sql, values)

    def write(self) -> WriteTransaction:
        """Begin a write transaction, or a nested part of the one that this thread is in.

        It commits when the block ends and rolls back when the block raises. Waits for other
        writers for `write_timeout_s`, and where one of them does not know the write lock for up
        to 5 s more, then raises `BusBusy`.
        """
        return WriteTransaction(self._thread(), self)

    @property
    def writing(self) -> bool:
        """Whether this thread is inside a write transaction."""
        return self._thread().depth > 0

    def close_thread(self) -> None:
        """Close this thread's connection, if it has one; a later use opens another."""
        thread = getattr(self._threads, "state", None)
        if thread is not None and os.getpid() == self._pid:
            del self._threads.state
            thread.close()

    def close(self) -> None:
        """Refuse further use, and close this thread's connection; others end with their threads."""
        if getattr(self._threads, "state", None) is not None and self._threads.state.depth:
            raise AckbusError("a bus can't be closed inside a transaction")
        self._closed = True
        self.close_thread()

    def _thread(self) -> _Thread:
        if os.getpid() != self._pid:
            raise WrongProcess(
                "this bus was opened before a fork; open it again in the child process"
            )
        if self._closed:
            raise AckbusError("this bus has been closed")
        try:
            thread: _Thread = self._threads.state
        except AttributeError:
            thread = self._threads.state = _Thread(self)
        return thread

    def connect(self) -> apsw.Connection:
        """Open one more connection, with the pragmas that the protocol asks for."""
        try:
            connection = apsw.Connection(self.layout.database, flags=apsw.SQLITE_OPEN_READWRITE)
            connection.execute(
                f"PRAGMA busy_timeout = {self._busy_timeout_ms};"
                "PRAGMA foreign_keys = ON;"
                "PRAGMA journal_mode = WAL;"
                f"PRAGMA synchronous = {self._synchronous};"
            ).fetchall()  # to the end: apsw stops at each row, and some of these give one
        except apsw.Error as error:
            raise translate(error, self.layout) from error
        return connection

    def _check_directory(self) -> None:
        layout = self.layout
        try:
            exists = os.stat(layout.database).st_size > 0
        except FileNotFoundError:
            exists = False
        except OSError as error:
            raise BusUnusable(
                f"the bus in {layout.directory} can't be reached: {error.strerror}"
            ) from error
        if not exists:
            raise no_bus(layout)
        if not (os.access(layout.directory, os.W_OK) and os.access(layout.database, os.W_OK)):
            raise BusUnusable(
                f"the bus in {layout.directory} is read-only for this user; a bus needs write"
                " access even for reading"
            )
        refuse_network_filesystem(layout.directory)

    def _check_schema_version(self) -> None:
        try:
            found = self.value("SELECT value FROM meta WHERE key = 'schema_version'")
        except AckbusError as error:
            if isinstance(error.__cause__, apsw.SQLError):
                raise BusUnusable(f"{self.layout.database} is not a bus") from error
            raise
        if found != str(SCHEMA_VERSION):
            raise BusUnusable(
                f"the bus in {self.layout.directory} has schema version {found}, and this ackbus"
                f" knows version {SCHEMA_VERSION}; use the ackbus that made it, or a newer one"
            )


class WriteTransaction:
    """What `Database.write` returns: a transaction, or a savepoint in the one that is open."""

    __slots__ = ("_database", "_thread")

    def __init__(self, thread: _Thread, database: Database) -> None:
        self._thread = thread
        self._database = database

    def __enter__(self) -> apsw.Connection:
        thread = self._thread
        if thread.depth == 0:
            thread.begin(self._database._write_timeout_s)
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


class _Thread:
    """One thread's connection, its write lock, and how deep it is in transactions."""

    __slots__ = ("after_commit", "connection", "depth", "layout", "lock")

    def __init__(self, database: Database) -> None:
        self.connection = database.connect()
        self.layout = database.layout
        self.lock: FileLock | None = None
        self.depth = 0
        self.after_commit: dict[Callable[[], None], None] = {}

    def begin(self, timeout_s: float) -> None:
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
        self.connection.close()
        if self.lock is not None:
            self.lock.close()


def _open_lock(layout: Layout) -> FileLock:
    try:
        return FileLock(layout.write_lock)
    except OSError as error:
        raise BusUnusable(f"can't open {layout.write_lock}: {error.strerror}") from error


def no_bus(layout: Layout) -> BusNotFound:
    """Return the error for a directory without a bus; often its parent was named."""
    inside = os.path.join(layout.directory, BUS_DIRECTORY)
    if os.path.exists(Layout(inside).database):
        return BusNotFound(f"no bus in {layout.directory}; did you mean {inside}?")
    return BusNotFound(f"no bus in {layout.directory}; make one with 'bus init'")


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


def translate(error: apsw.Error, layout: Layout) -> AckbusError:
    """Return the error of ours that says what an SQLite error means for the user."""
    where = layout.directory
    if isinstance(error, apsw.BusyError):
        return BusBusy(f"another program has kept the bus in {where} locked; try again")
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(where)):
        return BusUnusable(f"the disk under {where} is full; nothing was stored")
    if isinstance(error, (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError)):
        return BusUnusable(f"the bus in {where} can't be written by this user: {error}")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return BusUnusable(f"the file {layout.database} is damaged or is not a bus: {error}")
    if isinstance(error, apsw.IOError):
        return BusUnusable(f"the disk under {where} failed: {error}")
    return AckbusError(f"the bus in {where} refused a statement: {error}")


def _is_full(directory: str) -> bool:
    """Whether a disk has no room: SQLite calls it an I/O error when it makes its shared memory."""
    try:
        return os.statvfs(directory).f_bavail == 0
    except OSError:
        return False


def pages(
    read: Callable[[int], list[tuple[Any, ...]]], after: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield pages of rows, each read by `read(last seq)`, until one comes back empty.

    No statement and no transaction stays open between pages, however long the reader takes.
    """
    while page := read(after):
        yield page
        after = page[-1][0]
