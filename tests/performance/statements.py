"""The statements of the product: those that stand in its files, and those that it really runs."""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import apsw.ext

import ackbus.export
import ackbus.workers
from ackbus.bus import search_index
from ackbus.bus.statements import SQL as BUS
from ackbus.schema import Queries
from ackbus.subscribers.statements import SQL as INBOXES
from ackbus.subscribers.work_statements import SQL as WORK
from ackbus.subscribers.work_statements import VIEWS

#: Every statement that stands in a file of SQL, by room and name.
NAMED = {
    f"{room}.{name}": sql
    for room, statements in {
        "bus": BUS,
        "inboxes": INBOXES,
        "work": WORK,
        "views": VIEWS,
        "export": Queries(beside=str(ackbus.export.__file__)),
        "workers": Queries(beside=str(ackbus.workers.__file__)),
    }.items()
    for name, sql in statements.items()
}

#: The statements of the index of words, which is a file of its own.
OF_SEARCH = {
    "search.newest": search_index._NEWEST,
    "search.add": search_index._ADD,
    "search.add_lacking": search_index._ADD_LACKING,
    "search.lacking": search_index._LACKING,
    "search.delete_lacking": search_index._DELETE_LACKING,
}

#: What SQLite has no plan of: transactions, pragmas, the making of tables.
_PLANLESS = re.compile(r"\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA|CREATE|DROP|$)", re.I)
_NAME_OF = {sql.strip(): name for name, sql in (NAMED | OF_SEARCH).items()}


class Seen:
    """Which statements ran, by the file that they ran on: `bus.db`, `search.db`."""

    def __init__(self) -> None:
        self.statements: dict[str, set[str]] = defaultdict(set)
        self.names: set[str] = set()

    def note(self, event: dict[str, object]) -> None:
        sql = str(event["sql"]).strip()
        connection = event["connection"]
        assert isinstance(connection, apsw.Connection)
        if event["trigger"] or _PLANLESS.match(sql):
            return
        self.statements[Path(connection.filename).name].add(sql)
        self.names.add(name_of(sql))


def name_of(sql: str) -> str:
    """The name of a statement; its beginning, when it stands in no file."""
    return _NAME_OF.get(sql.strip()) or " ".join(sql.split())[:60]


@contextmanager
def watching() -> Iterator[Seen]:
    """Notes what all connections run that are opened meanwhile, in every thread."""
    seen = Seen()

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, seen.note, id="statements")

    apsw.connection_hooks.append(watch)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(watch)


def plan(connection: apsw.Connection, sql: str) -> list[str]:
    """The steps of SQLite's plan for a statement, and for the triggers that it fires."""
    connection.config(apsw.SQLITE_DBCONFIG_TRIGGER_EQP, 1)
    values = (None,) * apsw.ext.query_info(connection, sql).bindings_count
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return [str(row[-1]) for row in rows]
