"""bus doctor: what is well, what is not, and never a traceback, whatever a bus looks like."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.doctor.checks.directory import checks_of_file
from ackbus.export.archive_writer import Archiver
from ackbus.schema.queries import file_of

from ..conftest import RunBus, wait_until
from ..programs import held_write_lock, raw_sql, running_program
from ..sizes import case
from .conftest import StartBus

pytestmark = pytest.mark.slow  # starts many processes

Found = dict[str, tuple[str, str]]
Doctor = Callable[..., Found]


@pytest.fixture
def doctor(run_bus: RunBus) -> Doctor:
    """Runs the doctor, and returns state and text of each check; the code must fit them."""

    def run(*options: str | Path) -> Found:
        done = run_bus("doctor", "--json", *options)
        assert done.err == ""
        records = [json.loads(line) for line in done.out.splitlines()]
        found = {each["check"]: (each["state"], each["text"]) for each in records}
        assert len(found) == len(records)
        assert done.code == (1 if "bad" in {state for state, _ in found.values()} else 0)
        assert all(bool(each["advice"]) == (each["state"] != "ok") for each in records)
        return found

    return run


def not_ok(found: Found) -> dict[str, str]:
    return {check: state for check, (state, _) in found.items() if state != "ok"}


def test_a_bus_that_is_well(bus: Bus, doctor: Doctor, run_bus: RunBus) -> None:
    """Issue 4, item 6: versions, modes, filesystem, lock holders, export and WAL, integrity."""
    bus.publish("note", "x" * 5000, from_agent="ann")
    bus.search("x*")
    assert not_ok(doctor()) == {}
    found = doctor("--full")
    assert not_ok(found) == {}
    assert {"versions", "modes", "filesystem", "disk", "write lock", "pages"} <= found.keys()
    assert {"log", "export", "blobs", "archive", "search", "claims"} <= found.keys()
    assert f"SQLite {apsw.sqlite_lib_version()}" in found["versions"][1]
    lines = run_bus("doctor").out.splitlines()
    assert all(line.startswith("ok    ") for line in lines)
    assert len(lines) == len(found)


def test_examining_changes_nothing(bus: Bus, bus_dir: Path, doctor: Doctor) -> None:
    bus.publish("note", from_agent="ann")
    before = sorted(os.listdir(bus_dir)), file_of(bus).value("PRAGMA data_version")
    doctor("--full")
    assert (sorted(os.listdir(bus_dir)), file_of(bus).value("PRAGMA data_version")) == before


# Damage: pitfalls 27 and 28 -------------------------------------------------------------------


def overwritten(bus_dir: Path) -> None:
    (bus_dir / "bus.db").write_bytes(b"overwritten " * 20_000)


def truncated(bus_dir: Path) -> None:
    os.truncate(bus_dir / "bus.db", (bus_dir / "bus.db").stat().st_size // 2)


def truncated_within_a_page(bus_dir: Path) -> None:
    os.truncate(bus_dir / "bus.db", 5000)


def emptied(bus_dir: Path) -> None:
    os.truncate(bus_dir / "bus.db", 0)


def removed(bus_dir: Path) -> None:
    (bus_dir / "bus.db").unlink()


def scribbled(bus_dir: Path) -> None:
    with (bus_dir / "bus.db").open("r+b") as file:
        # The last third has messages alone, no root of a table.
        file.seek((bus_dir / "bus.db").stat().st_size * 2 // 3 // 4096 * 4096)
        file.write(b"\xff" * 40_960)


def made_a_folder(bus_dir: Path) -> None:
    (bus_dir / "bus.db").unlink()
    (bus_dir / "bus.db").mkdir()


def without_meta(bus_dir: Path) -> None:
    raw_sql(bus_dir, "DROP TABLE meta")


def without_claims(bus_dir: Path) -> None:
    raw_sql(bus_dir, "DROP TABLE claims")


def without_a_trigger(bus_dir: Path) -> None:
    raw_sql(bus_dir, "DROP TRIGGER messages_are_never_changed")


def of_a_later_version(bus_dir: Path) -> None:
    raw_sql(bus_dir, "UPDATE meta SET value = '99'")


def of_no_version(bus_dir: Path) -> None:
    raw_sql(bus_dir, "DROP TRIGGER meta_version_only_grows", "UPDATE meta SET value = 'two'")


def with_a_broken_reference(bus_dir: Path) -> None:
    raw_sql(bus_dir, "INSERT INTO archive_frames VALUES (1, 777, 0, 10)")


def with_half_an_export_state(bus_dir: Path) -> None:
    raw_sql(bus_dir, "DROP TRIGGER export_state_is_kept", "DELETE FROM export_state")


DAMAGE: dict[Callable[[Path], None], str] = {
    overwritten: "file",
    truncated: "file",
    truncated_within_a_page: "file",
    emptied: "file",
    removed: "directory",
    scribbled: "pages",
    made_a_folder: "file",
    without_meta: "file",
    without_claims: "schema",
    without_a_trigger: "schema",
    of_a_later_version: "schema",
    of_no_version: "file",
    with_a_broken_reference: "references",
    with_half_an_export_state: "export",
}


@pytest.mark.parametrize(
    ("damage", "full"),
    [
        case(damage, full, id=f"{damage.__name__}-{full}", by_day=number % 2 == full)
        for number, damage in enumerate(DAMAGE)
        for full in (False, True)
    ],
)
def test_damage_is_found(
    damage: Callable[[Path], None], full: bool, bus_dir: Path, doctor: Doctor
) -> None:
    """Pitfall 27: health asks the store; a line for each thing, and no traceback."""
    with Bus.open(bus_dir) as bus:
        bus.publish_many([Draft("note", "x" * 1000, from_agent="ann") for _ in range(500)])
        Queue.create(bus, "work", "note")
    damage(bus_dir)
    found = doctor("--dir", bus_dir, *(["--full"] if full else []))
    assert not_ok(found).get(DAMAGE[damage]) == "bad", found


@pytest.mark.parametrize("place", ["nowhere", "empty", "file", "parent"])
def test_a_place_without_a_bus_is_bad(place: str, tmp_path: Path, doctor: Doctor) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    Bus.init(tmp_path / "parent" / ".worker-state").close()
    found = doctor("--dir", tmp_path / place)
    assert found["directory"][0] == "bad"
    assert not_ok(doctor()) == {"bus": "bad"}


def test_a_directory_that_cannot_be_read_is_bad(bus_dir: Path, doctor: Doctor) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    bus_dir.chmod(0)
    try:
        assert doctor("--dir", bus_dir)["directory"][0] == "bad"
    finally:
        bus_dir.chmod(0o700)


def test_looking_at_a_large_file_ends_in_time(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 4, item 6: quick unless --full is given."""
    bus.publish_many([Draft("note", "x" * 4000, from_agent="ann") for _ in range(3000)])
    monkeypatch.setattr("ackbus.schema.sqlite.file_checks._QUICK_S", 0.0)
    assert "no damage within" in checks_of_file(file_of(bus))["pages"]().text
    assert checks_of_file(file_of(bus), full=True)["pages"]().text == "undamaged"


