"""No name, ref, or symbolic link leads out of the bus directory, wherever it comes from."""

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus, Exporter, Inbox, Queue
from ackbus.bus.doorbell import ring
from ackbus.bus.log.archive_reader import segment_name
from ackbus.bus.verification import Verification
from ackbus.errors import BusUnusable, InvalidInput
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.schema.errors import AckbusError, BlobMissing
from ackbus.schema.queries import file_of

from ..conftest import RunBus
from ..programs import raw_sql

#: Refs and names that would lead elsewhere where somebody put them into a path as they are.
TRICKS = [
    "../victim",
    "../../victim",
    "/etc/passwd",
    "sha256-../../victim",
    f"sha256-{'a' * 64}/../../../victim",
    f"../blobs/sha256-{'a' * 64}",
    f"sha256-{'a' * 64}\n",
    f"sha256-{'A' * 64}",
    "bus.db",
    ".",
    "..",
    "a\x00b",
]


@pytest.fixture
def victim(project: Path) -> Path:
    """A file of the user's beside the bus directory."""
    path = project / "victim"
    path.write_text("precious\n")
    return path


def whole(victim: Path) -> bool:
    return victim.read_text() == "precious\n" and victim.stat().st_size == 9


# Links ---------------------------------------------------------------------------------------

FILES = [
    *("bus.db", "bus.db-wal", "bus.jsonl", "bus-000001.jsonl", "bus.index.json", "bus.jsonl.new"),
    *("doorbell", "write.lock", "export.lock", "search.db", ".gitignore", "bus.db.new"),
]


@pytest.mark.parametrize("opening", [Bus.open, Bus.init])
@pytest.mark.parametrize("name", [*FILES, "blobs", "archive"])
def test_bus_with_a_link_in_it_is_not_opened(
    name: str, opening: Callable[[Path], Bus], bus_dir: Path, victim: Path, project: Path
) -> None:
    """As a clone of git may bring one, under any name that a bus uses."""
    planted = bus_dir / name
    if planted.is_dir():
        planted.rmdir()
    planted.unlink(missing_ok=True)
    target = project / "folder" if name in ("blobs", "archive") else victim
    (project / "folder").mkdir()
    planted.symlink_to(target)
    with pytest.raises(BusUnusable, match=rf"{re.escape(name)} is a symbolic link"):
        opening(bus_dir)
    assert whole(victim)
    assert list((project / "folder").iterdir()) == []


def test_bus_is_not_made_through_a_dangling_link(project: Path) -> None:
    """Its target is not made, either."""
    directory = project / ".worker-state"
    directory.mkdir()
    (directory / ".gitignore").symlink_to(project / "new-file")
    with pytest.raises(BusUnusable, match="symbolic link"):
        Bus.init(directory)
    assert not (project / "new-file").exists()


def test_bus_directory_itself_may_be_a_link(bus_dir: Path, project: Path) -> None:
    """Its user has put it on another disk."""
    (project / "elsewhere").symlink_to(bus_dir)
    with Bus.open(project / "elsewhere") as bus:
        assert bus.publish("t", from_agent="a").seq == 1


def test_command_says_it_in_one_line(bus_dir: Path, victim: Path, run_bus: RunBus) -> None:
    (bus_dir / "bus.jsonl").unlink()
    (bus_dir / "bus.jsonl").symlink_to(victim)
    done = run_bus("export")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "bus.jsonl is a symbolic link" in done.err
    assert whole(victim)


@pytest.mark.parametrize("name", ["archive", "blobs", "repair.new"])
def test_nothing_is_repaired_through_a_link(
    name: str, bus: Bus, bus_dir: Path, project: Path, run_bus: RunBus
) -> None:
    """Nor does a link make a bus damaged: its file stays."""
    bus.publish("t", from_agent="a")
    bus.close()
    if (bus_dir / name).is_dir():
        (bus_dir / name).rmdir()
    (project / "folder").mkdir()
    (bus_dir / name).symlink_to(project / "folder")
    before = (bus_dir / "bus.db").stat().st_ino
    done = run_bus("doctor", "--repair")
    assert (done.code, done.out) == (1, "")
    assert f"{name} is a symbolic link" in done.err
    assert (bus_dir / "bus.db").stat().st_ino == before
    assert list((project / "folder").iterdir()) == []


def export(bus: Bus) -> None:
    Exporter(bus).export_once()


LATE: dict[str, Callable[[Bus], None]] = {"doorbell": ring, "bus.jsonl": export}


@pytest.mark.parametrize("name", LATE)
def test_link_that_comes_while_a_bus_is_open_is_not_written_through(
    name: str, bus: Bus, victim: Path
) -> None:
    """As a merge of git may bring it."""
    file_of(bus).rows("SELECT 1")
    raw_sql(
        Path(bus.layout.directory),
        "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('a', 1, 'a', 't')",
    )
    planted = Path(bus.layout.directory, name)
    planted.unlink(missing_ok=True)
    planted.symlink_to(victim)
    try:
        LATE[name](bus)
    except AckbusError as error:
        assert name in str(error)  # noqa: PT017 - the bell does not complain
    assert whole(victim)


def test_blob_that_is_a_link_is_none(bus: Bus, victim: Path, tmp_path: Path) -> None:
    """Not read, not copied, not taken for stored; what it leads to is left alone."""
    ref = bus.blobs.put(b"precious\n")
    path = Path(bus.layout.blobs, ref)
    path.unlink()
    path.symlink_to(victim)
    before = victim.stat().st_atime_ns, victim.stat().st_mtime_ns
    assert ref not in bus.blobs
    for use in (bus.blobs.read, bus.blobs.verify):
        with pytest.raises(BusUnusable, match="can't be read"):
            use(ref)
    with pytest.raises(BusUnusable):
        bus.blobs.copy(ref, io.BytesIO())
    with pytest.raises(BlobMissing):
        bus.publish("t", payload_ref=ref, from_agent="a")
    assert bus.blobs.put(b"precious\n") == ref
    assert not path.is_symlink()
    assert bus.blobs.read(ref) == b"precious\n"
    assert (victim.stat().st_atime_ns, victim.stat().st_mtime_ns) == before


