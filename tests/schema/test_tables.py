"""The tables, as any program with SQLite sees them, and the rules that they keep by themselves."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.export.archive_writer import Archiver
from ackbus.schema.message.names import MAX_SEQ
from ackbus.schema.sqlite.database import SCHEMA_VERSION

from ..programs import connect, raw_sql

INSERT = "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('{}', 1, 'raw', 'note')"


def columns(bus_dir: Path, table: str) -> list[tuple[str, str, int, str | None, int]]:
    """Name, type, NOT NULL, default and place in the primary key of each column."""
    rows = connect(bus_dir).execute(f"PRAGMA table_info({table})")
    return [(name, kind, not_null, default, key) for _, name, kind, not_null, default, key in rows]


def test_messages_begins_with_the_documented_columns(bus_dir: Path) -> None:
    """M-14: the documented columns come first; ours has three more, all with defaults."""
    assert columns(bus_dir, "messages") == [
        ("seq", "INTEGER", 0, None, 1),
        ("id", "TEXT", 1, None, 0),
        ("ts_ms", "INTEGER", 1, None, 0),
        ("from_agent", "TEXT", 1, None, 0),
        ("to_agent", "TEXT", 0, None, 0),
        ("type", "TEXT", 1, None, 0),
        ("correlation_id", "TEXT", 0, None, 0),
        ("in_reply_to", "TEXT", 0, None, 0),
        ("payload", "TEXT", 0, None, 0),
        ("payload_ref", "TEXT", 0, None, 0),
        ("priority", "INTEGER", 1, "1", 0),
        ("headers", "TEXT", 0, None, 0),
        ("work", "INTEGER", 0, None, 0),
    ]


def test_plain_insert_of_the_documented_columns_is_a_message(bus: Bus, bus_dir: Path) -> None:
    """M-08, M-14: a program that knows only the documented columns takes part."""
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to,"
        " payload, payload_ref) VALUES ('m1', 1736517600000, 'shell', 'alice', 'task_assign',"
        " 'task-1', NULL, '{\"path\": \"a.py\"}', NULL)",
    )
    (message,) = Inbox(bus, "alice").poll()
    assert (message.seq, message.id, message.ts_ms) == (1, "m1", 1736517600000)
    assert (message.from_agent, message.to_agent) == ("shell", "alice")
    assert (message.correlation_id, message.payload) == ("task-1", {"path": "a.py"})
    assert (message.priority, message.headers) == (1, {})


def test_published_message_is_read_by_plain_sql(bus: Bus, bus_dir: Path) -> None:
    """M-08: what the package writes, any program with SQLite reads."""
    with pytest.warns(UserWarning, match="never seen"):
        bus.publish("task_assign", {"path": "a.py"}, from_agent="lead", to_agent="alice", id="m1")
    rows = raw_sql(
        bus_dir, "SELECT seq, id, from_agent, to_agent, type, payload, payload_ref FROM messages"
    )
    assert rows == [[1, "m1", "lead", "alice", "task_assign", '{"path":"a.py"}', None]]


def test_payload_and_payload_ref_exclude_each_other(bus_dir: Path) -> None:
    """M-15."""
    with pytest.raises(apsw.ConstraintError, match="payload IS NULL OR payload_ref IS NULL"):
        connect(bus_dir).execute(
            "INSERT INTO messages (id, ts_ms, from_agent, type, payload, payload_ref)"
            " VALUES ('m1', 1, 'raw', 'note', '1', 'sha256-00')"
        )


OTHER_TABLES: dict[str, list[tuple[str, str, int, str | None, int]]] = {
    "cursors": [
        ("agent_id", "TEXT", 1, None, 1),
        ("last_acked_seq", "INTEGER", 1, "0", 0),
        ("updated_at_ms", "INTEGER", 1, None, 0),
    ],
    "heartbeats": [
        ("agent_id", "TEXT", 1, None, 1),
        ("ts_ms", "INTEGER", 1, None, 0),
        ("status", "TEXT", 1, None, 0),
        ("current_task", "TEXT", 0, None, 0),
        ("progress", "REAL", 0, None, 0),
    ],
    "task_claims": [
        ("task_id", "TEXT", 1, None, 1),
        ("claimed_by", "TEXT", 1, None, 0),
        ("claimed_at_ms", "INTEGER", 1, None, 0),
        ("lease_until_ms", "INTEGER", 1, None, 0),
    ],
    "meta": [("key", "TEXT", 1, None, 1), ("value", "TEXT", 1, None, 0)],
    "export_state": [("id", "INTEGER", 0, None, 1), ("last_seq", "INTEGER", 1, "0", 0)],
}


@pytest.mark.parametrize("table", OTHER_TABLES)
def test_table_begins_with_the_documented_columns(table: str, bus_dir: Path) -> None:
    """M-17, M-18, M-19, M-20, M-21: further columns come after them, and may be left out."""
    documented = OTHER_TABLES[table]
    found = columns(bus_dir, table)
    assert found[: len(documented)] == documented
    for _, _, not_null, default, _ in found[len(documented) :]:
        assert not not_null or default is not None


def test_cursor_row_appears_with_the_first_ack(bus: Bus, bus_dir: Path) -> None:
    """M-17, M-48: polling writes no row."""
    bus.publish("note", from_agent="bob")
    inbox = Inbox(bus, "alice")
    inbox.poll()
    count = connect(bus_dir).execute("SELECT count(*) FROM cursors").get
    assert count == 0
    inbox.ack(1)
    assert connect(bus_dir).execute("SELECT agent_id, last_acked_seq FROM cursors").get == (
        "alice",
        1,
    )


def test_second_claim_row_of_one_task_is_refused(bus_dir: Path) -> None:
    """M-19: for programs with their own SQL too; a plain INSERT draws a fencing token."""
    connection = connect(bus_dir)
    claim = (
        "INSERT INTO task_claims (task_id, claimed_by, claimed_at_ms, lease_until_ms)"
        " VALUES ('t1', 'raw', 1, 2)"
    )
    connection.execute(claim)
    assert connection.execute("SELECT token FROM task_claims").get == 1
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        connection.execute(claim)


def test_meta_names_the_schema_version(bus_dir: Path) -> None:
    """M-20: `schema_version`, as text."""
    meta = connect(bus_dir).execute("SELECT key, value FROM meta").fetchall()
    assert meta == [("schema_version", str(SCHEMA_VERSION))]


def test_export_state_has_exactly_one_row(bus_dir: Path) -> None:
    """M-21."""
    connection = connect(bus_dir)
    assert connection.execute("SELECT id, last_seq FROM export_state").fetchall() == [(1, 0)]
    for id in (1, 2):
        with pytest.raises(apsw.ConstraintError):
            connection.execute("INSERT INTO export_state (id) VALUES (?)", (id,))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE messages SET payload = '2'",
        "UPDATE messages SET priority = priority",
        "DELETE FROM messages",
        "INSERT OR REPLACE INTO messages (id, ts_ms, from_agent, type) VALUES ('a', 2, 'r', 'x')",
        "REPLACE INTO messages (seq, id, ts_ms, from_agent, type) VALUES (1, 'z', 2, 'r', 'x')",
        "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('a', 2, 'r', 'x')"
        " ON CONFLICT (id) DO UPDATE SET type = 'x'",
    ],
)
def test_messages_are_changed_by_nobody(sql: str, bus: Bus, bus_dir: Path) -> None:
    """C-03, promise 1: triggers refuse it to raw SQL, which our code could not stop."""
    bus.publish("note", 1, from_agent="bob", id="a")
    bus.publish("note", 1, from_agent="bob", id="b")
    before = connect(bus_dir).execute("SELECT * FROM messages").fetchall()
    with pytest.raises(AssertionError, match=r"messages are (never changed|never deleted|only)"):
        raw_sql(bus_dir, sql)
    assert connect(bus_dir).execute("SELECT * FROM messages").fetchall() == before


@pytest.mark.parametrize("seq", [1, 2, 0, -1, -5])
def test_explicit_seq_that_a_reader_has_passed_is_refused(
    seq: int, bus: Bus, bus_dir: Path
) -> None:
    """Promise 2: a row that lands below the newest would be seen by nobody who has passed it."""
    raw_sql(bus_dir, INSERT.replace("(id", "(seq, id").replace("('{}'", "(3, 'three'"))
    with pytest.raises(AssertionError, match="IntegrityError"):
        raw_sql(bus_dir, INSERT.replace("(id", "(seq, id").replace("('{}'", f"({seq}, 'late'"))
    assert [message.seq for message in bus.read()] == [3]


def test_seq_is_never_used_again(bus: Bus, bus_dir: Path) -> None:
    """M-22: the newest message never leaves the table, whatever is archived, and is the counter."""
    for _ in range(3):
        bus.publish("note", from_agent="bob")
    with Archiver(bus) as archiver:
        archiver.archive(3)
    assert connect(bus_dir).execute("SELECT seq FROM messages").fetchall() == [(3,)]
    with pytest.raises(AssertionError, match="messages are never deleted"):
        raw_sql(bus_dir, "DELETE FROM messages")
    raw_sql(bus_dir, "DELETE FROM sqlite_sequence")
    assert bus.log.newest_seq() == 3
    assert bus.publish("note", from_agent="bob").seq == 4


def stored(bus_dir: Path, id: str) -> tuple[object, ...]:
    """Whether a message is work, as it is stored."""
    (row,) = connect(bus_dir).execute("SELECT work FROM messages WHERE id = ?", (id,)).fetchall()
    return row


@pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")
@pytest.mark.parametrize(
    ("pattern", "rules", "type", "to_agent", "is_work"),
    [
        ("job", {}, "job", None, True),
        ("job", {}, "job", "alice", False),
        ("job", {}, "jobs", None, False),
        ("job", {"addressed": "crew"}, "job", "crew", True),
        ("job", {"addressed": "crew"}, "job", "alice", False),
        ("job", {"addressed": "*"}, "job", "alice", False),
        ("job", {"hides": "none"}, "job", None, False),
        ("job.*", {}, "job.a", None, False),
        ("job.*", {"hides": "all"}, "job.a", None, True),
        ("job.*", {"hides": "all"}, "job.a.b", None, False),
        ("job.>", {"hides": "all"}, "job.a.b", None, True),
        ("job.>", {"hides": "all"}, "job", None, False),
        ("*.a", {"hides": "all", "addressed": "crew"}, "job.a", "crew", True),
    ],
)
def test_work_is_told_from_mail_when_it_is_stored_whoever_stores_it(
    pattern: str,
    rules: dict[str, str],
    type: str,
    to_agent: str | None,
    is_work: bool,
    bus: Bus,
    bus_dir: Path,
) -> None:
    """One rule for one message, for many, and for plain SQL."""
    bus.publish(type, from_agent="a", to_agent=to_agent, id="before")
    queue = {"hides": "exact", "addressed": None} | rules
    connect(bus_dir).execute(
        "INSERT INTO queues (name, pattern, filled_seq, created_at_ms, hides, addressed)"
        " VALUES ('q', ?, 0, 1, ?, ?)",
        (pattern, queue["hides"], queue["addressed"]),
    )
    bus.publish(type, from_agent="a", to_agent=to_agent, id="ours")
    many = [Draft(type, n, from_agent="a", to_agent=to_agent, id=f"m-{n}") for n in range(120)]
    bus.publish_many(many)
    connect(bus_dir).execute(
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type) VALUES ('raw', 1, 'a', ?, ?)",
        (to_agent, type),
    )
    assert [stored(bus_dir, id)[0] == 1 for id in ("ours", "m-0", "m-119", "raw")] == [is_work] * 4
    assert stored(bus_dir, "before") == (0,)


def test_only_the_trigger_makes_work_of_a_message(bus: Bus, bus_dir: Path) -> None:
    """Promise 1: nothing else of it may change, nor may older ones."""
    raw_sql(bus_dir, INSERT.format("old"), INSERT.format("new"))
    for change in ("work = 1, payload = '1'", "work = 0", "payload = '1'"):
        with pytest.raises(AssertionError, match="messages are never changed"):
            raw_sql(bus_dir, f"UPDATE messages SET {change} WHERE id = 'new'")
    with pytest.raises(AssertionError, match="messages are never changed"):
        raw_sql(bus_dir, "UPDATE messages SET work = 1 WHERE id = 'old'")


@pytest.mark.parametrize("seq", [2**63 - 1, 2**53, 2**53 - 1, 1_000_004])
def test_seqs_can_not_be_used_up(seq: int, bus: Bus, bus_dir: Path) -> None:
    """One raw insert far ahead would leave no number for anybody else."""
    raw_sql(bus_dir, INSERT.replace("(id", "(seq, id").replace("('{}'", "(3, 'three'"))
    with pytest.raises(AssertionError, match=r"IntegrityError: (seq is more|CHECK)"):
        raw_sql(bus_dir, INSERT.replace("(id", "(seq, id").replace("('{}'", f"({seq}, 'far'"))
    assert bus.publish("note", from_agent="bob").seq == 4


def test_the_last_number_of_the_code_is_that_of_the_file(bus_dir: Path) -> None:
    with closing(connect(bus_dir)) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        insert = INSERT.replace("(id", "(seq, id")
        raw.execute(insert.replace("('{}'", f"({MAX_SEQ}, 'last'"))
        with pytest.raises(apsw.ConstraintError, match="CHECK"):
            raw.execute(insert.replace("('{}'", f"({MAX_SEQ + 1}, 'beyond'"))


@pytest.mark.parametrize("ts_ms", [1_768_053_600_000_000, 253_402_300_800_000, -1])
def test_time_that_is_not_in_milliseconds_is_refused(ts_ms: int, bus_dir: Path) -> None:
    """Microseconds are a time that never comes: such a message would hold the archive for ever."""
    with pytest.raises(AssertionError, match="IntegrityError: ts_ms is not the milliseconds"):
        raw_sql(bus_dir, INSERT.format("micro").replace(", 1,", f", {ts_ms},"))


def test_times_are_epoch_milliseconds(bus: Bus, bus_dir: Path) -> None:
    """M-23, X-07: every time column holds whole milliseconds of the wall clock."""
    import time

    before = time.time_ns() // 1_000_000
    bus.publish("note", from_agent="bob")
    Inbox(bus, "alice").ack(1)
    bus.heartbeats.beat("alice")
    lease = bus.leases.acquire("t1", "alice")
    after = time.time_ns() // 1_000_000
    assert lease is not None
    times = connect(bus_dir).execute(
        "SELECT ts_ms FROM messages UNION ALL SELECT updated_at_ms FROM cursors UNION ALL"
        " SELECT ts_ms FROM heartbeats UNION ALL SELECT claimed_at_ms FROM task_claims UNION ALL"
        " SELECT lease_until_ms - 60000 FROM task_claims"
    )
    found = [ts for (ts,) in times]
    assert len(found) == 5
    assert all(type(ts) is int and before <= ts <= after for ts in found)


def test_headers_of_a_raw_writer_must_be_a_json_object(bus_dir: Path) -> None:
    """Promise 11: JSON5 and arrays, which our readers could not decode, stay out of the log."""
    for headers in ("{a:1}", "[1]", "not json", "{'a': 1}"):
        with pytest.raises(apsw.ConstraintError, match="headers"):
            connect(bus_dir).execute(
                "INSERT INTO messages (id, ts_ms, from_agent, type, headers)"
                " VALUES ('m', 1, 'raw', 'note', ?)",
                (headers,),
            )


def test_headers_that_only_sqlite_can_decode_are_shown_as_they_are(bus: Bus, bus_dir: Path) -> None:
    """Promise 5: half a surrogate pair passes SQLite's check, and must not stop a reader."""
    headers = '{"a":"\\ud800"}'
    connect(bus_dir).execute(
        "INSERT INTO messages (id, ts_ms, from_agent, type, headers)"
        " VALUES ('m', 1, 'raw', 'note', ?)",
        (headers,),
    )
    (message,) = bus.read()
    assert message.headers == {"decode_failed": headers}
    assert b"decode_failed" in message.to_line()
