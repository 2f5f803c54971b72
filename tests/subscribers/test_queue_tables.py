"""The tables of queues: a program with plain SQL is held to the same rules, and can read all."""

from pathlib import Path

import apsw
import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.queue import Queue

from ..programs import connect, raw_sql
from .conftest import Clock
from .work import attempts, publish, seqs, state, take


@pytest.fixture
def queue(bus: Bus) -> Queue:
    """A queue with two jobs; the first is claimed."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus, 2)
    queue.claim("w-1", group="workers", lease_s=60)
    return queue


def columns(bus: Bus, table: str) -> set[str]:
    return {name for _, name, *_ in file_of(bus).rows(f"PRAGMA table_info({table})")}


def test_columns_of_a_claim(queue: Queue, bus_dir: Path) -> None:
    """P-05, K-14: `token` is the id; `queue_id, seq` the message; a query gives the old names."""
    assert columns(queue.bus, "claims") >= {
        *("token", "queue_id", "seq", "worker_group", "worker_instance", "claimed_at_ms"),
        *("lease_until_ms", "status", "ended_at_ms"),
    }
    (row,) = raw_sql(
        bus_dir,
        "SELECT messages.id, worker_group AS runner_name, worker_instance, status, ended_at_ms,"
        " lease_until_ms - claimed_at_ms FROM claims JOIN messages USING (seq)",
    )
    message = queue.bus.get(1)
    assert message is not None
    assert row == [message.id, "workers", "w-1", "active", None, 60_000]


def test_columns_of_a_job(bus: Bus, bus_dir: Path, clock: Clock) -> None:
    """D-10: its id is queue and seq; the message has payload, sender and what it came from."""
    queue = Queue.create(bus, "job")
    parent = bus.publish("note", from_agent="router", id="event").id
    bus.publish(
        "job",
        {"n": 1},
        from_agent="scheduler",
        id="first",
        in_reply_to=parent,
        headers=work_headers(dedupe_key="k"),
    )
    queue.fail(take(queue), "no", after_s=9)
    (row,) = raw_sql(
        bus_dir,
        "SELECT queues.name, m.id, m.type, m.payload, state, attempt, jobs.max_attempts,"
        " m.from_agent, dedupe_key, jobs.created_at_ms, started_at_ms, ended_at_ms,"
        " available_at_ms, error, m.in_reply_to"
        " FROM jobs JOIN messages AS m USING (seq) JOIN queues ON queues.id = queue_id",
    )
    now_ms = clock.now_ms
    assert row == [
        *("job", "first", "job", '{"n":1}', "queued", 2, 4, "scheduler", "k"),
        *(now_ms, now_ms, None, now_ms + 9000, "no", "event"),
    ]


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("UPDATE claims SET status = 'bogus'", "CHECK constraint failed: status"),
        ("UPDATE jobs SET state = 'paused' WHERE seq = 2", "CHECK constraint failed: state"),
        ("UPDATE jobs SET gate = 'shut' WHERE seq = 2", "CHECK constraint failed: gate"),
        ("UPDATE jobs SET state = 'succeeded' WHERE seq = 2", "CHECK constraint failed"),
        ("UPDATE jobs SET ended_at_ms = 5 WHERE seq = 2", "CHECK constraint failed"),
        ("UPDATE jobs SET attempt = 0 WHERE seq = 2", "CHECK constraint failed: attempt"),
        ("UPDATE jobs SET max_attempts = 0", "CHECK constraint failed: max_attempts"),
        ("UPDATE queues SET ordering = 'lifo'", "CHECK constraint failed: ordering"),
        ("UPDATE queues SET retry = 'maybe'", "CHECK constraint failed: retry"),
        ("UPDATE queues SET on_lost = 'delete'", "CHECK constraint failed: on_lost"),
        ("UPDATE queues SET max_running = 0", "CHECK constraint failed: max_running"),
        ("UPDATE queues SET backoff_ms = -1", "CHECK constraint failed: backoff_ms"),
        ("DELETE FROM claims", "claims are never deleted"),
        ("DELETE FROM messages", "messages are never deleted"),
        ("UPDATE messages SET type = 'x'", "messages are never changed"),
        (
            "INSERT INTO jobs (queue_id, seq, max_attempts, available_at_ms, created_at_ms)"
            " VALUES (1, 99, 4, 0, 0)",
            "a job needs a message",
        ),
        (
            "INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance,"
            " available_at_ms, claimed_at_ms, lease_until_ms) VALUES (1, 99, 1, 'g', 'i', 0, 0, 0)",
            "FOREIGN KEY constraint failed",
        ),
        (
            "INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance,"
            " available_at_ms, claimed_at_ms, lease_until_ms) VALUES (1, 1, 1, 'g', 'i', 0, 0, 0)",
            "a claim on this job is active",
        ),
        (
            "INSERT OR REPLACE INTO claims (token, queue_id, seq, attempt, worker_group,"
            " worker_instance, available_at_ms, claimed_at_ms, lease_until_ms)"
            " VALUES (1, 1, 1, 1, 'g', 'i', 0, 0, 0)",
            "the token is taken",
        ),
        ("UPDATE claims SET token = 99", "are never changed"),
        (
            "UPDATE claims SET ended_at_ms = 1",
            "CHECK constraint failed",
        ),
        (
            "INSERT INTO queues (name, pattern, filled_seq, created_at_ms) VALUES ('', 'x', 0, 0)",
            "CHECK constraint failed: name",
        ),
        (
            "INSERT INTO queues (name, pattern, filled_seq, created_at_ms)"
            " VALUES ('job', 'x', 0, 0)",
            "this queue is there, and takes other types",
        ),
    ],
)
def test_plain_sql_is_held_to_the_rules(
    queue: Queue, bus_dir: Path, statement: str, refusal: str
) -> None:
    """P-06, P-07, P-15, D-13, D-15, K-11: refused by the file itself, and nothing is changed."""

    def everything() -> list[object]:
        return [
            file_of(queue.bus).rows(f"SELECT * FROM {table}")
            for table in ("queues", "jobs", "claims", "messages")
        ]

    before = everything()
    raw = connect(bus_dir)
    raw.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(apsw.ConstraintError, match=refusal):
        raw.execute(statement)
    raw.close()
    assert everything() == before


def test_one_claim_is_active_and_many_may_have_ended(queue: Queue, bus_dir: Path) -> None:
    """K-11: a second one that has ended is nothing special."""
    raw_sql(
        bus_dir,
        "INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance,"
        " available_at_ms, claimed_at_ms, lease_until_ms, status, ended_at_ms)"
        " VALUES (1, 1, 1, 'g', 'i', 0, 0, 0, 'failed', 1)",
    )
    assert [r.status for r in attempts(queue)] == ["active", "failed"]


def test_plain_sql_reads_the_ends(queue: Queue, bus_dir: Path) -> None:
    """K-13, P-05: each end has its time; what is active has none."""
    publish(queue.bus, 2)
    second, third, _ = queue.claim("worker", limit=3)
    queue.complete(second)
    queue.end(third, Outcome(status="timed_out"))
    rows = raw_sql(bus_dir, "SELECT seq, status, ended_at_ms IS NOT NULL FROM claims ORDER BY 1")
    assert rows == [[1, "active", 0], [2, "completed", 1], [3, "timed_out", 1], [4, "active", 0]]


def test_tokens_only_grow(queue: Queue) -> None:
    """Promise 6: over all queues, and never one twice."""
    other = Queue.create(queue.bus, "other", "job")
    tokens = [take(other).token, take(queue).token, take(other).token]
    assert tokens == [2, 3, 4]


def test_every_time_is_an_integer(bus: Bus) -> None:
    """P-92, X-07, K-16: nothing is compared as text."""
    for table in ("queues", "jobs", "claims"):
        for _, name, type, *_ in file_of(bus).rows(f"PRAGMA table_info({table})"):
            assert not name.endswith(("_at", "_until"))
            assert type == "INTEGER" or not name.endswith("_ms")


def test_file_is_in_wal_mode_and_writes_begin_immediately(bus: Bus) -> None:
    """K-17: and keep foreign keys; tests/concurrency has the eight publishers."""
    assert file_of(bus).value("PRAGMA journal_mode") == "wal"
    assert file_of(bus).value("PRAGMA foreign_keys") == 1
    begins: list[str] = []

    def note(_: object, sql: str, __: object) -> bool:
        if sql.startswith("BEGIN"):
            begins.append(sql)
        return True

    queue = Queue.create(bus, "job")
    publish(bus)
    file_of(bus).connection.exec_trace = note
    queue.complete(take(queue))
    assert begins == ["BEGIN IMMEDIATE", "BEGIN IMMEDIATE"]


def test_job_that_plain_sql_has_made_is_claimed(bus: Bus, bus_dir: Path) -> None:
    """D-09: documented columns alone are enough."""
    publish(bus)
    queue = Queue.create(bus, "job", start="now")
    raw_sql(
        bus_dir,
        "INSERT INTO jobs (queue_id, seq, max_attempts, available_at_ms, created_at_ms)"
        " VALUES (1, 1, 4, 0, 0)",
    )
    assert seqs(queue.claim("worker")) == [1]
    assert state(queue) == "running"
