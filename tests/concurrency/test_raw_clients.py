"""Programs with plain SQLite take part, in both directions, while ours are at work."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ackbus import Bus, Inbox
from ackbus.errors import BusBusy, IdConflict

from ..conftest import wait_until
from .actors import Gate, StartActor, start_together

needs_shell = pytest.mark.skipif(shutil.which("sqlite3") is None, reason="no sqlite3 shell here")


def shell(bus_dir: Path, *statements: str) -> "subprocess.CompletedProcess[str]":
    """Runs Debian's sqlite3 on the file, as a person would."""
    return subprocess.run(
        ["sqlite3", "-cmd", ".timeout 10000", bus_dir / "bus.db", *statements],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
def test_raw_clients_and_ours_see_every_message_in_order(
    start: StartActor, start_raw: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-08: 2 raw publishers and a raw poller among 2 publishers and a poller of ours."""
    bus.heartbeats.beat("ours-reader")
    raw = [start_raw("publisher", bus_dir, f"raw-{number}", 150) for number in range(2)]
    reader = start_raw("poller", bus_dir, "raw-reader", 2 * 150 + 2 * 75)
    for actor in [*raw, reader]:
        actor.wait_told(1)
    ours = start_together(
        start,
        gate,
        [("publisher", bus_dir, f"ours-{n}", 150, "ours-reader", gate.path) for n in range(2)],
    )
    assert [actor.end()[1] for actor in raw] == [150, 150], "an id was stored twice"
    for actor in ours:
        actor.end()

    log = [message for message in bus.read() if message.type == "work"]
    for name in ("raw-0", "raw-1", "ours-0", "ours-1"):
        assert [message.payload for message in log if message.from_agent == name] == [*range(150)]
    broadcasts = [[m.seq, m.from_agent, m.payload] for m in log if m.to_agent is None]
    assert [m for m in broadcasts if m[1].startswith("raw")] == [
        [m.seq, m.from_agent, m.payload] for m in log if m.from_agent.startswith("raw")
    ]
    inbox = Inbox(bus, "ours-reader")
    assert [m.seq for m in inbox.poll(1000)] == [m.seq for m in bus.read()]


def test_raw_poller_is_given_what_ours_is_given(
    start_raw: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-08, M-48, M-50: the documented SELECT and upsert are a whole inbox."""
    bus.heartbeats.beat("raw-reader")
    bus.heartbeats.beat("other")
    reader = start_raw("poller", bus_dir, "raw-reader", 200)
    reader.wait_told(1)
    seqs = []
    for number in range(100):
        seqs.append(bus.publish("work", number, from_agent="ours").seq)
        bus.publish("work", number, from_agent="ours", to_agent="other")
        seqs.append(bus.publish("work", -number, from_agent="ours", to_agent="raw-reader").seq)
    given = reader.end()[1]
    assert [seq for seq, _, _ in given] == seqs
    assert Inbox(bus, "raw-reader").position == seqs[-1]


@needs_shell
def test_sqlite_shell_takes_part(bus: Bus, bus_dir: Path) -> None:
    """M-08: a person at the sqlite3 shell sends to an agent, and reads its answer."""
    sent = shell(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload)"
        " VALUES ('by-hand', 1700000000000, 'person', 'ann', 'question', '{\"why\": true}')",
    )
    assert (sent.returncode, sent.stderr) == (0, "")
    (message,) = Inbox(bus, "ann").poll()
    assert (message.from_agent, message.type, message.payload) == (
        "person",
        "question",
        {"why": True},
    )
    bus.publish("answer", "because", from_agent="ann", to_agent="person", in_reply_to="by-hand")
    answer = shell(bus_dir, "SELECT payload FROM messages WHERE to_agent = 'person'")
    assert answer.stdout == '"because"\n'
    assert shell(bus_dir, "PRAGMA integrity_check").stdout == "ok\n"


@needs_shell
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('ours', 1, 'raw', 'work')",
        "INSERT OR IGNORE INTO messages (id, ts_ms, from_agent, type) VALUES ('ours', 1, 'r', 'w')",
        "REPLACE INTO messages (id, ts_ms, from_agent, type) VALUES ('ours', 1, 'r', 'w')",
        "REPLACE INTO messages (seq, id, ts_ms, from_agent, type) VALUES (1, 'new', 1, 'r', 'w')",
        "UPDATE messages SET payload = '2'",
        "DELETE FROM messages",
    ],
)
def test_sqlite_shell_cannot_change_what_is_stored(statement: str, bus: Bus, bus_dir: Path) -> None:
    """M-41, M-47, C-03: whatever the conflict clause, the first message stays."""
    bus.publish("work", 1, from_agent="ours", id="ours")
    shell(bus_dir, statement)
    (message,) = bus.read()
    assert (message.seq, message.id, message.from_agent, message.payload) == (1, "ours", "ours", 1)


@needs_shell
def test_ids_of_raw_clients_count_for_ours(bus: Bus, bus_dir: Path) -> None:
    """M-41, M-47: the same content, in other spacing, is a retry; other content a conflict."""
    done = shell(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
        " VALUES ('theirs', 1, 'raw', 'work', '{ \"b\": 1, \"a\": [1, 2] }')",
    )
    assert done.returncode == 0, done.stderr
    again = bus.publish("work", {"a": [1, 2], "b": 1}, from_agent="raw", id="theirs")
    assert (again.seq, again.duplicate) == (1, True)
    with pytest.raises(IdConflict) as conflict:
        bus.publish("other", {"a": [1, 2], "b": 1}, from_agent="raw", id="theirs")
    assert conflict.value.fields == ["type"]
    assert bus.log.newest_seq() == 1


@pytest.mark.slow
def test_publishers_get_in_after_a_raw_client_leaves(
    start: StartActor, start_raw: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-28: a program that doesn't know the write lock sits in a transaction, and is killed."""
    bus.heartbeats.beat("reader")
    holder = start_raw("lock_holder", bus_dir)
    holder.wait_told(1)
    casts = [("publisher", bus_dir, f"ours-{n}", 5, "reader", gate.path) for n in range(4)]
    publishers = start_together(start, gate, casts)
    assert all(publisher.process.poll() is None for publisher in publishers)
    assert bus.log.newest_seq() == 0
    holder.kill()
    for publisher in publishers:
        publisher.end()
    assert bus.log.newest_seq() == 4 * 6
    assert bus.get("never") is None


def test_writer_gives_up_in_its_time_while_a_raw_client_stays(
    start_raw: StartActor, bus_dir: Path
) -> None:
    """M-29, M-72: `write_timeout_s` holds for locks of other programs too."""
    holder = start_raw("lock_holder", bus_dir)
    holder.wait_told(1)
    with Bus.open(bus_dir, write_timeout_s=0.3) as hurried:
        began = time.monotonic()
        with pytest.raises(BusBusy):
            hurried.publish("work", from_agent="ours")
        assert 0.3 <= time.monotonic() - began < 15
        with pytest.raises(BusBusy):
            hurried.leases.acquire("job", "ours")
        holder.kill()
        wait_until(lambda: hurried.publish("work", from_agent="ours", id="once").seq == 1)
        assert hurried.leases.acquire("job", "ours") is not None
