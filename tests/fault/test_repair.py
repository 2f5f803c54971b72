"""Parts that a repair leaves alone, and several damages at once: nothing in a file is lost."""

import os
import shutil
import signal
import subprocess
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.doctor.checks.export import checks_of_export
from ackbus.doctor.recovery.pages import Pages
from ackbus.doctor.recovery.records import TABLE_LEAF, page_of, row_at
from ackbus.doctor.repair.repair import repair_bus
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.schema.errors import BusUnusable, LeaseLost
from ackbus.schema.findings import Mended
from ackbus.schema.queries import file_of
from ackbus.server.access.tokens import Scope, Tokens
from ackbus.subscribers.jobs.errors import ClaimLost

from ..migration.made_up import OLDER, make_older, upgradable
from ..sizes import case, size
from .conftest import SmallDisk
from .corruption import doctor, page_of_table


def publish(bus: Bus, count: int, by: str = "ann") -> None:
    bus.publish_many([Draft("note", f"{by} {n}", from_agent=by) for n in range(count)])


def move_log_into_file(bus: Bus) -> None:
    """All that was committed is in the file, and what is committed from now on stays in the log.

    A checkpoint that the bus began beside its writers could still stand in the way of this one, or
    come after it and move what the test is about to commit.
    """
    file_of(bus).checkpointer.wait()
    assert file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)") == [(0, 0, 0)]


def zero_page_with(directory: Path, text: bytes) -> None:
    with (directory / "bus.db").open("r+b") as file:
        file.seek(file.read().index(text) // 4096 * 4096)
        file.write(bytes(4096))


def repaired(directory: Path, backup: Path | None = None) -> list[Mended]:
    return list(repair_bus(directory, backup=backup))


def said_by(directory: Path) -> set[str]:
    with closing(Bus.open(directory)) as bus:
        return {message.from_agent for message in bus.log.read()} - {"bus-doctor", "ackbus"}


# What is whole -----------------------------------------------------------------------------------


def test_a_whole_file_of_an_older_version_is_left_for_the_upgrade(tmp_path: Path) -> None:
    directory = make_older(tmp_path / "old")
    assert set(doctor(directory, "--full").bad) <= {"schema"}
    with pytest.raises(BusUnusable, match="can't be upgraded: run 'bus export'"):
        repaired(directory)
    with (
        upgradable(tmp_path / "migrations"),
        pytest.raises(BusUnusable, match="run 'bus upgrade'"),
    ):
        repaired(directory)
    assert not list(directory.glob("*.damaged-*"))


def test_a_damaged_file_of_an_older_version_is_not_made_a_newer_one(tmp_path: Path) -> None:
    directory = make_older(tmp_path / "old")
    with (directory / "bus.db").open("r+b") as file:
        file.seek(page_of_table(directory, "cursors"))
        file.write(b"\xff" * 100)
    with pytest.raises(BusUnusable, match=f"schema version {OLDER}, and only version"):
        repaired(directory)
    assert not list(directory.glob("*.damaged-*"))


def test_a_file_of_a_newer_version_is_not_made_an_older_one(bus_dir: Path) -> None:
    with closing(apsw.Connection(str(bus_dir / "bus.db"))) as connection:
        connection.execute("CREATE TABLE later (x TEXT)")
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(BusUnusable, match="use a newer ackbus"):
        repaired(bus_dir)
    page = page_of_table(bus_dir, "cursors")
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page)
        file.write(b"\xff" * 100)
    with pytest.raises(BusUnusable, match="schema version 99"):
        repaired(bus_dir)
    assert not list(bus_dir.glob("*.damaged-*"))


def test_a_link_in_the_directory_is_no_damage(bus: Bus, bus_dir: Path) -> None:
    publish(bus, 3)
    bus.close()
    (bus_dir / "bus.index.json").symlink_to("/etc/hostname")
    with pytest.raises(BusUnusable, match="symbolic link"):
        repaired(bus_dir)
    assert not list(bus_dir.glob("*.damaged-*"))
    assert "--repair" not in str(doctor(bus_dir).records)


