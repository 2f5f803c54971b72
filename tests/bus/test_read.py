"""Reading: by every address, in order, and no more rows than are asked for."""

import tracemalloc
from collections.abc import Iterator
from inspect import getfile
from pathlib import Path

import apsw
import apsw.ext
import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.bus.local_bus import LocalBus
from ackbus.bus.log.catalog import BLOCK_SEQS, STEP_MESSAGES, Catalog
from ackbus.bus.statements import SQL
from ackbus.model import Stats
from ackbus.schema.queries import Queries, file_of
from ackbus.subscribers.inboxes.statements import SQL as INBOXES

from ..programs import connect, held_write_lock, raw_sql, tamper

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def ids(messages: object) -> list[str]:
    return [message.id for message in messages]  # type: ignore[attr-defined]


def fill(bus: Bus, count: int, **fields: object) -> None:
    options = {"from_agent": "filler", "to_agent": "nobody"} | fields
    bus.publish_many([Draft("filler", **options) for _ in range(count)])  # type: ignore[arg-type]


def test_reader_that_takes_one_message_has_read_few(bus: Bus) -> None:
    """Live streams read a batch at a time: large messages behind it would be read for each."""
    bus.publish_many([Draft("t", "x" * 4000, from_agent="a")] * 1000)
    for wanted in ({}, {"type": "t"}, {"agent": "a"}):
        tracemalloc.start()
        try:
            next(bus.read(**wanted))  # type: ignore[arg-type]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1_000_000, wanted


def test_one_message_is_read_in_every_way(bus: Bus) -> None:
    """X-05: by seq, id, recipient, sender, type, conversation and time."""
    bus.publish("noise", from_agent="x", to_agent="y")
    bus.publish("task.done", from_agent="bob", to_agent="alice", id="m", correlation_id="c")
    message = bus.get(2)
    assert message is not None
    assert (message.id, message.conversation) == ("m", "c")
    assert bus.get("m").seq == 2  # type: ignore[union-attr]
    assert ids(Inbox(bus, "alice").poll()) == ["m"]
    assert ids(bus.read(agent="bob")) == ["m"]
    assert ids(bus.read(agent="alice")) == ["m"]
    assert ids(bus.read(type="task.*")) == ["m"]
    assert ids(bus.read(conversation="c")) == ["m"]
    assert ids(bus.read(after_seq=1)) == ["m"]
    assert ids(bus.read(since_ms=message.ts_ms, type="task.done")) == ["m"]
    assert ids(bus.log.newest(1)) == ["m"]


def test_conversation_is_read_in_order_of_seq(bus: Bus) -> None:
    """M-96: everything of task A, from its assignment on, and nothing of B."""
    for step in ("task_assign", "task_progress", "task_done"):
        for task in "AB":
            bus.publish(step, from_agent="lead", correlation_id=task, id=f"{task}-{step}")
    expected = ["A-task_assign", "A-task_progress", "A-task_done"]
    assert ids(bus.read(conversation="A")) == expected


def test_filters_combine(bus: Bus, bus_dir: Path) -> None:
    """X-05: every filter that is given must fit; a message to oneself comes once."""
    rows = [
        ("a", "bob", "alice", "task.done", 1000),
        ("b", "bob", "bob", "task.done", 2000),
        ("c", "alice", None, "task.done", 3000),
        ("d", "alice", "bob", "note", 4000),
        ("e", "carol", "dave", "task.done", 5000),
    ]
    bus.publish_many(
        [Draft(t, from_agent=f, to_agent=to, id=i, ts_ms=ts) for i, f, to, t, ts in rows]
    )
    for _ in range(2):  # before and after the catalog knows these messages
        assert ids(bus.read()) == list("abcde")
        assert ids(bus.read(agent="bob")) == list("abd")
        assert ids(bus.read(agent="bob", type="task.>")) == list("ab")
        assert ids(bus.read(agent="alice", since_ms=2000)) == list("cd")
        assert ids(bus.read(after_seq=1, upto_seq=4, type="task.done")) == list("bc")
        assert ids(bus.read(type="*")) == ["d"]
        assert ids(bus.read(since_ms=5000)) == ["e"]
        assert ids(bus.read(since_ms=5001)) == []
        Catalog.of(bus).catch_up(bus.log.newest_seq())
    assert Catalog.of(bus).counts("type") == {"task.done": 4, "note": 1}
    assert Catalog.of(bus).counts("from") == {"alice": 2, "bob": 2, "carol": 1}


