"""Other programs that use a bus at the same time: real processes, real sqlite3, real locks."""

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

#: Seconds after which a program that has not ended fails its test.
TIMEOUT_S = 60

# Not in the process of the tests: a second SQLite library there would drop the locks of apsw's.
_RAW_SQL = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
rows = []
for sql in sys.argv[2:]:
    rows = connection.execute(sql).fetchall()
print(json.dumps(rows))
"""

_HOLD_WRITE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
"""


def run_program(source: str, *args: object) -> str:
    """Runs a Python program to its end and returns what it printed; fails if it failed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_program_to_sigkill(source: str, *args: object) -> str:
    """Runs a Python program that must die of SIGKILL, and returns what it printed until then."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout


@contextmanager
def running_program(source: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """Runs a Python program with pipes to it; whatever is left of it is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def raw_sql(bus_dir: Path, *statements: str) -> list[list[Any]]:
    """Runs statements in Python's sqlite3, in a process of its own; returns the last one's rows."""
    rows: list[list[Any]] = json.loads(run_program(_RAW_SQL, bus_dir / "bus.db", *statements))
    return rows


@contextmanager
def held_write_lock(bus_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another program is in a write transaction; closing its stdin ends that."""
    with running_program(_HOLD_WRITE_LOCK, bus_dir / "bus.db") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def tamper(bus_dir: Path, *statements: str) -> None:
    """Runs statements that no trigger, check or reference holds back, and leaves all of these."""
    connection = connect(bus_dir)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    for sql in ("PRAGMA ignore_check_constraints = ON", *statements):
        connection.execute(sql).fetchall()
    connection.close()


def connect(bus_dir: Path) -> apsw.Connection:
    """A plain connection to the database, without the package."""
    return apsw.Connection(str(bus_dir / "bus.db"))
