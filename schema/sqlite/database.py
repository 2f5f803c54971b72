"""The one way to the file: a connection for each thread, and statements that run in it.

A `Database` may be shared by threads: each thread gets a connection of its own. Writing nests:
`with database.write():` inside another joins it, so that methods which write on their own also
take part in a larger transaction.
"""

from __future__ import annotations

import os
from _thread import _local
from contextlib import nullcontext

import apsw

from ..arguments import checked
from ..directory.discovery import require_bus
from ..directory.folder import FileIdentity, Obstructed
from ..directory.layout import (
    Layout,
)
from ..errors import (
    AckbusError,
    BusUnusable,
    InvalidInput,
    WrongProcess,
)
from ..message.times import now_ms
from ..system_errors import unreachable, without_log
from . import forks
from .checkpoints import INLINE_PAGES, Checkpointer
from .forks import close_inherited
from .hardening import BULK_WORK, WORK, WorkLimit, bound_work
from .sqlite_errors import FAILURES, check_sqlite_version, explain, open_file, translate
from .transactions import ThreadState, WriteTransaction, unsynced, without_triggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


#: The version of the tables that this code reads and writes.
SCHEMA_VERSION = 13

#: How long SQLite itself waits for a lock that another connection holds, in milliseconds.
BUSY_TIMEOUT_MS = 5000

#: How long a write tries to get in before it gives up with `BusBusy`, in seconds.
WRITE_TIMEOUT_S = 30.0

#: How much of the file a connection may keep in memory, in KiB; it takes what it touches.
_CACHE_KIB = 8192

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}

#: Reads how a file describes itself: the version of its tables, and how it is to be used.
_SETTINGS = """
SELECT key, value FROM meta WHERE key IN ('schema_version', 'durability', 'backup_made_at_ms')
"""