@pytest.mark.parametrize("seq", [1_000_000, 2**53 - 1, 2**63 - 1])
def test_numbers_that_were_left_out_are_no_steps_of_the_catalog(
    bus: Bus, bus_dir: Path, seq: int
) -> None:
    """A number may be any that another program wrote; the numbers below it were walked."""
    fill(bus, 3)
    tamper(bus_dir, f"UPDATE messages SET seq = {seq} WHERE seq = 3")
    connection = file_of(bus).connection
    changes = connection.total_changes()
    assert bus.stats().messages == 3
    assert connection.total_changes() - changes < 20


def test_reading_ends_where_the_log_ended_when_it_began(bus: Bus) -> None:
    """Promise 2: a reader that publishes for each message comes to an end."""
    fill(bus, 3)
    for _ in bus.read():
        fill(bus, 1)
    assert bus.log.newest_seq() == 6


def test_history_is_read_by_pages(bus: Bus) -> None:
    """M-39: in order over many pages, each message once."""
    fill(bus, 2500)
    assert [message.seq for message in bus.read()] == list(range(1, 2501))
    assert [message.seq for message in bus.read(after_seq=998, upto_seq=2001)] == list(
        range(999, 2002)
    )


def test_follow_gives_history_and_then_each_new_message(bus: Bus) -> None:
    """X-06: from a position that the client holds, or from now on."""
    fill(bus, 2)
    from_the_second = bus.follow(after_seq=1)
    assert next(from_the_second).seq == 2
    new_ones = bus.follow(type="note")
    bus_next = bus.publish("filler", from_agent="bob")
    assert next(from_the_second).seq == bus_next.seq
    from_the_second.close()  # type: ignore[attr-defined]
    new_ones.close()  # type: ignore[attr-defined]


# Indexes and counted steps; `tests/performance` has the plans.


def test_indexes_are_the_documented_ones_or_cheaper(bus_dir: Path) -> None:
    """M-16: seq, as rowid, ends every index by itself; the catalog replaces the type index."""
    found = dict(
        connect(bus_dir).execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'messages'"
            " AND sql IS NOT NULL"
        )
    )
    assert {name: " ".join(sql.split()) for name, sql in found.items()} == {
        "idx_messages_mail": (
            "CREATE INDEX idx_messages_mail ON messages (to_agent) WHERE work IS NOT 1"
        ),
        "idx_messages_work_to": (
            "CREATE INDEX idx_messages_work_to ON messages (to_agent)"
            " WHERE work = 1 AND to_agent IS NOT NULL"
        ),
        "idx_messages_correlation_seq": (
            "CREATE INDEX idx_messages_correlation_seq ON messages (correlation_id)"
            " WHERE correlation_id IS NOT NULL"
        ),
        "idx_messages_payload_ref": (
            "CREATE INDEX idx_messages_payload_ref ON messages (payload_ref)"
            " WHERE payload_ref IS NOT NULL"
        ),
    }


class Steps:
    """Counts the steps of SQLite's machine on one connection."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return False


@pytest.fixture
def steps(bus: Bus) -> Iterator[Steps]:
    """Counts the steps that this thread's statements take."""
    counter = Steps()
    file_of(bus).connection.set_progress_handler(counter, 1)
    yield counter
    file_of(bus).connection.set_progress_handler(None)


@pytest.mark.slow
def test_poll_costs_the_same_in_a_log_of_any_length(bus: Bus, steps: Steps) -> None:
    """M-16, M-48: a hundred times the messages around it, before and after, change no step."""

    def steps_of_a_poll() -> int:
        steps.count = 0
        assert len(Inbox(bus, "alice").poll(limit=10)) == 10
        return steps.count

    def cost_of_a_poll() -> int:
        return min(steps_of_a_poll() for _ in range(3))  # every 10 ms one looks at the tables, too

    fill(bus, 100)
    fill(bus, 20, to_agent="alice")
    fill(bus, 20, to_agent=None)
    fill(bus, 100)
    short = cost_of_a_poll()
    fill(bus, 10_000)
    fill(bus, 1000, to_agent="alice")
    fill(bus, 1000, to_agent=None)
    assert cost_of_a_poll() == short
    Inbox(bus, "alice").ack(10_000)
    assert cost_of_a_poll() <= short * 1.1


@pytest.mark.slow
def test_ack_and_publish_cost_the_same_in_a_log_of_any_length(bus: Bus, steps: Steps) -> None:
    """M-16, M-50."""

    def cost() -> int:
        steps.count = 0
        fill(bus, 1)
        Inbox(bus, "alice").ack(bus.log.newest_seq())
        return steps.count

    cost()
    short = cost()
    fill(bus, 10_000)
    assert cost() <= short * 1.1


