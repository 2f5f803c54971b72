"""Files in which somebody has put what would run in the process that opens them."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Inbox
from ackbus.errors import BusUnusable
from ackbus.schema.queries import file_of
from ackbus.schema.sqlite import database, hardening
from ackbus.schema.sqlite.creation import create
from ackbus.schema.sqlite.database import SCHEMA_VERSION, Database
from ackbus.schema.sqlite.foreign_objects import foreign_objects_in
from ackbus.schema.sqlite.upgrade import upgrade

from ..conftest import RunBus, wait_until
from ..migration.made_up import make_older, upgradable
from ..programs import connect, raw_sql
from ..sizes import sampled

WIPES_CURSORS = "BEGIN DELETE FROM cursors; END"
NEVER_ENDS = (
    "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT 'a' || x FROM n"
)


def forged(change: str) -> tuple[str, ...]:
    """Statements that write to the schema as no program does by itself."""
    return ("PRAGMA writable_schema = ON", change)


#: What is done to a file, and what is said of it.
ATTACKS: dict[str, tuple[tuple[str, ...], str]] = {
    "a trigger on the log": (
        (f"CREATE TRIGGER evil AFTER INSERT ON messages {WIPES_CURSORS}",),
        "trigger evil is not of ackbus",
    ),
    "a trigger on what is read first": (
        (f"CREATE TRIGGER evil AFTER UPDATE ON meta {WIPES_CURSORS}",),
        "trigger evil is not of ackbus",
    ),
    "a trigger on a table of somebody else": (
        ("CREATE TABLE theirs (x)", f"CREATE TRIGGER evil AFTER INSERT ON theirs {WIPES_CURSORS}"),
        "trigger evil is not of ackbus",
    ),
    "a trigger of ours that does something else": (
        (
            "DROP TRIGGER grants_draw_a_token",
            f"CREATE TRIGGER grants_draw_a_token AFTER INSERT ON task_claims {WIPES_CURSORS}",
        ),
        "trigger grants_draw_a_token is altered",
    ),
    "a trigger of ours with code where a comment seems to be": (
        (
            "DROP TRIGGER messages_are_never_changed",
            "CREATE TRIGGER messages_are_never_changed BEFORE UPDATE ON messages BEGIN\n"
            "  SELECT RAISE(ABORT, 'messages --'); DELETE FROM cursors; SELECT ('\n"
            "are never changed');\nEND",
        ),
        "trigger messages_are_never_changed is altered",
    ),
    "a trigger of ours under another name": (
        (
            "DROP TRIGGER messages_are_never_changed",
            "CREATE TRIGGER changed BEFORE UPDATE ON messages BEGIN"
            " SELECT RAISE(ABORT, 'messages are never changed'); END",
        ),
        "trigger changed is not of ackbus, and 1 more",
    ),
    "no trigger where ours was": (
        ("DROP TRIGGER messages_are_never_deleted",),
        "trigger messages_are_never_deleted is missing",
    ),
    "a view that never ends": (
        ("DROP VIEW known_agents", f"CREATE VIEW known_agents (agent_id) AS {NEVER_ENDS}"),
        "view known_agents is altered",
    ),
    "a rule less": (
        forged("UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (from_agent <> '''')', '')"),
        "table messages is altered",
    ),
    "a column more": (("ALTER TABLE cursors ADD COLUMN x ANY",), "table cursors is altered"),
    "an index less": (("DROP INDEX idx_jobs_ready",), "index idx_jobs_ready is missing"),
    "an index that refuses rows": (
        ("CREATE UNIQUE INDEX evil ON messages (type)",),
        "index evil on messages is not plain",
    ),
    "an index that computes": (
        ("CREATE INDEX evil ON messages (hex(zeroblob(100)))",),
        "index evil on messages is not plain",
    ),
    "an index that computes which rows it has": (
        ("CREATE INDEX evil ON messages (type) WHERE length(type) > 1",),
        "index evil on messages is not plain",
    ),
    "a trigger that is written otherwise": (
        (
            f"CREATE TRIGGER evil AFTER INSERT ON messages {WIPES_CURSORS}",
            *forged(
                "UPDATE sqlite_schema SET sql = 'create/**/' || substr(sql, 8) WHERE name = 'evil'"
            ),
        ),
        "trigger evil is not of ackbus",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_file_that_would_run_something_is_refused(attack: str, bus_dir: Path) -> None:
    """At once, by a name."""
    statements, said = ATTACKS[attack]
    raw_sql(bus_dir, *statements)
    with pytest.raises(BusUnusable, match=f"is not as ackbus makes one: {said}.*; see 'bus doc"):
        Bus.open(bus_dir)


@pytest.mark.slow
@pytest.mark.parametrize("attack", sampled(ATTACKS, every=4))
def test_a_repair_makes_a_file_that_runs_nothing(
    attack: str, bus_dir: Path, run_bus: RunBus
) -> None:
    """The doctor says what is wrong, and what is in the file stays."""
    with Bus.open(bus_dir) as bus:
        Inbox(bus, "ann").ack(bus.publish("t", 1, from_agent="bob").seq)
    statements, said = ATTACKS[attack]
    raw_sql(bus_dir, *statements)
    ended = run_bus("publish", "t", "--from", "bob")
    assert (ended.code, ended.err.count("\n"), said in ended.err) == (1, 1, True)
    told = run_bus("doctor")
    assert told.code == 1
    assert f"bad   schema: {said.partition(',')[0]}" in told.out
    assert connect(bus_dir).execute("SELECT * FROM cursors").fetchall()
    assert "a new bus.db is in its place" in run_bus("doctor", "--repair").out
    with Bus.open(bus_dir) as bus:
        assert Inbox(bus, "ann").position == 1
        assert bus.publish("t", 2, from_agent="bob").seq > 1


def test_what_runs_nothing_is_let_be_and_reported(bus_dir: Path, run_bus: RunBus) -> None:
    raw_sql(
        bus_dir,
        "CREATE TABLE theirs (x UNIQUE, y REFERENCES messages)",
        "CREATE UNIQUE INDEX unique_y ON theirs (y) WHERE y > abs(1)",
        "CREATE INDEX by_sender ON messages (from_agent, type DESC)",
        f"CREATE VIEW theirs_too AS {NEVER_ENDS}",
        "CREATE VIRTUAL TABLE words USING fts5 (a)",
        "ANALYZE theirs",
    )
    assert run_bus("publish", "t", "--from", "bob").code == 0
    told = run_bus("doctor")
    assert told.code == 0
    for stranger in ("table theirs", "index by_sender", "view theirs_too", "table words"):
        assert stranger in told.out


def test_texts_of_the_schema_are_found_in_its_script_as_sqlite_stores_them(tmp_path: Path) -> None:
    """In schema.sql each CREATE begins a line; its first line that ends with ; is its last.

    A trigger ends with the line END; and no comment's line ends with a semicolon.
    """
    create(tmp_path)
    stored = connect(tmp_path).execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
    assert {str(sql).encode() for (sql,) in stored} == hardening.our_texts()
    strangers = foreign_objects_in(connect(tmp_path))
    assert (strangers.refused, strangers.reported) == ([], [])


def test_file_that_is_changed_while_it_is_open_is_refused(bus: Bus, bus_dir: Path) -> None:
    """The next time that it is used, and again when it is as it was."""
    Inbox(bus, "ann").ack(bus.publish("t", from_agent="bob").seq)
    raw_sql(bus_dir, f"CREATE TRIGGER evil AFTER INSERT ON messages {WIPES_CURSORS}")
    for _ in range(2):
        with pytest.raises(BusUnusable, match="trigger evil is not of ackbus"):
            bus.publish("t", from_agent="bob")
    raw_sql(bus_dir, "DROP TRIGGER evil", "CREATE TABLE theirs (x)")
    wait_until(lambda: bus.publish("t", from_agent="bob").seq == 2)
    assert Inbox(bus, "ann").position == 1


def test_program_goes_on_while_a_newer_ackbus_upgrades_the_file(bus: Bus, bus_dir: Path) -> None:
    """ADR 16: and its new threads do, but nobody who opens the file with the old code."""
    raw_sql(
        bus_dir,
        "BEGIN",
        "CREATE TABLE news (x)",
        "CREATE TRIGGER news_are_kept BEFORE DELETE ON news BEGIN SELECT RAISE(ABORT, ''); END",
        f"UPDATE meta SET value = '{SCHEMA_VERSION + 1}' WHERE key = 'schema_version'",
        "COMMIT",
    )
    assert bus.publish("t", from_agent="bob").seq == 1
    file_of(bus).close_thread()
    assert bus.publish("t", from_agent="bob").seq == 2
    with pytest.raises(BusUnusable, match="use a newer ackbus"):
        Bus.open(bus_dir)


def test_upgrade_runs_nothing_of_an_older_file(tmp_path: Path) -> None:
    old = make_older(tmp_path / "old")
    before = connect(old).execute("SELECT count(*) FROM cursors").get
    assert before
    connect(old).execute(f"CREATE TRIGGER evil AFTER UPDATE ON meta {WIPES_CURSORS}")
    with upgradable(tmp_path / "migrations"):
        with pytest.raises(BusUnusable, match=r"^nothing was changed: .*evil is not of ackbus"):
            upgrade(old)
        assert connect(old).execute("SELECT count(*) FROM cursors").get == before
        connect(old).execute("DROP TRIGGER evil")
        assert upgrade(old).version == SCHEMA_VERSION
    Bus.open(old).close()


def test_connections_let_nobody_write_to_the_schema(bus: Bus) -> None:
    connection = file_of(bus).connection
    connection.execute("PRAGMA writable_schema = ON")
    with pytest.raises(apsw.SQLError, match="may not be modified"):
        connection.execute("DELETE FROM sqlite_schema")
    assert connection.pragma("trusted_schema") == 0


@pytest.mark.slow
def test_statement_without_end_is_ended(bus_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; what the statement before it took does not count."""
    monkeypatch.setattr(database, "WORK", 2)
    with Bus.open(bus_dir) as bus:
        count = f"WITH endless (x) AS ({NEVER_ENDS}) SELECT count(*) FROM endless"
        with pytest.raises(BusUnusable, match=r"took more work than any should.*'bus doctor'$"):
            file_of(bus).rows(count)
        for _ in range(8):  # each takes most of what one may
            file_of(bus).rows(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 1200000)"
                " SELECT count(*) FROM n"
            )
        assert bus.publish("t", from_agent="bob").seq == 1


