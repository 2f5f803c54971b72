"""The archive: the log reads the same before and after, whatever dies on the way."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Exporter, Inbox, Queue, Worker
from ackbus.bus.errors import SegmentMissing
from ackbus.bus.log.records import Segment
from ackbus.bus.search.search import Search
from ackbus.errors import IdConflict, UnknownParent
from ackbus.export import archive_writer as archiver
from ackbus.export.archive_writer import Archiver, ArchiverRunning
from ackbus.schema.queries import file_of
from ackbus.subscribers.overview.trace import Notices

from ..conftest import wait_until

#: Requests are answered more than once here.
pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.AnsweredAgainWarning")


@pytest.fixture
def filled(bus: Bus) -> Bus:
    """A log of 30 messages of every shape."""
    large = "x" * 10_000
    root = bus.publish(
        "review.request", {"n": 1.50, "text": "ä\u2028\n"}, from_agent="planner", id="root"
    )
    for n in range(2, 30):
        bus.publish(
            "task.done" if n % 3 else "note",
            large if n == 7 else n,
            from_agent=f"agent-{n % 4}",
            in_reply_to=root.id if n % 2 else None,
            headers={"n": n} if n % 5 == 0 else None,
            priority=n % 3,
        )
    bus.publish("last", from_agent="planner")
    return bus


def archive(bus: Bus, upto: int) -> list[Segment]:
    with Archiver(bus) as archiver:
        return archiver.archive(upto)


def lines(bus: Bus, **filters: object) -> list[bytes]:
    return [message.to_line() for message in bus.read(**filters)]


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver, "SEGMENT_MESSAGES", 8)
    monkeypatch.setattr(archiver, "FRAME_LINES", 3)
    monkeypatch.setattr("ackbus.bus.log.archive_reader.REMOVE_MESSAGES", 5)


# The same before and after.


@pytest.mark.parametrize("upto", [1, 8, 20, 30, 99])
def test_log_reads_the_same_after_archiving(
    filled: Bus, monkeypatch: pytest.MonkeyPatch, upto: int
) -> None:
    """Q-06, X-20: replay over archive and live equals the original, byte for byte."""
    small_parts(monkeypatch)
    looks = (
        {},
        {"after_seq": 4, "upto_seq": 22},
        {"type": "task.*"},
        {"conversation": "root"},
        {"agent": "agent-1"},
        {"type": "note", "agent": "agent-3"},
        {"since_ms": 1},
    )
    before = [lines(filled, **look) for look in looks]
    newest = [m.seq for m in filled.log.newest(25)]
    notes = [m.seq for m in filled.log.newest(4, type="note")]
    made = archive(filled, upto)
    assert sum(segment.messages for segment in made) == min(upto, 29)  # never the newest
    assert [lines(filled, **look) for look in looks] == before
    assert [m.seq for m in filled.log.newest(25)] == newest
    assert [m.seq for m in filled.log.newest(4, type="note")] == notes
    for seq in range(1, 31):
        message = filled.get(seq)
        assert message is not None
        by_id = filled.get(message.id)
        assert by_id is not None
        assert message.to_line() == by_id.to_line() == before[0][seq - 1]
    assert filled.get(7).payload == "x" * 10_000  # type: ignore[union-attr]


def test_segments_are_plain_jsonl_for_zstd(filled: Bus) -> None:
    """`zstd -dc` shows them: the lines of bus.jsonl."""
    import zstandard

    before = lines(filled)
    (segment,) = archive(filled, 30)
    path = filled.archive.path(segment)
    with open(path, "rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        assert reader.read().splitlines() == before[:-1]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert filled.archive.state_of(segment) == "ok"


def test_export_and_rebuild_give_the_same_bytes(filled: Bus, bus_dir: Path) -> None:
    """M-86."""
    exporter = Exporter(filled)
    exporter.export_once()
    before = (bus_dir / "bus.jsonl").read_bytes()
    archive(filled, 20)
    assert exporter.export_once() == 0
    exporter.rebuild()
    assert (bus_dir / "bus.jsonl").read_bytes() == before


def test_exporter_that_is_behind_the_archive_reads_it(filled: Bus, bus_dir: Path) -> None:
    before = lines(filled)
    archive(filled, 30)
    assert Exporter(filled).export_once() == 30
    assert (bus_dir / "bus.jsonl").read_bytes().splitlines() == before


def test_search_finds_what_was_archived(filled: Bus) -> None:
    """Q-05: the index survives compaction, and can be built again after it."""
    filled.publish("note", "needle", from_agent="planner")
    assert [found.message.seq for found in filled.search("needle")] == [31]
    archive(filled, 31)
    assert [found.message.seq for found in filled.search("needle")] == [31]
    Path(filled.layout.search).unlink()
    assert [found.message.seq for found in filled.search("needle")] == [31]


def test_reader_in_the_middle_of_the_log_goes_on_in_the_archive(
    filled: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page that it has read may be gone from the log by the time it asks for the next."""
    monkeypatch.setattr("ackbus.bus.log.log.PAGE_MESSAGES", 4)
    before = lines(filled)
    for upto in (2, 4, 11, 30):
        reading = filled.read()
        read = [next(reading).to_line() for _ in range(6)]
        archive(filled, upto)
        assert read + [message.to_line() for message in reading] == before


