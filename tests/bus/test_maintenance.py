"""Upkeep: the file shrinks after archiving, and nobody waits for it."""

import os
import sqlite3
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.bus import maintenance
from ackbus.bus.maintenance import Maintenance
from ackbus.export.archive_writer import Archiver
from ackbus.schema.queries import file_of
from ackbus.subscribers.inboxes.failed_deliveries import Deliveries


def sizes(bus: Bus) -> tuple[int, int]:
    database = bus.layout.database
    return os.stat(database).st_size, os.stat(database + "-wal").st_size


@pytest.fixture
def archived(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> Bus:
    """A bus whose messages have nearly all left the file."""
    monkeypatch.setattr(maintenance, "SPARE_PAGES", 10)
    bus.publish_many(Draft("note", "x" * 1000, from_agent="planner") for _ in range(5000))
    with Archiver(bus) as archiver:
        archiver.archive(4990)
    return bus


@pytest.mark.slow
def test_pages_of_archived_messages_are_given_back(archived: Bus) -> None:
    """Q-10: vacuum in bounded steps."""
    upkeep = Maintenance(archived)
    upkeep.checkpoint()
    before, _ = sizes(archived)
    told: list[int] = []
    given_back = upkeep.give_back(on_progress=told.append)
    upkeep.checkpoint()
    assert given_back is not None
    assert before - sizes(archived)[0] == given_back > 3_000_000
    assert len(told) > 5
    assert len(list(archived.read())) == 5000
    assert upkeep.give_back() == 0
    assert upkeep.spare_bytes() == maintenance.SPARE_PAGES * 4096


def test_file_of_an_older_version_is_left_as_it_is(archived: Bus) -> None:
    """Its free pages are used again."""
    archived.close()
    connection = sqlite3.connect(archived.layout.database)
    connection.execute("PRAGMA auto_vacuum = NONE")
    connection.execute("VACUUM")
    connection.close()
    with Bus.open(archived.layout.directory) as bus:
        assert Maintenance(bus).give_back() is None


def test_checkpoint_empties_the_log(archived: Bus) -> None:
    before, after = Maintenance(archived).checkpoint()
    assert (before > 0, after) == (True, 0)
    assert Maintenance(archived).checkpoint() == (0, 0)


@pytest.mark.slow
def test_checkpoint_does_not_wait_for_a_reader(archived: Bus) -> None:
    """A long reader keeps the log; publishers and the checkpoint go on."""
    with Bus.open(archived.layout.directory) as reader:
        file_of(reader).connection.execute("BEGIN")
        reader.log.newest_seq()
        archived.publish("note", from_agent="planner")
        assert Maintenance(archived).checkpoint()[1] > 0
        assert archived.publish("note", from_agent="planner").seq == 5002
        file_of(reader).connection.execute("COMMIT")
        assert Maintenance(archived).checkpoint()[1] == 0


def test_finished_messages_of_the_archive_are_forgotten_but_for_parked_ones(bus: Bus) -> None:
    bus.publish_many(Draft("note", n, from_agent="planner") for n in range(4))
    inbox = Inbox(bus, "worker", max_deliveries=1)
    for message in inbox.poll(3):
        inbox.complete(message)
    ids = [message.id for message in bus.read()]
    deliveries = Deliveries.of(bus)
    deliveries.finish("worker", ids[3])
    inbox.fail(bus.log.at(4), "broken")  # type: ignore[arg-type]
    assert deliveries.forget_finished() == 0
    with Archiver(bus) as archiver:
        archiver.archive(2)
    assert deliveries.forget_finished() == 2
    with Archiver(bus) as archiver:
        archiver.archive(4)
    assert deliveries.forget_finished() == 1
    assert [deliveries.is_finished("worker", id) for id in ids] == [False, False, False, True]


def test_new_buses_can_give_pages_back(bus_dir: Path) -> None:
    connection = sqlite3.connect(bus_dir / "bus.db")
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    connection.close()
