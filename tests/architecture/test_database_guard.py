"""The database is opened by apsw alone (see database_guard)."""

import sqlite3
from pathlib import Path

import pytest

from ackbus import Bus, Inbox

from .database_guard import DatabaseOpened, PathOpened

OPENINGS = {
    "open": "open(path).close()",
    "os.open": "import os; os.close(os.open(path, os.O_RDONLY))",
    "Path.read_bytes": "import pathlib; pathlib.Path(path).read_bytes()",
    "shutil.copy": "import shutil; shutil.copy(path, path + '.copy')",
    "sqlite3": "import sqlite3; sqlite3.connect(path).close()",
}


@pytest.mark.parametrize("name", ["bus.db", "bus.db-wal", "bus.db-shm"])
@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
def test_package_cannot_open_the_database_behind_sqlite(
    opening: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    sqlite3.connect(path).close()
    with pytest.raises(DatabaseOpened, match=name):
        exec(opening, {"__name__": "ackbus.export.copier", "path": str(path)})


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
def test_package_may_open_its_other_files(opening: str, tmp_path: Path) -> None:
    path = tmp_path / "bus.jsonl"
    path.touch()
    exec(opening, {"__name__": "ackbus.export.copier", "path": str(path)})


def test_tests_may_open_the_database_to_damage_it(tmp_path: Path) -> None:
    (tmp_path / "bus.db").write_bytes(b"damaged")


def test_bus_at_work_leaves_its_database_to_apsw(bus: Bus) -> None:
    """Pitfall: one ordinary open() of bus.db drops the locks that SQLite holds on it."""
    bus.publish("note", {"large": "x" * 10_000}, from_agent="bob")
    inbox = Inbox(bus, "alice")
    for message in inbox.poll():
        inbox.ack(message)
    assert [message.seq for message in bus.read()] == [1]


BY_PATH = {
    "open": "open(path).close()",
    "os.open": "import os; os.close(os.open(path, os.O_RDONLY))",
    "os.unlink": "import os; os.unlink(path)",
    "os.replace": "import os; os.replace(path, path + '.new')",
    "os.mkdir": "import os; os.mkdir(path + '.folder')",
}


@pytest.mark.parametrize("inside", [".", "archive"])
@pytest.mark.parametrize("opening", BY_PATH.values(), ids=BY_PATH)
def test_package_goes_to_what_is_in_a_bus_by_its_folder_only(
    opening: str, inside: str, bus_dir: Path
) -> None:
    (bus_dir / "archive").mkdir()
    path = bus_dir / inside / "file"
    path.touch()
    with pytest.raises(PathOpened, match="go through its Folder"):
        exec(opening, {"__name__": "ackbus.export.copier", "path": str(path)})
    exec(opening, {"__name__": "tests.export.copier", "path": str(path)})
