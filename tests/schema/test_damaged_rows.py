"""A row that no ackbus wrote is told by its table, key and column in the place of another error."""

import shutil
from pathlib import Path

import pytest

from ackbus import Bus, Queue, RowDamaged
from ackbus.schema.sqlite.foreign_objects import our_table_texts
from ackbus.schema.sqlite.rules.damaged_rows import checks_in, first_damaged_row

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


def test_error_of_the_callers_own_stays_what_it_is(full_bus: Path, damaged: Path) -> None:
    """A call that did not even begin says what is wrong with it, also over a damaged bus."""
    with Bus.open(damaged) as bus, pytest.raises(TypeError, match="missing"):
        bus.publish()  # type: ignore[call-arg]
