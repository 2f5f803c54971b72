"""`bus archive --discard`: messages leave for good, and everything knows which."""

import json
import re
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Inbox, Queue
from ackbus.errors import AckbusError
from ackbus.export.archive_writer import segments_upto
from ackbus.schema.queries import engine_of

from ..conftest import RunBus

pytestmark = pytest.mark.usefixtures("bus_dir")

_RANGE = r"archived and discarded, seq 1 to 5, at \d{4}-\d\d-\d\dT[\d:.]+Z"
_DISCARD = ("archive", "--discard", "--before", "6")
_BLOB = "a large payload " * 1000


@pytest.fixture
def archived(bus: Bus, run_bus: RunBus) -> Bus:
    """Messages 1 to 12, in the chain; segments with 1 to 5 and with 6 to 8."""
    bus.chain.switch_on()
    drafts = [Draft("note", f"word{n}", from_agent="lead", id=f"note-{n}") for n in range(1, 12)]
    bus.publish_many([*drafts, Draft("note", _BLOB, from_agent="lead")])
    for before in ("6", "9"):
        assert run_bus("archive", "--before", before).code == 0
    return bus


@pytest.fixture
def discarded(archived: Bus, run_bus: RunBus) -> Bus:
    """The same, without 1 to 5."""
    assert run_bus(*_DISCARD, "--yes").code == 0
    return archived