# What wants attention -------------------------------------------------------------------------


def test_modes_that_let_others_read_are_told(bus_dir: Path, doctor: Doctor) -> None:
    """DESIGN: directories 0700, files 0600."""
    (bus_dir / "bus.db").chmod(0o644)
    told = "others may read or write what is meant for you: bus.db 0644"
    assert doctor()["modes"] == ("warn", told)


def test_lost_blobs_and_segments_are_named(bus: Bus, bus_dir: Path, doctor: Doctor) -> None:
    bus.publish_many([Draft("note", f"{n}" * 5000, from_agent="ann") for n in range(5)])
    first, second, *_ = bus.log.named_blobs()
    with Archiver(bus) as archiver:
        archiver.archive(2)
    (bus_dir / "blobs" / first).unlink()
    (bus_dir / "blobs" / second).write_bytes(b"altered")
    (segment,) = bus.archive.segments()
    path = Path(bus.archive.path(segment))
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    found = doctor()
    assert not_ok(found) == {"blobs": "bad"}
    assert found["blobs"][1] == f"1 of 5 are missing: {first}"
    found = doctor("--full")
    assert not_ok(found) == {"blobs": "bad", "archive": "bad"}
    assert found["blobs"][1] == f"2 of 5 are missing or altered: {first}, {second}"
    assert found["archive"][1] == f"{path.name} is altered"
    path.unlink()
    assert doctor()["archive"] == ("bad", f"{path.name} is missing")


