"""kill -9 at every step of an upgrade, several at once, and programs that use the bus meanwhile."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from ackbus import Bus, BusBusy
from ackbus.schema import SCHEMA_VERSION, FileLock, old_programs, upgrade

from ..conftest import RunBus, wait_until
from ..programs import connect, held_write_lock, running_program
from .old_files import objects, rows, version_of

#: Upgrades, and dies of SIGKILL before one of the statements that SQLite is to run.
KILLED_BEFORE_A_STATEMENT = """
import os, signal, sys
import apsw
from ackbus.schema import upgrade
left = int(sys.argv[2])
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
from ackbus.schema import upgrade
print("begun", flush=True)
done = upgrade(sys.argv[1])
print(done.from_version, done.version, flush=True)
"""


@pytest.mark.slow
def test_upgrade_killed_at_any_statement_leaves_the_old_version_whole(old_dir: Path) -> None:
    """Q-26: each kill finds what the one before left; the last process comes to the end."""
    before = objects(connect(old_dir)), rows(connect(old_dir))
    for statements in count():
        program = [sys.executable, "-c", KILLED_BEFORE_A_STATEMENT, str(old_dir), str(statements)]
        code = subprocess.run(program, timeout=60, check=False).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        connection = connect(old_dir)
        assert (objects(connection), rows(connection)) == before
        assert connection.execute("PRAGMA integrity_check").get == "ok"
    assert statements > 35
    assert version_of(old_dir) == str(SCHEMA_VERSION)
    assert sorted(path.name for path in old_dir.glob("bus.db.v*")) == ["bus.db.v1"]


def test_several_upgrades_at_once_are_one(old_dir: Path) -> None:
    """Q-26: all begin while the file is old; one does it, the others find it done."""
    with ExitStack() as running:
        holder = running.enter_context(held_write_lock(old_dir))
        upgrades = [running.enter_context(running_program(UPGRADES, old_dir)) for _ in range(4)]
        for process in upgrades:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
        assert version_of(old_dir) == "1"
        assert holder.stdin is not None
        holder.stdin.close()
        told = sorted(process.communicate(timeout=60)[0] for process in upgrades)
    assert told == [f"1 {SCHEMA_VERSION}\n"] + [f"{SCHEMA_VERSION} {SCHEMA_VERSION}\n"] * 3


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


def test_upgrade_waits_for_a_program_that_writes(old_dir: Path) -> None:
    """PITFALLS 5: what that program commits is in the upgraded file, and in the copy."""
    with running_program(PUBLISHES, old_dir) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "published\n"
        with running_program(UPGRADES, old_dir) as upgrading:
            lock = FileLock(str(old_dir / "write.lock"))

            def is_taken() -> bool:
                free = lock.try_acquire()
                if free:
                    lock.release()
                return not free

            wait_until(is_taken)
            assert upgrading.poll() is None
            assert version_of(old_dir) == "1"
            writer.stdin.close()
            assert upgrading.communicate(timeout=60)[0] == f"begun\n1 {SCHEMA_VERSION}\n"
        lock.close()
        assert writer.wait(60) == 0
    last = "SELECT id FROM messages ORDER BY seq DESC LIMIT 1"
    assert connect(old_dir).execute(last).get == "late"
    os.rename(old_dir / "bus.db.v1", old_dir.parent / "bus.db")
    assert connect(old_dir.parent).execute(last).get == "late"


#: A program that checked the version when it began, and keeps its connection and its statement.
KEEPS_PUBLISHING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1] + "/bus.db", isolation_level=None)
insert = "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type) VALUES (?, 1, 'raw', ?, 'n')"
for line in sys.stdin:
    try:
        print(connection.execute(insert, line.split()).lastrowid, flush=True)
    except sqlite3.IntegrityError as error:
        print(error, flush=True)
"""


def test_program_of_the_old_version_goes_on_and_keeps_the_new_rules(old_dir: Path) -> None:
    """P-16: who has the file open goes on; the rules are in the file, so they hold for it too."""
    with running_program(KEEPS_PUBLISHING, old_dir) as publisher:

        def publish(words: str) -> str:
            assert publisher.stdin is not None
            assert publisher.stdout is not None
            publisher.stdin.write(words + "\n")
            publisher.stdin.flush()
            return publisher.stdout.readline().strip()

        assert publish("before dave") == "15"
        upgrade(old_dir)
        assert publish("after dave") == "16"
        limit = "INSERT INTO waiting_limits (kind, name, max_waiting) VALUES ('inbox', 'dave', 2)"
        connect(old_dir).execute(limit)
        assert publish("more dave") == "the inbox of the recipient is full"
    with Bus.open(old_dir) as bus:
        assert bus.log.newest_seq() == 16


def test_nothing_is_archived_while_a_program_of_the_old_version_runs(
    old_dir: Path, run_bus: RunBus
) -> None:
    """Q-06: it reads the table alone, and would miss in silence what has left it."""
    with running_program(KEEPS_PUBLISHING, old_dir) as old:
        assert old.stdin is not None
        assert old.stdout is not None
        old.stdin.write("before dave\n")
        old.stdin.flush()
        assert old.stdout.readline() == "15\n"
        assert run_bus("upgrade").code == 0
        with running_program(KEEPS_PUBLISHING, old_dir) as new:
            assert new.stdin is not None
            assert new.stdout is not None
            new.stdin.write("after dave\n")
            new.stdin.flush()
            assert new.stdout.readline() == "16\n"
            for options in ((), ("--dry-run",)):
                refused = run_bus("archive", "--before", "9", *options)
                assert (refused.code, refused.out) == (3, ""), refused.err
                assert refused.err.startswith(f"bus: process {old.pid} (")
            assert "before its upgrade" in run_bus("doctor").out
            old.stdin.close()
            old.wait()
            assert run_bus("archive", "--before", "9", "--pass-over-idle").code == 0
    with Bus.open(old_dir) as bus:
        assert bus.archive.upto() == 8


def test_program_that_ends_during_the_upgrade_keeps_nothing_from_the_archive(
    old_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at who has the file open and the look at when each began."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr("ackbus.schema.before_upgrade.openers", lambda _: [ended.pid])
    upgrade(old_dir)
    with Bus.open(old_dir) as bus:
        assert old_programs(bus.database) == []


def test_upgrade_waits_for_other_writers_only_so_long(old_dir: Path) -> None:
    """M-28, M-29: then it says so, and nothing has changed."""
    began = time.monotonic()
    with held_write_lock(old_dir), pytest.raises(BusBusy, match="locked; try again"):
        upgrade(old_dir, write_timeout_s=0.2)
    assert time.monotonic() - began < 10.0  # and not the 30 s of the default
    assert version_of(old_dir) == "1"
    assert list(old_dir.glob("bus.db.v*")) == []
