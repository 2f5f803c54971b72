"""The engine, by its contract: what a statement of a room may ask of it, alone and together."""

import apsw
import pytest

from ackbus import Bus
from ackbus.schema.errors import AckbusError, RowRefused
from ackbus.schema.queries import file_of

ADD_BLOCK = "INSERT INTO catalog_blocks (block, max_ts_ms) VALUES (?, ?)"


def blocks(bus: Bus) -> list[int]:
    return [row[0] for row in file_of(bus).rows("SELECT block FROM catalog_blocks ORDER BY block")]


def test_insert_returns_the_key_of_its_row(bus: Bus) -> None:
    assert [file_of(bus).insert(ADD_BLOCK, (number, 0)) for number in (7, 9)] == [7, 9]


def test_insert_many_returns_the_key_of_the_last_row(bus: Bus) -> None:
    with bus.transaction():
        assert file_of(bus).insert_many(ADD_BLOCK, [(3, 0), (4, 0)]) == 4
    assert blocks(bus) == [3, 4]


def test_count_changes_tells_how_many_rows_a_statement_changed(bus: Bus) -> None:
    with bus.transaction():
        file_of(bus).run_many(ADD_BLOCK, [(1, 5), (2, 5), (3, 6)])
    later = "UPDATE catalog_blocks SET max_ts_ms = 8 WHERE max_ts_ms = ?"
    assert [file_of(bus).count_changes(later, (ms,)) for ms in (5, 6, 7)] == [2, 1, 0]


@pytest.mark.parametrize("act", ["run_many", "insert_many"])
def test_many_rows_need_a_transaction_that_is_open(act: str, bus: Bus) -> None:
    """Half of them would be stored otherwise, when one of them is refused."""
    with pytest.raises(AckbusError):
        getattr(file_of(bus), act)(ADD_BLOCK, [(1, 0)])
    assert blocks(bus) == []


def test_many_rows_are_stored_all_or_none(bus: Bus) -> None:
    with pytest.raises(RowRefused), file_of(bus).write():
        file_of(bus).run_many(ADD_BLOCK, [(1, 0), (1, 0)])
    assert blocks(bus) == []


def test_unguarded_rows_leave_the_triggers_as_they_were(bus: Bus) -> None:
    with pytest.raises(RowRefused), file_of(bus).write():
        file_of(bus).insert_many(ADD_BLOCK, [(1, 0), (1, 0)], guarded=False)
    assert file_of(bus).connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, -1)


def test_a_value_that_no_engine_can_hold_is_bad_input_in_every_way_to_run(bus: Bus) -> None:
    for act in ("rows", "change", "insert", "count_changes"):
        with pytest.raises(AckbusError, match="64 bits"):
            getattr(file_of(bus), act)(ADD_BLOCK, (2**64, 0))
    with pytest.raises(AckbusError, match="64 bits"), file_of(bus).write():
        file_of(bus).run_many(ADD_BLOCK, [(2**64, 0)])


def test_a_refused_statement_leaves_the_transaction_as_it_was_before_it(bus: Bus) -> None:
    """Appending relies on it: one message of many that is there already refuses no other."""
    with file_of(bus).write():
        file_of(bus).insert(ADD_BLOCK, (1, 0))
        for act in ("change", "insert"):
            with pytest.raises(RowRefused):
                getattr(file_of(bus), act)(ADD_BLOCK, (1, 0))
        file_of(bus).insert(ADD_BLOCK, (2, 0))
    assert blocks(bus) == [1, 2]