HOLD = """
import sys
from ackbus import Bus
bus = Bus.open(sys.argv[1])
with bus.transaction():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_who_holds_the_write_lock_is_told(bus_dir: Path, doctor: Doctor) -> None:
    """Issue 4, item 6: lock holders, with process and command."""
    with running_program(HOLD, bus_dir) as process:
        assert process.stdout is not None
        process.stdout.readline()
        state, text = doctor()["write lock"]
        assert state == "warn"
        assert f"process {process.pid} (" in text
        assert "has written for over 1 s" in text
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: "stopped" in doctor()["write lock"][1])
        process.send_signal(signal.SIGCONT)
    assert doctor()["write lock"] == ("ok", "free")


def test_a_program_that_writes_without_the_lock_is_told(bus_dir: Path, doctor: Doctor) -> None:
    """DESIGN: the file is a protocol: any program with SQLite may take part."""
    with held_write_lock(bus_dir) as process:
        state, text = doctor()["write lock"]
        assert (state, f"process {process.pid} (" in text) == ("warn", True)


READ = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/bus.db", isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM messages").fetchall()
print("reading", flush=True)
sys.stdin.read()
"""


def test_a_long_reader_that_keeps_the_log_growing_is_told(
    bus: Bus, bus_dir: Path, doctor: Doctor
) -> None:
    with running_program(READ, bus_dir) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(9):
            bus.publish_many([Draft("note", "x" * 4000, from_agent="ann") for _ in range(1000)])
        state, text = doctor()["log"]
        assert state == "warn"
        assert f"process {process.pid} (" in text
    assert doctor()["log"][0] == "ok"


def test_the_export_is_followed(bus: Bus, doctor: Doctor, start_bus: StartBus) -> None:
    bus.publish("note", from_agent="ann")
    unasked = "commands that publish export"
    assert doctor()["export"][1] == f"nothing was exported, and no exporter runs; {unasked}"
    Exporter(bus).export_once()
    bus.publish("note", from_agent="ann")
    assert doctor()["export"] == (
        "warn",
        f"bus.jsonl is 1 behind, and no exporter runs; {unasked}",
    )
    process = start_bus("export", "--follow")
    wait_until(lambda: Exporter(bus).position == 2)
    state, text = doctor()["export"]
    assert (state, f"process {process.pid} (" in text, text[-10:]) == ("ok", True, ", 0 behind")
    process.send_signal(signal.SIGSTOP)
    bus.publish("note", from_agent="ann")
    state, text = doctor()["export"]
    assert (state, "does not get on: 1 behind" in text) == ("warn", True)


def test_lost_parts_of_the_export_are_named(
    bus: Bus, bus_dir: Path, doctor: Doctor, run_bus: RunBus, start_bus: StartBus
) -> None:
    bus.publish_many([Draft("note", "x" * 1000, from_agent="ann") for _ in range(40)])
    Exporter(bus).rotate(4096)
    whole = {path.name: path.read_bytes() for path in bus_dir.glob("bus*.json*")}
    for harm, names in (
        (lambda: (bus_dir / "bus-000002.jsonl").unlink(), "bus-000002.jsonl"),
        (lambda: os.truncate(bus_dir / "bus-000003.jsonl", 9), "bus-000003.jsonl"),
        (lambda: (bus_dir / "bus.index.json").unlink(), "bus.index.json"),
    ):
        harm()
        assert doctor()["export"] == ("warn", f"not there, or not as exported: {names}")
        assert run_bus("export").code == 0
        assert {path.name: path.read_bytes() for path in bus_dir.glob("bus*.json*")} == whole
    process = start_bus("export", "--follow")
    wait_until(lambda: f"process {process.pid} (" in doctor()["export"][1])
    process.send_signal(signal.SIGSTOP)  # or it might write the part again before it is missed
    (bus_dir / "bus-000001.jsonl").unlink()
    told = run_bus("doctor").out
    assert f"stop process {process.pid} (" in told
    assert "then 'bus export' writes all parts again" in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no line of a bus\n", "line 4 of "),
        ('{"seq":9,"id":"theirs"}\n', "has message theirs on line 4, which is not in this bus"),
    ],
)
def test_exported_lines_that_the_exporter_would_refuse_are_found(
    bus: Bus, doctor: Doctor, run_bus: RunBus, text: str, words: str
) -> None:
    bus.publish_many(Draft("note", n, from_agent="ann") for n in range(3))
    assert doctor()["bus.jsonl"] == ("ok", "none")
    assert doctor("--full")["bus.jsonl"] == ("ok", "none")
    Exporter(bus).export_once()
    assert doctor()["bus.jsonl"] == ("ok", "as the last export left it; --full reads it")
    assert doctor("--full")["bus.jsonl"] == ("ok", "every line is that of the log")
    with open(bus.layout.jsonl, "a") as file:
        file.write(text)
    state, told = doctor()["bus.jsonl"]
    assert state == "warn"
    assert "not as the last export left it: that was stopped, or" in told
    state, told = doctor("--full")["bus.jsonl"]
    assert (state, words in told) == ("bad", True)
    refused = run_bus("export")
    assert refused.err == f"bus: {told}\n"