class Database:
    """The bus file, as one process sees it: the engine of SQLite, to the contract `Engine`.

    Args:
        directory: the bus directory; it must hold a bus.
        durability: `normal` (a power loss may take the newest commits, never the order or the
            file) or `full` (a power loss takes no commit). None: the setting of the bus, which can
            be made stronger here, and not weaker.
        write_timeout_s: how long a write waits for other writers before it raises `BusBusy`.
        clock: the present time in epoch milliseconds.
        any_version: open the file of another schema version too, with any foreign objects in it;
            for upgrades and examinations.
        read_only: write nothing, and move nothing into the file, since it may be damaged; for
            examinations.

    Raises:
        BusNotFound: there is no bus.
        BusUnusable: there is a bus that this process can't use.
    """

    @checked
    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        durability: str | None = None,
        write_timeout_s: float = WRITE_TIMEOUT_S,
        clock: Callable[[], int] = now_ms,
        any_version: bool = False,
        read_only: bool = False,
    ) -> None:
        self._born_after = forks.count
        if durability is not None and durability not in _SYNCHRONOUS:
            raise InvalidInput(f"durability must be 'normal' or 'full', not {durability!r}")
        if write_timeout_s < 0:
            raise InvalidInput(f"write_timeout_s must be 0 or more, not {write_timeout_s:g}")
        check_sqlite_version(apsw.sqlite_lib_version())
        self.layout = Layout(directory)
        self.now_ms = clock
        #: `normal` or `full`, as this process writes.
        self.durability = durability or "normal"
        #: Of a backup that was not taken into use: when it was made, in epoch milliseconds.
        self.backup_made_at_ms: int | None = None
        self.write_timeout_s = write_timeout_s
        self.busy_timeout_ms = min(BUSY_TIMEOUT_MS, round(write_timeout_s * 1000))
        self.read_only = read_only
        self.most_work = BULK_WORK if any_version else WORK
        #: Whether a file is refused that has triggers, or rules, which are not ours.
        self.refuses_foreign_objects = False
        self._threads = _local()
        self.checkpointer = Checkpointer(self)
        self._closed = False
        try:
            require_bus(self.layout)
            self.place = FileIdentity(self.layout.database)
            self._check_tables(any_version)
        except BaseException:
            self.close()
            raise

    @property
    def connection(self) -> apsw.Connection:
        """This thread's connection; made at the first use."""
        return self._thread().connection

    def rows(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return all its rows."""
        try:
            return self.connection.execute(sql, values).fetchall()
        except UnicodeDecodeError:
            from .sqlite_errors import rows_with_broken_text

            return rows_with_broken_text(self.connection, sql, values)
        except FAILURES as error:
            raise explain(error, self.layout) from error

    def row(self, sql: str, values: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
        """Run one statement and return its first row, or None."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def value(self, sql: str, values: tuple[object, ...] = ()) -> Any:
        """Run one statement and return the first value of its first row, or None."""
        row = self.row(sql, values)
        return row[0] if row else None

    def one_number(self, sql: str, table: str) -> int:
        """Return the number in a table of one row."""
        number: int | None = self.value(sql)
        if number is None:
            raise BusUnusable(
                f"the table {table} has lost its row; 'bus doctor --repair' makes it again"
            )
        return number

    def change(
        self,
        sql: str,
        values: tuple[object, ...] = (),
        *,
        then: Callable[[], None] | None = None,
        synced: bool = True,
    ) -> list[tuple[Any, ...]]:
        """Run one writing statement in this thread's transaction, or else in its own."""
        thread = self._thread()
        if thread.depth:
            thread.require_transaction()
            rows = self.rows(sql, values)  # SQLite undoes a failed statement: no savepoint
            if then is not None:
                thread.after_commit[then] = None
            return rows
        waits = (
            nullcontext() if synced or self.durability != "full" else unsynced(thread.connection)
        )
        try:
            with waits:
                return thread.alone(sql, values, self.write_timeout_s, then)
        except FAILURES as error:
            raise explain(error, self.layout) from error

    def count_changes(self, sql: str, values: tuple[object, ...] = ()) -> int:
        """Run one writing statement as `change` does, and return how many rows it changed."""
        self.change(sql, values)
        count: int = self._threads.state.connection.changes()
        return count

    def insert(
        self,
        sql: str,
        values: tuple[object, ...],
        *,
        then: Callable[[], None] | None = None,
    ) -> int:
        """Insert one row as `change` does, and return the number that its table gave it.

        SQLite could also return it from the statement (`RETURNING`), by way of a table for that
        row, which costs a twentieth of a publish.
        """
        self.change(sql, values, then=then)
        number: int = self._threads.state.connection.last_insert_rowid()
        return number

    def insert_many(
        self, sql: str, rows: Iterable[tuple[object, ...]], *, guarded: bool = True
    ) -> int:
        """Insert some rows in this thread's transaction, and return the number of the last.

        Leaving the triggers out, where they have nothing to do, halves the time of an append.
        """
        connection = self.connection
        with nullcontext() if guarded else without_triggers(connection):
            self.run_many(sql, rows)
        number: int = connection.last_insert_rowid()
        return number

    def run_many(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Run one writing statement for each row of values, in this thread's transaction."""
        thread = self._thread()
        thread.require_transaction()
        try:
            thread.connection.executemany(sql, rows)
        except FAILURES as error:
            raise explain(error, self.layout) from error

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call something when this thread's transaction has been committed, once; else now."""
        thread = self._thread()
        if thread.depth:
            thread.after_commit[call] = None
        else:
            call()

    def write(self, timeout_s: float | None = None) -> WriteTransaction:
        """Begin a write transaction, or a nested part of this thread's transaction.

        It waits for other writers for `write_timeout_s`, and up to 5 s more for a writer that does
        not use the write lock. With `timeout_s` it waits only for writers that use the write lock.
        """
        return WriteTransaction(self._thread(), self, timeout_s)

    @property
    def writing(self) -> bool:
        """Whether this thread is inside a write transaction, also of one that was broken off."""
        thread = self._thread()
        return thread.depth > 0 or thread.connection.in_transaction

    def version(self) -> int:
        """Return a number that differs once another connection has committed anything."""
        version: int = self.value("PRAGMA data_version")
        return version

    def require_place(self) -> None:
        """Raise `BusMoved` if the bus is no longer at its path."""
        self.place.look()

    def schema_version(self) -> int:
        """Return the version of the tables in the file.

        Raises:
            BusUnusable: it has none, so it is not a bus.
        """
        return self._version_in(self._settings())

    def require_writable(self) -> None:
        """Raise `ReadOnlyBackup` where nothing may be written: in a backup."""
        if self.backup_made_at_ms is not None:
            from .settings import refusal_of_backup

            raise refusal_of_backup(self)

    def look_at_settings(self) -> None:
        """Read the settings in the file again, for this thread and for later threads."""
        self._adopt(self._settings())

    def _settings(self) -> dict[str, Any]:
        """Return how the file describes itself, as it is stored."""
        try:
            return dict(self.rows(_SETTINGS))
        except AckbusError as error:
            if isinstance(error.__cause__, apsw.SQLError):
                raise BusUnusable(f"{self.layout.database} is not a bus") from error
            raise

    def _version_in(self, settings: dict[str, Any]) -> int:
        text = str(settings.get("schema_version"))
        version = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        if version < 1:
            raise BusUnusable(f"{self.layout.database} is not a bus: it has no schema version")
        return version

    def _adopt(self, settings: dict[str, Any]) -> None:
        """Apply the stored settings; an invalid value counts as the safer setting."""
        if settings.get("durability", "normal") != "normal" and self.durability != "full":
            self.durability = "full"
            self.connection.execute("PRAGMA synchronous = FULL")
        if "backup_made_at_ms" in settings:
            text = str(settings["backup_made_at_ms"])
            is_time = text.isascii() and text.isdecimal() and len(text) < 16
            self.backup_made_at_ms = int(text) if is_time else 0

    def is_upgraded(self, connection: apsw.Connection) -> bool:
        """Whether a newer ackbus has upgraded the file since it was opened here."""
        version = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").get
        return str(version).isdecimal() and int(version) > SCHEMA_VERSION

    def close_thread(self) -> None:
        """Close this thread's connection, if it has one; a later use opens another."""
        thread = getattr(self._threads, "state", None)
        if thread is not None and self._born_after == forks.count:
            del self._threads.state
            thread.close()

    def close(self) -> None:
        """Refuse further use, and close this thread's connection; others end with their threads."""
        if getattr(self._threads, "state", None) is not None and self._threads.state.depth:
            raise AckbusError("a bus can't be closed inside a transaction")
        self._closed = True
        self.close_thread()
        self.layout.files.close()

    def check_process(self) -> None:
        """Raise `WrongProcess` in the child of a fork."""
        if self._born_after != forks.count:
            raise WrongProcess(
                "this bus was opened before a fork; open it again in the child process"
            )

    def _thread(self) -> ThreadState:
        self.check_process()
        if self._closed:
            raise AckbusError("this bus has been closed")
        try:
            thread: ThreadState = self._threads.state
        except AttributeError:
            thread = self._threads.state = ThreadState(self)
        thread.look()
        return thread

    def open(self) -> apsw.Connection:
        """Open another connection without any pragma: it has not read the schema.

        It is opened by its name: `require_place`, after its first use, finds what came there since.
        """
        self.check_process()
        close_inherited(self.layout.database)
        flags = apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE
        try:
            connection = open_file(self.layout.files, "bus.db", flags)
        except apsw.Error as error:
            self.place.look()
            raise translate(error, self.layout) from error
        except Obstructed:
            self.place.look()
            raise
        except OSError as error:
            self.place.look()
            raise unreachable(self.layout.directory, error) from error
        return connection

    def connect(self, work: WorkLimit | None = None) -> apsw.Connection:
        """Open another connection, with the pragmas that the protocol asks for.

        Args:
            work: how long it may work at a time; by default long enough for the whole file.
        """
        connection = self.open()
        try:
            if self.read_only:  # the last connection to close would move the log into the file
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if work is not None:
                bound_work(connection, work)
            answers = connection.execute(
                f"PRAGMA busy_timeout = {self.busy_timeout_ms};"
                "PRAGMA foreign_keys = ON;"
                f"PRAGMA journal_mode{'' if self.read_only else ' = WAL'};"
                f"PRAGMA synchronous = {_SYNCHRONOUS[self.durability]};"
                # SQLite would keep a statement's undo journal in a file, at a fifth of the cost of
                # publishing many; and its 2 MB of cache do not hold the pages that these touch.
                "PRAGMA temp_store = MEMORY;"
                f"PRAGMA cache_size = -{_CACHE_KIB};"
            ).fetchall()  # to the end: apsw stops at each row, and some of these give a row
            # Otherwise SQLite plans a statement again for each value that it is given, at several
            # times the cost of running it, because a value might let it use a partial index.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            connection.wal_autocheckpoint(INLINE_PAGES)
        except apsw.Error as error:
            self.place.look()
            raise translate(error, self.layout) from error
        self.place.look()  # it was opened by its name, and may be another by now
        if ("wal",) not in answers and not self.read_only:  # which leaves the mode as it is
            connection.close()
            raise without_log(self.layout.directory)
        return connection

    def _check_tables(self, any_version: bool) -> None:
        settings = self._settings()
        version = self._version_in(settings)
        if any_version:
            return
        if version != SCHEMA_VERSION:
            from .versions import version_error

            raise version_error(self.layout, version, SCHEMA_VERSION)
        self.refuses_foreign_objects = True
        self._thread().refuse_foreign_objects()
        self._adopt(settings)
