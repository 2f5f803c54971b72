"""A file that SQLite finds whole, the doctor calls whole, and a repair leaves alone."""

import ctypes
import os
import random
import signal
import struct
import time
from contextlib import closing
from itertools import product
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft
from ackbus.doctor.recovery.pages import Pages
from ackbus.doctor.repair.repair import repair_bus
from ackbus.schema.errors import BusUnusable
from ackbus.schema.queries import file_of

from ..programs import run_program_to_sigkill
from ..sizes import case, sampled
from . import corruption
from .corruption import content, doctor, flip, lines_of, use

SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
SCHEMA = Path(__file__).parents[2] / "schema" / "sqlite" / "schema.sql"
#: How many messages are in the file; four more are in its log.
MESSAGES = 600

NO_VACUUM, FULL, INCREMENTAL = 0, 1, 2


def make_bus(
    directory: Path,
    size: int,
    vacuum: int = INCREMENTAL,
    reserved: int = 0,
    encoding: str = "UTF-8",
) -> None:
    """Makes a bus of which messages are in the file, and more in a log that a killed one left."""
    Bus.init(directory).close()
    path = str(directory / "bus.db")
    os.unlink(path)
    with closing(apsw.Connection(path)) as new:
        new.execute(f"PRAGMA page_size = {size}; PRAGMA encoding = '{encoding}'")
        told = ctypes.c_int(reserved)
        new.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(told))
        new.execute(f"PRAGMA auto_vacuum = {vacuum}").fetchall()
        new.execute(SCHEMA.read_text("utf-8")).fetchall()
        new.execute("PRAGMA journal_mode = WAL").fetchall()
        assert new.execute("PRAGMA page_size").get == size
        assert new.execute("PRAGMA encoding").get == encoding
    assert (directory / "bus.db").read_bytes()[20] == reserved
    child = os.fork()
    if child == 0:
        with Bus.open(directory) as bus:
            bus.publish_many(drafts(MESSAGES))
            while file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
                time.sleep(0.001)  # a thread of its own does so too
            bus.publish_many(drafts(4))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (directory / "bus.db-wal").stat().st_size


def drafts(count: int) -> list[Draft]:
    return [
        Draft("note", {"n": n, "text": "é" * (n % 400)}, from_agent="ann") for n in range(count)
    ]


_KILLED_IN_A_CHANGE = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
for n in range(3000):
    connection.execute("INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
                       " VALUES (?, 1, 'eve', 'note', ?)", (f"never-{n}", "x" * 900))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["use", "repair"])
def test_what_a_killed_program_had_not_committed_is_undone(
    way: str, bus: Bus, bus_dir: Path
) -> None:
    """Its pages are in the file, and a journal that belongs to no other file beside it."""
    bus.publish_many(drafts(50))
    bus.close()
    lines = lines_of(bus_dir)
    run_program_to_sigkill(_KILLED_IN_A_CHANGE, bus_dir / "bus.db")
    assert (bus_dir / "bus.db-journal").stat().st_size
    found = doctor(bus_dir, "--full")
    assert "a program was killed while it changed the bus" in found.bad["file"]
    assert "can't be written by this user" not in str(found.bad)
    if way == "repair":
        told = doctor(bus_dir, "--repair", "--dry-run").records
        assert ["SQLite undoes it" in each["text"] for each in told] == [True]
        assert (bus_dir / "bus.db-journal").stat().st_size, "a dry run wrote"
        assert doctor(bus_dir, "--repair").code == 0
    assert lines_of(bus_dir) == lines
    assert doctor(bus_dir, "--full").bad == {}
    assert not (bus_dir / "bus.db-journal").exists()
    assert not list(bus_dir.glob("bus.db.damaged*"))
    use(bus_dir)


def test_the_journal_of_a_damaged_file_is_set_aside_with_it(bus: Bus, bus_dir: Path) -> None:
    """SQLite would take it for that of the new file, and write pages of the old one into it."""
    bus.publish_many(drafts(50))
    bus.close()
    run_program_to_sigkill(_KILLED_IN_A_CHANGE, bus_dir / "bus.db")
    data = (bus_dir / "bus.db").read_bytes()
    (bus_dir / "bus.db").write_bytes(bytes(100) + data[100:])
    doctor(bus_dir, "--repair")
    assert doctor(bus_dir, "--full").bad == {}
    assert list(bus_dir.glob("bus.db.damaged-*-journal")) or not list(bus_dir.glob("*-journal"))
    use(bus_dir)


def assert_left_alone(directory: Path) -> None:
    files = (directory / "bus.db", directory / "bus.db-wal")
    bytes_before, before = [file.read_bytes() for file in files], content(directory)
    assert doctor(directory, "--full").bad == {}
    assert [file.read_bytes() for file in files] == bytes_before
    assert doctor(directory, "--repair").records == []
    assert content(directory) == before


@pytest.mark.parametrize(
    ("size", "vacuum"), sampled(product(SIZES, [NO_VACUUM, FULL, INCREMENTAL]), every=4)
)
def test_a_whole_file_of_any_size_of_pages_is_left_alone(
    size: int, vacuum: int, tmp_path: Path
) -> None:
    make_bus(tmp_path / "bus", size, vacuum)
    with closing(Pages(str(tmp_path / "bus/bus.db"), str(tmp_path / "bus/bus.db-wal"))) as pages:
        assert pages.page_bytes == size
    assert_left_alone(tmp_path / "bus")


