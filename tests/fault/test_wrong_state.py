"""State that no program of ours writes: the file refuses it, or the doctor puts it right."""

import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.export.backup import back_up
from ackbus.schema.errors import RowRefused
from ackbus.schema.queries import engine_of
from ackbus.schema.sqlite.upgrade import upgrade
from ackbus.subscribers.inboxes.seen_mail import SeenMailNotes
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..conftest import RunBus
from ..migration.made_up import set_back, upgradable
from ..programs import raw_sql
from .corruption import doctor, use

MICROSECONDS = 1_790_000_000_000_000

#: What breaks a bound, and what is refused: everything a foreign program may try with plain SQL.
REFUSED = {
    "UPDATE cursors SET last_acked_seq = 1000000": "past the newest",
    "UPDATE cursors SET last_acked_seq = -1": "at 0 or at a message",
    "INSERT INTO cursors VALUES ('eve', 6, 1, NULL)": "past the newest",
    "INSERT OR REPLACE INTO cursors VALUES ('bob', 99, 1, NULL)": "past the newest",
    "UPDATE OR IGNORE cursors SET last_acked_seq = 99": "past the newest",
    "UPDATE queues SET filled_seq = 99": "past the newest",
    "DELETE FROM fencing": "fencing has one row",
    "INSERT OR REPLACE INTO fencing VALUES (1, 0)": "fencing has one row",
    "UPDATE fencing SET last_token = 0": "only grow",
    "UPDATE fencing SET last_token = 9223372036854775807": "only grow",
    "UPDATE task_claims SET token = -5": "drawn from fencing",
    "UPDATE task_claims SET token = token + 7": "drawn from fencing",
    "UPDATE reservations SET token = -5": "drawn from fencing",
    f"UPDATE task_claims SET lease_until_ms = {MICROSECONDS}": "milliseconds since 1970",
    f"INSERT INTO task_claims VALUES ('x', 'eve', 1, {MICROSECONDS}, 0)": "milliseconds since 1970",
    f"UPDATE reservations SET until_ms = {MICROSECONDS}": "milliseconds since 1970",
    f"UPDATE heartbeats SET ts_ms = {MICROSECONDS}": "milliseconds since 1970",
    f"UPDATE sessions SET until_ms = {MICROSECONDS}": "milliseconds since 1970",
    "UPDATE sessions SET name = 'eve'": "the name of its number under a base name",
    "UPDATE sessions SET shown = '{}'": "a list and an object in JSON",
    f"UPDATE queues SET created_at_ms = {MICROSECONDS}": "a rule of a queue is over ten years",
    "UPDATE queues SET max_running = 2147483648": "a rule of a queue is over ten years",
    f"INSERT INTO work_acts VALUES (1, {MICROSECONDS}, 'a', 'b', 1, NULL, NULL)": "since 1970",
    f"INSERT INTO loops VALUES ('eve', 7, {MICROSECONDS})": "milliseconds since 1970",
    "DELETE FROM export_state": "export_state has one row",
    "INSERT OR REPLACE INTO export_state VALUES (1, 0)": "export_state has one row",
    "UPDATE export_state SET last_seq = 99": "past the newest",
    "DELETE FROM notice_state": "notice_state has one row",
    "UPDATE notice_state SET last_seq = 99": "past the newest",
    "DELETE FROM catalog_state": "catalog_state has one row",
    "UPDATE catalog_state SET last_seq = -1": "past the newest",
    "DELETE FROM archive_state": "archive_state has one row",
    "INSERT INTO meta VALUES ('imports', '[[1,')": "another form",
    "INSERT INTO meta VALUES ('export_rotate_bytes', 'many')": "another form",
    "UPDATE meta SET value = '1' WHERE key = 'schema_version'": "only grows",
    "UPDATE meta SET value = 'x' WHERE key = 'schema_version'": "only grows",
    "DELETE FROM meta": "only grows",
    "INSERT OR REPLACE INTO meta VALUES ('schema_version', '1')": "only grows",
}


