"""A row that no ackbus wrote is told by its table, key and column in the place of another error."""

from __future__ import annotations

import asyncio
import inspect
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import AsyncGeneratorType, GeneratorType

import pytest

from ackbus import Bus, DeadLetters, Inbox, Queue, Request, as_completed, as_completed_async
from ackbus.errors import RowDamaged, TimedOut
from ackbus.schema.arguments import checked
from ackbus.schema.sqlite.foreign_objects import our_table_texts
from ackbus.schema.sqlite.rules.damaged_rows import checks_in, first_damaged_row

from ..api.reference import PUBLIC
from ..hostile_bus.attacks import Column, store
from ..looking.full_bus import make_full_bus, tables_of
from ..programs import connect
from ..sizes import size

BUS = ".worker-state"

#: For each type of columns, values of other types, as SQL.
WRONG = {
    "INTEGER": ("'-o'", "x'ff00'", "1.5"),
    "REAL": ("'-o'", "x'ff00'"),
    "TEXT": ("x'ff00'", "CAST(x'ff41' AS TEXT)"),
    "BLOB": ("7", "'-o'"),
}


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_full_bus(tmp_path_factory.mktemp("whole") / BUS)


@pytest.fixture
def full_bus(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / BUS))


def test_bus_of_which_every_table_has_rows_is_not_damaged(whole: Path) -> None:
    assert first_damaged_row(str(whole)) is None


def test_each_check_of_each_table_is_looked_at() -> None:
    for text in our_table_texts().values():
        checks = checks_in(text)
        assert len(checks) == text.count("CHECK (")
        assert all(check.count("(") == check.count(")") for check in checks)


@pytest.mark.slow
def test_wrong_type_in_any_column_is_named(whole: Path, tmp_path: Path) -> None:
    """A value of another type, of the several in turn, in each column of each table."""
    missed = []
    with connect(whole) as connection:
        tables = tables_of(connection)
    columns = [(Column(table, name), kind) for table, all_ in tables.items() for name, kind in all_]
    step = size(sample=9, whole=1)
    for number, (column, kind) in enumerate(columns[::step]):
        values = WRONG[kind][:1] if column.table == "messages" else WRONG[kind]
        directory = Path(shutil.copytree(whole, tmp_path / "bus"))
        if store(directory, column, values[number % len(values)]):
            found = first_damaged_row(str(directory))
            if found is None or (found.table, found.column) != (column.table, column.name):
                missed.append(f"{column} = {values[number % len(values)]}: {found}")
        shutil.rmtree(directory)
    assert missed == []


@pytest.fixture
def damaged(full_bus: Path) -> Path:
    assert store(full_bus, Column("queues", "ageing_ms"), "x'ff00'")
    return full_bus


def test_call_names_the_row_that_it_failed_at(damaged: Path) -> None:
    with Bus.open(damaged) as bus, pytest.raises(RowDamaged) as caught:
        Queue.open(bus, "work").claim("bob")
    error = caught.value
    assert (error.directory, error.table, error.row, error.column) == (
        *(str(damaged), "queues", "id 1", "ageing_ms"),
    )
    assert isinstance(error.__cause__, TypeError)
    assert "the row of id 1 has bytes in ageing_ms, which takes a whole number" in str(error)


async def first_of(items: AsyncIterator[object]) -> object:
    try:
        return await anext(items)
    finally:
        await items.aclose()  # type: ignore[attr-defined]


def dead(bus: Bus) -> DeadLetters:
    return DeadLetters(Queue.open(bus, "work"))


def asked(bus: Bus) -> list[Request]:
    return [Request.send(bus, "t.request", to_agent="bob", from_agent="ann")]