@pytest.mark.slow
def test_rare_type_in_a_long_log_skips_its_blocks(bus: Bus, steps: Steps) -> None:
    """M-16: with the catalog, two blocks of some twenty are read, by type and by sender."""
    blocks = 2 + STEP_MESSAGES // BLOCK_SEQS + 2
    for block in range(blocks):
        fill(bus, BLOCK_SEQS - 1)
        rare = block in (1, blocks - 2)
        bus.publish("rare" if rare else "filler", from_agent="rarely" if rare else "filler")
    steps.count = 0
    everything = sum(1 for _ in bus.read())
    cost_of_all = steps.count
    assert everything == blocks * BLOCK_SEQS
    expected = [2 * BLOCK_SEQS, (blocks - 1) * BLOCK_SEQS]
    Catalog.of(bus).catch_up(bus.log.newest_seq())
    for filters in ({"type": "rare"}, {"agent": "rarely"}):
        steps.count = 0
        assert [message.seq for message in bus.read(**filters)] == expected  # type: ignore[arg-type]
        assert steps.count < cost_of_all / (blocks / 4)


def test_catalog_finds_what_stands_at_the_edges_of_blocks(bus: Bus) -> None:
    """M-16: the first and the last seq of a block, in whole logs and in ranges that cut them."""
    edges = [BLOCK_SEQS - 1, BLOCK_SEQS, 2 * BLOCK_SEQS - 1, 2 * BLOCK_SEQS]
    for _ in range(2):
        fill(bus, BLOCK_SEQS - 2)
        bus.publish_many([Draft("rare", from_agent="bob"), Draft("rare", from_agent="bob")])
    Catalog.of(bus).catch_up(bus.log.newest_seq())
    assert [message.seq for message in bus.read(type="rare")] == edges
    for first in edges:
        for last in edges:
            found = [m.seq for m in bus.read(type="rare", after_seq=first - 1, upto_seq=last)]
            assert found == [seq for seq in edges if first <= seq <= last]


@pytest.mark.slow
def test_reader_that_cannot_write_reads_it_all_instead(bus: Bus, bus_dir: Path) -> None:
    """M-16: while another program holds the write lock, the answer is the same, only slower."""
    fill(bus, STEP_MESSAGES + 1)
    bus.publish("rare", from_agent="bob", id="m")
    with Bus.open(bus_dir, write_timeout_s=0.05) as reader, held_write_lock(bus_dir):
        assert ids(reader.read(type="rare")) == ["m"]
        assert Catalog.of(reader).position() == 0
    assert ids(bus.read(type="rare")) == ["m"]
    assert Catalog.of(bus).position() == STEP_MESSAGES + 2


def test_catalog_catches_up_from_where_it_is(bus: Bus, bus_dir: Path) -> None:
    """M-16: by its own position, also over gaps and messages of raw writers; counts stay exact."""
    fill(bus, 3)
    Catalog.of(bus).catch_up(3)
    raw_sql(
        bus_dir,
        "INSERT INTO messages (seq, id, ts_ms, from_agent, type)"
        f" VALUES ({3 * BLOCK_SEQS}, 'far', 1, 'raw', 'rare')",
    )
    fill(bus, 2)
    for _ in range(2):
        Catalog.of(bus).catch_up(bus.log.newest_seq())
        assert Catalog.of(bus).position() == 3 * BLOCK_SEQS + 2
        assert Catalog.of(bus).counts("type") == {"filler": 5, "rare": 1}
        assert ids(bus.read(type="rare")) == ["far"]


def test_statements_of_a_poll_are_in_the_file(bus: Bus) -> None:
    """M-12: what the plans above show is what runs."""
    assert set(Queries(beside=getfile(LocalBus))) == set(SQL)
    assert set(Queries(beside=getfile(Inbox))) == set(INBOXES)
    seen: list[str] = []
    connection = file_of(bus).connection
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: seen.append(event["sql"]))
    Inbox(bus, "alice").poll()
    connection.trace_v2(0, None)
    polled = [sql for sql in seen if "FROM messages" in sql]
    assert len(polled) == 1
    assert polled[0] == INBOXES["mail"]


def test_follow_begins_where_it_is_called(bus: Bus) -> None:
    """Pitfall 11: what is published between the call and the first step is not passed over."""
    bus.publish("before", from_agent="bob")
    messages = bus.follow()
    bus.publish("after", from_agent="bob")
    assert next(messages).type == "after"


def test_statistics_count_by_type_and_sender(bus: Bus) -> None:
    """Issue item 4: also for messages that came after the last count."""
    assert bus.stats() == Stats(messages=0, newest_seq=0, by_type={}, by_sender={})
    for round in (1, 2):
        bus.publish_many([Draft("b", from_agent="y"), Draft("a", from_agent="x")])
        bus.publish("a", from_agent="y")
        assert bus.stats() == Stats(
            messages=3 * round,
            newest_seq=3 * round,
            by_type={"a": 2 * round, "b": round},
            by_sender={"x": round, "y": 2 * round},
        )
