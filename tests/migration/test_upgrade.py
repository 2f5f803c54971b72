"""`upgrade` and `bus upgrade`: what they do to a bus in use, and what they refuse."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Exporter, Inbox
from ackbus.errors import AckbusError, BusNotFound, BusUnusable
from ackbus.schema.queries import file_of
from ackbus.schema.sqlite.creation import create
from ackbus.schema.sqlite.database import SCHEMA_VERSION
from ackbus.schema.sqlite.upgrade import upgrade

from ..cli.conftest import assert_error
from ..conftest import RunBus
from ..programs import connect, raw_sql, run_program, tamper
from .made_up import OLDER, objects, rows, version_of
from .used_bus import LARGE

pytestmark = pytest.mark.usefixtures("migrations")

HINT = rf"version {OLDER}, and this ackbus knows version {SCHEMA_VERSION}; run 'bus upgrade'$"

#: The file as it was.
KEPT = f"bus.db.v{OLDER}"


def use(directory: Path) -> None:
    """Does with a bus of make_fixture what agents do."""
    with Bus.open(directory) as bus:
        next_seq = bus.log.newest_seq() + 1
        assert bus.publish("task.more", from_agent="lead", to_agent="alice").seq == next_seq
        alice, carol = Inbox(bus, "alice"), Inbox(bus, "carol")
        assert [message.seq for message in alice.poll()] == [3, 4, 5, 6, 14, next_seq]
        assert [message.seq for message in carol.poll()] == [10, 11, 12, 13, 14]
        assert [parked.seq for parked in carol.parked()] == [9]
        bus.blobs.put(json.dumps(LARGE).encode())
        assert alice.poll(3)[2].payload == LARGE
        assert alice.ack(14) == 14
        alice.complete(alice.poll()[0], Draft("task.done", from_agent="alice"))
        last_token = file_of(bus).value("SELECT last_token FROM fencing")
        lease = bus.leases.acquire("deploy", "bob")
        assert lease is not None
        assert lease.token == last_token + 1 >= 4
        assert [beat.agent for beat in bus.heartbeats.list()] == ["alice", "bob"]
        assert Exporter(bus).rebuild() == next_seq + 1
    assert len((directory / "bus.jsonl").read_bytes().splitlines()) == next_seq + 1


def test_upgraded_bus_is_used_as_before(old_dir: Path) -> None:
    """P-16: cursors, failures, leases, tokens and the log go on where they were."""
    upgrade(old_dir)
    use(old_dir)


def test_upgraded_file_keeps_the_new_rules(old_dir: Path) -> None:
    """P-16: a trigger that the script added, for raw programs too."""
    upgrade(old_dir)
    with pytest.raises(AssertionError, match="archive_state has one row"):
        raw_sql(old_dir, "DELETE FROM archive_state")


def test_file_as_it_was_stays_beside_it(old_dir: Path) -> None:
    """Q-26: a whole bus of the old version, in one file, for its owner alone."""
    before = connect(old_dir)
    expected = objects(before), rows(before)
    done = upgrade(old_dir)
    assert (done.from_version, done.version) == (OLDER, SCHEMA_VERSION)
    assert done.backup == str(old_dir / KEPT)
    backup = apsw.Connection(done.backup, flags=apsw.SQLITE_OPEN_READONLY)
    assert (objects(backup), rows(backup)) == expected
    assert backup.execute("PRAGMA integrity_check").get == "ok"
    assert stat.S_IMODE((old_dir / KEPT).stat().st_mode) == 0o600
    assert sorted(path.name for path in old_dir.glob("bus.db.v*")) == [KEPT]


def test_copy_stays_out_of_git(old_dir: Path) -> None:
    """A `.gitignore` of before keeps what its owner wrote, and gets one more line, once."""
    gitignore = old_dir / ".gitignore"
    gitignore.write_text("bus.db\n# mine")
    connection = connect(old_dir)
    connection.execute("CREATE TABLE worker_states (mine)")
    with pytest.raises(AckbusError):  # after the copy
        upgrade(old_dir)
    connection.execute("DROP TABLE worker_states")
    upgrade(old_dir)
    assert gitignore.read_text() == "bus.db\n# mine\nbus.db.v*\n"


def test_new_bus_keeps_copies_out_of_git(bus_dir: Path) -> None:
    """With any `.gitignore` of a bus, git sees no copy of the file."""
    assert "*" in (bus_dir / ".gitignore").read_text().splitlines()


def test_upgrading_again_changes_nothing(old_dir: Path) -> None:
    upgrade(old_dir)
    (old_dir / KEPT).unlink()
    before = connect(old_dir).execute("PRAGMA data_version").get
    done = upgrade(old_dir)
    assert (done.from_version, done.version, done.backup) == (SCHEMA_VERSION, SCHEMA_VERSION, None)
    assert not (old_dir / KEPT).exists()
    assert connect(old_dir).execute("PRAGMA data_version").get == before


# What is refused leaves everything as it was.

OPENINGS: dict[str, Callable[[Path], object]] = {"open": Bus.open, "init": Bus.init}


@pytest.mark.parametrize("opening", OPENINGS)
def test_opening_an_older_file_migrates_nothing_and_says_what_to_do(
    opening: str, old_dir: Path
) -> None:
    """M-20: an old bus is upgraded only by who asks for that."""
    with pytest.raises(BusUnusable, match=HINT):
        OPENINGS[opening](old_dir)
    assert version_of(old_dir) == str(OLDER)
    assert not (old_dir / KEPT).exists()


@pytest.mark.parametrize("change", [upgrade, *OPENINGS.values()])
def test_newer_file_is_refused(change: Callable[[Path], object], bus_dir: Path) -> None:
    """M-20, Q-26: this code can't know what a newer file means."""
    newer = str(SCHEMA_VERSION + 1)
    connect(bus_dir).execute("UPDATE meta SET value = ?", (newer,))
    with pytest.raises(BusUnusable, match=rf"version {newer}, .*; use a newer ackbus$"):
        change(bus_dir)
    assert version_of(bus_dir) == newer


