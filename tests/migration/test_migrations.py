"""The migrations lead from every old version to what schema.sql gives a new bus."""

import os
import re
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Inbox
from ackbus.schema.sqlite.creation import create
from ackbus.schema.sqlite.database import SCHEMA_VERSION
from ackbus.schema.sqlite.upgrade import upgrade

from ..programs import connect
from .old_files import FIXTURES, objects, restore, rows

MIGRATIONS = Path(__file__).parents[2] / "schema" / "sqlite" / "migrations"

each_fixture = pytest.mark.parametrize("name", FIXTURES)


@pytest.fixture
def fresh(tmp_path: Path) -> apsw.Connection:
    """A connection to a new bus."""
    create(tmp_path / "fresh")
    return connect(tmp_path / "fresh")


def test_every_version_before_this_one_has_a_fixture_and_a_migration() -> None:
    """Q-26: `0002_add_work.sql` leads from version 1 to 2; no gaps, and nothing else."""
    names = sorted(os.listdir(MIGRATIONS))
    assert [name for name in names if not re.fullmatch(r"\d{4}(_[a-z]+){2,}\.sql", name)] == []
    assert [int(name[:4]) for name in names] == list(range(2, SCHEMA_VERSION + 1))
    assert sorted(FIXTURES) == sorted(f"v{number}" for number in range(1, SCHEMA_VERSION))


@each_fixture
def test_fixture_is_what_its_name_says_and_uses_every_table(name: str, tmp_path: Path) -> None:
    """A fixture without rows would show nothing about them."""
    old = connect(restore(FIXTURES[name].read_text("utf-8"), tmp_path / "old"))
    version = old.execute("SELECT value FROM meta WHERE key = 'schema_version'").get
    assert version == name.removeprefix("v")
    assert [table for table, found in rows(old).items() if not found] == []


@each_fixture
def test_upgraded_file_is_what_a_new_one_is(
    name: str, tmp_path: Path, fresh: apsw.Connection
) -> None:
    """P-16, Q-26: the same tables, columns, indexes, triggers and views."""
    upgraded = restore(FIXTURES[name].read_text("utf-8"), tmp_path / "old")
    upgrade(upgraded)
    expected = objects(fresh)
    assert len(expected) > 30
    assert objects(connect(upgraded)) == expected


@each_fixture
def test_upgraded_file_has_its_rows_and_those_a_new_one_begins_with(
    name: str, tmp_path: Path, fresh: apsw.Connection
) -> None:
    """P-16: what was in it is in it, and a new table begins as in a new bus."""
    directory = restore(FIXTURES[name].read_text("utf-8"), tmp_path / "old")
    before = rows(connect(directory))
    old = connect(restore(FIXTURES[name].read_text("utf-8"), tmp_path / "as-it-was"))
    upgrade(directory)
    after = rows(connect(directory), like=old)
    beginning = {table: found for table, found in rows(fresh).items() if table not in before}
    noted = [row for row in before["meta"] if row[0] != "schema_version"]
    meta = sorted([*noted, ("schema_version", str(SCHEMA_VERSION))])
    cursors = readers(before) if int(name.removeprefix("v")) < 5 else before["cursors"]
    assert after == before | beginning | {"meta": meta, "cursors": cursors}
    assert connect(directory).execute("PRAGMA integrity_check").get == "ok"


def readers(before: dict[str, list[tuple[object, ...]]]) -> list[tuple[object, ...]]:
    """The cursors after version 5: one at 0 for each agent that had a loop and none before."""
    known = {agent for agent, *_ in before["cursors"]}
    began = {agent: at_ms for agent, _, at_ms in before["loops"] if agent not in known}
    assert {agent for agent, *_ in before["deliveries"]} <= known | set(began) != known
    return sorted([*before["cursors"], *((agent, 0, at_ms) for agent, at_ms in began.items())])


def test_fixtures_are_made_by_a_program_that_still_works(tmp_path: Path) -> None:
    """The next version's fixture will be made by it, from a bus of this version."""
    program = Path(__file__).with_name("make_fixture.py")
    made = subprocess.run(
        [sys.executable, "-P", program], capture_output=True, check=True, timeout=60
    )
    restored = restore(made.stdout.decode(), tmp_path / "restored")
    done = upgrade(restored)
    assert (done.from_version, done.version, done.backup) == (SCHEMA_VERSION, SCHEMA_VERSION, None)
    with Bus.open(restored) as bus:
        assert len(Inbox(bus, "alice").poll()) == 14 - 1 - 6 - 2  # six are carol's, two its own