def test_segment_that_is_a_link_is_not_read(bus: Bus, project: Path, tmp_path: Path) -> None:
    for _ in range(3):
        bus.publish("t", from_agent="a")
    with Archiver(bus) as archiver:
        archiver.archive(2)
    segment = Path(bus.layout.archive, segment_name(1))
    segment.rename(project / "moved")
    segment.symlink_to(project / "moved")
    with Bus.open(bus.layout.directory) as again:
        with pytest.raises(BusUnusable, match="can't be read"):
            list(again.read())
        assert again.archive.state_of(again.archive.segments()[0]) == "unreadable"
        assert back_up(again, tmp_path / "backup").lacking == [segment.name]
    assert not (tmp_path / "backup/archive" / segment.name).exists()


# Names and refs ------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", TRICKS)
def test_ref_that_is_no_blob_name_reads_nothing(
    ref: str, bus: Bus, victim: Path, tmp_path: Path
) -> None:
    """M-92: in a row that another program wrote."""
    file_of(bus).rows(
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload_ref)"
        " VALUES ('m', 1, 'a', 't', ?)",
        (ref,),
    )
    (message,) = bus.read()
    assert (message.payload, message.payload_error) == (None, "blob_missing")
    assert b"precious" not in message.to_json()
    assert [problem.kind for problem in Verification(bus).problems()] == ["payload"]
    assert back_up(bus, tmp_path / "backup").lacking == [ref]
    assert Exporter(bus).export_once() == 1
    bus.collect_blobs(older_than_s=0)
    for use in (bus.blobs.read, bus.blobs.verify, bus.blobs.size):
        with pytest.raises(InvalidInput, match="is not a blob name"):
            use(ref)
    assert whole(victim)
    assert sorted(path.name for path in (tmp_path / "backup/blobs").iterdir()) == []


@pytest.mark.parametrize("ref", TRICKS)
def test_line_with_such_a_ref_is_not_imported(ref: str, bus: Bus, victim: Path) -> None:
    line = json.dumps({"id": "m", "from": "a", "type": "t", "payload_ref": ref}) + "\n"
    report = bus.import_jsonl(io.BytesIO(line.encode()))
    assert (report.stored, report.skipped) == (0, 1)
    with pytest.raises((InvalidInput, BlobMissing)):
        bus.publish("t", payload_ref=ref, from_agent="a")


@pytest.mark.parametrize("name", [name for name in TRICKS if name.isprintable()])
def test_names_of_agents_queues_and_leases_are_no_paths(
    name: str, bus: Bus, victim: Path, project: Path, tmp_path: Path
) -> None:
    before = {path for path in tmp_path.rglob("*") if bus.layout.directory not in str(path)}
    bus.heartbeats.beat(name)
    bus.publish("t", from_agent=name, to_agent=name, id=name, correlation_id=name)
    if {".", ".."}.isdisjoint(name.split("/")):
        queue = Queue.create(bus, name, "t")
    else:
        with pytest.raises(InvalidInput, match="must not be, or lead through"):
            Queue.create(bus, name, "t")
        queue = Queue.create(bus, "queue", "t")
    bus.publish("t", from_agent=name)  # work; what is addressed is the mail of who it is for
    (claimed,) = queue.claim(name, group=name)
    queue.complete(claimed, result="done")
    bus.leases.acquire(name, name)
    Inbox(bus, name).poll()
    Exporter(bus).export_once()
    with Archiver(bus) as archiver:
        archiver.archive(1)
    assert bus.get(name) is not None
    after = {path for path in tmp_path.rglob("*") if bus.layout.directory not in str(path)}
    assert after == before
    assert whole(victim)


def test_segments_of_a_tampered_table_are_files_of_the_archive(bus: Bus, victim: Path) -> None:
    """A table that another program made again may have text where a number was."""
    bus.publish("t", from_agent="a")
    with Archiver(bus) as archiver:
        archiver.archive(1)
    raw_sql(
        Path(bus.layout.directory),
        "PRAGMA foreign_keys = OFF",
        "DROP TABLE archive_frames",
        "CREATE TABLE archive_frames (first_seq, segment, start, bytes)",
        "INSERT INTO archive_frames VALUES (1, '/../../victim', 0, 9)",
    )
    with pytest.raises(AckbusError) as told, Bus.open(bus.layout.directory) as again:
        list(again.read())
    assert "precious" not in str(told.value)
    for trick in (-1, 10**30):
        assert os.sep not in segment_name(trick)


def test_names_in_the_index_of_parts_are_no_paths(bus: Bus, victim: Path) -> None:
    """`bus.index.json` may come from git: what it names is not opened, moved or deleted."""
    for _ in range(50):
        bus.publish("t", "x" * 200, from_agent="a")
    exporter = Exporter(bus)
    exporter.export_once()
    exporter.rotate(4096)
    index = Path(bus.layout.directory, "bus.index.json")
    record = json.loads(index.read_bytes())
    for part in record["parts"]:
        part["name"] = "../victim"
        part["bytes"] = victim.stat().st_size
    index.write_text(json.dumps(record))
    bus.publish("t", from_agent="a")
    Exporter(bus).export_once()
    Exporter(bus).rebuild()
    assert whole(victim)
    assert "victim" not in index.read_text()