def test_a_place_that_is_mounted_read_only_is_no_damage(small_disk: SmallDisk) -> None:
    directory = small_disk.path / "bus"
    with closing(Bus.init(directory)) as bus:
        publish(bus, 3)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk.path)], check=True)
    with pytest.raises(BusUnusable, match="mounted read-only"):
        repaired(directory)
    found = doctor(directory)
    assert "mounted read-only" in found.bad["directory"]
    assert "mounted read-only" in found.bad["file"]
    told = str(found.records)
    assert ("--repair" in told, "chmod" in told) == (False, False)


def test_an_export_that_is_behind_is_no_damage(bus: Bus, bus_dir: Path) -> None:
    publish(bus, 3)
    Exporter(bus).export_once()
    publish(bus, 1)
    bus.close()
    assert repaired(bus_dir) == []


# What is another's -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("found_by", ["name", "place"])
def test_no_message_comes_from_a_backup_of_another_bus(
    bus: Bus, bus_dir: Path, found_by: str
) -> None:
    """The directory was made again since: the backup beside it is of the former bus."""
    publish(bus, 500, "old")
    copy = bus_dir.parent / "copy"
    back_up(bus, copy)
    bus.close()
    shutil.rmtree(bus_dir)
    with closing(Bus.init(bus_dir)) as fresh:
        publish(fresh, 300, "new")
        move_log_into_file(fresh)
    zero_page_with(bus_dir, b"new 150")
    told = repaired(bus_dir, copy if found_by == "name" else None)
    assert any("of another log" in each.text for each in told)
    assert said_by(bus_dir) == {"new"}


@pytest.mark.slow
def test_a_damaged_backup_is_passed_over_and_named(bus: Bus, bus_dir: Path) -> None:
    publish(bus, 300)
    good, harmed = bus_dir.parent / "good", bus_dir.parent / "harmed"
    back_up(bus, good)
    back_up(bus, harmed)
    move_log_into_file(bus)
    bus.close()
    zero_page_with(harmed, b"ann 150")
    zero_page_with(bus_dir, b"ann 150")
    told = [each.text for each in repaired(bus_dir) if each.part == "backup"]
    assert ("passed over" in told[0], str(harmed) in told[0]) == (True, True)
    assert told[1] == f"{good} was asked for what is lost"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
@pytest.mark.parametrize("kind", ["owner", "modes"])
def test_no_message_comes_from_a_backup_that_another_user_may_have_put_there(
    bus: Bus, bus_dir: Path, kind: str
) -> None:
    """Its mark names this bus, as anybody may write who knows the path; it is newer than all."""
    publish(bus, 300)
    planted = bus_dir.parent / "planted"
    back_up(bus, planted)
    move_log_into_file(bus)
    bus.close()
    zero_page_with(bus_dir, b"ann 150")
    if kind == "modes":
        planted.chmod(0o777)
    for path in (planted, *planted.rglob("*")) if kind == "owner" else ():
        os.chown(path, 54321, 54321)
    texts = [part.text for part in repaired(bus_dir) if part.part == "backup"]
    assert (len(texts), "passed over" in texts[0], str(planted) in texts[0]) == (1, True, True)


@pytest.mark.slow
def test_a_token_that_was_taken_away_stays_away(bus: Bus, bus_dir: Path) -> None:
    tokens = Tokens.of(bus)
    tokens.create("leaked", [Scope.MESSAGES_RO])
    back_up(bus, bus_dir.parent / "copy")
    tokens.remove("leaked")
    move_log_into_file(bus)
    bus.close()
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, "access_tokens"))
        file.write(bytes(4096))
    assert any("access_tokens" in each.lost for each in repaired(bus_dir))
    with closing(Bus.open(bus_dir)) as after:
        assert Tokens.of(after).all() == []