def fill(directory: Path) -> None:
    """Leaves a bus with a row in each table that is harmed here."""
    with closing(Bus.open(directory)) as bus:
        bus.publish_many([Draft("task", n, from_agent="ann") for n in range(5)])
        Queue.create(bus, "work", "task")
        bus.publish("task", from_agent="ann")
        Queue.open(bus, "work").claim("w")
        Inbox(bus, "bob").ack(2)
        bus.leases.acquire("deploy", "ann", lease_s=3600)
        bus.reservations.reserve(["src/**"], "ann", lease_s=3600)
        bus.heartbeats.beat("bob")
        SessionNames.of(bus).take("bob", "process 1 since 1 on another.1")
        SeenMailNotes(bus, "bob").note([(3, 0, None)], upto=3)
        Exporter(bus).export_once()


@pytest.fixture
def filled(bus_dir: Path) -> Path:
    fill(bus_dir)
    return bus_dir


def test_the_file_refuses_wrong_state_with_what_is_wrong(filled: Path) -> None:
    with closing(apsw.Connection(str(filled / "bus.db"))) as raw:
        newest = raw.execute("SELECT max(seq) FROM messages").get
        assert newest == 6
        raw.execute("DELETE FROM cursors WHERE agent_id = 'ann'")
        for sql, words in REFUSED.items():
            changes = raw.total_changes()
            sql = sql.replace("'eve', 6, 1", "'eve', 7, 1")
            with pytest.raises(apsw.ConstraintError, match=words):
                print(sql, raw.execute(sql).fetchall())
            assert raw.total_changes() == changes, sql
    assert doctor(filled, "--full").bad == {}
    use(filled)


#: What may be in a file whose triggers somebody has switched off, or of an older version: by the
#: statement that makes it, the words of the doctor.
WRONG = {
    "UPDATE cursors SET last_acked_seq = 1000000": "gets no mail",
    "UPDATE cursors SET last_acked_seq = -7": "gets no mail",
    "UPDATE queues SET filled_seq = 1000000": "take nothing in",
    "UPDATE queues SET filled_seq = 3": "short of their own jobs: they take nothing in",
    "DELETE FROM fencing": "tokens would be given twice",
    "UPDATE fencing SET last_token = 0": "tokens would be given twice",
    "UPDATE fencing SET last_token = 9223372036854775807": "tokens would be given twice",
    "UPDATE task_claims SET token = -5": "tokens that were never given",
    "UPDATE reservations SET token = -5": "tokens that were never given",
    f"UPDATE task_claims SET lease_until_ms = {MICROSECONDS}": "impossible times",
    f"UPDATE reservations SET until_ms = {MICROSECONDS}": "impossible times",
    f"UPDATE reservations SET reserved_at_ms = -1, until_ms = {MICROSECONDS}": "impossible times",
    f"UPDATE queues SET ageing_ms = {MICROSECONDS}, created_at_ms = -1": "numbers that can't be",
    "UPDATE queues SET max_attempts = 2147483648, hides = 'all'": "numbers that can't be",
    f"INSERT INTO loops VALUES ('eve', 7, {MICROSECONDS})": "impossible times",
    f"UPDATE sessions SET until_ms = {MICROSECONDS}": "no other session gets the name",
    "UPDATE sessions SET number = 2": "not the name of their number",
    "UPDATE sessions SET revision = -1, counted_seq = -1": "numbers that can't be",
    "UPDATE sessions SET shown = '{}', shown_parts = '['": "what are no ranges in shown",
    "UPDATE sessions SET until_ms = 253402300799999": "no other session gets the name",
    "UPDATE sessions SET announced_seq = 1000": "hooks announce no mail",
    """UPDATE sessions SET shown = '[["a", 7]]'""": "what are no ranges in shown",
    """UPDATE sessions SET process = char(27) || '[2J'""": "not a line of text there in process",
    f"UPDATE heartbeats SET ts_ms = {MICROSECONDS}": "seems alive",
    "DELETE FROM export_state": "nothing is exported",
    "UPDATE export_state SET last_seq = 1000000": "nothing is exported",
    "DELETE FROM notice_state": "no notices of answers",
    "UPDATE notice_state SET last_seq = 1000000": "no notices of answers",
    "DELETE FROM catalog_state": "new senders stay unknown",
    "DELETE FROM archive_state": "archive_state",
    "INSERT INTO meta VALUES ('imports', '[[1,')": "not what these entries can be",
    "INSERT INTO meta VALUES ('imports', '7')": "not what these entries can be",
    f"UPDATE claims SET lease_until_ms = {MICROSECONDS}": "no other worker gets the job",
    "UPDATE jobs SET state = 'queued', gate = 'time', available_at_ms = -1, ended_at_ms = NULL": (
        "impossible times"
    ),
    "UPDATE jobs SET state = 'running' WHERE state = 'queued'": "run without a claim",
    "UPDATE jobs SET state = 'queued' WHERE state = 'running'": "claims that hold jobs",
}


