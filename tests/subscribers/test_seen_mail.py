"""Notes of what an agent was shown: exact, small, safe together; a loss only shows mail again."""

import subprocess
import sys
from pathlib import Path

from ackbus import Bus, Inbox
from ackbus.subscribers.inboxes import seen_mail
from ackbus.subscribers.inboxes.seen_mail import SeenMail, SeenMailFile, UnseenMail
from ackbus.subscribers.inboxes.session import inbox_of, passing
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..programs import TIMEOUT_S


def whole(*seqs: int) -> list[tuple[int, int, None]]:
    return [(seq, 0, None) for seq in seqs]


def note_of(bus_dir: Path) -> Path:
    (note,) = (bus_dir / "shown").iterdir()
    return note


def test_message_in_parts_is_seen_when_all_was_displayed_from_its_beginning_on(bus: Bus) -> None:
    shown = SeenMailFile(bus, "me")
    shown.note([(1, 12_000, None), (2, 0, 12_000)])
    assert [seq in shown.read() for seq in (1, 2)] == [False, False]
    shown.note([(2, 24_000, None)])  # what lies between was not displayed
    shown.note([(2, 0, 500)])  # a shorter part, once more
    assert 2 not in shown.read()
    shown.note([(2, 12_000, 24_000)])
    shown.note([(2, 24_000, None)])
    assert 2 in shown.read()
    assert shown.read().parts == {}


def test_what_is_acknowledged_is_forgotten_and_what_was_requeued_is_not(bus: Bus) -> None:
    for number in range(6):
        bus.publish("t", number, from_agent="a")
    inbox, shown = Inbox(bus, "me", max_deliveries=1), SeenMailFile(bus, "me")
    inbox.fail(inbox.poll()[0], "no")
    inbox.requeue(1)
    inbox.ack(4)
    shown.note(whole(1, 2, 3, 5))
    assert shown.read().ranges == [(1, 1), (5, 5)]


def test_notes_stay_small_and_keep_what_comes_first(bus: Bus, bus_dir: Path) -> None:
    shown = SeenMailFile(bus, "me")
    shown.note(whole(*range(1, 20_001)))
    assert shown.read().ranges == [(1, 20_000)]
    shown.note(whole(*range(30_000, 40_000, 2)))
    shown.note([(seq, 0, 1) for seq in range(50_000, 50_500)])
    notes = shown.read()
    assert (20_000 in notes, 30_000 in notes, 39_998 in notes) == (True, True, False)
    assert len(notes.parts) == 200
    assert note_of(bus_dir).stat().st_size < 20_000


def test_file_that_was_cut_short_or_is_another_shows_nothing(bus: Bus, bus_dir: Path) -> None:
    """No torn number may stand for a message that was not shown."""
    shown = SeenMailFile(bus, "me")
    shown.note([*whole(1, 2, 3, 10, 12), (20, 0, 12_000)], upto=25)
    note = note_of(bus_dir)
    data = note.read_bytes()
    for end in range(len(data)):
        note.write_bytes(data[:end])
        notes = shown.read()
        assert (notes.upto, notes.ranges, notes.parts) == (0, [], {})
    for other in (
        b"7",
        b"[]",
        b'{"session":null,"upto":"x","seen":[],"parts":{}}',
        b'{"seen":[[1]]}',
        b"\xff",
    ):
        note.write_bytes(other)
        assert shown.read().ranges == []
    shown.note(whole(4))
    assert shown.read().ranges == [(4, 4)]


def test_processes_that_note_at_once_lose_nothing(bus: Bus, bus_dir: Path) -> None:
    """Hooks after parallel tools, and the server of tools."""
    program = """\
import sys
from ackbus import Bus
from ackbus.subscribers.inboxes.seen_mail import SeenMailFile
with Bus.open(sys.argv[1]) as bus:
    for seq in range(int(sys.argv[2]), 201, 4):
        while not SeenMailFile(bus, "me").note([(seq, 0, None)], upto=seq):
            pass
"""
    runs = [
        subprocess.Popen([sys.executable, "-c", program, bus_dir, str(first)])
        for first in range(1, 5)
    ]
    assert [run.wait(TIMEOUT_S) for run in runs] == [0] * 4
    notes = SeenMailFile(bus, "me").read()
    assert (notes.ranges, notes.upto) == ([(1, 200)], 200)


def test_who_stopped_with_the_lock_keeps_nobody(bus: Bus, bus_dir: Path) -> None:
    shown = SeenMailFile(bus, "me")
    shown.note(whole(1))
    with note_of(bus_dir).open("rb") as file, seen_mail._lock(file.fileno(), True):
        assert not shown.note(whole(2))
        assert shown.read().ranges == []
    assert shown.read().ranges == [(1, 1)]


def test_session_begins_with_nothing_seen(bus: Bus) -> None:
    """A new session has another context: what an earlier one read, it has not."""
    shown = SeenMailFile(bus, "me")
    shown.note(whole(1, 2), upto=2)
    shown.note(whole(3), upto=3, afresh=True)
    assert shown.read().ranges == [(3, 3)]


def test_session_that_takes_a_name_over_has_seen_nothing(bus: Bus) -> None:
    """Its program has read none of what the one before was shown, hooks or not."""
    names = SessionNames.of(bus)
    shown = SeenMailFile(bus, "me")
    names.take("me", "the first")
    shown.note(whole(1, 2), upto=2)
    names.take("me", "the first")
    assert shown.read().ranges == [(1, 2)]
    names.leave("me", "the first")
    assert names.take("me", "the next").name == "me"
    assert shown.read().ranges == []
    shown.note(whole(3))
    assert (shown.read().ranges, shown.read().upto) == ([(3, 3)], 0)


def test_acknowledgement_by_a_session_counts_the_mail_of_its_base_name(bus: Bus) -> None:
    names = SessionNames.of(bus)
    names.take("me", "the first")
    own = names.take("me", "the second")
    names.leave("me", "the first")
    assert names.take("me", "the second").claims_base
    bus.heartbeats.beat("me")
    bus.publish("t", from_agent="a", to_agent="me")
    bus.publish("t", from_agent="a", to_agent=own.name)
    bus.publish("t", from_agent="a", to_agent="me")
    inbox = inbox_of(bus, own.name)
    assert passing(inbox, 2) == (0, 2)
    inbox.ack(2)
    assert passing(inbox, 3) == (2, 1)


def test_first_unseen_mail_is_found_and_the_last_seen_before_it(bus: Bus) -> None:
    for agent in ("me", "other"):
        bus.heartbeats.beat(agent)
    bus.publish("t", from_agent="a", to_agent="me")
    bus.publish("t", from_agent="me")
    bus.publish("t", from_agent="a", to_agent="other")
    bus.publish("x", from_agent="b")
    bus.publish("t", from_agent="a", to_agent="me")
    SeenMailFile(bus, "me").note(whole(1, 5))
    unseen = UnseenMail(bus, "me", 5, 3)
    assert (unseen.first, unseen.seen) == ([(4, "x", "b")], 1)
    assert UnseenMail(bus, "me", 3, 3).first == []
    Inbox(bus, "me").want("t")
    assert UnseenMail(bus, "me", 5, 3).first == []


def test_no_seq_is_in_empty_notes() -> None:
    assert not any(seq in SeenMail() for seq in (0, 1, 2**53 - 1))
