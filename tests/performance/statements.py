"""The statements of the product: those that stand in its files, and those that it really runs."""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from ackbus.automation.records.facts import SQL as RECORDS
from ackbus.automation.routes.flow import SQL as ROUTES
from ackbus.automation.schedules.tables import SQL as SCHEDULES
from ackbus.bus.search import index as search_index
from ackbus.bus.statements import SQL as BUS
from ackbus.doctor.checks.bus import MENDING
from ackbus.export.jsonl import writer
from ackbus.subscribers.answers import SQL as CONVERSATIONS
from ackbus.subscribers.inboxes.statements import SQL as INBOXES
from ackbus.subscribers.jobs.statements import SQL as WORK
from ackbus.subscribers.jobs.statements import VIEWS
from ackbus.tasks.records.task_table import CONTROL, SESSIONS
from ackbus.tasks.records.task_table import SQL as TASKS
from ackbus.workers import json_contract

#: Every statement that stands in a file of SQL, by room and name.
NAMED = {
    f"{room}.{name}": sql
    for room, statements in {
        "bus": BUS,
        "conversations": CONVERSATIONS,
        "inboxes": INBOXES,
        "work": WORK,
        "views": VIEWS,
        "mending": MENDING,
        "export": writer._SQL,
        "workers": json_contract.SQL,
        "records": RECORDS,
        "schedules": SCHEDULES,
        "routes": ROUTES,
        "tasks": TASKS,
        "tasks_control": CONTROL,
        "tasks_sessions": SESSIONS,
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


#: With how many of the values that a statement was given it is planned: SQLite looks at them.
_SAMPLES = 20

#: A file, `bus.db` or `search.db`, and a statement that ran on it.
Ran = tuple[str, str]


class Seen:
    """Which statements ran, each with some of the values that it was given."""

    def __init__(self) -> None:
        self.values: dict[Ran, list[tuple[object, ...]]] = defaultdict(list)

    @property
    def names(self) -> set[str]:
        return {name_of(sql) for _, sql in self.values}

    def of(self, name: str) -> list[tuple[object, ...]]:
        """The values that a statement was given, of some of its runs."""
        return [
            each
            for (_, sql), found in self.values.items()
            if name_of(sql) == name
            for each in found
        ]

    def note(self, cursor: apsw.Cursor, sql: str, values: object) -> bool:
        sql = sql.strip()
        if not _PLANLESS.match(sql):
            samples = self.values[Path(cursor.connection.filename).name, sql]
            if len(samples) < _SAMPLES:
                samples.append(values if isinstance(values, tuple) else ())
        return True  # go on


def name_of(sql: str) -> str:
    """The name of a statement; its beginning, when it stands in no file."""
    return _NAME_OF.get(sql.strip()) or " ".join(sql.split())[:60]


@contextmanager
def watching() -> Iterator[Seen]:
    """Notes what all connections run that are opened meanwhile, in every thread."""
    seen = Seen()

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = seen.note

    apsw.connection_hooks.append(watch)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(watch)


def plan(connection: apsw.Connection, sql: str, values: tuple[object, ...]) -> tuple[str, ...]:
    """The steps of SQLite's plan for a statement, and for the triggers that it fires."""
    connection.config(apsw.SQLITE_DBCONFIG_TRIGGER_EQP, 1)
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return tuple(str(row[-1]) for row in rows)