def force(directory: Path, sql: str) -> None:
    with closing(apsw.Connection(str(directory / "bus.db"))) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute(sql)
        assert raw.total_changes(), sql


def test_bounds_of_columns_are_found_by_sqlite_itself_and_hold_no_backup_up(
    filled: Path, tmp_path: Path
) -> None:
    """A backup is of the rows as they are: who breaks a bound must not keep others from one."""
    force(filled, f"UPDATE queues SET ageing_ms = {MICROSECONDS}")
    assert raw_sql(filled, "PRAGMA quick_check") == [["CHECK constraint failed in queues"]]
    with closing(Bus.open(filled)) as bus:
        back_up(bus, tmp_path / "copy")
    doctor(filled, "--repair")
    assert doctor(filled, "--full").bad == {}


def test_library_says_of_a_bound_what_it_is_and_no_name_of_sqlite(filled: Path) -> None:
    with closing(Bus.open(filled)) as bus, pytest.raises(RowRefused) as refused:
        engine_of(bus).change(f"UPDATE queues SET ageing_ms = {MICROSECONDS}")
    words = "refused a statement: a rule of a queue is over ten years, or 2147483647, or a time"
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("harm", "has_queue"), [(f"ageing_ms = {MICROSECONDS}", True), ("ordering = 'any'", False)]
)
def test_new_file_takes_rows_beyond_bounds_and_puts_them_right(
    harm: str, has_queue: bool, filled: Path
) -> None:
    """Of a file that is damaged elsewhere. What is no word of the table has no such repair."""
    force(filled, f"UPDATE queues SET {harm}")
    raw_sql(filled, "PRAGMA wal_checkpoint(TRUNCATE)")
    page = raw_sql(filled, "SELECT rootpage FROM sqlite_schema WHERE name = 'loops'")[0][0]
    with (filled / "bus.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    assert "pages" in doctor(filled).bad
    doctor(filled, "--repair")
    rows = raw_sql(filled, "SELECT name, ageing_ms FROM queues WHERE name = 'work'")
    assert rows == ([["work", 60_000]] if has_queue else [])
    assert doctor(filled, "--full").bad == {}


@pytest.mark.slow
@pytest.mark.parametrize("sql", WRONG)
def test_wrong_state_is_found_and_put_right_in_its_place(sql: str, filled: Path) -> None:
    """No new file is made of one that SQLite finds whole, and nothing else is changed."""
    force(filled, sql)
    found = doctor(filled, "--full")
    assert re.search(WRONG[sql], str(found.bad)), found.bad
    told = doctor(filled, "--repair", "--dry-run").records
    assert doctor(filled, "--full").bad == found.bad, "a dry run wrote"
    records = doctor(filled, "--repair").records
    assert records
    assert bool(told) == ("jobs SET state" not in sql or "'queued', gate" in sql)
    assert not list(filled.glob("*.damaged-*db*"))
    assert doctor(filled, "--full").bad == {}
    assert doctor(filled, "--repair").records == []
    use(filled)


@pytest.mark.slow
@pytest.mark.parametrize("sql", WRONG)
def test_an_upgrade_puts_wrong_state_right_and_says_so(
    sql: str, filled: Path, tmp_path: Path
) -> None:
    force(filled, sql)
    set_back(filled)
    with upgradable(tmp_path / "migrations"):
        done = upgrade(filled)
    assert done.mended or "run without a claim" in WRONG[sql] or "claims that hold" in WRONG[sql]
    assert "state" not in doctor(filled, "--full").bad


# Messages, which are never changed ---------------------------------------------------------------


def test_numbers_without_a_message_and_times_that_are_none_are_told(filled: Path) -> None:
    force(filled, "DELETE FROM messages WHERE seq IN (2, 4)")
    assert messages_of(filled, "--full")["state"] == "warn"
    assert "2 numbers have no message" in messages_of(filled, "--full")["text"]
    assert messages_of(filled, "--full")["text"].endswith(": 2, 4")
    insert = "INSERT INTO messages (seq, id, ts_ms, from_agent, type) VALUES (4, 'x', {}, 'a', 'b')"
    force(filled, insert.format(MICROSECONDS))
    for options in ([], ["--full"]):
        assert messages_of(filled, *options)["state"] == "warn"
        assert "times are none, or to come: 4;" in messages_of(filled, *options)["text"]


def test_numbers_that_are_about_to_end_are_told(filled: Path) -> None:
    """With the last number nothing can be published any more."""
    insert = "INSERT INTO messages (seq, id, ts_ms, from_agent, type) VALUES ({}, 'x', 1, 'a', 'b')"
    force(filled, insert.format(2**53 - 1))
    assert "numbers end at" in doctor(filled).bad["messages"]


def messages_of(directory: Path, *options: str) -> dict[str, str]:
    return next(each for each in doctor(directory, *options).records if each["check"] == "messages")


def test_verifying_tells_of_wrong_state(filled: Path, run_bus: RunBus) -> None:
    force(filled, "UPDATE cursors SET last_acked_seq = 1000000")
    ended = run_bus("verify", "--dir", filled)
    assert ended.code == 1
    assert "state: cursors: bob below 0 or past the newest message" in ended.out


@pytest.mark.slow
def test_a_trigger_that_forges_messages_is_named_and_taken_out(
    filled: Path, run_bus: RunBus
) -> None:
    """Nothing else of the file is lost, and no row of another program's table either."""
    raw_sql(
        filled,
        "CREATE TABLE theirs (x)",
        "INSERT INTO theirs VALUES (7)",
        "CREATE TRIGGER forge AFTER INSERT ON cursors BEGIN INSERT INTO messages"
        " (id, ts_ms, from_agent, type) VALUES ('f', 1, 'boss', 'pay'); END",
    )
    assert "trigger forge is not of ackbus" in doctor(filled, "--full").bad["schema"]
    ended = run_bus("verify", "--dir", filled)
    assert (ended.code, "trigger forge" in ended.err) == (1, True)
    doctor(filled, "--repair")
    assert doctor(filled, "--full").bad == {}
    assert raw_sql(filled, "SELECT x FROM theirs") == [[7]]
    use(filled)


# Words -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_output_has_the_name_of_an_exception(filled: Path, run_bus: RunBus) -> None:
    """Python's names say nothing to who reads a doctor's report."""
    for sql in (*WRONG, "DROP TABLE export_state", "DROP TABLE cursors", "DROP TABLE fencing"):
        force_any(filled, sql)
    for command in (["doctor"], ["doctor", "--full"], ["verify"], ["export"]):
        ended = run_bus(*command, "--dir", filled)
        assert not re.search(r"\w(Error|Exception)\b|Traceback|NoneType", ended.out + ended.err)
        assert ended.code
    ended = run_bus("doctor", "--repair", "--dir", filled)
    assert not re.search(r"\w(Error|Exception)\b|Traceback|NoneType", ended.out + ended.err)


def force_any(directory: Path, sql: str) -> None:
    with closing(apsw.Connection(str(directory / "bus.db"))) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute(sql.replace("INSERT INTO meta", "INSERT OR REPLACE INTO meta"))


def test_a_foreign_journal_mode_is_called_what_it_is(filled: Path, run_bus: RunBus) -> None:
    raw_sql(filled, "PRAGMA journal_mode = DELETE")
    told = {each["check"]: each for each in doctor(filled, "--full").records}
    assert told["journal"]["state"] == "warn"
    assert "journal mode delete" in told["journal"]["text"]
    assert "shared memory" not in str(told)
    assert told["journal"]["advice"].startswith("run 'bus stats'")
    assert run_bus("stats", "--dir", filled).code == 0
    told = {each["check"]: each for each in doctor(filled, "--full").records}
    assert told["journal"]["state"] == "ok"