@pytest.mark.slow
@pytest.mark.parametrize("table", ["task_claims", "reservations", "claims"])
def test_who_held_something_at_a_backup_does_not_hold_it_again(
    bus: Bus, bus_dir: Path, table: str
) -> None:
    """Promise 6: it was given to another since, whose row is lost."""
    queue = Queue.create(bus, "work", "note")
    publish(bus, 1)
    lease = bus.leases.acquire("deploy", "ann")
    assert lease is not None
    (reservation,) = bus.reservations.reserve(["src"], "ann").reservations
    (claim,) = queue.claim("one")
    back_up(bus, bus_dir.parent / "copy")
    bus.leases.release(lease)
    bus.reservations.release(reservation.token, "ann")
    queue.release(claim)
    assert bus.leases.acquire("deploy", "bob")
    bus.reservations.reserve(["src"], "bob")
    queue.claim("two")
    move_log_into_file(bus)
    bus.close()
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, table))
        file.write(bytes(4096))
    assert any(table in each.lost for each in repaired(bus_dir))
    with closing(Bus.open(bus_dir)) as after:
        with pytest.raises(LeaseLost):
            after.leases.renew(lease)
        assert all(each.agent != "ann" for each in after.reservations.list())
        with pytest.raises(ClaimLost):
            Queue.open(after, "work").complete(claim)


@pytest.mark.slow
@pytest.mark.parametrize("is_readable", [True, False])
def test_tables_of_other_programs_are_taken_over_or_named_as_lost(
    bus: Bus, bus_dir: Path, is_readable: bool
) -> None:
    """Their rows that SQLite reads are in the new file, with their indexes."""
    file_of(bus).rows('CREATE TABLE "the\nirs" (x TEXT PRIMARY KEY, y)')
    file_of(bus).rows('CREATE INDEX own ON "the\nirs" (y)')
    file_of(bus).connection.executemany(
        'INSERT INTO "the\nirs" VALUES (?, ?)', [(f"their {n}", n) for n in range(500)]
    )
    publish(bus, 300)
    move_log_into_file(bus)
    rows = file_of(bus).rows('SELECT * FROM "the\nirs"')
    bus.close()
    zero_page_with(bus_dir, b"ann 150")
    if not is_readable:
        zero_page_with(bus_dir, b"their 250")
    told = next(each for each in repaired(bus_dir) if "other programs" in each.text)
    assert ("the\nirs" in told.lost) == (not is_readable)
    with closing(Bus.open(bus_dir)) as after:
        if is_readable:
            assert file_of(after).rows('SELECT * FROM "the\nirs"') == rows
        names = {row[0] for row in file_of(after).rows("SELECT name FROM sqlite_schema")}
        assert ("own" in names) == is_readable


@pytest.mark.parametrize("seq", [2**64 - 1, 2**53 + 1, 0, -1])
@pytest.mark.parametrize("is_there", [True, False])
def test_an_exported_line_with_a_seq_that_is_none(
    bus: Bus, bus_dir: Path, seq: int, is_there: bool
) -> None:
    publish(bus, 1)
    Exporter(bus).export_once()
    bus.close()
    line = (bus_dir / "bus.jsonl").read_bytes().replace(b'"seq":1,', b'"seq":%d,' % seq)
    (bus_dir / "bus.jsonl").write_bytes(line)
    if not is_there:
        for path in bus_dir.glob("bus.db*"):
            path.unlink()
    assert repaired(bus_dir)
    assert doctor(bus_dir, "--full").bad == {}


@pytest.mark.slow
def test_a_file_without_a_log_whose_rows_are_all_there_has_lost_nothing(
    bus: Bus, bus_dir: Path
) -> None:
    """The last program to end moves a long log into the file, and removes it."""
    publish(bus, 300)
    move_log_into_file(bus)
    bus.close()
    for name in ("bus.db-wal", "bus.db-shm"):
        (bus_dir / name).unlink(missing_ok=True)
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, "idx_messages_mail"))
        file.write(bytes(4096))
    told = repaired(bus_dir)
    assert told
    assert [each.lost for each in told if each.lost] == []
    with closing(Bus.open(bus_dir)) as after:
        assert after.log.newest_seq() == 301  # it tells of the repair


