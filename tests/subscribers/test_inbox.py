"""Inboxes: polling changes nothing, acknowledging only moves forward, completing happens once."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Inbox, Message, Queue
from ackbus.errors import AckPastEnd, IdConflict, InvalidInput
from ackbus.schema.queries import file_of

from ..programs import connect, raw_sql

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def fill(
    bus: Bus,
    count: int,
    to_agent: str | None = None,
    from_agent: str = "bob",
    type: str = "note",
) -> None:
    bus.publish_many(
        [Draft(type, n, from_agent=from_agent, to_agent=to_agent) for n in range(count)]
    )


def seqs(messages: Iterable[Message]) -> list[int]:
    return [message.seq for message in messages]


def test_poll_changes_nothing(bus: Bus, bus_dir: Path) -> None:
    """M-48, promise 4: twice the same result, no cursor, and not a byte of the file."""
    fill(bus, 3)
    changes = file_of(bus).connection.total_changes()
    inbox = Inbox(bus, "alice")
    assert seqs(inbox.poll()) == seqs(inbox.poll()) == [1, 2, 3]
    assert inbox.position == 0
    assert file_of(bus).connection.total_changes() == changes
    assert raw_sql(bus_dir, "SELECT count(*) FROM cursors") == [[0]]


def test_acknowledging_is_no_message(bus: Bus, bus_dir: Path) -> None:
    """PITFALLS 16: one row for each agent, however often; nobody's mail, and nothing exported."""
    fill(bus, 50)
    for seq in range(1, 51):
        Inbox(bus, "alice").ack(seq)
    assert bus.log.newest_seq() == 50
    assert raw_sql(bus_dir, "SELECT count(*) FROM cursors") == [[1]]
    assert len(Inbox(bus, "carol").poll()) == 50


def test_new_agent_sees_all_history(bus: Bus) -> None:
    """M-49, C-04."""
    fill(bus, 3)
    assert seqs(Inbox(bus, "never-seen").poll()) == [1, 2, 3]


def test_poll_returns_a_hundred_unless_told_otherwise(bus: Bus) -> None:
    """M-48, M-39: the first ones, in order of seq."""
    fill(bus, 120)
    inbox = Inbox(bus, "alice")
    assert seqs(inbox.poll()) == list(range(1, 101))
    assert seqs(inbox.poll(limit=2)) == [1, 2]
    inbox.ack(100)
    assert seqs(inbox.poll()) == list(range(101, 121))
    assert (inbox.unread(), inbox.unread(limit=5)) == (20, 5)


def test_direct_and_broadcast_messages_merge_in_order(bus: Bus) -> None:
    """M-24, M-39, M-48: whatever the order in which they came."""
    for to_agent in (None, "alice", "carol", "alice", None, None, "alice"):
        fill(bus, 1, to_agent)
    assert seqs(Inbox(bus, "alice").poll()) == [1, 2, 4, 5, 6, 7]
    assert seqs(Inbox(bus, "alice").poll(limit=3)) == [1, 2, 4]


def test_broadcast_reaches_every_agent(bus: Bus) -> None:
    """M-24."""
    fill(bus, 1)
    for agent in ("alice", "carol"):
        (message,) = Inbox(bus, agent).poll()
        assert message.to_agent is None


def test_cursors_of_agents_are_independent(bus: Bus) -> None:
    """M-54, C-04: b's acknowledgement is not c's, and a direct message is not for c."""
    fill(bus, 1, to_agent="b", from_agent="a")
    fill(bus, 1, from_agent="a")
    Inbox(bus, "b").ack(2)
    assert seqs(Inbox(bus, "b").poll()) == []
    assert seqs(Inbox(bus, "c").poll()) == [2]
    assert Inbox(bus, "c").position == 0


def test_own_broadcasts_are_no_mail_unless_they_are_wanted(bus: Bus) -> None:
    """M-55: by option; a message to oneself comes in any case."""
    fill(bus, 1, from_agent="alice")
    fill(bus, 1, from_agent="bob")
    fill(bus, 1, from_agent="alice", to_agent="alice")
    assert seqs(Inbox(bus, "alice").poll()) == [2, 3]
    assert Inbox(bus, "alice").unread() == 2
    assert seqs(Inbox(bus, "alice", own_broadcasts=True).poll()) == [1, 2, 3]


