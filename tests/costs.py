"""The cost of an act in SQLite, counted: the same on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import apsw

from ackbus import Bus
from ackbus.schema.queries import file_of


@dataclass
class Cost:
    """The cost of an act in SQLite.

    Attributes:
        statements: how many it ran.
        steps: how many steps its virtual machine took for them.
    """

    statements: int = 0
    steps: int = 0


@contextmanager
def counting(bus: Bus) -> Iterator[Cost]:
    """Counts what this thread's connection does meanwhile, but for the look at the file's tables.

    That look comes every 10 ms, whatever is done: a slow machine would count more of them.
    """
    cost = Cost()

    def note(event: dict[str, object]) -> None:
        if event["sql"] == "PRAGMA schema_version":
            return
        status = event["stmt_status"]
        assert isinstance(status, dict)
        cost.statements += 1
        cost.steps += status["SQLITE_STMTSTATUS_VM_STEP"]

    connection = file_of(bus).connection
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note, id="counting")
    yield cost
    connection.trace_v2(0, None, id="counting")