@pytest.mark.slow
def test_the_doctor_counts_what_is_to_be_exported_not_the_numbers_left_out(
    bus: Bus, bus_dir: Path
) -> None:
    publish(bus, 300)
    Exporter(bus).export_once()
    move_log_into_file(bus)
    bus.close()
    (bus_dir / "bus.db-wal").unlink(missing_ok=True)
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, "fencing"))
        file.write(bytes(4096))
    repaired(bus_dir)
    with closing(Bus.open(bus_dir)) as after:
        assert after.publish("note", from_agent="ann").seq > 1_000_000
        assert "is 3 behind" in checks_of_export(after, full=False)["export"]().text


@pytest.mark.slow
def test_an_export_is_written_anew_in_little_memory(bus: Bus, bus_dir: Path) -> None:
    """However long the log is: the lines themselves would be as much as all of it."""
    count = size(sample=3000, whole=8000)
    bus.publish_many([Draft("note", f"{n} " + "x" * 4000, from_agent="ann") for n in range(count)])
    Exporter(bus).export_once()
    bus.close()
    with (bus_dir / "bus.jsonl").open("r+b") as file:
        file.seek(9000)
        file.write(b"\xff" * 10)
    tracemalloc.start()
    try:
        told = repaired(bus_dir)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert any("1 lines that the log has not" in each.text for each in told)
    assert peak < 2500 * count, "a line has 4,000 bytes"


# Several at once ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_pages_that_tell_of_two_holders_of_a_job(bus: Bus, bus_dir: Path, tmp_path: Path) -> None:
    """One byte of the log is damaged: the page that it is in is read as it was before.

    In that the first claim is active still, and the job was claimed again since.
    """
    queue = Queue.create(bus, "work", "note")
    publish(bus, 400)
    (first,) = queue.claim("one")
    for claim in queue.claim("two", limit=300):
        queue.complete(claim)
    move_log_into_file(bus)
    queue.release(first)
    (again,) = queue.claim("three")
    assert again.message.seq == first.message.seq
    harmed = tmp_path / "harmed"
    shutil.copytree(bus_dir, harmed)
    (harmed / "bus.db-shm").unlink()
    with (harmed / "bus.db-wal").open("r+b") as file:
        (start,) = starts_of_claim(harmed, first.token)
        file.seek(start + 2000)
        (byte,) = file.read(1)
        file.seek(start + 2000)
        file.write(bytes([byte ^ 1]))
    assert repaired(harmed)
    with closing(Bus.open(harmed)) as after:
        held = file_of(after).rows("SELECT token FROM claims WHERE status = 'active'")
        assert held == [(again.token,)]
        Queue.open(after, "work").complete(again)


def starts_of_claim(directory: Path, token: int) -> list[int]:
    """The offsets in the write-ahead log of the pages with a claim."""
    with closing(Pages(str(directory / "bus.db"), str(directory / "bus.db-wal"))) as pages:
        root = page_of_table(directory, "claims") // 4096 + 1
        leaf = page_of(root, pages.read(root))
        number = next(leaf.children())
        assert (page := page_of(number, pages.read(number))).kind == TABLE_LEAF
        assert token in [row_at(page, cell, pages.read)[0] for cell in page.cells]
        return [frame.start for frame in pages.log.frames if frame.page == number]


@pytest.mark.slow
def test_a_segment_of_which_nothing_is_left(bus: Bus, bus_dir: Path) -> None:
    """Its row and its file are damaged: that must not keep the rest from being saved."""
    publish(bus, 300)
    with Archiver(bus) as archiver:
        archiver.archive(100)
    move_log_into_file(bus)
    bus.close()
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, "archive_segments"))
        file.write(bytes(4096))
    (segment,) = (bus_dir / "archive").glob("*.zst")
    segment.write_bytes(os.urandom(segment.stat().st_size))
    assert any(each.part.startswith("archive/") and each.lost for each in repaired(bus_dir))
    with closing(Bus.open(bus_dir)) as after:
        assert after.log.count(100, 300) == 200