def test_work_is_no_mail_unless_it_is_asked_for(bus: Bus) -> None:
    """Messages of a queue with an exact type are for its workers, from when it was made."""
    fill(bus, 1, type="job", from_agent="bob")
    Queue.create(bus, "job")
    fill(bus, 2, type="job", from_agent="bob")
    fill(bus, 1, from_agent="bob")
    alice = Inbox(bus, "alice")
    assert seqs(alice.poll()) == [1, 4]
    assert alice.unread() == 2
    assert seqs(Inbox(bus, "alice", with_work=True).poll()) == [1, 2, 3, 4]
    assert len(Queue.open(bus, "job").claim("w", limit=9)) == 3


def test_message_to_an_agent_is_its_mail_and_no_job(bus: Bus) -> None:
    """`--to worker-9` is worker-9's; the queue's own group's are work; `*` takes all of them."""
    queue = Queue.create(bus, "job", group="crew")
    everybody = Queue.create(bus, "all-jobs", "job", addressed="*")
    fill(bus, 1, type="job", from_agent="bob", to_agent="worker-9")
    fill(bus, 1, type="job", from_agent="bob", to_agent="crew")
    fill(bus, 1, type="job", from_agent="bob")
    assert [claim.message.seq for claim in queue.claim("w", limit=9)] == [2, 3]
    assert [claim.message.seq for claim in everybody.claim("w", limit=9)] == [1, 2, 3]
    assert seqs(Inbox(bus, "worker-9").poll()) == [1]
    assert seqs(Inbox(bus, "crew").poll()) == []
    assert seqs(bus.read(agent="crew")) == [2]


def test_agent_says_which_broadcasts_it_wants(bus: Bus) -> None:
    """Kept with its cursor; an acknowledgement passes what was not wanted; others see all."""
    for type in ("task.done", "note", "task.a.b", "task"):
        fill(bus, 1, type=type, from_agent="bob")
    fill(bus, 1, from_agent="bob", to_agent="alice")
    alice = Inbox(bus, "alice")
    alice.want("task.*", "task")
    assert Inbox(bus, "alice").wants == ["task.*", "task"]
    assert seqs(Inbox(bus, "alice").poll()) == [1, 4, 5]
    assert alice.unread() == 3
    assert seqs(Inbox(bus, "carol").poll()) == [1, 2, 3, 4]
    alice.want("task.>")
    assert seqs(alice.poll()) == [1, 3, 5]
    alice.ack(3)
    alice.want()
    assert alice.wants is None
    assert seqs(alice.poll()) == [4, 5]
    with pytest.raises(InvalidInput):
        alice.want("*.a.>")


def test_poll_that_filters_finds_what_is_far_behind(bus: Bus) -> None:
    """M-48: by type, over more messages than one page holds."""
    fill(bus, 1200)
    bus.publish("task.done", from_agent="bob")
    inbox = Inbox(bus, "alice")
    assert seqs(inbox.poll(type="task.*")) == [1201]
    assert seqs(inbox.poll(type="note", limit=2)) == [1, 2]
    fill(bus, 1200, from_agent="alice")
    assert seqs(Inbox(bus, "alice").poll(limit=2000)) == list(range(1, 1202))


def test_ack_never_moves_back(bus: Bus, bus_dir: Path) -> None:
    """M-50, promise 4: 5, then 3, stays 5; the time is set each time."""
    fill(bus, 5)
    times = iter(range(1000, 2000))
    with Bus.open(bus_dir, clock=lambda: next(times)) as clocked:
        inbox = Inbox(clocked, "alice")
        assert inbox.ack(5) == 5
        assert inbox.ack(3) == 5
    assert raw_sql(bus_dir, "SELECT * FROM cursors") == [["alice", 5, 1001, None]]


def test_ack_covers_all_before_it(bus: Bus) -> None:
    """M-50: by message or by seq, to others' messages too."""
    fill(bus, 3)
    fill(bus, 1, to_agent="carol")
    inbox = Inbox(bus, "alice")
    inbox.ack(inbox.poll()[1])
    assert seqs(inbox.poll()) == [3]
    assert inbox.ack(4) == 4


