"""Publishing: once, in order, all or nothing, with a word about strangers."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, Inbox, Receipt
from ackbus.errors import (
    BlobMissing,
    IdConflict,
    InvalidInput,
    UnknownParent,
    UnknownRecipient,
    UnknownRecipientWarning,
)
from ackbus.schema.queries import file_of

from ..programs import connect, raw_sql, run_program, run_program_to_sigkill

FIELDS: dict[str, Any] = {
    "type": "note",
    "payload": {"n": 1},
    "from_agent": "bob",
    "to_agent": "alice",
    "correlation_id": "c1",
    "priority": 1,
    "headers": {"h": 1},
}


@pytest.fixture(autouse=True)
def known_agents(bus: Bus) -> None:
    for agent in ("alice", "bob", "carol"):
        bus.heartbeats.beat(agent)


def publish(bus: Bus, **changes: Any) -> Receipt:
    fields = FIELDS | {"id": "m1"} | changes
    return bus.publish(fields.pop("type"), fields.pop("payload"), **fields)


def test_publish_returns_the_id_that_is_stored(bus: Bus) -> None:
    """M-40: the caller's, or a new one."""
    given = bus.publish("note", from_agent="bob", id="mine")
    drawn = bus.publish("note", from_agent="bob")
    assert given == Receipt(1, "mine")
    assert [message.id for message in bus.read()] == ["mine", drawn.id]
    assert bus.get("mine") is not None
    assert bus.get(2) is not None
    assert bus.get("other") is None


def test_same_id_and_content_is_published_once(bus: Bus) -> None:
    """M-41, promise 3, PITFALLS 17: the first seq comes back, no row is added, no error raised."""
    first = publish(bus)
    again = publish(bus)
    assert (first.seq, first.duplicate) == (1, False)
    assert (again.seq, again.id, again.duplicate) == (1, "m1", True)
    assert len(list(bus.read())) == 1


def test_same_large_content_is_published_once(bus: Bus) -> None:
    """M-41, promise 3: compared by its blob."""
    assert not publish(bus, payload="x" * 5000).duplicate
    assert publish(bus, payload="x" * 5000).duplicate
    with pytest.raises(IdConflict, match="another payload"):
        publish(bus, payload="y" * 5000)


def test_same_content_of_a_raw_writer_is_a_duplicate(bus: Bus, bus_dir: Path) -> None:
    """M-41: JSON with other spaces and order has the same meaning."""
    connect(bus_dir).execute(
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        """ VALUES ('m1', 1, 'bob', 'note', '{ "b": 2, "a": 1 }')"""
    )
    assert bus.publish("note", {"a": 1, "b": 2}, from_agent="bob", id="m1").duplicate