@pytest.mark.parametrize("version", ["0", "-1", "1.5", "two", "", "²", "9" * 5000])
def test_version_that_no_bus_has_is_refused(version: str, old_dir: Path) -> None:
    tamper(old_dir, f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
    for change in (upgrade, Bus.open):
        with pytest.raises(BusUnusable, match=r"bus\.db is not a bus: it has no schema version$"):
            change(old_dir)
    tamper(old_dir, "DELETE FROM meta")
    with pytest.raises(BusUnusable, match=r"is not a bus: it has no schema version$"):
        upgrade(old_dir)


def test_directory_without_a_bus_is_refused(project: Path) -> None:
    with pytest.raises(BusNotFound, match="make one with 'bus init'"):
        upgrade(project)
    assert list(project.iterdir()) == []


def unchanged(directory: Path, before: tuple[object, object]) -> bool:
    """Whether a bus has what it had, and no copy of it was left half made."""
    connection = connect(directory)
    now = objects(connection), rows(connection)
    return now == before and list(directory.glob("bus.db.v1.new*")) == []


def test_migration_that_fails_halfway_changes_nothing(old_dir: Path) -> None:
    """Promise 11: somebody keeps a table of their own in the file, with a name of ours."""
    connection = connect(old_dir)
    connection.execute("CREATE TABLE worker_states (mine)")
    before = objects(connection), rows(connection)
    with pytest.raises(AckbusError, match="table worker_states already exists"):
        upgrade(old_dir)
    assert unchanged(old_dir, before)
    connection.execute("ALTER TABLE worker_states RENAME TO my_states")
    assert upgrade(old_dir).version == SCHEMA_VERSION


def test_rows_that_refer_to_none_stop_it(old_dir: Path) -> None:
    """Q-26: foreign keys are checked before the commit."""
    connection = connect(old_dir)
    connection.execute("CREATE TABLE mine (seq REFERENCES messages); INSERT INTO mine VALUES (99)")
    before = objects(connection), rows(connection)
    with pytest.raises(BusUnusable, match=r"^rows of the table mine .* nothing was changed$"):
        upgrade(old_dir)
    assert unchanged(old_dir, before)


def test_damaged_file_is_not_upgraded(old_dir: Path) -> None:
    """PITFALLS 27, 28: a copy of damage is no copy to go back to."""
    connection = connect(old_dir)
    page = connection.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'idx_messages_mail'"
    ).get
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    with (old_dir / "bus.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    with pytest.raises(BusUnusable, match=r"damaged"):
        upgrade(old_dir)
    assert version_of(old_dir) == str(OLDER)
    assert list(old_dir.glob("bus.db.v*")) == []


def test_disk_without_room_for_the_copy_changes_nothing(old_dir: Path) -> None:
    """PITFALLS 28: the copy comes first, whole."""
    connection = connect(old_dir)
    before = objects(connection), rows(connection)
    connection.close()
    told = run_program(
        """
        import resource, signal, sys
        from ackbus.errors import BusUnusable
        from ackbus.schema.sqlite.upgrade import upgrade
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            upgrade(sys.argv[1])
        except BusUnusable as error:
            print(error)
        """,
        old_dir,
    )
    assert len(told.splitlines()) == 1
    assert str(old_dir) in told
    assert unchanged(old_dir, before)
    assert upgrade(old_dir).version == SCHEMA_VERSION


# The command.


def test_command_says_what_it_did(newer_bus: RunBus, old_dir: Path) -> None:
    """P-16, Q-26: once; and then that there is nothing to do."""
    done = newer_bus("upgrade")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"the bus in {old_dir} is at version {SCHEMA_VERSION}; the file as it was is"
        f" {old_dir / KEPT}\n"
    )
    again = newer_bus("upgrade")
    assert (again.code, again.err) == (0, "")
    assert again.out == f"the bus in {old_dir} is at version {SCHEMA_VERSION} already\n"
    assert newer_bus("poll", "alice").code == 0