@pytest.mark.parametrize("marker", ["<<<<<<< ours", "=======", ">>>>>>> theirs"])
def test_conflict_markers_in_the_export_are_found_without_reading_all(
    bus: Bus, doctor: Doctor, run_bus: RunBus, marker: str
) -> None:
    """Issue 4: an export refuses them, so the doctor calls it bad, and gives the same cure."""
    bus.publish_many(Draft("note", n, from_agent="ann") for n in range(3))
    Exporter(bus).export_once()
    with open(bus.layout.jsonl, "a") as file:
        file.write(f"{marker}\n")
    assert doctor()["bus.jsonl"] == ("bad", "git conflict marker on line 4")
    assert "keep one of the two lines" in run_bus("doctor").out
    state, told = doctor("--full")["bus.jsonl"]
    assert (state, "line 4 of " in told, "is a conflict marker" in told) == ("bad", True, True)
    assert run_bus("export").err == f"bus: {told}\n"


def test_exported_lines_out_of_their_order_are_found(bus: Bus, doctor: Doctor) -> None:
    bus.publish_many(Draft("note", n, from_agent="ann") for n in range(3))
    Exporter(bus).export_once()
    jsonl = Path(bus.layout.jsonl)
    jsonl.write_bytes(b"".join(reversed(jsonl.read_bytes().splitlines(keepends=True))))
    assert doctor("--full")["bus.jsonl"] == ("warn", "its lines are not those of the log")


def test_backup_lacks_the_export_and_nobody_removed_it(
    bus: Bus, doctor: Doctor, run_bus: RunBus, tmp_path: Path
) -> None:
    bus.publish("note", from_agent="ann")
    Exporter(bus).export_once()
    assert run_bus("backup", tmp_path / "copy").code == 0
    state, told = doctor("--dir", tmp_path / "copy")["export"]
    assert (state, "or this is a backup, which has none" in told) == ("warn", True)


def test_failed_work_and_silent_agents_are_counted(bus: Bus, bus_dir: Path, doctor: Doctor) -> None:
    queue = Queue.create(bus, "work", "task", max_attempts=1)
    for _ in range(2):
        bus.publish("task", from_agent="ann")
    queue.fail(queue.claim("w")[0], "no")
    assert queue.claim("w")
    bus.publish("note", from_agent="ann")
    bob = Inbox(bus, "bob", max_deliveries=1)
    bob.fail(bob.poll()[0], "no")
    bus.heartbeats.beat("zed")
    raw_sql(
        bus_dir,
        "UPDATE heartbeats SET ts_ms = ts_ms - 600000",
        "UPDATE claims SET lease_until_ms = claimed_at_ms WHERE status = 'active'",
    )
    found = doctor()
    assert not_ok(found) == dict.fromkeys(("hearts", "claims", "dead letters", "parked"), "warn")
    assert found["claims"][1] == "lost within a day: 1 of work"
    assert found["dead letters"][1] == "1 of work"
    assert found["parked"][1] == "messages of bob: 1"
    assert "zed" in found["hearts"][1]