CHANGES = {
    "type": ("other", "type"),
    "payload": ({"n": 2}, "payload"),
    "from_agent": ("carol", "from_agent"),
    "to_agent": (None, "to_agent"),
    "correlation_id": ("c2", "correlation_id"),
    "priority": (2, "priority"),
    "headers": ({"h": 2}, "headers"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_same_id_with_other_content_is_a_conflict(field: str, bus: Bus) -> None:
    """M-47, promise 3: the error names the id, the place of the stored one, and what differs."""
    publish(bus)
    changed, name = CHANGES[field]
    with pytest.raises(IdConflict) as caught:
        publish(bus, **{field: changed})
    error = caught.value
    assert (error.id, error.seq, error.fields) == ("m1", 1, [name])
    assert str(error) == f"message id 'm1' is taken by seq 1, with another {name}; use a new id"
    (message,) = bus.read()
    assert message.payload == {"n": 1}


@pytest.mark.parametrize("field", ["type", "from_agent"])
def test_only_a_duplicate_id_is_taken_for_a_duplicate(field: str, bus: Bus) -> None:
    """M-45: a missing type or sender is an error, with an id or without."""
    for id in (None, "m1"):
        with pytest.raises(InvalidInput, match=f"{field} must be text, not None"):
            publish(bus, id=id, **{field: None})
    assert bus.log.newest_seq() == 0


def test_row_that_the_table_refuses_is_an_error(bus: Bus, bus_dir: Path) -> None:
    """M-44, M-45: a rule that only the database knows, here of a later schema."""
    file_of(bus).refuses_foreign_objects = False
    connect(bus_dir).execute(
        "CREATE TRIGGER extra BEFORE INSERT ON messages WHEN NEW.type = 'banned'"
        " BEGIN SELECT RAISE(ABORT, 'banned here'); END"
    )
    with pytest.raises(InvalidInput, match=r"the log refused message 'm1': .*banned here"):
        publish(bus, type="banned")
    assert bus.log.newest_seq() == 0


def test_duplicates_leave_no_gap_and_gaps_of_others_are_passed(bus: Bus, bus_dir: Path) -> None:
    """M-84, X-41: neither a duplicate nor a rollback of ours burns a seq; one of others may."""
    publish(bus)
    publish(bus)
    with pytest.raises(InvalidInput):
        bus.publish_many([Draft("ok", from_agent="bob"), Draft("a b", from_agent="bob")])
    assert publish(bus, id="m2").seq == 2
    raw_sql(
        bus_dir,
        "INSERT INTO messages (seq, id, ts_ms, from_agent, type) VALUES (9, 'm9', 1, 'raw', 'x')",
    )
    assert publish(bus, id="m10").seq == 10
    assert [message.seq for message in bus.read()] == [1, 2, 9, 10]
    assert [message.seq for message in Inbox(bus, "alice").poll()] == [1, 2, 9, 10]


def test_many_are_stored_in_order_in_one_transaction(bus: Bus) -> None:
    """M-10, promise 11: with a receipt each; a conflict in the middle stores none of them."""
    drafts = [Draft("note", n, from_agent="bob", id=f"m{n}") for n in range(100)]
    assert [receipt.seq for receipt in bus.publish_many(drafts)] == list(range(1, 101))
    clash = [Draft("note", from_agent="bob"), Draft("note", "other", from_agent="bob", id="m5")]
    with pytest.raises(IdConflict):
        bus.publish_many(clash)
    assert bus.log.newest_seq() == 100
    assert bus.publish_many([]) == []


def test_same_id_twice_in_one_batch_is_one_message(bus: Bus) -> None:
    """M-41, promise 3."""
    receipts = bus.publish_many([Draft("note", 1, from_agent="bob", id="m1") for _ in range(2)])
    assert receipts == [Receipt(1, "m1"), Receipt(1, "m1", duplicate=True)]


@pytest.mark.slow
def test_writers_of_large_payloads_never_mix(bus: Bus, bus_dir: Path) -> None:
    """M-10: eight processes, twenty payloads of 64 KB each, and every one is whole."""
    source = """
import sys
from ackbus import Bus
with Bus.open(sys.argv[1]) as bus:
    for n in range(20):
        bus.publish("large", [sys.argv[2], n, sys.argv[2] * 64_000], from_agent=sys.argv[2])
"""
    command = [sys.executable, "-c", source, str(bus_dir)]
    writers = [subprocess.Popen([*command, letter]) for letter in "abcdefgh"]
    assert [writer.wait(timeout=60) for writer in writers] == [0] * 8
    payloads = [message.payload for message in bus.read()]
    expected = [[letter, n, letter * 64_000] for letter in "abcdefgh" for n in range(20)]
    assert sorted(payloads) == expected


def test_reply_joins_the_conversation_of_its_parent(bus: Bus) -> None:
    """M-96, X-05: a root's own id names the conversation; a given one is kept."""
    publish(bus, id="root", correlation_id=None)
    publish(bus, id="reply", correlation_id=None, in_reply_to="root")
    publish(bus, id="again", correlation_id=None, in_reply_to="reply")
    publish(bus, id="other", correlation_id="mine", in_reply_to="root")
    found = {message.id: message.correlation_id for message in bus.read()}
    assert found == {"root": None, "reply": "root", "again": "root", "other": "mine"}
    assert [m.id for m in bus.read(conversation="root")] == ["root", "reply", "again"]


def test_reply_to_a_message_of_the_same_batch_is_a_reply(bus: Bus) -> None:
    """M-96."""
    bus.publish_many(
        [
            Draft("ask", from_agent="bob", id="root"),
            Draft("answer", from_agent="alice", in_reply_to="root"),
        ]
    )
    assert [message.conversation for message in bus.read()] == ["root", "root"]


def test_reply_to_an_unknown_message_is_refused(bus: Bus) -> None:
    """Promise 11: nothing is stored."""
    with pytest.raises(UnknownParent, match="no message 'nowhere' to reply to"):
        publish(bus, in_reply_to="nowhere")
    assert bus.log.newest_seq() == 0


def test_stranger_gets_a_warning_with_the_nearest_names(bus: Bus) -> None:
    """PITFALLS 14: the message is stored; one warning from each process is enough."""
    with pytest.warns(UnknownRecipientWarning) as caught:
        publish(bus, to_agent="alicf")
    (warning,) = caught
    assert str(warning.message) == ("the bus has never seen an agent 'alicf'; did you mean alice?")
    assert warning.filename == __file__
    publish(bus, to_agent="alicf", id="m2")
    assert [message.to_agent for message in bus.read()] == ["alicf", "alicf"]


def test_warning_names_the_line_that_published(bus: Bus) -> None:
    """Pitfall 14: the line to mend, for `publish_many` as for `publish`."""
    with pytest.warns(UnknownRecipientWarning) as caught:
        bus.publish_many([Draft("note", from_agent="bob", to_agent="ghost")])
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("word", ["all", "*"])
def test_word_for_everyone_is_no_recipient(word: str, bus: Bus) -> None:
    """It would lie in an inbox at which nobody looks, and read as a broadcast in every list."""
    for _ in range(2):
        with pytest.raises(UnknownRecipient, match="to reach everyone, name no recipient"):
            publish(bus, to_agent=word)
    assert bus.log.newest_seq() == 0
    bus.heartbeats.beat(word)
    publish(bus, to_agent=word)


def test_stranger_is_refused_when_strict(bus: Bus) -> None:
    """PITFALLS 14: each time, and nothing is stored."""
    for _ in range(2):
        with pytest.raises(UnknownRecipient) as caught:
            publish(bus, to_agent="zoe", strict=True)
        assert (caught.value.agent, caught.value.nearest) == ("zoe", [])
    assert bus.log.newest_seq() == 0
    publish(bus, to_agent="alice", strict=True)


@pytest.mark.parametrize(
    "act",
    [
        lambda bus: bus.heartbeats.beat("dora"),
        lambda bus: Inbox(bus, "dora").ack(1),
        lambda bus: bus.publish("note", from_agent="dora"),
    ],
    ids=["beat", "ack", "send"],
)
def test_agent_that_acted_is_known(act: Callable[[Bus], object], bus: Bus) -> None:
    """PITFALLS 14."""
    bus.publish("note", from_agent="bob")
    assert not bus.agents.knows("dora")
    act(bus)
    assert bus.agents.knows("dora")
    assert bus.agents.names() == ["alice", "bob", "carol", "dora"]


def test_published_message_is_there_after_sigkill(bus: Bus, bus_dir: Path) -> None:
    """M-36, promise 1: the id is printed after publish returned, then the process is killed."""
    id = run_program_to_sigkill(
        """
        import os, signal, sys
        from ackbus import Bus
        print(Bus.open(sys.argv[1]).publish("note", 1, from_agent="bob").id, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        bus_dir,
    ).strip()
    message = bus.get(id)
    assert message is not None
    assert (message.seq, message.payload) == (1, 1)


def test_time_of_a_message_is_the_wall_clock(bus: Bus) -> None:
    """M-23."""
    before = time.time_ns() // 1_000_000
    publish(bus)
    (message,) = bus.read()
    assert before <= message.ts_ms <= time.time_ns() // 1_000_000


def test_publishing_and_reading_run_no_program(bus_dir: Path) -> None:
    """PITFALLS 20: no git, nor anything else, also in a repository, with a blob and a reply."""
    (bus_dir.parent / ".git").mkdir()
    out = run_program(
        """
        import sys
        STARTS = ("os.exec", "os.fork", "os.posix_spawn", "os.system", "subprocess.Popen", "pty.")
        started = []
        sys.addaudithook(lambda event, _: event.startswith(STARTS) and started.append(event))
        from ackbus import Bus, Inbox
        with Bus.open(sys.argv[1]) as bus:
            first = bus.publish("note", "x" * 9000, from_agent="ann")
            bus.publish("note", from_agent="ann", to_agent="bob", in_reply_to=first.id)
            inbox = Inbox(bus, "bob")
            for message in inbox.poll():
                inbox.ack(message)
        print(started)
        """,
        bus_dir,
    )
    assert out == "[]\n"


def test_name_of_a_missing_blob_is_quoted_in_the_error(bus: Bus) -> None:
    """Promise 11: whatever the name has in it, the error is one line."""
    with pytest.raises(BlobMissing) as caught:
        bus.publish("note", from_agent="a", payload_ref="no\nblob" + "x" * 5000)
    assert str(caught.value).startswith(r"no blob 'no\nblobxxx")
    assert len(str(caught.value)) < 200
