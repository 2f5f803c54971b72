"""bus backup: what it prints, and its codes."""

import json
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import RunBus
from .conftest import assert_error


def test_backup_tells_what_it_copied(bus: Bus, run_bus: RunBus, project: Path) -> None:
    """Issue 4, item 6: online, verified."""
    bus.publish("note", "x" * 5000, from_agent="ann")
    where = project / "saved"
    done = run_bus("backup", "saved")
    told = f"copied the bus to {where}: 1 message up to 1, 1 blob, 0 archive segments\n"
    assert (done.code, done.out, done.err) == (0, told, "")
    assert run_bus("show", "1", "--dir", "saved").out == run_bus("show", "1").out
    assert json.loads(run_bus("backup", "saved", "--force", "--json").out) == {
        "directory": str(where),
        "messages": 1,
        "newest_seq": 1,
        "blobs": 1,
        "segments": 0,
        "lacking": [],
    }


def test_a_backup_that_lacks_something_says_so(bus: Bus, bus_dir: Path, run_bus: RunBus) -> None:
    bus.publish("note", "x" * 5000, from_agent="ann")
    (ref,) = bus.blobs
    (bus_dir / "blobs" / ref).unlink()
    done = run_bus("backup", "saved")
    assert done.code == 1
    assert done.out.endswith("1 message up to 1, 0 blobs, 0 archive segments\n")
    assert done.err.startswith("bus: the bus lacks 1 file, or has altered them, and so does")
    assert ref in done.err


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("taken", 3, "is there, and is no backup"),
        ("taken --force", 3, "is there, and is no backup"),
        (".worker-state/saved", 2, "within the bus"),
        ("none/saved", 2, "there is no directory"),
        ("saved --dir none", 1, "no bus"),
        ("", 2, "DIR"),
    ],
)
def test_a_backup_that_cannot_be_made_is_refused(
    line: str, code: int, words: str, bus: Bus, run_bus: RunBus, project: Path
) -> None:
    (project / "taken").mkdir()
    assert_error(run_bus("backup", *line.split()), code, words)
    assert sorted(path.name for path in project.iterdir()) == [".worker-state", "taken"]
