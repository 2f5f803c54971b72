"""The exchange: messages of types, in conversations, published and read by commands."""

import json
import sqlite3
import uuid
from pathlib import Path

import pytest

from ackbus import Bus, Queue

from ..conftest import RunBus


def published(run_bus: RunBus, *args: str, stdin: str = "") -> str:
    ended = run_bus("publish", *args, "--from", "me", stdin=stdin)
    assert (ended.code, ended.err) == (0, "")
    return ended.out.strip()


def read(run_bus: RunBus, *args: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run_bus("read", "--json", *args).out.splitlines()]


def test_bus_is_a_directory_that_init_makes(project: Path, run_bus: RunBus) -> None:
    """P-01: in .worker-state/, where ours is a directory and made on purpose; --dir is another."""
    assert run_bus("publish", "note", "x", "--from", "me").code == 1
    assert run_bus("init").code == 0
    assert (project / ".worker-state" / "bus.db").is_file()
    other = project / "deep" / "er"
    assert run_bus("init", "--dir", other).code == 0
    assert run_bus("publish", "note", "x", "--from", "me", "--dir", other).code == 0
    assert (read(run_bus), len(read(run_bus, "--dir", str(other)))) == ([], 1)


def test_exchange_works_without_any_worker(bus_dir: Path, run_bus: RunBus) -> None:
    """P-02, X-22: the log knows no plugins, no queues and no attempts; work is a layer above."""
    id = published(run_bus, "review.request", "look at this")
    assert [message["id"] for message in read(run_bus, "--type", "review.request")] == [id]
    with sqlite3.connect(bus_dir / "bus.db") as raw:
        columns = {row[1] for row in raw.execute("PRAGMA table_info(messages)")}
        assert raw.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    raw.close()
    assert not columns & {"state", "status", "attempt", "claimed_by", "queue"}


def test_message_has_the_fields_of_the_exchange(bus_dir: Path, run_bus: RunBus) -> None:
    """P-04, P-08: topic is type, body payload, producer from, metadata headers; RFC 3339 UTC.

    Ids are UUIDs, of version 7 (X-08).
    """
    root = published(run_bus, "a.request", "one", "--header", "model=x")
    published(run_bus, "a.done", "two", "--reply-to", root)
    first, second = read(run_bus)
    assert uuid.UUID(root).version == 7
    assert (first["type"], first["payload"], first["from"]) == ("a.request", "one", "me")
    assert first["headers"] == {"model": "x"}
    assert str(first["ts"]).endswith("Z")
    assert (second["in_reply_to"], second["correlation_id"]) == (root, root)


def test_conversation_is_the_roots_own_id_and_is_inherited(bus: Bus, run_bus: RunBus) -> None:
    """P-09, P-10, P-11: an explicit conversation beats the parent's."""
    root = published(run_bus, "a", "1")
    published(run_bus, "b", "2", "--reply-to", root)
    published(run_bus, "c", "3", "--reply-to", root, "--conversation", "other")
    assert [m["type"] for m in read(run_bus, "--conversation", root)] == ["a", "b"]
    assert [m["type"] for m in read(run_bus, "--conversation", "other")] == ["c"]
    message = bus.get(root)
    assert message is not None
    assert message.conversation == root


def test_unknown_parent_stores_nothing(bus: Bus, run_bus: RunBus) -> None:
    """P-12, X-14: one line; exit code 3, refused, where the original has 1."""
    ended = run_bus("publish", "a", "x", "--from", "me", "--reply-to", "nobody")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == "bus: no message 'nobody' to reply to; see 'bus read'\n"
    assert bus.log.newest_seq() == 0


def test_reading_is_in_the_order_of_publishing(bus: Bus, run_bus: RunBus) -> None:
    """P-13: by seq, however fast they came."""
    ids = [bus.publish("n", number, from_agent="me").id for number in range(50)]
    assert [message["id"] for message in read(run_bus)] == ids


def test_everything_beside_the_database_is_disposable(bus_dir: Path, run_bus: RunBus) -> None:
    """P-17, P-72: the doorbell is a file of one byte, and nothing is lost with it."""
    id = published(run_bus, "a.request", "x")
    published(run_bus, "a.request", "y")
    assert (bus_dir / "doorbell").stat().st_size == 1
    for name in ("doorbell", "write.lock"):
        (bus_dir / name).unlink()
    ended = run_bus("run", "--type", "a.request", "--drain", "--", "cat")
    assert ended.code == 0
    assert [m["payload"] for m in read(run_bus, "--conversation", id)] == ["x", "x"]


@pytest.mark.parametrize("body", ["two\nlines\n", "\ttab", "🚌 ✓", "", "  spaces  ", "'\"$`"])
def test_body_is_kept_as_it_is(bus_dir: Path, run_bus: RunBus, body: str) -> None:
    """P-18: byte for byte, by argument and by stdin."""
    published(run_bus, "a", body)
    if body:
        published(run_bus, "a", "-", stdin=body)
    assert {message["payload"] for message in read(run_bus)} == {body}


def test_any_type_is_addressable_and_delivers_to_nobody(bus: Bus, run_bus: RunBus) -> None:
    """P-26: nobody has to know a type; it may become a queue long after."""
    id = published(run_bus, "nobody.knows.this", "x")
    (claim,) = Queue.create(bus, "later", "nobody.>").claim("w")
    assert claim.message.id == id


def test_read_selects_by_type_by_conversation_or_both(bus_dir: Path, run_bus: RunBus) -> None:
    """P-66: where the original refuses two selectors, both together narrow the answer."""
    root = published(run_bus, "a.request", "x")
    published(run_bus, "a.done", "y", "--reply-to", root)
    published(run_bus, "a.done", "z")
    assert len(read(run_bus)) == 3
    assert len(read(run_bus, "--type", "a.done")) == 2
    both = read(run_bus, "--type", "a.done", "--conversation", root)
    assert [message["payload"] for message in both] == ["y"]
    plain = run_bus("read", "--type", "a.request").out.split()
    assert plain[-2:] == ["a.request", "x"]