@pytest.mark.parametrize("seq", [10**9, 4, 0, -1])
def test_ack_past_the_end_is_refused(seq: int, bus: Bus) -> None:
    """M-57, promise 4: the cursor stays, and what is published afterwards is delivered."""
    fill(bus, 3)
    inbox = Inbox(bus, "alice")
    inbox.ack(3)
    with pytest.raises(AckPastEnd, match=rf"can't acknowledge {seq}: the log holds 1 to 3"):
        inbox.ack(seq)
    fill(bus, 1)
    assert (inbox.position, seqs(inbox.poll())) == (3, [4])


def test_ack_of_an_empty_log_is_refused(bus: Bus) -> None:
    """M-57."""
    with pytest.raises(AckPastEnd):
        Inbox(bus, "alice").ack(1)


def test_stored_cursor_is_never_reset(bus: Bus, bus_dir: Path) -> None:
    """X-06: one that is ahead, as an older version let be, is left; a client may hold its own."""
    fill(bus, 3)
    raw = connect(bus_dir)
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    raw.execute("INSERT INTO cursors VALUES ('alice', 100, 1, NULL)")
    inbox = Inbox(bus, "alice")
    assert (inbox.position, inbox.poll()) == (100, [])
    assert inbox.ack(2) == 100
    assert seqs(bus.read(after_seq=1)) == [2, 3]
    assert inbox.position == 100


def test_undecodable_payload_is_delivered_with_its_error(bus: Bus, bus_dir: Path) -> None:
    """M-52: a row of another program, and the text that it stored is not lost."""
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        " VALUES ('m', 1, 'raw', 'note', '{not json')",
    )
    (message,) = Inbox(bus, "alice").poll()
    assert (message.payload, message.payload_error) == (None, "decode_failed")
    assert message.raw_payload == "{not json"
    assert b'"payload":"{not json","payload_error":"decode_failed"' in message.to_line()


def test_concurrent_acks_keep_the_largest(bus: Bus) -> None:
    """M-50, promise 4: from eight threads, in any order."""
    fill(bus, 200)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(Inbox(bus, "alice").ack, range(200, 0, -1)))
    assert Inbox(bus, "alice").position == 200


def test_complete_acknowledges_and_replies_in_one_transaction(bus: Bus) -> None:
    """M-38, promise 7, PITFALLS 13: the replies are published once, however often it comes."""
    fill(bus, 1, to_agent="alice")
    inbox = Inbox(bus, "alice")
    (message,) = inbox.poll()
    assert not inbox.is_completed(message)
    reply = Draft("done", from_agent="alice", in_reply_to=message.id)
    receipts = inbox.complete(message, reply)
    assert receipts is not None
    assert [receipt.seq for receipt in receipts] == [2]
    assert inbox.is_completed(message)
    assert inbox.complete(message, reply) is None
    assert bus.log.newest_seq() == 2
    assert inbox.position == 1


def test_complete_that_fails_changes_nothing(bus: Bus) -> None:
    """Promise 7: neither acknowledged, nor finished, nor half published."""
    fill(bus, 1, to_agent="alice")
    bus.publish("taken", from_agent="bob", to_agent="carol", id="taken")
    inbox = Inbox(bus, "alice")
    (message,) = inbox.poll()
    good, bad = Draft("ok", from_agent="alice"), Draft("done", from_agent="alice", id="taken")
    with pytest.raises(IdConflict):
        inbox.complete(message, good, bad)
    assert bus.log.newest_seq() == 2
    assert inbox.position == 0
    assert not inbox.is_completed(message)
    assert inbox.complete(message, good) is not None


def test_finished_messages_are_each_agents_own(bus: Bus) -> None:
    """M-38, M-54."""
    fill(bus, 1)
    for agent in ("alice", "carol"):
        inbox = Inbox(bus, agent)
        assert inbox.complete(inbox.poll()[0], Draft("done", from_agent=agent)) is not None
    assert bus.log.newest_seq() == 3


def test_inbox_checks_what_it_is_made_with(bus: Bus) -> None:
    """Promise 11."""
    with pytest.raises(InvalidInput):
        Inbox(bus, "")
    with pytest.raises(ValueError, match="max_deliveries must be at least 1"):
        Inbox(bus, "alice", max_deliveries=0)
