"""Collecting blobs that no message names, while publishers go on."""

import os
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.errors import BlobMissing
from ackbus.schema.queries import file_of

LARGE = "x" * 5000
DAY_S = 86_400


def age(bus: Bus, name: str, age_s: float) -> None:
    path = Path(bus.layout.blobs) / name
    os.utime(path, (path.stat().st_mtime - age_s,) * 2)


def test_only_unnamed_and_old_blobs_are_collected(bus: Bus) -> None:
    """M-93, promise 9: a day is old enough by default; the report counts blobs and bytes."""
    bus.publish("note", LARGE, from_agent="bob")
    (named,) = bus.blobs
    old, young = bus.blobs.put(b"old"), bus.blobs.put(b"young")
    age(bus, named, 2 * DAY_S)
    age(bus, old, 2 * DAY_S)
    age(bus, young, DAY_S - 60)
    assert bus.collect_blobs() == (1, 3)
    assert set(bus.blobs) == {named, young}
    assert bus.collect_blobs() == (0, 0)
    assert [message.payload for message in bus.read()] == [LARGE]


def test_blob_of_a_publish_that_failed_is_collected(bus: Bus) -> None:
    """M-93: the blob is written before the row, so a failure between leaves it unnamed."""
    bus.publish("note", 1, from_agent="bob", id="taken")
    with pytest.raises(Exception, match="taken"):
        bus.publish("note", LARGE, from_agent="bob", id="taken")
    assert len(list(bus.blobs)) == 1
    assert bus.collect_blobs(older_than_s=0)[0] == 1
    assert list(bus.blobs) == []


def test_more_blobs_than_one_batch_are_collected(bus: Bus) -> None:
    """M-93: in several short transactions."""
    for number in range(250):
        Path(bus.layout.blobs, f"sha256-{number:064x}").write_bytes(b"x")
    assert bus.collect_blobs(older_than_s=-1) == (250, 250)
    assert list(bus.blobs) == []


def test_old_temporary_files_are_removed(bus: Bus) -> None:
    """M-88: what killed writers left; a young one is a writer at work."""
    for name in (".tmp-1-dead", ".tmp-2-alive", "notes.txt"):
        Path(bus.layout.blobs, name).write_bytes(b"half")
    age(bus, ".tmp-1-dead", 2 * DAY_S)
    age(bus, "notes.txt", 2 * DAY_S)
    bus.collect_blobs()
    assert set(os.listdir(bus.layout.blobs)) == {".tmp-2-alive", "notes.txt"}


def test_collector_passes_over_a_file_that_its_writer_renames(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-93: a temporary file that is gone between listing and looking is no error."""
    doomed = Path(bus.layout.blobs, ".tmp-3-renamed")
    doomed.write_bytes(b"whole")
    bus.blobs.put(b"old")
    real_listdir = os.listdir

    def listdir(fd: int) -> list[str]:
        names = real_listdir(fd)
        doomed.unlink(missing_ok=True)
        return names

    monkeypatch.setattr("ackbus.schema.directory.folder.os.listdir", listdir)
    assert bus.collect_blobs(older_than_s=-1) == (1, 3)


def test_publisher_stores_a_blob_again_that_was_collected_meanwhile(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 9: between writing the blob and the transaction, the collector takes it."""
    real_write = file_of(bus).write
    collected: list[tuple[int, int]] = []

    def write_after_the_collector() -> object:
        monkeypatch.setattr(file_of(bus), "write", real_write)
        collected.append(bus.collect_blobs(older_than_s=-1))
        return real_write()

    monkeypatch.setattr(file_of(bus), "write", write_after_the_collector)
    bus.publish("note", LARGE, from_agent="bob")
    assert collected == [(1, 5002)]
    (message,) = bus.read()
    assert message.payload == LARGE


def test_named_blob_that_was_collected_meanwhile_refuses_its_message(bus: Bus) -> None:
    """Promise 9: whoever only names a blob hears that it is gone; nothing is stored."""
    ref = bus.blobs.put(b"[1]")
    bus.collect_blobs(older_than_s=-1)
    with pytest.raises(BlobMissing):
        bus.publish_many([Draft("note", from_agent="bob", payload_ref=ref)])
    assert bus.log.newest_seq() == 0


def test_collector_sees_names_given_in_an_open_transaction(bus: Bus) -> None:
    """Promise 9: it looks under the write lock, so it waits for publishers, and they for it."""
    with bus.transaction():
        bus.publish("note", LARGE, from_agent="bob")
        assert bus.collect_blobs(older_than_s=-1) == (0, 0)
    (message,) = bus.read()
    assert message.payload == LARGE
