"""Damage in every file of a bus: the doctor finds it and changes nothing, a repair brings all back.

`make corruption` is the long form.
"""

import os
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.doctor.checks.directory import checks_of_file
from ackbus.export.backup import back_up
from ackbus.schema.queries import file_of

from ..programs import running_program
from ..sizes import case
from . import corruption
from .corruption import (
    Harm,
    content,
    cut_early,
    doctor,
    empty,
    flip,
    lines_of,
    make_garbage,
    remove,
    truncate,
    use,
    zero_pages,
)

pytestmark = pytest.mark.slow

#: How many single bytes are changed, one after the other; `make corruption` asks for more.
FLIPS = int(os.environ.get("ACKBUS_FLIPS", "3"))

#: What a repair writes by itself, or makes of other tables.
DERIVED = {"messages", "sqlite_sequence", "meta", "export_state", "schema", "fencing"}
DERIVED |= {"catalog", "catalog_blocks", "catalog_state"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bus with rows in its tables, an archive, blobs, an export and an index; nobody uses it."""
    directory = tmp_path_factory.mktemp("original") / "project" / ".worker-state"
    directory.parent.mkdir()
    corruption.make_bus(directory)
    assert doctor(directory, "--full").bad == {}
    return directory


@pytest.fixture
def harmed(original: Path, tmp_path: Path) -> Path:
    """A copy of it, to be harmed."""
    return corruption.copy(original, tmp_path / "project" / ".worker-state")


def files_of(directory: Path) -> dict[str, bytes]:
    """The bytes of all files that matter."""
    return {
        path.name: path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.stat().st_size and not path.name.endswith("-shm")
    }


def test_a_whole_bus_is_left_alone(harmed: Path) -> None:
    """A repair of what is whole changes nothing."""
    before = files_of(harmed)
    assert doctor(harmed, "--repair").records == []
    assert files_of(harmed) == before


# Single bytes in the database, by what they are part of -----------------------------------------

PLACES = {
    "magic": (0, None),
    "size of pages": (16, None),
    "format of the file": (18, None),
    "number of pages": (31, None),
    "first free page": (35, None),
    "encoding": (59, None),
    "header of the schema page": (100, None),
    "cells of the schema page": (108, None),
    "words of the schema": (3000, None),
    "kind of the root of messages": (0, "messages"),
    "children of the root of messages": (12, "messages"),
    "root of the index of ids": (0, "sqlite_autoindex_messages_1"),
    "root of the index of recipients": (2, "idx_messages_mail"),
    "map of pointers": (4096, None),
    "cursors": (0, "cursors"),
    "jobs": (3, "jobs"),
    "archived ids": (3000, "archived_ids"),
    "numbers": (5, "sqlite_sequence"),
}


@pytest.mark.parametrize("place", PLACES)
def test_bytes_of_the_database(place: str, harmed: Path, original: Path) -> None:
    """Issue 6, item 4: found, told, repaired into a new file, and the bus goes on."""
    at, table = PLACES[place]
    at += corruption.page_of_table(harmed, table) if table else 0
    flip(harmed / "bus.db", random.Random(4), at)
    before = files_of(harmed)
    found = doctor(harmed, "--full")
    assert files_of(harmed) == before, "the doctor wrote"
    if content(harmed) == content(original):
        return  # SQLite itself does not use this byte, or puts it right
    assert found.bad
    assert_repaired(harmed, original)


# Whole files -----------------------------------------------------------------------------------

WAYS: dict[str, list[Harm]] = {
    "bus.db": [truncate, zero_pages, make_garbage, empty, remove],
    "bus.db-wal": [flip, cut_early, zero_pages, make_garbage, empty, remove],
    "bus.jsonl": [flip, truncate, zero_pages, make_garbage, empty],
    "archive/000000000001.jsonl.zst": [flip, truncate, make_garbage, empty, remove],
    "search.db": [make_garbage, zero_pages],
}

HARMS = [flip, cut_early, truncate, zero_pages, make_garbage, remove, empty]


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        case(name, harm, by_day=(row + HARMS.index(harm)) % 2 == 0)
        for row, (name, harms) in enumerate(WAYS.items())
        for harm in harms
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_harmed_files(name: str, harm: Harm, harmed: Path, original: Path) -> None:
    """Issue 6, item 4; pitfalls 27, 28: no message is lost that an intact file has."""
    harm(harmed / name, random.Random(6))
    before = files_of(harmed)
    assert doctor(harmed, "--full").bad
    assert files_of(harmed) == before, "the doctor wrote"
    assert_repaired(harmed, original)


def assert_repaired(directory: Path, original: Path) -> None:
    """Repairs it; then every message is as it was, and the bus can be used."""
    damaged = (directory / "bus.db").read_bytes() if (directory / "bus.db").exists() else None
    records = doctor(directory, "--repair").records
    assert records
    assert lines_of(directory) == lines_of(original)
    if any(each["part"] == "file" for each in records) and damaged is not None:
        assert damaged in [path.read_bytes() for path in directory.glob("bus.db.damaged-*")]
    assert doctor(directory, "--full").bad == {}
    use(directory)


@pytest.mark.parametrize("harm", [flip, truncate, empty, remove], ids=lambda each: each.__name__)
def test_blobs_come_back_from_a_backup_or_are_named(
    harm: Harm, harmed: Path, original: Path
) -> None:
    blob = min((harmed / "blobs").iterdir())
    whole = blob.read_bytes()
    harm(blob, random.Random(1))
    assert blob.name in doctor(harmed, "--full").bad["blobs"]
    (told,) = doctor(harmed, "--repair").records
    assert (told["part"], told["lost"]) == ("blobs", blob.name)
    with closing(Bus.open(original)) as bus:
        back_up(bus, harmed.parent / "copy")
    (told,) = doctor(harmed, "--repair", "--from", harmed.parent / "copy").records
    assert told["lost"] == ""
    assert blob.read_bytes() == whole
    assert doctor(harmed, "--full").bad == {}


def test_parts_of_a_rotated_export_are_written_anew(harmed: Path, original: Path) -> None:
    with closing(Bus.open(harmed)) as bus:
        from ackbus import Exporter

        Exporter(bus).rotate(50_000)
    whole = {path.name: path.read_bytes() for path in harmed.glob("bus*.json*")}
    flip(harmed / "bus-000002.jsonl", random.Random(2))
    assert doctor(harmed, "--full").bad
    doctor(harmed, "--repair")
    assert {
        path.name: path.read_bytes()
        for path in harmed.glob("bus*.json*")
        if ".damaged-" not in path.name
    } == whole
    assert doctor(harmed, "--full").bad == {}


# Without another copy ----------------------------------------------------------------------------


def test_what_no_copy_has_is_named(harmed: Path, original: Path) -> None:
    """A page of the log that nothing else has: all around it is saved, and what it had is named."""
    for path in harmed.glob("bus*.json*"):
        path.unlink()
    whole = {line: number for number, line in enumerate(lines_of(original), 1)}
    with (harmed / "bus.db").open("r+b") as file:
        data = file.read()
        at = data.index(b'{"n":200,') // 4096 * 4096
        file.seek(at)
        file.write(bytes(4096))
    found = doctor(harmed)
    assert "messages (" in found.bad["contents"]
    assert "not " in found.bad["contents"]
    records = {each["part"]: each for each in doctor(harmed, "--repair").records}
    lost = set(whole) - set(lines_of(harmed))
    assert 0 < len(lost) < 40
    for line in lost:
        assert str(whole[line]) in records["messages"]["lost"]
    assert doctor(harmed, "--full").bad == {}
    with closing(Bus.open(harmed)) as bus:
        told = bus.log.newest(1)[0]
    assert (told.type, told.from_agent) == ("bus.repaired", "bus-doctor")
    use(harmed)


def test_a_backup_fills_what_is_lost(harmed: Path, original: Path) -> None:
    """Seqs and ids stay the same, and what came after the backup comes from the file itself."""
    for path in harmed.glob("bus*.json*"):
        path.unlink()
    with closing(Bus.open(original)) as bus:
        back_up(bus, harmed.parent / "copy", replace=True)
    make_garbage(harmed / "bus.db", random.Random(3))
    make_garbage(harmed / "bus.db-wal", random.Random(3))
    doctor(harmed, "--repair", "--from", harmed.parent / "copy")
    assert lines_of(harmed) == lines_of(original)
    after, before = content(harmed), content(original)
    assert after is not None
    assert before is not None
    assert after["task_claims"] == after["reservations"] == after["sessions"] == []
    assert after["claims"] == [row for row in before["claims"] if "'active'" not in row]
    assert [row.replace("'running'", "'queued'") for row in before["jobs"]] == after["jobs"]
    other = DERIVED | {"task_claims", "reservations", "sessions", "claims", "jobs"}
    assert {k: v for k, v in after.items() if k not in other} == {
        k: v for k, v in before.items() if k not in other
    }
    use(harmed)


def test_numbers_and_tokens_never_go_back(harmed: Path) -> None:
    """Promise 2, 6: where the newest may be lost, what is given next is far above all that was."""
    remove(harmed / "bus.db-wal", random.Random(0))
    for path in harmed.glob("bus*.json*"):
        path.unlink()
    flip(harmed / "bus.db", random.Random(4), corruption.page_of_table(harmed, "fencing"))
    doctor(harmed, "--repair")
    with closing(Bus.open(harmed)) as bus:
        assert bus.publish("note", from_agent="ann").seq > corruption.MESSAGES + 1000
        lease = bus.leases.acquire("another", "ann")
        assert lease is not None
        assert lease.token > 1000


PUBLISH = """
import sys, threading
from ackbus import Bus, Draft
bus = Bus.open(sys.argv[1])
threading.Thread(target=lambda: (sys.stdin.read(), done.append(1)), daemon=True).start()
done = []
print("begun", flush=True)
while not done:
    bus.publish_many([Draft("note", "x" * 3000, from_agent="ann") for _ in range(50)])
"""


def test_a_log_that_begins_anew_while_it_is_read_is_no_damage(bus: Bus, bus_dir: Path) -> None:
    """An examination of a bus in use sees a log of two ages."""
    with running_program(PUBLISH, bus_dir) as process:
        assert process.stdout is not None
        process.stdout.readline()
        beginnings = set()
        while len(beginnings) < 3:
            found = checks_of_file(file_of(bus), full=True)["log"]()
            assert found.state != "bad", found.text
            with (bus_dir / "bus.db-wal").open("rb") as file:
                beginnings.add(file.read(32))


# At random ---------------------------------------------------------------------------------------


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ["bus.db", "bus.db-wal"])
def test_flips_are_found_unless_they_change_nothing(
    name: str, harmed: Path, original: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each flip changes no row, or is found; and no message is lost either way.

    What it may change unseen is a value in a row of state that is as good as another: no second
    copy of it is anywhere.
    """
    tally: Counter[str] = Counter()
    before, lines = content(original), lines_of(original)
    assert before is not None
    for seed in range(FLIPS):
        directory = corruption.copy(original, harmed)
        at = flip(directory / name, random.Random(seed))
        now, found = content(directory), doctor(directory, "--full")
        if now == before and not found.bad:
            tally["changed nothing"] += 1
            continue
        if not found.bad:
            assert now is not None, f"seed {seed}, byte {at}: SQLite finds it, the doctor does not"
            changed = {table for table in before if now.get(table) != before[table]}
            assert not changed & {"messages", "archived_ids", "schema"}, f"seed {seed}, byte {at}"
            tally[f"another value in {', '.join(sorted(changed))}"] += 1
            continue
        tally["found"] += 1
        doctor(directory, "--repair")
        assert lines_of(directory) == lines, f"seed {seed}, byte {at}"
        assert doctor(directory, "--full").bad == {}, f"seed {seed}, byte {at}"
        after = content(directory)
        assert after is not None
        state = {k for k in before if k not in DERIVED and set(before[k]) - set(after[k])}
        tally[f"repaired{', less of ' + ', '.join(sorted(state)) if state else ''}"] += 1
        use(directory)
    with capsys.disabled():
        if FLIPS > 100:
            print(f"\n{name}: {FLIPS} flips: {dict(tally)}")
