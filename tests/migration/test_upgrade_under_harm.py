"""kill -9 at every step of an upgrade, several at once, and programs that use the bus meanwhile."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from ackbus.errors import Refused
from ackbus.schema.sqlite.database import SCHEMA_VERSION
from ackbus.schema.sqlite.upgrade import upgrade

from ..conftest import RunBus
from ..programs import connect, held_write_lock, running_program
from .made_up import OLDER, objects, rows, version_of

pytestmark = pytest.mark.usefixtures("migrations")

#: The file as it was.
KEPT = f"bus.db.v{OLDER}"

#: Upgrades, and dies of SIGKILL before one of the statements that SQLite is to run.
KILLED_BEFORE_A_STATEMENT = """
import os, signal, sys
import apsw
from ackbus.schema.sqlite import versions
from ackbus.schema.sqlite.upgrade import upgrade
versions.MIGRATIONS = sys.argv[2]
left = int(sys.argv[3])
def count_down(event):
    global left
    left -= "wal_checkpoint" not in event["sql"]  # on closing, when all is committed
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
apsw.connection_hooks.append(lambda c: c.trace_v2(apsw.SQLITE_TRACE_STMT, count_down))
upgrade(sys.argv[1])
"""

UPGRADES = """
import sys
from ackbus.schema.sqlite import versions
from ackbus.schema.sqlite.upgrade import upgrade
versions.MIGRATIONS = sys.argv[2]
print("begun", flush=True)
done = upgrade(sys.argv[1])
print(done.from_version, done.version, flush=True)
"""


def seen(directory: Path) -> object:
    """All that is in a whole file, which is not open after it."""
    with closing(connect(directory)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        return objects(connection), rows(connection)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.nightly)])
def test_upgrade_killed_at_any_statement_leaves_the_old_version_whole(
    old_dir: Path, step: int, migrations: Path
) -> None:
    """Q-26: each kill finds what the one before left; the last process comes to the end."""
    before = seen(old_dir)
    for statements in count(step=step):
        program = [sys.executable, "-c", KILLED_BEFORE_A_STATEMENT, old_dir, migrations]
        code = subprocess.run([*program, str(statements)], timeout=60, check=False).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        assert seen(old_dir) == before
    assert statements > 35
    assert version_of(old_dir) == str(SCHEMA_VERSION)
    assert sorted(path.name for path in old_dir.glob("bus.db.v*")) == [KEPT]


@pytest.mark.slow
def test_several_upgrades_at_once_are_one(old_dir: Path, migrations: Path) -> None:
    """Q-26: all begin while the file is old; one does it, the others find it done."""
    with ExitStack() as running:
        holder = running.enter_context(held_write_lock(old_dir))
        upgrades = [
            running.enter_context(running_program(UPGRADES, old_dir, migrations)) for _ in range(4)
        ]
        for process in upgrades:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
        assert version_of(old_dir) == str(OLDER)
        assert holder.stdin is not None
        holder.stdin.close()
        told = sorted(process.communicate(timeout=60)[0] for process in upgrades)
    assert told == [f"{OLDER} {SCHEMA_VERSION}\n"] + [f"{SCHEMA_VERSION} {SCHEMA_VERSION}\n"] * 3


#: A program that knows nothing of us is in a transaction until its stdin ends, and publishes in it.
PUBLISHES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/bus.db", isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute(
    "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('late', 1, 'raw', 'note')")
print("published", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""


def test_upgrade_waits_for_a_program_that_is_about_to_end(old_dir: Path, migrations: Path) -> None:
    """PITFALLS 5: what that program commits is in the upgraded file, and in the copy."""
    with (
        running_program(PUBLISHES, old_dir) as writer,
        running_program(UPGRADES, old_dir, migrations) as other,
    ):
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "published\n"
        assert other.stdout is not None
        assert other.stdout.readline() == "begun\n"
        writer.stdin.close()
        assert other.communicate(timeout=60)[0] == f"{OLDER} {SCHEMA_VERSION}\n"
    last = "SELECT id FROM messages ORDER BY seq DESC LIMIT 1"
    assert connect(old_dir).execute(last).get == "late"
    os.rename(old_dir / KEPT, old_dir.parent / "bus.db")
    assert connect(old_dir.parent).execute(last).get == "late"


#: A program that checked the version when it began, and keeps its connection until its stdin ends.
KEEPS_READING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/bus.db", isolation_level=None)
connection.execute("SELECT count(*) FROM messages").fetchone()
print("has read", flush=True)
sys.stdin.read()
"""


def test_nothing_is_upgraded_under_a_program_that_goes_on(
    old_dir: Path, newer_bus: RunBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-16: it would look for the newest message where its version had it, and find none."""
    monkeypatch.setattr("ackbus.schema.sqlite.upgrade._PATIENCE_S", 0.1)
    with running_program(KEEPS_READING, old_dir) as old:
        assert old.stdin is not None
        assert old.stdout is not None
        assert old.stdout.readline() == "has read\n"
        with pytest.raises(Refused, match=rf"^process {old.pid} \(.* has the bus open; end all"):
            upgrade(old_dir)
        assert version_of(old_dir) == str(OLDER)
        assert list(old_dir.glob("bus.db.v*")) == []
        refused = newer_bus("upgrade")
        assert (refused.code, refused.out) == (3, "")
        assert "then run 'bus upgrade' again" in refused.err
        old.stdin.close()
        old.wait()
    assert newer_bus("upgrade").code == 0


def test_program_that_comes_during_the_upgrade_undoes_it(
    old_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the old version, and goes on by it."""
    before = objects(connect(old_dir)), rows(connect(old_dir))
    with ExitStack() as running:

        def come(*_: object) -> None:
            old = running.enter_context(running_program(KEEPS_READING, old_dir))
            assert old.stdout is not None
            assert old.stdout.readline() == "has read\n"

        monkeypatch.setattr("ackbus.schema.sqlite.upgrade._check_references", come)
        with pytest.raises(Refused, match="has the bus open"):
            upgrade(old_dir)
    assert (objects(connect(old_dir)), rows(connect(old_dir))) == before
    monkeypatch.undo()
    assert upgrade(old_dir).version == SCHEMA_VERSION


def test_upgrade_waits_for_other_writers_only_so_long(
    old_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M-28, M-29: then it says so, and nothing has changed."""
    monkeypatch.setattr("ackbus.schema.sqlite.upgrade._PATIENCE_S", 0.2)
    with held_write_lock(old_dir), pytest.raises(Refused, match="has the bus open"):
        upgrade(old_dir, write_timeout_s=0.2)
    assert version_of(old_dir) == str(OLDER)
    assert list(old_dir.glob("bus.db.v*")) == []