@pytest.mark.slow
def test_table_of_ours_that_is_an_endless_view_is_not_waited_for(
    bus_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything else the version is read, and by the doctor more."""
    view = f"CREATE VIEW meta (key, value) AS {NEVER_ENDS.replace('|| x', '|| x, 1')}"
    raw_sql(bus_dir, "DROP TABLE meta", view)
    monkeypatch.setattr(database, "WORK", 2)
    monkeypatch.setattr(database, "BULK_WORK", 4)
    for any_version in (False, True):
        with pytest.raises(BusUnusable, match="took more work than any should"):
            Database(bus_dir, any_version=any_version)


def test_ctrl_c_ends_a_long_statement(bus_dir: Path) -> None:
    program = f"""
        from ackbus import Bus
        from ackbus.schema.queries import file_of
        bus = Bus.open({str(bus_dir)!r})
        print("begins", flush=True)
        file_of(bus).rows("WITH e (x) AS ({NEVER_ENDS}) SELECT count(*) FROM e")
        """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert "more work" not in errors


def test_index_of_words_that_would_run_something_is_made_again(bus: Bus, run_bus: RunBus) -> None:
    """Also where a table of it is written by others' triggers."""
    bus.publish("t", "a needle", from_agent="bob")
    assert run_bus("search", "needle").code == 0
    words = apsw.Connection(bus.layout.search)
    words.execute(
        "CREATE TRIGGER evil AFTER UPDATE ON position BEGIN DELETE FROM lacking; END;"
        f"CREATE VIEW endless AS {NEVER_ENDS}"
    )
    words.close()
    bus.publish("t", "another needle", from_agent="bob")
    assert run_bus("search", "needle").out.count("needle") == 2
    words = apsw.Connection(bus.layout.search)
    found = words.execute("SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view')")
    assert found.fetchall() == []