# What goes on as before.


def test_seq_goes_on_when_all_is_archived(filled: Bus) -> None:
    archive(filled, 30)
    assert filled.publish("note", from_agent="planner").seq == 31
    assert filled.log.newest_seq() == 31


def test_archived_id_stays_taken(filled: Bus) -> None:
    """Promise 3: the same id and content is stored once, other content is refused."""
    first = filled.publish("note", "same", from_agent="planner", id="mine")
    archive(filled, 31)
    again = filled.publish("note", "same", from_agent="planner", id="mine")
    assert (again.seq, again.duplicate) == (first.seq, True)
    with pytest.raises(IdConflict, match="seq 31, with another payload"):
        filled.publish("note", "other", from_agent="planner", id="mine")


def test_archived_message_can_be_answered(filled: Bus) -> None:
    archive(filled, 30)
    receipt = filled.publish("task.done", from_agent="worker", in_reply_to="root")
    assert filled.get(receipt.seq).conversation == "root"  # type: ignore[union-attr]
    with pytest.raises(UnknownParent):
        filled.publish("task.done", from_agent="worker", in_reply_to="nobody")


def test_blob_of_an_archived_message_is_never_collected(filled: Bus) -> None:
    """Promise 9."""
    archive(filled, 30)
    assert filled.collect_blobs(older_than_s=-1) == (0, 0)
    assert filled.get(7).payload == "x" * 10_000  # type: ignore[union-attr]


def test_counts_stay_what_they_were(filled: Bus) -> None:
    before = filled.stats()
    archive(filled, 20)
    assert filled.stats() == before


def test_queue_that_begins_in_the_archive_takes_it_in(filled: Bus) -> None:
    """A new queue from the beginning gets all messages of its type."""
    wanted = [message.seq for message in filled.read(type="task.done")]
    archive(filled, 20)
    seen: list[int] = []
    Worker(filled, Queue.create(filled, "late", "task.done")).run(
        lambda message: seen.append(message.seq), drain=True
    )
    assert seen == wanted


def test_queue_that_is_near_the_archive_takes_it_in(filled: Bus) -> None:
    wanted = [message.seq for message in filled.read(type="task.done", after_seq=14)]
    queue = Queue.create(filled, "near", "task.done", start=15)
    archive(filled, 20)
    assert [claim.message.seq for claim in queue.claim("w", limit=100)] == wanted


def test_place_beyond_the_end_is_the_end(filled: Bus) -> None:
    """New messages are counted later, as they stay in the log."""
    archive(filled, 10**9)
    filled.publish("rare.type", from_agent="planner")
    assert [message.seq for message in filled.read(type="rare.type")] == [31]
    assert filled.stats().messages == 31


def test_answer_to_an_archived_request_is_news(bus: Bus) -> None:
    asked = bus.publish("review.request", from_agent="boss")
    assert list(Notices(bus).news(first_since_ms=0)) == []
    archive(bus, 1)
    bus.publish("review.done", from_agent="w", in_reply_to=asked.id)
    assert [message.seq for message in Notices(bus).news(first_since_ms=0)] == [2]
    assert list(Notices(bus).news(first_since_ms=0)) == []


