"""A message that is work has a queue that takes it: else it is found, and made mail again."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Exporter, Inbox, Queue
from ackbus.doctor.repair.repair import repair_bus
from ackbus.schema.queries import file_of, is_work
from ackbus.subscribers.queues.queues import Queues

from ..conftest import wait_until
from ..programs import raw_sql
from .corruption import doctor, page_of_table

#: What a foreign program may try with plain SQL, and what it is told.
REFUSED = {
    "DELETE FROM queues": "queues are never deleted",
    "UPDATE queues SET pattern = 'other'": "are never changed",
    "UPDATE queues SET id = 7": "are never changed",
    "INSERT OR REPLACE INTO queues (name, pattern, filled_seq, created_at_ms)"
    " VALUES ('job', 'other', 0, 1)": "this queue is there, and takes other types",
    "UPDATE messages SET work = 1 WHERE seq = 3": "messages are never changed",
}

_INSERT = "INSERT INTO messages (id, ts_ms, from_agent, type, work) VALUES ('x', 1, 'a', 'b', {})"

#: What a file lets happen, or what one may hold whose triggers somebody has switched off: the
#: messages that nobody would get, and those that are mail after a repair.
LOST = {
    _INSERT.format(1): ("4", [1, 4]),
    "UPDATE queues SET filled_seq = 3": ("3", [1, 3]),
    "UPDATE queues SET pattern = 'other'": ("3", [1, 3]),  # 2 is a job, whatever its queue takes
    "UPDATE queues SET addressed = NULL": ("", [1]),
    # Its job is there, and has a queue again, a paused one; and the repair tells of it (4).
    "DELETE FROM queues": ("2-3", [1, 3, 4]),
    "UPDATE messages SET work = 1 WHERE seq = 1": ("1", [1]),
}


@pytest.fixture
def filled(bus_dir: Path) -> Path:
    """A mail (1), a job that was taken in (2), and one that was not yet (3)."""
    with closing(Bus.open(bus_dir)) as bus:
        queue = Queue.create(bus, "job")
        bus.publish("note", from_agent="a")
        bus.publish("job", from_agent="a")
        assert queue.claim("w")
        bus.publish("job", from_agent="a")
    return bus_dir


def mail_of(directory: Path) -> list[int]:
    with closing(Bus.open(directory)) as bus:
        return [message.seq for message in Inbox(bus, "bob").poll()]


def work_of(directory: Path) -> list[int]:
    """The jobs that workers have and get of every queue."""
    with closing(Bus.open(directory)) as bus:
        for info in Queues(bus).list():
            Queues(bus).resume(info.name)
            Queue.open(bus, info.name).claim("w", limit=100)
        return [seq for (seq,) in file_of(bus).rows("SELECT seq FROM jobs WHERE state = 'running'")]


@pytest.mark.parametrize("sql", REFUSED)
def test_file_refuses_what_would_take_work_from_its_queue(sql: str, filled: Path) -> None:
    raw_sql(filled, _INSERT.replace(", work)", ")").replace(", {})", ")"))  # mail, of plain SQL
    with pytest.raises(AssertionError, match=REFUSED[sql]):
        raw_sql(filled, sql.replace("seq = 3", "seq = 4"))
    assert mail_of(filled) == [1, 4]
    assert doctor(filled, "--full").bad == {}


def test_to_make_a_queue_again_changes_nothing(filled: Path) -> None:
    """As plain SQL does, which may replace what is there."""
    columns = "INTO queues (name, pattern, filled_seq, created_at_ms) VALUES ('job', 'job', 0, 1)"
    before = raw_sql(filled, "SELECT * FROM queues")
    for how in ("INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"):
        raw_sql(filled, f"{how} {columns}")
        assert raw_sql(filled, "SELECT * FROM queues") == before


@pytest.mark.parametrize("sql", LOST)
def test_work_that_no_queue_takes_is_found_and_is_mail_again(sql: str, filled: Path) -> None:
    with closing(apsw.Connection(str(filled / "bus.db"))) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        raw.execute(sql)
    found = doctor(filled, "--full").bad
    seqs, mail = LOST[sql]
    told = f"messages that no queue takes, and that are in no inbox: {seqs}"
    assert (told in found["work"]) if seqs else (found == {})
    doctor(filled, "--repair")
    assert mail_of(filled) == mail
    assert {1, 2, 3} <= {*mail, *work_of(filled)}
    assert doctor(filled, "--full").bad == {}
    assert doctor(filled, "--repair").records == []


def test_repair_leaves_jobs_alone_whose_queue_takes_other_types(filled: Path) -> None:
    """A waiting and a running one: work is rather done again than lost."""
    with closing(Bus.open(filled)) as bus:
        bus.publish("job", from_agent="a")
        assert [each.message.seq for each in Queue.open(bus, "job").claim("w")] == [3]  # takes in 4
    with closing(apsw.Connection(str(filled / "bus.db"))) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        raw.execute("UPDATE queues SET pattern = 'other'")
    jobs = raw_sql(filled, "SELECT * FROM jobs")
    assert doctor(filled, "--repair").records == []
    assert raw_sql(filled, "SELECT * FROM jobs") == jobs
    assert work_of(filled) == [2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*.a.>", "x.*.a.>", "*.*.a.b.>", "*.a.*.>"])
def test_no_queue_hides_what_it_never_takes(pattern: str, filled: Path) -> None:
    """GLOB takes more than such a pattern means: the file refuses it, and a repair ends it."""
    made = (
        "INSERT INTO queues (name, pattern, filled_seq, created_at_ms, hides)"
        " VALUES ('wide', '{}', 0, 1, '{}')"
    )
    with pytest.raises(AssertionError, match="no word between"):
        raw_sql(filled, made.format(pattern, "all"))
    raw_sql(filled, made.format(pattern, "exact"))
    with pytest.raises(AssertionError, match="no word between"):
        raw_sql(filled, "UPDATE queues SET hides = 'all' WHERE name = 'wide'")
    with closing(apsw.Connection(str(filled / "bus.db"))) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute("UPDATE queues SET hides = 'all' WHERE name = 'wide'")
    with closing(Bus.open(filled)) as bus:
        sent = bus.publish("x.y.z.w.a.b.q.a.r", from_agent="a")
    assert mail_of(filled) == [1]
    assert "hide what they never take" in doctor(filled).bad["state"]
    assert doctor(filled, "--full").bad["work"].endswith(f"in no inbox: {sent.seq}")
    doctor(filled, "--repair")
    assert mail_of(filled) == [1, sent.seq]
    assert doctor(filled, "--full").bad == {}


@pytest.mark.parametrize("pattern", ["a.>", "*.>", "a.*.>", "*.*.>", "*.a", "*.a.*", ">"])
def test_every_other_queue_may_hide_all(pattern: str, filled: Path) -> None:
    raw_sql(
        filled,
        "INSERT INTO queues (name, pattern, filled_seq, created_at_ms, hides)"
        f" VALUES ('most', '{pattern}', 0, 1, 'all')",
    )
    assert doctor(filled, "--full").bad == {}


def test_repair_names_a_queue_as_no_other_is_named(filled: Path) -> None:
    with closing(Bus.open(filled)) as bus:
        for name in ("lost-1", "lost-2"):
            Queue.create(bus, name, "other")
    with closing(apsw.Connection(str(filled / "bus.db"))) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        raw.execute("UPDATE queues SET name = 'bad name' WHERE name = 'job'")
    doctor(filled, "--repair")
    assert doctor(filled, "--full").bad == {}
    assert work_of(filled) == [2, 3]


def newest_ms(bus: Bus) -> int:
    (newest,) = bus.log.newest(1)
    return newest.ts_ms


@pytest.mark.slow
def test_repair_from_the_export_keeps_work_of_a_pattern_out_of_inboxes(
    bus: Bus, bus_dir: Path
) -> None:
    """From bus.jsonl, with a queue of a pattern that hides all."""
    bus.publish("work.early", "x" * 500, from_agent="a")
    # What was published in the millisecond of the queue counts as work for a repair.
    wait_until(lambda: bus.now_ms() > newest_ms(bus))
    Queue.create(bus, "all", "work.>", hides="all")
    for n in range(20):
        bus.publish(f"work.a.{n}", "x" * 500, from_agent="a")
    bus.publish("note", from_agent="a")
    Exporter(bus).export_once()
    file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)")
    bus.close()
    with (bus_dir / "bus.db").open("r+b") as file:
        file.seek(page_of_table(bus_dir, "messages"))
        file.write(bytes(4096))
    told = list(repair_bus(bus_dir))
    assert any("from bus.jsonl" in each.text for each in told)
    with closing(Bus.open(bus_dir)) as after:
        waiting = [message.type for message in Inbox(after, "bob").poll()]
        taken = len(Queue.open(after, "all").claim("w", limit=100))
    assert [type for type in waiting if type.startswith("work.")] == ["work.early"]
    assert taken == 21


def test_file_has_the_one_definition_of_work(bus: Bus) -> None:
    """The triggers for programs with plain SQL say what our own statements say."""
    told = "".join(is_work("NEW.type", "NEW.to_agent").split()).strip("()")
    for name in ("messages_may_be_work", "messages_are_never_changed"):
        sql = file_of(bus).value("SELECT sql FROM sqlite_schema WHERE name = ?", (name,))
        assert told in "".join(sql.split()), name