def test_command_tells_programs_the_same(newer_bus: RunBus, project: Path, old_dir: Path) -> None:
    below = project / "deep"
    below.mkdir()
    first, second = (
        json.loads(newer_bus("upgrade", "--json", cwd=below).out),
        json.loads(newer_bus("upgrade", "--json", "--dir", old_dir).out),
    )
    same = {"dir": str(old_dir), "version": SCHEMA_VERSION, "put_right": []}
    assert first == same | {"from_version": OLDER, "backup": str(old_dir / KEPT)}
    assert second == same | {"from_version": SCHEMA_VERSION, "backup": None}


def test_command_finds_the_bus_as_others_do(
    newer_bus: RunBus, run_bus: RunBus, old_dir: Path, tmp_path: Path
) -> None:
    old_dir.rename(tmp_path / "named")
    assert newer_bus("upgrade", env={"BUS_DIR": str(tmp_path / "named")}).code == 0
    assert version_of(tmp_path / "named") == str(SCHEMA_VERSION)
    assert_error(run_bus("upgrade"), 1, "no bus in", "bus init")
    assert_error(run_bus("upgrade", "--user", "--dir", tmp_path / "named"), 2, "--user")
    run_bus("init", "--user")
    assert "already" in run_bus("upgrade", "--user").out


@pytest.mark.parametrize("command", ["init", "poll alice"])
def test_every_other_command_asks_for_the_upgrade(
    command: str, newer_bus: RunBus, old_dir: Path
) -> None:
    """M-20: in one line, and `init` does not pretend that there is a bus to use."""
    before = rows(connect(old_dir))
    assert_error(newer_bus(*command.split()), 1, f"version {OLDER}", "run 'bus upgrade'")
    assert rows(connect(old_dir)) == before


def test_command_tells_what_it_put_right(newer_bus: RunBus, old_dir: Path) -> None:
    tamper(old_dir, "UPDATE cursors SET last_acked_seq = 1000000")
    done = newer_bus("upgrade")
    assert done.code == 0
    assert "put right: cursors: " in done.out


def test_command_refuses_a_newer_file(run_bus: RunBus, tmp_path: Path) -> None:
    create(tmp_path / "newer")
    connect(tmp_path / "newer").execute("UPDATE meta SET value = '999'")
    assert_error(run_bus("upgrade", "--dir", tmp_path / "newer"), 1, "999", "a newer ackbus")