# The file keeps the rules.


def test_plain_sql_can_not_take_messages_out(filled: Bus, bus_dir: Path) -> None:
    archive(filled, 10)
    connection = sqlite3.connect(bus_dir / "bus.db")
    for statement in (
        "DELETE FROM messages WHERE seq = 11",
        "UPDATE archive_state SET last_seq = 11",
        "UPDATE archive_state SET last_seq = 9",
        "INSERT OR REPLACE INTO archive_state VALUES (1, 20)",
        "DELETE FROM archive_state",
        "DELETE FROM archived_ids",
        "UPDATE archived_ids SET id = 'other'",
        "DELETE FROM archived_blobs",
        "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('root', 1, 'x', 'x')",
        "INSERT INTO messages (seq, id, ts_ms, from_agent, type) VALUES (3, 'x', 1, 'x', 'x')",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.close()


# What may go wrong.


@pytest.mark.parametrize(
    ("harm", "first", "last"), [("missing", 9, 16), ("torn", 12, 14), ("altered", 12, 14)]
)
def test_missing_or_damaged_segment_says_so(
    filled: Bus, monkeypatch: pytest.MonkeyPatch, harm: str, first: int, last: int
) -> None:
    """Bad input: a segment that is truncated; a range whose segment is missing."""
    small_parts(monkeypatch)
    second = archive(filled, 30)[1]
    path = Path(filled.archive.path(second))
    if harm == "missing":
        path.unlink()
    elif harm == "torn":
        os.truncate(path, second.bytes // 2)
    else:
        data = bytearray(path.read_bytes())
        data[second.bytes // 2] ^= 1
        path.write_bytes(data)
    assert filled.archive.state_of(second) in ("missing", "altered")
    with pytest.raises(SegmentMissing, match=rf"messages {first} to {last} are in .*put it back"):
        lines(filled)
    assert len(lines(filled, upto_seq=first - 1)) == first - 1
    assert len(lines(filled, after_seq=16)) == 14


@pytest.mark.parametrize("differing", [1, 3], ids=["first", "last"])
def test_segment_from_elsewhere_is_not_read_as_ones_own(tmp_path: Path, differing: int) -> None:
    """Two buses go on from one backup, and archive as many messages in files of one name."""
    buses = [Bus.init(tmp_path / name, clock=lambda: 1_000) for name in ("xxx", "zzz")]
    for bus in buses:
        for n in range(1, 4):
            own = Path(bus.layout.directory).name if n == differing else "same"
            bus.publish("note", own, from_agent="ann", id=f"{own}-{n}")
        bus.publish("note", from_agent="ann", id="live")
    (one,), (two,) = (archive(bus, 3) for bus in buses)
    assert one.bytes == two.bytes
    Path(buses[1].archive.path(two)).replace(buses[0].archive.path(one))
    with pytest.raises(SegmentMissing, match=r"1 to 3 are in .*: it holds other messages"):
        lines(buses[0])
    assert len(lines(buses[0], after_seq=3)) == 1
    for bus in buses:
        bus.close()


def test_frame_that_is_not_where_the_bus_says_is_not_read(
    filled: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch)
    archive(filled, 30)
    file_of(filled).change(
        "UPDATE archive_frames SET (start, bytes) ="
        " (SELECT start, bytes FROM archive_frames WHERE first_seq = 1) WHERE first_seq = 4"
    )
    assert len(lines(filled, upto_seq=3)) == 3
    for look in ({"after_seq": 3}, {"after_seq": 4, "upto_seq": 5}):
        with pytest.raises(SegmentMissing, match=r"4 to 6 are in .*: it holds other messages"):
            lines(filled, **look)


def test_one_archiver_at_a_time(filled: Bus) -> None:
    with Archiver(filled), pytest.raises(ArchiverRunning, match="another process is archiving"):
        archive(filled, 10)
    assert archive(filled, 10)


def test_lost_segment_keeps_search_and_mail_from_nobody(
    filled: Bus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small_parts(monkeypatch)
    inbox = Inbox(filled, "reader", max_deliveries=1)
    inbox.fail(filled.log.at(1), "broken")  # type: ignore[arg-type]
    inbox.ack(30)
    filled.publish("note", "needle", from_agent="planner")
    first = archive(filled, 30)[0]
    path = Path(filled.archive.path(first))
    path.rename(f"{path}.away")
    assert [found.message.seq for found in filled.search("needle")] == [31]
    assert "8 messages can't be searched" in caplog.text
    inbox.requeue(1)
    assert [message.seq for message in inbox.poll()] == [31]
    assert "message 1: messages 1 to 8 are in" in caplog.text
    Path(f"{path}.away").rename(path)
    caplog.clear()
    assert sorted(found.message.seq for found in filled.search("5")) == [1, 5]
    assert [message.seq for message in inbox.poll()] == [1, 31]
    assert caplog.text == ""


def test_lost_segment_that_is_indexed_is_left_out_of_what_is_found(
    filled: Bus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the one with the newest message that is indexed, by which the index is known."""
    small_parts(monkeypatch)
    assert [found.message.seq for found in filled.search("29")] == [29]
    last = archive(filled, 30)[-1]
    Path(filled.archive.path(last)).unlink()
    filled.publish("note", "29 29", from_agent="planner")
    assert [found.message.seq for found in filled.search("29")] == [31]
    assert "what is found in it is left out" in caplog.text
    assert Search(filled).behind() == 0


def test_nothing_to_move_makes_nothing(filled: Bus) -> None:
    assert archive(filled, 0) == []
    archive(filled, 10)
    assert archive(filled, 10) == []
    assert len(filled.archive.segments()) == 1


KILLED = """
import os, signal, sys
from ackbus import Bus
from ackbus.bus.log import archive_reader as archive
from ackbus.export.archive_writer import Archiver
from ackbus.export import archive_writer as archiver
from ackbus.schema.queries import file_of

bus_dir = sys.argv[1]
archiver.SEGMENT_MESSAGES, archive.REMOVE_MESSAGES = 8, 5

def all_lines():
    with Bus.open(bus_dir) as bus:
        return [message.to_line() for message in bus.read()]

def archive_until(step):
    left = step

    def count(*_):
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    bus = Bus.open(bus_dir)
    file_of(bus).connection.trace_v2(1, count)
    sys.addaudithook(
        lambda event, _: event in ("open", "os.rename", "os.mkdir", "os.remove") and count()
    )
    with Archiver(bus) as archiver:
        archiver.archive(30)
    os._exit(0)

before = all_lines()
for step in range(1000):
    pid = os.fork()
    if not pid:
        archive_until(step)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL), status
    assert all_lines() == before, step
    if status == 0:
        break
print(step)
"""


@pytest.mark.slow
def test_crash_in_every_step_loses_and_doubles_nothing(filled: Bus) -> None:
    """Killed before each of its statements and file operations: one later each time."""
    command = [sys.executable, "-c", KILLED, filled.layout.directory]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 30
    assert filled.archive.upto() == 29
    assert {filled.archive.state_of(each) for each in filled.archive.segments()} == {"ok"}


@pytest.mark.slow
def test_publishers_and_readers_go_on_while_messages_are_archived(bus: Bus) -> None:
    """Q-10: without blocking writers; every message is read once, in order."""
    bus.publish_many(Draft("note", n, from_agent="planner") for n in range(20_000))
    stop = threading.Event()
    slowest: list[float] = []

    def publish() -> None:
        import time

        with Bus.open(bus.layout.directory) as own:
            while not stop.is_set():
                begun = time.monotonic()
                own.publish("note", from_agent="other")
                slowest.append(time.monotonic() - begun)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        reading = bus.read()
        first = [next(reading).seq for _ in range(10)]
        wait_until(lambda: bus.log.newest_seq() > 20_000)
        archive(bus, 20_000)
        assert first + [message.seq for message in reading][: 20_000 - 10] == [*range(1, 20_001)]
        wait_until(lambda: len(slowest) > 10)
    finally:
        stop.set()
        thread.join()
    assert bus.archive.upto() == 20_000
    assert max(slowest) < 15  # of 30 s; its own share is some tens of milliseconds
