"""bus backup: what it prints, and its codes."""

import json
import re
from pathlib import Path

import pytest

from ackbus import Bus, Queue

from ..conftest import RunBus
from ..programs import raw_sql
from .conftest import assert_error

pytestmark = pytest.mark.slow  # starts many processes


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
        ("taken", 3, "is there, and is not a backup"),
        ("taken --force", 3, "is there, and is not a backup"),
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


def test_a_backup_is_read_only_until_it_is_taken_into_use(
    bus: Bus, run_bus: RunBus, project: Path
) -> None:
    """Each command that writes says how old it is; those that read work, and say so too."""
    bus.publish("task.x", "first", from_agent="ann")
    Queue.create(bus, "q", "task.*").fill()
    run_bus("backup", "saved")
    saved = project / "saved"
    before = everything_in(saved)
    (project / "large").write_text("x" * 5000)
    for line in WRITES:
        done = run_bus(*line.split(), "--dir", "saved")
        assert (done.code, done.out) == (3, ""), line
        assert re.fullmatch(
            rf"bus: {saved} is a backup, made 20\S+Z \(\d+ \w+ ago\), and read-only; "
            r"'bus restore --dir saved' takes it into use\n",
            done.err,
        ), line
    for line in READS:
        done = run_bus(*line.split(), "--dir", "saved")
        assert (done.code, done.out != "") == (0, True), line
        assert done.err.startswith(f"bus: note: {saved} is a backup, made 20"), line
    assert everything_in(saved) == before
    told = json.loads(run_bus("where", "--json", "--dir", "saved").out)
    assert (
        told["backup_made_at_ms"] == json.loads((saved / "backup.json").read_bytes())["made_at_ms"]
    )

    assert run_bus("restore", "--dir", "saved").out.startswith(f"the backup in {saved} is in use;")
    assert run_bus("publish", "note", "--from", "ann", "--dir", "saved").code == 0
    assert_error(run_bus("restore", "--dir", "saved"), 4, "is not a backup, or is in use already")
    assert run_bus("tail", "--dir", "saved").err == ""


WRITES = (
    "publish note hello --from ann",
    "publish note --file large --from ann",
    "blob put large",
    "ack bob 1",
    "export",
    "archive --older-than 0s",
    "maintain",
    "heartbeat bob",
    "queue pause q",
    "job cancel 1",
    "chain on",
    "init --durability full",
)

READS = (
    "poll bob",
    "replay --from 1",
    "tail",
    "stats",
    "agents",
    "queue list",
    "job list",
    "where",
    "verify",
)


def everything_in(directory: Path) -> dict[str, object]:
    """Every row of a bus, and the names of all its files but those that SQLite makes by itself."""
    rows = {
        table: raw_sql(directory, f"SELECT * FROM {table}")
        for (table,) in raw_sql(directory, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    }
    return rows | {"blobs": sorted(path.name for path in (directory / "blobs").iterdir())}


def test_a_backup_that_was_taken_into_use_is_not_replaced(
    bus: Bus, run_bus: RunBus, project: Path
) -> None:
    """It is a bus like any other: its messages are nowhere else."""
    run_bus("backup", "saved")
    assert run_bus("backup", "saved", "--force").code == 0
    run_bus("restore", "--dir", "saved")
    run_bus("publish", "note", "live", "--from", "ann", "--dir", "saved")
    assert_error(run_bus("backup", "saved", "--force"), 3, "was taken into use")
    assert run_bus("read", "--type", "note", "--dir", "saved").code == 0
    (project / "saved" / "bus.db").write_bytes(b"damaged")
    assert_error(run_bus("backup", "saved", "--force"), 3, "may be no backup")


def test_a_backup_of_a_backup_is_as_old_as_what_is_in_it(
    bus: Bus, run_bus: RunBus, project: Path
) -> None:
    run_bus("backup", "saved")
    assert run_bus("backup", "again", "--dir", "saved").code == 0
    made = [
        json.loads(run_bus("where", "--json", "--dir", name).out)["backup_made_at_ms"]
        for name in ("saved", "again")
    ]
    assert made[0] == made[1]
    told = run_bus("doctor", "--dir", "again").out
    assert "settings: durability is normal; this is a backup, made" in told
    assert "'bus restore --dir again' takes it into use" in told