@pytest.mark.slow
@pytest.mark.requirement("X-20")
def test_x_20_replay_tells_the_range_that_is_archived_and_discarded(
    run_bus: RunBus, archived: Bus
) -> None:
    before = run_bus("replay", "--json").out.splitlines()
    path = Path(archived.archive.path(archived.archive.segments()[0]))
    would = run_bus(*_DISCARD, "--dry-run")
    assert (would.code, would.out) == (0, "would discard 5 messages, seq 1 to 5\n")
    assert path.exists()
    ended = run_bus(*_DISCARD, "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(f"{_RANGE}\n", ended.out)
    assert not path.exists()
    for command in ("replay", "read"):
        ended = run_bus(command, "--json")
        assert re.fullmatch(f"bus: {_RANGE}\n", ended.err)
        *kept, tombstone = ended.out.splitlines()
        assert kept == before[5:] or command == "read"
        told = json.loads(tombstone)
        assert (told["seq"], told["type"]) == (13, "bus.discarded")
        assert told["payload"] == {"first_seq": 1, "last_seq": 5, "messages": 5}
    assert run_bus("replay", "--from", "6").err == ""
    for key in ("3", "note-3"):
        shown = run_bus("show", key)
        assert shown.code == 1
        assert re.fullmatch(f"bus: message 3 is gone: {_RANGE}\n", shown.err)


@pytest.mark.slow
def test_verify_doctor_and_repair_know_the_range(run_bus: RunBus, discarded: Bus) -> None:
    """X-20: nothing is wrong with such a bus, with a chain and without a backup."""
    ended = run_bus("verify")
    assert ended.code == 0, ended
    assert re.search(f"8 in the chain, head [^;]*; {_RANGE}; nothing is wrong", ended.out)
    ended = run_bus("doctor", "--full", "--json")
    findings = [json.loads(line) for line in ended.out.splitlines()]
    (archive,) = (each for each in findings if each.get("check") == "archive")
    assert archive["state"] == "ok"
    assert re.search(_RANGE, archive["text"])
    assert all(each.get("state") != "bad" for each in findings)
    assert run_bus("doctor", "--repair").code == 0
    assert len(discarded.archive.discarded()) == 1
    assert len(list(discarded.read())) == 8
    listed = run_bus("segments", "--json")
    assert (listed.code, json.loads(listed.out)["first_seq"]) == (0, 6)


def test_backup_of_what_is_left_is_whole(run_bus: RunBus, discarded: Bus, tmp_path: Path) -> None:
    assert run_bus("backup", tmp_path / "saved").code == 0
    examined = run_bus("doctor", "--full", "--json", "--dir", tmp_path / "saved").out.splitlines()
    assert all(json.loads(line).get("state") != "bad" for line in examined)
    ended = run_bus("replay", "--dir", tmp_path / "saved")
    assert (len(ended.out.splitlines()), ended.code) == (8, 0)
    assert re.fullmatch(f"bus: {_RANGE}", ended.err.splitlines()[0])


def test_export_keeps_its_lines_and_an_import_brings_nothing_back(
    run_bus: RunBus, archived: Bus, bus_dir: Path, tmp_path: Path
) -> None:
    """X-20: what bus.jsonl does not have yet is not discarded; later lines go on after it."""
    assert run_bus("export", "--once").code == 0
    lines = (bus_dir / "bus.jsonl").read_bytes()
    assert run_bus(*_DISCARD, "--yes").code == 0
    assert run_bus("export", "--once").code == 0
    exported = (bus_dir / "bus.jsonl").read_bytes()
    assert exported.startswith(lines)
    assert b'"type":"bus.discarded"' in exported[len(lines) :]
    with (bus_dir / "bus.jsonl").open("rb") as stream:
        report = archived.import_jsonl(stream)
    assert (report.stored, report.skipped, report.duplicates) == (0, 0, 13)
    (bus_dir / "bus.jsonl").unlink()
    assert run_bus("export", "--once").code == 0
    first, *others = (bus_dir / "bus.jsonl").read_bytes().splitlines()
    assert (json.loads(first)["seq"], len(others)) == (6, 7)


def test_what_is_not_exported_yet_is_not_discarded(run_bus: RunBus, bus: Bus) -> None:
    bus.publish_many(Draft("note", n, from_agent="lead") for n in range(3))
    assert run_bus("export", "--once").code == 0
    bus.publish_many(Draft("note", n, from_agent="lead") for n in range(7))
    run_bus("archive", "--before", "6")
    ended = run_bus(*_DISCARD, "--yes")
    assert ended.code == 3
    assert "bus.jsonl has the log only up to 3" in ended.err
    assert len(bus.archive.segments()) == 1


def test_ids_stay_taken_and_repetition_is_harmless(discarded: Bus) -> None:
    receipt = discarded.publish("note", "word3", from_agent="lead", id="note-3")
    assert (receipt.seq, receipt.duplicate) == (3, True)
    with pytest.raises(AckbusError, match="archived and discarded"):
        discarded.publish("note", "re", from_agent="lead", in_reply_to="note-3")


def test_queue_that_has_work_there_holds_it(run_bus: RunBus, archived: Bus) -> None:
    """X-20: idle or not, as no job could read its message any more."""
    queue = Queue.create(archived, "early", "note")
    ended = run_bus("archive", "--discard", "--before", "9", "--idle-after", "0s", "--yes")
    assert ended.code == 3
    assert ended.out.splitlines()[0] == "discarded nothing"
    assert "held: queue early has not done with 1" in ended.out
    for claim in queue.claim("worker", limit=5):
        queue.complete(claim)
    ended = run_bus("archive", "--discard", "--before", "9", "--yes")
    assert ended.code == 3
    assert re.match(_RANGE, ended.out)
    assert "the next segment ends at 8: --before 9 takes it whole\n" in ended.out
    assert "held: queue early has not done with 6" in ended.out


def test_new_queue_begins_after_the_range_and_an_old_job_says_so(
    run_bus: RunBus, archived: Bus
) -> None:
    queue = Queue.create(archived, "early", "note", max_attempts=1)
    for claim in queue.claim("worker", limit=5):
        queue.fail(claim, "no", retry=False)
    assert run_bus(*_DISCARD, "--yes").code == 0
    late = Queue.create(archived, "late", "note")
    assert [claim.message.seq for claim in late.claim("worker", limit=2)] == [6, 7]
    created = run_bus("queue", "create", "later", "--type", "note")
    assert re.fullmatch(f"bus: {_RANGE}: the queue begins after it\n", created.err)
    assert run_bus("dead", "list").code == 0
    again = run_bus("dead", "requeue", "3", "--queue", "early")
    worked = run_bus("run", "--queue", "early", "--drain", "--", "cat")
    assert "archived and discarded" in again.err + worked.err
    assert "bus job cancel 3 --queue early" in again.err + worked.err


def test_inbox_whose_mail_is_gone_is_told_and_goes_on(run_bus: RunBus, archived: Bus) -> None:
    Inbox(archived, "bob").join()
    archived.publish("note", "for bob", from_agent="lead", to_agent="bob")
    archived.publish("note", "the end", from_agent="lead")
    run_bus("archive", "--before", "14", "--pass-over", "bob")
    assert run_bus("archive", "--discard", "--before", "14", "--yes").code == 0
    polled = run_bus("poll", "bob")
    assert polled.code == 3
    assert polled.err.startswith(
        "bus: messages for 'bob' up to 13 were archived unread, and discarded; go on after them"
        " with 'bus ack bob 13'"
    )
    assert run_bus("ack", "bob", "13").code == 0
    assert run_bus("poll", "bob").code == 0
    assert [message.seq for message in Inbox(archived, "bob").poll()] == [14, 15]


def test_words_and_blobs_of_it_are_gone(run_bus: RunBus, archived: Bus, bus_dir: Path) -> None:
    assert run_bus("search", "word3").code == 0
    archived.publish("note", "the end", from_agent="lead")
    run_bus("archive", "--before", "13")
    assert len(list(archived.log.named_blobs())) == 1
    assert run_bus("archive", "--discard", "--before", "13", "--yes").code == 0
    assert list(archived.log.named_blobs()) == []
    assert b"word3" not in (bus_dir / "search.db").read_bytes()
    assert run_bus("search", "word3").code == 4
    assert archived.collect_blobs(older_than_s=0)[0] == 1


def test_kept_message_keeps_a_blob_that_a_discarded_one_shares(bus: Bus, run_bus: RunBus) -> None:
    for before in ("2", "3"):
        bus.publish("note", _BLOB, from_agent="lead")
        bus.publish("note", "more", from_agent="lead")
        run_bus("archive", "--before", before)
    bus.publish("note", "the end", from_agent="lead")
    run_bus("archive", "--before", "5")
    assert run_bus("archive", "--discard", "--before", "2", "--yes").code == 0
    assert len(list(bus.log.named_blobs())) == 1


def test_deletion_that_died_is_finished_by_the_next(run_bus: RunBus, archived: Bus) -> None:
    path = Path(archived.archive.path(archived.archive.segments()[0]))
    with archived.transaction():
        archived.archive.discard(segments_upto(archived, 5), [], archived.now_ms())
    assert path.exists()
    assert "are still there: 000000000001.jsonl.zst" in run_bus("doctor").out
    assert run_bus("doctor", "--repair").code == 0
    assert len(list(archived.read())) == 7
    assert run_bus("archive", "--discard", "--before", "1").out == "discarded nothing\n"
    assert not path.exists()


def test_lost_segment_can_be_discarded(run_bus: RunBus, archived: Bus) -> None:
    Path(archived.archive.path(archived.archive.segments()[0])).unlink()
    assert run_bus("replay").code == 1
    assert run_bus(*_DISCARD, "--yes").code == 0
    assert run_bus("replay").code == 0


def test_discarding_needs_to_be_told_what(run_bus: RunBus, archived: Bus) -> None:
    ended = run_bus("archive", "--discard")
    assert ended.code == 2
    assert "--before or --older-than" in ended.err
    assert run_bus("archive", "--discard", "--older-than", "1d").out == "discarded nothing\n"
    aged = run_bus("archive", "--discard", "--older-than", "0s", "--json")
    assert json.loads(aged.out)["to"] == 8
    assert engine_of(archived).value("SELECT count(*) FROM archived_ids") == 8
