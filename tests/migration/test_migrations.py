"""Versions and the scripts between them: what is upgraded, what is refused, and the way over."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from ackbus import Bus
from ackbus.errors import BusUnusable
from ackbus.schema.sqlite import versions
from ackbus.schema.sqlite.creation import create
from ackbus.schema.sqlite.database import SCHEMA_VERSION
from ackbus.schema.sqlite.upgrade import upgrade
from ackbus.schema.sqlite.versions import migrations as scripts

from ..cli.conftest import assert_error
from ..conftest import RunBus
from ..programs import connect, tamper
from .made_up import OLDER, SCRIPT, make_older, objects, rows, version_of

#: What an error says of a version that no script leads on from.
GO_OVER = (
    "it can't be upgraded: run 'bus export' with the ackbus that made it, copy bus*.jsonl and"
    " blobs to a new directory, and run init and import there with this one; cursors, jobs and"
    " tasks do not come along"
)


@pytest.fixture
def fresh(tmp_path: Path) -> apsw.Connection:
    """A connection to a new bus."""
    create(tmp_path / "fresh")
    return connect(tmp_path / "fresh")


def test_scripts_have_names_and_lead_to_this_version() -> None:
    """Q-26: `0013_add_notes.sql` leads from version 12 to 13; no gaps, and nothing else."""
    names = sorted(os.listdir(versions.MIGRATIONS)) if os.path.isdir(versions.MIGRATIONS) else []
    assert [name for name in names if not re.fullmatch(r"\d{4}(_[a-z]+){2,}\.sql", name)] == []
    beginning = SCHEMA_VERSION - len(names)
    assert [int(name[:4]) for name in names] == [*range(beginning + 1, SCHEMA_VERSION + 1)]
    assert scripts(beginning, SCHEMA_VERSION) is not None


@pytest.mark.parametrize(
    ("there", "version", "expected"),
    [
        ([], 0, []),
        ([], 1, None),
        ([], -1, None),
        ([0], 1, [0]),
        ([0], 2, None),
        ([0, 1, 2], 2, [1, 0]),
        ([0, 2], 2, None),
        ([0, 2], 1, [0]),
        ([1], 1, None),
    ],
)
def test_only_a_way_without_gaps_is_one(
    there: list[int],
    version: int,
    expected: list[int] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbers count how many versions before this one something is."""
    monkeypatch.setattr(versions, "MIGRATIONS", str(tmp_path))
    names = {number: f"{SCHEMA_VERSION - number:04}_do_it.sql" for number in range(4)}
    for number in there:
        (tmp_path / names[number]).touch()
    way = scripts(SCHEMA_VERSION - version, SCHEMA_VERSION)
    assert way == (None if expected is None else [str(tmp_path / names[at]) for at in expected])


def test_bus_in_use_has_rows_in_every_table(tmp_path: Path) -> None:
    """Tables without rows would show nothing about them; what is made up leaves one out."""
    make_older(tmp_path / "old")
    assert [table for table, found in rows(connect(tmp_path / "old")).items() if not found] == []


@pytest.mark.usefixtures("migrations")
def test_upgraded_file_is_what_a_new_one_is(old_dir: Path, fresh: apsw.Connection) -> None:
    """P-16, Q-26: the same tables, columns, indexes, triggers and views."""
    before = objects(connect(old_dir))
    upgrade(old_dir)
    expected = objects(fresh)
    assert len(expected) > 30
    assert before != objects(connect(old_dir)) == expected


@pytest.mark.usefixtures("migrations")
def test_upgraded_file_has_its_rows_and_what_the_script_makes_of_them(old_dir: Path) -> None:
    """P-16: what was in it is in it."""
    before = rows(connect(old_dir))
    upgrade(old_dir)
    after = rows(connect(old_dir))
    ((conversation, seq, _),) = after["notices"]
    assert before.pop("told") == [(conversation, seq)]
    assert [row[:-1] for row in after.pop("heartbeats")] == before.pop("heartbeats")
    assert [row[1] for row in after.pop("meta") if row[0] == "schema_version"] == [
        str(SCHEMA_VERSION)
    ]
    before.pop("meta")
    assert (after.pop("notices"), after.pop("worker_states")) != ([], None)
    assert after == before
    assert connect(old_dir).execute("PRAGMA integrity_check").get == "ok"


# Versions that no script leads on from -----------------------------------------------------------

CHANGES: list[Callable[[Path], object]] = [upgrade, Bus.open, Bus.init]


