"""Backups: whole, checked, made while others write; never half, and good when they are needed."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Exporter, Inbox
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.schema.errors import BusUnusable, InvalidInput, Refused
from ackbus.schema.queries import file_of

from ..conftest import wait_until
from ..programs import raw_sql, run_program


def lines(bus: Bus) -> list[bytes]:
    return [message.to_line() for message in bus.read()]


@pytest.fixture
def full_bus(bus: Bus) -> Bus:
    """A bus with an archive, blobs before and after its end, a cursor, a lease."""
    drafts = [
        Draft("note", f"{n}" * 5000 if n % 10 == 0 else n, from_agent="ann") for n in range(99)
    ]
    bus.publish_many(drafts)
    with Archiver(bus) as archiver:
        archiver.archive(40)
    Inbox(bus, "bob").ack(50)
    bus.leases.acquire("deploy", "ann", lease_s=3600)
    return bus


def test_a_backup_is_a_whole_bus(full_bus: Bus, tmp_path: Path) -> None:
    """Issue 4, item 6: log, archive, blobs, cursors, leases."""
    done: list[int] = []
    made = back_up(full_bus, tmp_path / "copy", on_progress=done.append)
    assert (made.messages, made.newest_seq, made.blobs, made.segments) == (99, 99, 10, 1)
    assert made.lacking == []
    assert done == sorted(done)
    with Bus.open(tmp_path / "copy") as copy:
        assert lines(copy) == lines(full_bus)
        assert Inbox(copy, "bob").position == 50
        assert copy.leases.get("deploy") == full_bus.leases.get("deploy")
        copy.settings.take_into_use()
        copy.publish("more", from_agent="ann")
        assert copy.get(100) is not None
    assert full_bus.get(100) is None


def test_a_search_in_a_backup_writes_nothing_there(full_bus: Bus, tmp_path: Path) -> None:
    full_bus.publish("note", "a needle", from_agent="ann")
    back_up(full_bus, tmp_path / "copy")
    with Bus.open(tmp_path / "copy") as copy:
        before = sorted(tmp_path.rglob("*"))
        assert [each.message.seq for each in copy.search("needle")] == [100]
        assert sorted(tmp_path.rglob("*")) == before


def test_a_backup_is_for_its_user_alone(full_bus: Bus, tmp_path: Path) -> None:
    back_up(full_bus, tmp_path / "copy")
    for path in [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.slow
def test_a_backup_under_publishers_is_one_moment_of_the_log(bus: Bus, tmp_path: Path) -> None:
    """Whole blobs too, though new ones come while it is made."""
    stop = threading.Event()

    def publish() -> None:
        n = 0
        while not stop.is_set():
            bus.publish_many([Draft("note", f"{n}-{m}" * 2000, from_agent="ann") for m in range(5)])
            n += 1
        file_of(bus).close_thread()

    writer = threading.Thread(target=publish)
    writer.start()
    try:
        wait_until(lambda: bus.log.newest_seq() > 50)
        for n in range(5):
            before = bus.log.newest_seq()
            made = back_up(bus, tmp_path / f"copy-{n}")
            assert before <= made.newest_seq <= bus.log.newest_seq()
            assert made.newest_seq % 5 == 0  # a transaction is in it whole, or not at all
            with Bus.open(tmp_path / f"copy-{n}") as copy:
                assert [message.seq for message in copy.read()] == [*range(1, made.newest_seq + 1)]
                assert all(copy.blobs.verify(ref) for ref in copy.log.named_blobs())
    finally:
        stop.set()
        writer.join()


def test_nothing_that_is_there_is_replaced_but_an_earlier_backup(
    full_bus: Bus, tmp_path: Path
) -> None:
    """Issue 4, item 6: never overwrites; pitfall 25: and never what is not a backup."""
    target = tmp_path / "copy"
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("mine")
    for name, why in {"mine": "is not a backup", "file": "is no directory of yours"}.items():
        for replace in (False, True):
            with pytest.raises(Refused, match=why):
                back_up(full_bus, tmp_path / name, replace=replace)
    back_up(full_bus, target)
    full_bus.publish("later", from_agent="ann")
    with pytest.raises(Refused, match="a backup already"):
        back_up(full_bus, target)
    assert back_up(full_bus, target, replace=True).newest_seq == 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "file", "mine", "project"]


@pytest.mark.parametrize("ending", ["unfinished", "replaced"])
def test_a_folder_in_the_way_of_a_backup_is_left_alone(
    ending: str, full_bus: Bus, tmp_path: Path
) -> None:
    mine = tmp_path / f"copy.{ending}" / "mine"
    mine.parent.mkdir()
    mine.touch()
    with pytest.raises(Refused, match="is in the way"):
        back_up(full_bus, tmp_path / "copy", replace=True)
    assert mine.exists()
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("ending", ["", ".unfinished", ".replaced"])
@pytest.mark.parametrize("of", ["a bus", "a backup", "another user"])
def test_a_directory_of_others_and_a_link_are_not_cleared(
    ending: str, of: str, full_bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """In a folder for all, or in a clone, somebody else may have put one there."""
    planted, elsewhere = tmp_path / f"copy{ending}", tmp_path / "elsewhere"
    back_up(full_bus, elsewhere)
    if of == "another user":
        if os.geteuid():
            pytest.skip("only root can give a directory away")
        elsewhere.rename(planted)
        os.chown(planted, 4321, 4321)
    else:
        planted.symlink_to(bus_dir if of == "a bus" else elsewhere)
    before = sorted(os.listdir(planted))
    with pytest.raises((Refused, InvalidInput)):
        back_up(full_bus, tmp_path / "copy", replace=True)
    assert sorted(os.listdir(planted)) == before


@pytest.mark.parametrize("place", [".", "sub", ".."])
def test_a_place_in_or_around_the_bus_is_refused(place: str, bus: Bus, bus_dir: Path) -> None:
    with pytest.raises(InvalidInput, match="within the bus, or holds it"):
        back_up(bus, bus_dir / place)


def test_a_place_without_a_parent_is_refused(bus: Bus, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no directory"):
        back_up(bus, tmp_path / "none" / "copy")


def test_what_the_bus_lacks_is_named_and_the_rest_is_saved(
    full_bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """Pitfall 27: a backup that is not whole says so."""
    missing, altered, *_ = full_bus.log.named_blobs()
    (bus_dir / "blobs" / missing).unlink()
    (bus_dir / "blobs" / altered).write_bytes(b"altered")
    (segment,) = full_bus.archive.segments()
    Path(full_bus.archive.path(segment)).unlink()
    made = back_up(full_bus, tmp_path / "copy")
    assert made.lacking == [os.path.basename(full_bus.archive.path(segment)), missing, altered]
    assert (made.blobs, made.segments, made.newest_seq) == (8, 0, 99)
    mark = json.loads((tmp_path / "copy" / "backup.json").read_text())
    assert mark["lacking"] == made.lacking
    assert sorted(os.listdir(tmp_path / "copy" / "blobs")) == sorted(
        set(full_bus.log.named_blobs()) - {missing, altered}
    )


def test_a_damaged_bus_gives_no_backup(bus: Bus, bus_dir: Path, tmp_path: Path) -> None:
    """Pitfall 27: the copy is read from end to end before it gets its name."""
    bus.publish_many([Draft("note", "x" * 1000, from_agent="ann") for _ in range(500)])
    bus.close()
    size = (bus_dir / "bus.db").stat().st_size
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 8192)
    with Bus.open(bus_dir) as damaged, pytest.raises(BusUnusable, match="is damaged"):
        back_up(damaged, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


KILLED = """
import os, signal, sys
from ackbus import Bus
from ackbus.export.backup import back_up
steps = int(sys.argv[3])
def audit(event, args):
    global steps
    if event in ("open", "os.rename", "os.mkdir", "shutil.copyfile", "os.remove") and any(
        "copy" in os.fsdecode(each) for each in args[:2] if isinstance(each, (str, bytes))
    ):
        steps -= 1
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
bus = Bus.open(sys.argv[1])
sys.addaudithook(audit)
back_up(bus, sys.argv[2], replace=True)
"""


@pytest.mark.slow
def test_a_killed_backup_leaves_nothing_that_looks_like_one(
    full_bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """Issue 4, item 6: at any step; the next one begins again, and an earlier one is not lost."""
    target = tmp_path / "copy"
    for with_earlier in (False, True):
        for step in range(1, 100):
            if with_earlier and not target.exists():
                back_up(full_bus, target)
            ended = subprocess.run(
                [sys.executable, "-c", KILLED, bus_dir, target, str(step)], check=False
            ).returncode
            if ended != -signal.SIGKILL:
                assert ended == 0
                break
            if not target.exists() and with_earlier:  # beside a later one it is being removed
                (tmp_path / "copy.replaced").rename(target)
            if target.exists():
                with Bus.open(target) as copy:
                    assert lines(copy) == lines(full_bus)
        assert step > 8
        shutil.rmtree(target)
        shutil.rmtree(tmp_path / "copy.unfinished", ignore_errors=True)


def test_a_backup_restores_a_bus_that_is_really_damaged(
    full_bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """Pitfall 28: with bus.jsonl, what was published after the backup comes back too."""
    back_up(full_bus, tmp_path / "copy")
    full_bus.publish("later", "y" * 5000, from_agent="ann")
    before = lines(full_bus)
    Exporter(full_bus).export_once()
    full_bus.close()
    (bus_dir / "bus.db").write_bytes(b"overwritten" * 10_000)
    with pytest.raises(BusUnusable):
        Bus.open(bus_dir)

    damaged = tmp_path / "damaged"
    bus_dir.rename(damaged)
    shutil.copytree(tmp_path / "copy", bus_dir)
    for blob in (damaged / "blobs").iterdir():
        if not (bus_dir / "blobs" / blob.name).exists():
            shutil.copy(blob, bus_dir / "blobs")
    with Bus.open(bus_dir) as restored:
        restored.settings.take_into_use()
        with (damaged / "bus.jsonl").open("rb") as file:
            restored.import_jsonl(file)
        assert lines(restored) == before
    assert raw_sql(bus_dir, "PRAGMA integrity_check") == [["ok"]]


ALTER = """
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]), 2)
    file.write(b"altered")
"""


@pytest.mark.parametrize("harm", ["blob", "file"])
def test_a_copy_that_the_disk_alters_is_no_backup(bus: Bus, tmp_path: Path, harm: str) -> None:
    """Issue 6, item 4: what was written is read again before the copy gets its name."""
    bus.publish_many([Draft("note", f"{n}" * 5000, from_agent="ann") for n in range(3)])
    fresh = tmp_path / "saved.unfinished"
    altered: list[Path] = []

    def alter(done: int) -> None:
        blobs = sorted((fresh / "blobs").glob("sha256-*"))
        if len(blobs) == 2 and not altered:  # another process: this one has the file open
            altered.append(blobs[0] if harm == "blob" else fresh / "bus.db")
            run_program(ALTER, altered[0], -4096)

    with pytest.raises(BusUnusable, match="is not what is read"):
        back_up(bus, tmp_path / "saved", on_progress=alter)
    assert altered
    assert list(tmp_path.glob("saved*")) == []
