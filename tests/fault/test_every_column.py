"""Every column of every table with every kind of value that does not belong there."""

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Exporter, Inbox, Queue
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.records.facts import Facts, Fence
from ackbus.automation.status import breaker_history, logged, plugin_of, status_of
from ackbus.schema.errors import AckbusError
from ackbus.schema.queries import engine_of
from ackbus.server.access.tokens import Tokens
from ackbus.subscribers.overview.retention import Retention
from ackbus.subscribers.queues.queues import Queues

from ..migration.used_bus import fill
from ..sizes import case
from .corruption import doctor

pytestmark = pytest.mark.slow

VALUES = {
    "minus one": -1,
    "the largest number": 2**63 - 1,
    "infinity": float("inf"),
    "huge text": "x" * 1_100_000,
    "nothing": None,
    "a control character": "a\x1b[2Jb\n",
    "bytes": b"\xff\x00",
    "bad JSON": '[{"a":',
    "another JSON": "[1,{}]",
}

#: What agents, workers and people do: a value that makes no sense ends it in an error of ours.
ACTS: list[Callable[[Bus], object]] = [
    lambda bus: bus.publish("work.step", 1, from_agent="lead", to_agent="alice"),
    lambda bus: [Inbox(bus, "alice").ack(each.seq) for each in Inbox(bus, "alice").poll(1)],
    lambda bus: Inbox(bus, "carol").poll(),
    lambda bus: Queues(bus).list(),
    lambda bus: [
        Queue.open(bus, "steps").fail(c, "no") for c in Queue.open(bus, "steps").claim("w")
    ],
    lambda bus: Exporter(bus).export_once(),
    lambda bus: bus.leases.acquire("another", "ann"),
    lambda bus: bus.heartbeats.list(),
    lambda bus: bus.limits.list(),
    lambda bus: Tokens.of(bus).all(),
    lambda bus: Retention(bus).plan(3),
    status_of,
    lambda bus: breaker_history(bus, "feed"),
    lambda bus: plugin_of(bus, "feed"),
    lambda bus: logged(bus, 9),
    lambda bus: Breakers.of(bus).note("feed", "poll", False, "j", "scheduler"),
    lambda bus: Fence(engine_of(bus)).begin(Path("config"), "h"),
    lambda bus: Facts(engine_of(bus)).record("feed", "feed.snapshot", {}, "j", "poll"),
    lambda bus: Facts(engine_of(bus)).merge("feed", {"x": 1}),
]


@pytest.fixture(scope="session")
def used_bus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bus of which every table has rows."""
    directory = tmp_path_factory.mktemp("used") / ".worker-state"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fill(directory)
    return directory


def columns() -> Iterator[tuple[str, str]]:
    """Every column of every table, by the table."""
    with closing(apsw.Connection(":memory:")) as fresh:
        fresh.execute(
            (Path(__file__).parents[2] / "schema" / "sqlite" / "schema.sql").read_text("utf-8")
        )
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
        for (table,) in fresh.execute(tables).fetchall():
            for info in fresh.execute(f"PRAGMA table_info({table})").fetchall():
                yield str(table), str(info[1])


def harm(directory: Path, table: str, column: str, value: object, where: str = "TRUE") -> bool:
    """Puts a value into one row, as a program may that has switched the triggers off."""
    with closing(apsw.Connection(str(directory / "bus.db"))) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        keys = [each[1] for each in raw.execute(f"PRAGMA table_info({table})") if each[5]]
        key = ", ".join(map(str, keys))
        first = f"({key}) = (SELECT {key} FROM {table} WHERE {where} ORDER BY {key} LIMIT 1)"
        try:
            raw.execute(f"UPDATE {table} SET {column} = ?1 WHERE {first}", (value,))
        except (apsw.ConstraintError, apsw.MismatchError):
            return False
        return bool(raw.total_changes())


def use(directory: Path) -> None:
    """Does everything; what raises another exception than ours fails."""
    with warnings.catch_warnings(), closing(Bus.open(directory)) as bus:
        warnings.simplefilter("ignore")
        for act in ACTS:
            with suppress(AckbusError):
                act(bus)


#: Each check tries a sixth of the values on every third column, other ones on the next.
CASES = [
    case(table, column, begin, id=f"{table}-{column}-{begin}", by_day=begin * 3 == number % 18)
    for number, (table, column) in enumerate(columns())
    for begin in range(6)
]


@pytest.mark.parametrize(("table", "column", "begin"), CASES)
def test_no_value_ends_in_an_exception_or_outlives_a_repair(
    table: str, column: str, begin: int, used_bus: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "harmed"
    for name, value in list(VALUES.items())[begin::6]:
        if not directory.exists():
            shutil.copytree(used_bus, directory)
        if not harm(directory, table, column, value):
            continue  # the file refuses it
        use(directory)
        if doctor(directory, "--full").bad:
            doctor(directory, "--repair")
            assert doctor(directory, "--full").bad == {}, name
            use(directory)
            shutil.rmtree(directory)