@pytest.mark.slow
@pytest.mark.parametrize("table", ["archive_segments", "cursors"])
def test_a_segment_is_made_again_of_the_export_beside_a_damaged_file(
    bus: Bus, bus_dir: Path, table: str
) -> None:
    """Also where its row is lost: a message that only the export has must not be lost with it."""
    publish(bus, 300)
    Exporter(bus).export_once()
    with Archiver(bus) as archiver:
        archiver.archive(100)
    move_log_into_file(bus)
    lines = [message.to_line() for message in bus.log.read()]
    bus.close()
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, table))
        file.write(bytes(4096))
    (segment,) = (bus_dir / "archive").glob("*.zst")
    segment.write_bytes(os.urandom(segment.stat().st_size))
    told = [each for each in repaired(bus_dir) if each.part.startswith("archive/")]
    assert ["was made again" in each.text for each in told] == [True]
    assert not told[0].lost
    with closing(Bus.open(bus_dir)) as after:
        assert [message.to_line() for message in after.log.read(upto_seq=300)] == lines
    assert doctor(bus_dir, "--full").bad == {}


@pytest.mark.slow
@pytest.mark.parametrize("lost", [("archive_frames",), ("archive_frames", "archive_state")])
def test_the_places_in_a_whole_segment_are_found_again(
    bus: Bus, bus_dir: Path, lost: tuple[str, ...]
) -> None:
    """Without them nothing of it is read, and nothing said so."""
    publish(bus, 300)
    Exporter(bus).export_once()
    with Archiver(bus) as archiver:
        archiver.archive(100)
    move_log_into_file(bus)
    lines = [message.to_line() for message in bus.log.read()]
    bus.close()
    pages = [page_of_table(bus_dir, table) for table in lost]
    with (bus_dir / "bus.db").open("r+b") as file:
        for page in pages:
            file.seek(page)
            file.write(b"\x0d" + bytes(4095) if page == pages[0] else bytes(4096))
    assert doctor(bus_dir, "--full").bad
    assert repaired(bus_dir)
    with closing(Bus.open(bus_dir)) as after:
        assert [message.to_line() for message in after.log.read(upto_seq=300)] == lines