@pytest.mark.parametrize("version", [1, 8, OLDER])
def test_lower_version_is_refused_with_the_way_over(
    version: int, bus_dir: Path, run_bus: RunBus
) -> None:
    """In one line, and nothing is changed."""
    tamper(bus_dir, f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
    expected = (
        f"the bus in {bus_dir} has schema version {version}, and this ackbus knows version"
        f" {SCHEMA_VERSION}; {GO_OVER}"
    )
    for change in CHANGES:
        with pytest.raises(BusUnusable, match=f"^{re.escape(expected)}$"):
            change(bus_dir)
    for command in ("upgrade", "poll alice", "export", "publish note --from ann"):
        assert_error(run_bus(*command.split()), 1, expected)
    assert version_of(bus_dir) == str(version)
    assert list(bus_dir.glob("bus.db.v*")) == []
    (finding,) = (line for line in run_bus("doctor").out.splitlines() if "schema" in line)
    assert f"version {version}, and this ackbus knows {SCHEMA_VERSION}" in finding


def test_script_of_another_version_is_no_way(old_dir: Path, migrations: Path) -> None:
    """A gap is refused before anything is done."""
    tamper(old_dir, f"UPDATE meta SET value = '{OLDER - 1}' WHERE key = 'schema_version'")
    with pytest.raises(BusUnusable, match="can't be upgraded"):
        upgrade(old_dir)
    (migrations / SCRIPT).rename(migrations / f"{OLDER:04}_make_up.sql")
    with pytest.raises(BusUnusable, match="can't be upgraded"):
        upgrade(old_dir)
    assert version_of(old_dir) == str(OLDER - 1)


#: A payload that was a blob in version 8, and the `bus.jsonl` that its ackbus wrote.
LARGE = f'"{"y" * 5000}"'.encode()
BLOB = "sha256-f2129275ec99b23baf8a0a10bebf88249be7ffea09c068356fe5ec3008d271bc"
EXPORTED = f"""\
{{"seq":1,"id":"01a2226c-d4fa-7e0a-bc8e-f27c5ad4bea9","ts":"2026-11-28T13:51:27.482Z","from":"a",\
"type":"note","headers":{{"k":"v"}},"payload":{{"x":1}}}}
{{"seq":2,"id":"01a2226c-d6a1-78c9-8d67-806b5fa3b8f8","ts":"2026-11-28T13:51:27.927Z","from":"a",\
"to":"b","type":"big","payload_ref":"{BLOB}"}}
{{"seq":3,"id":"01a2226c-d89e-74bc-ad67-64017c2d154e","ts":"2026-11-28T13:51:28.415Z","from":"b",\
"to":"a","type":"big.done","correlation_id":"01a2226c-d6a1-78c9-8d67-806b5fa3b8f8",\
"in_reply_to":"01a2226c-d6a1-78c9-8d67-806b5fa3b8f8","priority":"interactive"}}
"""


@pytest.mark.parametrize("in_part", [0, 2], ids=["one file", "in parts"])
def test_way_over_brings_the_messages_of_an_older_bus(
    in_part: int, run_bus: RunBus, project: Path
) -> None:
    """Its directory has what the error names; then there is nothing to export or to mend."""
    directory = project / ".worker-state"
    (directory / "blobs").mkdir(parents=True)
    (directory / "blobs" / BLOB).write_bytes(LARGE)
    lines = EXPORTED.splitlines(keepends=True)
    if in_part:
        (directory / "bus-000001.jsonl").write_text("".join(lines[:in_part]))
    (directory / "bus.jsonl").write_text("".join(lines[in_part:]))
    assert run_bus("init").code == 0
    done = run_bus("import")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "stored 3, duplicates 0, skipped 0"
    with Bus.open(directory) as bus:
        messages: list[Any] = list(bus.read())
    assert [message.payload for message in messages] == [{"x": 1}, "y" * 5000, None]
    assert messages[2].in_reply_to == messages[1].id
    assert run_bus("export").code == 0
    assert (directory / "bus.jsonl").read_text() == EXPORTED
    assert run_bus("doctor", "--full").code == 0


def test_all_that_was_exported_comes_along(old_dir: Path, tmp_path: Path, run_bus: RunBus) -> None:
    """The way over, from the bus itself: all that it had exported comes along."""
    over = tmp_path / "over" / ".worker-state"
    over.mkdir(parents=True)
    for path in old_dir.glob("bus*.jsonl"):
        shutil.copy(path, over)
    shutil.copytree(old_dir / "blobs", over / "blobs")
    exported = (old_dir / "bus.jsonl").read_text().splitlines()
    for command in ("init", "import"):
        assert run_bus(command, cwd=over.parent).code == 0
    with Bus.open(over) as bus:
        assert len(list(bus.read())) == len(exported) > 10
