"""The contract between the rooms and the storage of a bus.

The rooms own the tables and the statements on them; an engine runs these statements, keeps the
transactions, and has the clock. The only engine is `Database`, one file of SQLite. An engine hides
its connections, its cursors, and every row number that is not a column of the row. Rooms import
these names for annotations only, so that they cost nothing at run time.

A thread has at most one transaction, and everything that it asks of the engine takes part in it.
So the methods of a class that owns a table need no handle of a transaction: alone each is a
transaction by itself, and inside `with engine.write():` all are one.
"""

from __future__ import annotations

from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any

    from .sqlite.database import Database

    #: The values of a statement's placeholders, or the columns of a row.
    Values = tuple[object, ...]


class Transaction(Protocol):
    """A block that is one write transaction, or a nested part of the thread's transaction.

    It commits when the block ends. When the block raises, the transaction is rolled back; of a
    nested part, only the part.
    """

    def __enter__(self) -> None:
        """Begin, as `Engine.write` says."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit or roll back, and translate an engine's own error into ours."""


class Engine(Protocol):
    """The storage under a bus, as one process sees it. Threads share it.

    Every method may raise `BusUnusable` or `BusMoved` where the storage can't be used any more,
    and `WrongProcess` in the child of a fork. Values are None, int, float, str and bytes.
    """

    @property
    def writing(self) -> bool:
        """Whether this thread is inside a write transaction."""

    @property
    def backup_made_at_ms(self) -> int | None:
        """When this was made, in epoch milliseconds, if it is a backup that is not in use."""

    def now_ms(self) -> int:
        """Return the present time in epoch milliseconds, by the clock of all users of the bus.

        Every time that is stored, or compared with a stored time, comes from it. Inside a write
        transaction, ask it after the transaction began: that may have waited for other writers.
        """

    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return all its rows."""

    def row(self, sql: str, values: Values = ()) -> tuple[Any, ...] | None:
        """Run one statement and return its first row, or None."""

    def value(self, sql: str, values: Values = ()) -> Any:
        """Run one statement and return the first value of its first row, or None."""

    def one_number(self, sql: str, table: str) -> int:
        """Return the number in a table of one row.

        Raises:
            BusUnusable: the row is lost.
        """

    def change(
        self,
        sql: str,
        values: Values = (),
        *,
        then: Callable[[], None] | None = None,
        synced: bool = True,
    ) -> list[tuple[Any, ...]]:
        """Run one writing statement in this thread's transaction, or else in its own.

        Args:
            sql, values: the statement.
            then: what to call once it is committed, as for `after_commit`.
            synced: False where nothing is lost if a power loss takes the change back: then its own
                transaction waits for no disk, whatever the durability.

        Returns:
            The rows that the statement returns (`RETURNING`).

        Raises:
            RowRefused: a rule of the tables refuses a row. This statement is undone, and what came
                before it in the transaction stays.
            BusBusy: other writers kept the bus for too long; nothing was stored.
        """

    def count_changes(self, sql: str, values: Values = ()) -> int:
        """Run one writing statement as `change` does, and return how many rows it changed."""

    def insert(self, sql: str, values: Values, *, then: Callable[[], None] | None = None) -> int:
        """Insert one row as `change` does, and return the number that its table gave it.

        The number is the key of the row (`seq`, `token`). No later row gets a lower one, and no
        reader sees a row appear below a row that it has seen.
        """

    def insert_many(self, sql: str, rows: Iterable[Values], *, guarded: bool = True) -> int:
        """Insert some rows in this thread's transaction, and return the number of the last.

        The other rows have the numbers before it, in order, without a gap.

        Args:
            sql: the statement that inserts one row.
            rows: the values of each row; at least one row.
            guarded: False where no trigger has anything to do for these rows, so that an engine
                that is faster without its triggers may leave them out.

        Raises:
            RowRefused: a rule of the tables refuses a row; the transaction must be given up.
        """

    def run_many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run one writing statement for each row of values, in this thread's transaction.

        Raises:
            RowRefused: a rule of the tables refuses a row; the transaction must be given up.
        """

    def write(self, timeout_s: float | None = None) -> Transaction:
        """Begin a write transaction, or a nested part of this thread's transaction.

        Args:
            timeout_s: how long to wait for other writers, in seconds; None: as long as the bus was
                opened with.

        Raises:
            BusBusy: other writers kept the bus for longer; nothing was begun.
        """

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call something when this thread's transaction has been committed, once; else now.

        Other writers may still wait meanwhile: it must be short.
        """

    def version(self) -> int:
        """Return a number that differs once another connection has committed anything."""

    def require_writable(self) -> None:
        """Raise `ReadOnlyBackup` where nothing may be written: in a backup."""

    def require_place(self) -> None:
        """Raise `BusMoved` where the bus is no longer where it was opened."""

    def close_thread(self) -> None:
        """Give back what this thread holds, as it ends; a later use takes it again."""

    def close(self) -> None:
        """Refuse further use, and give back what this thread holds."""


class HasEngine(Protocol):
    """A bus as this room sees it: an object with an engine, which is one file."""

    _engine: Engine
    _file: Database