@pytest.mark.slow
def test_messages_that_only_the_export_has_come_back_beside_a_damaged_segment(
    bus: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """A power loss took the log's end; the file is whole as it is, and a segment is not."""
    publish(bus, 300)
    with Archiver(bus) as archiver:
        archiver.archive(100)
    Exporter(bus).export_once()
    move_log_into_file(bus)
    harmed = tmp_path / "harmed"
    shutil.copytree(bus_dir, harmed)
    (harmed / "bus.db-shm").unlink(missing_ok=True)
    publish(bus, 20, "late")
    Exporter(bus).export_once()
    shutil.copy2(bus_dir / "bus.jsonl", harmed / "bus.jsonl")
    (segment,) = (harmed / "archive").glob("*.zst")
    segment.write_bytes(os.urandom(segment.stat().st_size))
    repaired(harmed)
    assert said_by(harmed) == {"ann", "late"}
    assert doctor(harmed, "--full").bad == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "rename"),
    [
        case(source, rename, by_day=(source == "backup") == (rename == 1))
        for source in ("backup", "damaged")
        for rename in (1, 2)
    ],
)
def test_a_repair_that_dies_leaves_a_segment_of_which_the_next_one_saves_all(
    source: str,
    rename: int,
    bus: Bus,
    bus_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a damaged segment some frames are nowhere else: its name always leads to them."""
    publish(bus, 5000)
    Exporter(bus).export_once()
    with Archiver(bus) as archiver:
        archiver.archive(4900)
    lines = [message.to_line() for message in bus.read()]
    copy = back_up(bus, tmp_path / "copy").directory if source == "backup" else None
    move_log_into_file(bus)
    bus.close()
    (segment,) = (bus_dir / "archive").glob("*.zst")
    data = segment.read_bytes()
    segment.write_bytes(data[:-100] + bytes(100))  # only its last frame
    exported = (bus_dir / "bus.jsonl").read_bytes().splitlines(keepends=True)
    (bus_dir / "bus.jsonl").write_bytes(b"".join(exported[3900:]))  # and all but that is in it only
    child = os.fork()
    if child == 0:
        monkeypatch.setattr("ackbus.schema.directory.folder.os.rename", killed_at(rename))
        for _ in repair_bus(bus_dir, backup=copy):
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] in (0, signal.SIGKILL)
    for _ in repair_bus(bus_dir, backup=copy):
        pass
    with closing(Bus.open(bus_dir)) as after:
        assert [message.to_line() for message in after.read()][: len(lines)] == lines


def killed_at(count: int) -> Callable[..., None]:
    """Returns a rename that kills its process in place of one of them."""
    names = []

    def rename(old: str, new: str, **folders: int) -> None:
        names.append(new)
        if len(names) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        os.replace(old, new, **folders)

    return rename


def test_what_could_not_be_written_is_not_told_as_saved(bus: Bus, bus_dir: Path) -> None:
    publish(bus, 300)
    Exporter(bus).export_once()
    with Archiver(bus) as archiver:
        archiver.archive(100)
    bus.close()
    (bus_dir / "bus.jsonl").unlink()
    (segment,) = (bus_dir / "archive").glob("*.zst")
    segment.write_bytes(os.urandom(segment.stat().st_size))
    told = {each.part: each for each in repaired(bus_dir)}
    assert "can't be written" not in told["bus.jsonl"].text
    assert "a new one can't be written" in told["bus.jsonl"].lost
    assert "0 of 100 messages" in told[f"archive/{segment.name}"].text


def test_a_chain_that_has_lost_links_does_not_begin_anew_by_itself(bus: Bus, bus_dir: Path) -> None:
    """It would vouch for messages as they are now, whatever became of them."""
    bus.chain.switch_on()
    publish(bus, 3)
    bus.chain.catch_up()
    move_log_into_file(bus)
    bus.close()
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, "chain"))
        file.write(bytes(4096))
    assert any(each.part == "chain" and each.lost for each in repaired(bus_dir))
    with closing(Bus.open(bus_dir)) as after:
        publish(after, 1)
        assert (after.chain.is_on(), after.chain.head()) == (False, None)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 2, 3])
def test_what_only_the_log_has_survives_two_killed_repairs(
    bus: Bus, bus_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The new file is ready, the old one set aside, or its log is, and the repair dies, twice."""
    publish(bus, 2000)
    move_log_into_file(bus)
    publish(bus, 50, "late")
    harmed = tmp_path / "harmed"
    shutil.copytree(bus_dir, harmed)
    (harmed / "bus.db-shm").unlink()
    zero_page_with(harmed, b"ann 150")

    def and_die(rename: Callable[..., None], after: int) -> Callable[..., None]:
        done = 0

        def renamed(source: str, target: str, **folders: int) -> None:
            nonlocal done
            rename(source, target, **folders)
            done += 1
            if done == after:
                raise Killed

        return renamed

    for stamp, after in (("20260101-000000", step), ("20260101-000001", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", and_die(os.rename, after))
            patch.setattr("time.strftime", lambda *_, stamp=stamp: stamp)
            with pytest.raises(Killed):
                repaired(harmed)
    repaired(harmed)
    assert said_by(harmed) == {"ann", "late"}
    assert not list(harmed.glob("*.repaired-*"))
    with closing(Bus.open(harmed)) as after_all:
        assert sum(message.from_agent == "late" for message in after_all.log.read()) == 50


@pytest.mark.slow
def test_what_an_earlier_repair_set_aside_is_no_source(bus: Bus, bus_dir: Path) -> None:
    """Promise 3: the bus went on since then, and its newest backup knows more of it."""
    publish(bus, 300)
    move_log_into_file(bus)
    bus.close()
    zero_page_with(bus_dir, b"ann 150")
    repaired(bus_dir)
    with closing(Bus.open(bus_dir)) as after:
        publish(after, 50, "late")
        Inbox(after, "bob").ack(100)
        back_up(after, bus_dir.parent / "copy")
    for path in bus_dir.glob("bus.db*"):
        if "damaged" not in path.name:
            path.unlink()
    (bus_dir / "bus.db-wal").touch()
    repaired(bus_dir)
    assert said_by(bus_dir) >= {"ann", "late"}
    with closing(Bus.open(bus_dir)) as after:
        assert Inbox(after, "bob").position == 100