@pytest.mark.parametrize(
    ("encoding", "reserved"),
    sampled(product(["UTF-8", "UTF-16le", "UTF-16be"], [8, 32, 255]), every=4),
)
def test_a_whole_file_with_reserved_bytes_and_of_any_encoding_is_left_alone(
    reserved: int, encoding: str, tmp_path: Path
) -> None:
    make_bus(tmp_path / "bus", 2048, reserved=reserved, encoding=encoding)
    assert_left_alone(tmp_path / "bus")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "vacuum", "reserved", "encoding"),
    [
        case(512, FULL, 0, "UTF-8", by_day=True),
        case(1024, INCREMENTAL, 0, "UTF-8", by_day=False),
        case(65536, NO_VACUUM, 0, "UTF-8", by_day=True),
        case(1024, INCREMENTAL, 32, "UTF-16le", by_day=True),
        case(4096, NO_VACUUM, 8, "UTF-16be", by_day=False),
    ],
)
def test_a_damaged_file_of_any_form_loses_what_was_in_the_damage_alone(
    size: int, vacuum: int, reserved: int, encoding: str, tmp_path: Path
) -> None:
    """The form is told by the header, or by the pages where that is damaged too."""
    directory = tmp_path / "bus"
    make_bus(directory, size, vacuum, reserved, encoding)
    lines = set(lines_of(corruption.copy(directory, tmp_path / "copy")))
    with (directory / "bus.db").open("r+b") as file:
        text = '"n":300,'.encode({"UTF-8": "utf-8"}.get(encoding, encoding.lower()))
        file.seek(file.read().index(text) // size * size)
        file.write(bytes(size))
        file.seek(16)
        file.write(b"\xff\xff")
    assert doctor(directory, "--full").bad
    doctor(directory, "--repair")
    lost = lines - set(lines_of(directory))
    assert 0 < len(lost) <= max(size // 40, 1)
    assert not set(lines_of(directory)) - lines
    use(directory)


@pytest.mark.slow
def test_a_log_of_another_file_is_not_read(tmp_path: Path) -> None:
    """Its salts, or its sizes of pages, are not those of the file; SQLite passes over it."""
    directory = tmp_path / "bus"
    make_bus(directory, 1024)
    lines = lines_of(corruption.copy(directory, tmp_path / "copy"))
    log = bytearray((directory / "bus.db-wal").read_bytes())
    salt = struct.unpack_from(">I", log, 32 + 8)[0]
    for start in range(32 + 24 + 1024, len(log), 24 + 1024):  # all but the first are of before
        struct.pack_into(">I", log, start + 8, salt - 1)
    (directory / "bus.db-wal").write_bytes(log)
    assert_left_alone(directory)
    assert lines_of(directory) == lines[:MESSAGES]


def test_the_header_decides_where_pages_of_another_size_would_fit_as_well(tmp_path: Path) -> None:
    """Every page of a larger size begins where one of a smaller size does."""
    directory = tmp_path / "bus"
    make_bus(directory, 8192)
    chance = random.Random(3)
    for at in (16, 17):
        copy = corruption.copy(directory, tmp_path / f"harmed{at}")
        flip(copy / "bus.db", chance, at)
        with closing(Pages(str(copy / "bus.db"), str(copy / "bus.db-wal"))) as pages:
            assert pages.page_bytes == 8192


# A repair that would lose something -------------------------------------------------------------


@pytest.mark.slow
def test_a_repair_that_would_lose_what_sqlite_reads_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of pages may be wrong: its new file is compared before it takes its place."""
    directory = tmp_path / "bus"
    make_bus(directory, 4096)
    with closing(apsw.Connection(str(directory / "bus.db"))) as connection:
        connection.execute("DROP TRIGGER messages_are_never_changed")
    before = (directory / "bus.db").read_bytes()
    add = corruption_of_add()
    monkeypatch.setattr("ackbus.doctor.recovery.recover.NewFile.add", add)
    with pytest.raises(BusUnusable, match="would lose what SQLite still reads: messages has a row"):
        list(repair_bus(directory))
    assert (directory / "bus.db").read_bytes() == before
    assert not list(directory.glob("*damaged*")) + list(directory.glob("*repair*"))


def corruption_of_add() -> object:
    """A defect: each hundredth row is left out."""
    from ackbus.doctor.recovery.recover import NewFile

    real = NewFile.add

    def add(self: NewFile, table: object, rows: object) -> object:
        kept = (row for row in rows if row[0] % 100 or row[0] == 0)  # type: ignore[attr-defined]
        return real(self, table, kept)  # type: ignore[arg-type]

    return add


@pytest.mark.slow
def test_every_number_that_has_no_message_is_told_as_lost(tmp_path: Path) -> None:
    """If the index has lost entries too, the numbers between those that are left tell of it."""
    directory = tmp_path / "bus"
    with closing(Bus.init(directory)) as bus:
        bus.publish_many(drafts(10_000))
        file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)")
    chance = random.Random(5)
    with (directory / "bus.db").open("r+b") as file:
        pages = (directory / "bus.db").stat().st_size // 4096
        for _ in range(12):
            file.seek(chance.randrange(20, pages) * 4096)
            file.write(chance.randbytes(4096))
    records = {each["part"]: each for each in doctor(directory, "--repair").records}
    with closing(Bus.open(directory)) as bus:
        there = {message.seq for message in bus.log.read() if message.type == "note"}
        (told,) = bus.log.newest(1)
    missing = set(range(1, 10_001)) - there
    assert missing
    lost = records["messages"]["lost"]
    assert told.payload["parts"][0]["lost"] == lost
    assert numbers_told(lost) == len(missing)


def numbers_told(lost: str) -> int:
    """The numbers of messages in a report: those with known ids, and the others."""
    parts = [part for part in lost.split("; ") if "message" in part or "possibly" in part]
    return sum(int(part.removeprefix("possibly ").split()[0].replace(",", "")) for part in parts)
