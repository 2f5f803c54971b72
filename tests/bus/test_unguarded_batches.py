"""Large batches leave the guard of `messages` out, and keep every rule that it keeps."""

from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, JobControl, Queue, Receipt
from ackbus.bus.log.append import UNGUARDED_FROM
from ackbus.errors import IdConflict, InvalidInput, LimitReached
from ackbus.schema.queries import file_of

from ..programs import raw_sql

IDS = [f"m{number}" for number in range(UNGUARDED_FROM)]

INSERT = "INSERT OR REPLACE INTO messages (id, ts_ms, from_agent, type) VALUES (?, 1, 'a', 'note')"


def publish(bus: Bus, ids: Sequence[str] = IDS, *, to_agent: str | None = None) -> list[Receipt]:
    return bus.publish_many(Draft("note", id=id, from_agent="a", to_agent=to_agent) for id in ids)


def stored(bus: Bus) -> list[str]:
    return [message.id for message in bus.read()]


def assert_guarded(bus: Bus) -> None:
    """The guard is there for what this connection does next: a REPLACE is refused."""
    bus.publish("note", from_agent="a", id="before")
    with pytest.raises(apsw.ConstraintError, match="only appended"):
        file_of(bus).connection.execute(INSERT, ("before",))


def test_guard_is_back_after_a_batch(bus: Bus) -> None:
    """M-40: messages are never replaced, on the connection of a publisher neither."""
    assert [receipt.seq for receipt in publish(bus)] == list(range(1, UNGUARDED_FROM + 1))
    assert_guarded(bus)


def test_guard_is_back_after_a_batch_that_failed(bus: Bus) -> None:
    bus.publish("other", from_agent="a", id=IDS[-1])
    with pytest.raises(IdConflict):
        publish(bus)
    assert stored(bus) == [IDS[-1]]
    assert_guarded(bus)


def test_batch_that_is_repeated_stores_nothing(bus: Bus) -> None:
    """M-41: its ids are found by their index."""
    first = publish(bus)
    again = publish(bus)
    assert [receipt.seq for receipt in again] == [receipt.seq for receipt in first]
    assert all(receipt.duplicate for receipt in again)
    assert stored(bus) == IDS


def test_archived_id_is_refused_in_a_batch(bus: Bus, bus_dir: Path) -> None:
    raw_sql(bus_dir, f"INSERT INTO archived_ids VALUES ('{IDS[7]}', 1)")
    with pytest.raises(InvalidInput, match="refused"):
        publish(bus)
    assert stored(bus) == []


def test_limits_hold_and_count_in_a_batch(bus: Bus) -> None:
    """Q-04: those of queues and of inboxes."""
    bus.heartbeats.beat("slow")
    bus.limits.set_for_inbox("slow", 1)
    with pytest.raises(LimitReached):
        publish(bus, to_agent="slow")
    JobControl(Queue.create(bus, "work", "note")).limit(2 * UNGUARDED_FROM - 1)
    publish(bus)
    assert {limit.waiting for limit in bus.limits.list()} == {0, UNGUARDED_FROM}
    with pytest.raises(LimitReached):
        publish(bus, [f"more {id}" for id in IDS])
    assert stored(bus) == IDS