#: How each public generator is begun.
BEGUN: dict[str, Callable[[Bus], object]] = {
    "Bus.read": lambda bus: bus.read(),
    "Bus.follow": lambda bus: bus.follow(),
    "Bus.follow_async": lambda bus: bus.follow_async(after_seq=0),
    "Chain.links": lambda bus: bus.chain.links(0, 9),
    "DeadLetters.find": lambda bus: dead(bus).find(),
    "DeadLetters.requeue": lambda bus: dead(bus).requeue(dead(bus).find()),
    "DeadLetters.drop": lambda bus: dead(bus).drop(dead(bus).find()),
    "Inbox.__iter__": lambda bus: iter(Inbox(bus, "bob")),
    "Inbox.__aiter__": lambda bus: aiter(Inbox(bus, "bob")),
    "as_completed": lambda bus: as_completed(asked(bus), timeout_s=0.01),
    "as_completed_async": lambda bus: as_completed_async(asked(bus), timeout_s=0.01),
    "BlobStore.__iter__": lambda bus: iter(bus.blobs),
}


def test_each_public_generator_is_in_the_table() -> None:
    found = set()
    for name, value in PUBLIC.items():
        calls = {name: value} if inspect.isfunction(value) else {}
        if inspect.isclass(value):
            members = inspect.getmembers(value)
            special = ("__iter__", "__aiter__")
            public = [each for each in members if each[0][0] != "_" or each[0] in special]
            calls = {f"{name}.{each}": member for each, member in public}
        for path, call in calls.items():
            hints = getattr(call, "__annotations__", {})
            if re.match(r"(Async)?(Iterator|Generator|Iterable)\b", str(hints.get("return", ""))):
                found.add(path)
    assert found == set(BEGUN)


@pytest.mark.parametrize("name", BEGUN)
def test_each_public_generator_is_watched(full_bus: Path, name: str) -> None:
    with Bus.open(full_bus) as bus:
        items = BEGUN[name](bus)
        if isinstance(items, GeneratorType):
            assert items.gi_code.co_name == "_watch"
            items.close()
        else:
            assert isinstance(items, AsyncGeneratorType)
            assert items.ag_code.co_name == "_watch_async"
            with suppress(TimedOut):
                asyncio.run(first_of(items))


@checked
def plain(bus: Bus) -> Iterator[int]:
    yield from map(int, bus.directory)


@checked
async def asynchronous(bus: Bus) -> AsyncIterator[int]:
    for part in bus.directory:
        yield int(part)


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_damaged_row_is_named_in_the_place_of_what_a_generator_fails_by(
    damaged: Path, kind: str
) -> None:
    with Bus.open(damaged) as bus, pytest.raises(RowDamaged, match="has bytes in ageing_ms"):
        next(plain(bus)) if kind == "plain" else asyncio.run(first_of(asynchronous(bus)))


def test_error_of_a_generator_over_a_whole_bus_stays_what_it_is(full_bus: Path) -> None:
    with Bus.open(full_bus) as bus, pytest.raises(ValueError, match="invalid literal"):
        next(plain(bus))


def test_closed_generator_closes_what_it_watches() -> None:
    ended = []

    @checked
    def items() -> Iterator[int]:
        try:
            yield 1
        finally:
            ended.append("plain")

    @checked
    async def others() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.append("asynchronous")

    begun = items()
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    asyncio.run(first_of(others()))
    assert ended == ["plain", "asynchronous"]


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
@pytest.mark.parametrize("value", ["'-o'", "x'ff00'", "1.5"])
def test_row_that_sqlite_refuses_to_change_is_named(full_bus: Path, kind: str, value: str) -> None:
    assert store(full_bus, Column("cursors", "last_acked_seq"), value)
    with Bus.open(full_bus) as bus:
        inbox = Inbox(bus, "bob")
        with pytest.raises(RowDamaged) as caught:
            next(iter(inbox)) if kind == "plain" else asyncio.run(first_of(aiter(inbox)))
    assert (caught.value.table, caught.value.column) == ("cursors", "last_acked_seq")


def test_error_of_the_callers_own_stays_what_it_is(full_bus: Path, damaged: Path) -> None:
    """A call that did not even begin says what is wrong with it, also over a damaged bus."""
    with Bus.open(damaged) as bus, pytest.raises(TypeError, match="missing"):
        bus.publish()  # type: ignore[call-arg]
