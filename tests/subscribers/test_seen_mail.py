"""Notes of what an agent was shown: exact, small, safe together; a loss only shows mail again."""

import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus, Inbox
from ackbus.schema.queries import file_of
from ackbus.subscribers.inboxes.seen_mail import SeenMail, SeenMailNotes, UnseenMail
from ackbus.subscribers.inboxes.session import inbox_of, passing
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..programs import TIMEOUT_S, tamper


def whole(*seqs: int) -> list[tuple[int, int, None]]:
    return [(seq, 0, None) for seq in seqs]


def test_message_in_parts_is_seen_when_all_was_displayed_from_its_beginning_on(bus: Bus) -> None:
    shown = SeenMailNotes(bus, "me")
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
    inbox, shown = Inbox(bus, "me", max_deliveries=1), SeenMailNotes(bus, "me")
    inbox.fail(inbox.poll()[0], "no")
    inbox.requeue(1)
    inbox.ack(4)
    shown.note(whole(1, 2, 3, 5))
    assert shown.read().ranges == [(1, 1), (5, 5)]


def test_notes_stay_small_and_keep_what_comes_first(bus: Bus) -> None:
    shown = SeenMailNotes(bus, "me")
    shown.note(whole(*range(1, 20_001)))
    assert shown.read().ranges == [(1, 20_000)]
    shown.note(whole(*range(30_000, 40_000, 2)))
    shown.note([(seq, 0, 1) for seq in range(50_000, 50_500)])
    notes = shown.read()
    assert (20_000 in notes, 30_000 in notes, 39_998 in notes) == (True, True, False)
    assert len(notes.parts) == 200
    assert sum(map(len, notes.row()[2:])) < 20_000


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("shown", value) for value in ("", "7", "[1]", "[[1]]", '[["a","b"]]', "{}", "[[1,2")),
        *(("shown_parts", value) for value in ("", "7", "[]", '{"a":1}', '{"1":[]}', '{"1"')),
        ("shown", "[[1,2]" + " " * 100_000 + "]"),
        ("shown_parts", '{"1":2' + " " * 100_000 + "}"),
    ],
)
def test_row_that_was_cut_short_or_is_no_note_shows_nothing(
    column: str, value: str, bus: Bus, bus_dir: Path
) -> None:
    """No torn number may stand for a message that was not shown; the next note puts it right."""
    shown = SeenMailNotes(bus, "me")
    shown.note([*whole(1, 2, 3, 10, 12), (20, 0, 12_000)], upto=25)
    tamper(bus_dir, f"UPDATE sessions SET {column} = '{value}'")
    notes = shown.read()
    if column == "shown" or len(value) < 100_000:
        assert notes.ranges == []
    assert notes.parts == {} or column == "shown"
    assert shown.note(whole(4))
    assert 4 in shown.read()


@pytest.mark.parametrize("revision", [-1, 2**53 - 1, 2**63 - 1, -(2**63)])
def test_revision_that_another_program_wrote_keeps_no_name_and_no_note(
    revision: int, bus: Bus, bus_dir: Path
) -> None:
    shown = SeenMailNotes(bus, "me")
    shown.note(whole(1))
    tamper(bus_dir, f"UPDATE sessions SET revision = {revision}")
    assert shown.note(whole(2))
    assert 2 in shown.read()
    tamper(bus_dir, f"UPDATE sessions SET revision = {revision}")
    assert SessionNames.of(bus).take("me", "a process").name == "me"


@pytest.mark.slow
def test_processes_that_note_at_once_lose_nothing(bus: Bus, bus_dir: Path) -> None:
    """Hooks after parallel tools, and the server of tools."""
    program = """\
import sys
from ackbus import Bus
from ackbus.subscribers.inboxes.seen_mail import SeenMailNotes
with Bus.open(sys.argv[1]) as bus:
    for seq in range(int(sys.argv[2]), 201, 4):
        while not SeenMailNotes(bus, "me").note([(seq, 0, None)], upto=seq):
            pass
"""
    runs = [
        subprocess.Popen([sys.executable, "-c", program, bus_dir, str(first)])
        for first in range(1, 5)
    ]
    assert [run.wait(TIMEOUT_S) for run in runs] == [0] * 4
    notes = SeenMailNotes(bus, "me").read()
    assert (notes.ranges, notes.upto) == ([(1, 200)], 200)


def test_writer_that_stopped_keeps_nobody(bus: Bus, bus_dir: Path) -> None:
    SeenMailNotes(bus, "me").note(whole(1))
    with Bus.open(bus_dir, write_timeout_s=0.05) as other, bus.transaction():
        bus.publish("t", from_agent="a")
        shown = SeenMailNotes(other, "me")
        assert shown.note(whole(1))
        assert not shown.note(whole(2))
        assert shown.read().ranges == [(1, 1)]


def test_session_begins_with_nothing_seen(bus: Bus) -> None:
    """A new session has another context: what an earlier one read, it has not."""
    shown = SeenMailNotes(bus, "me")
    shown.note(whole(1, 2), upto=2)
    shown.note(whole(3), upto=3, afresh=True)
    assert shown.read().ranges == [(3, 3)]


def test_session_that_takes_a_name_over_has_seen_nothing(bus: Bus) -> None:
    """Its program has read none of what the one before was shown, hooks or not."""
    names = SessionNames.of(bus)
    shown = SeenMailNotes(bus, "me")
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
    SeenMailNotes(bus, "me").note(whole(1, 5))
    unseen = UnseenMail(bus, "me", 5, 3)
    assert (unseen.first, unseen.seen) == ([(4, "x", "b")], 1)
    assert UnseenMail(bus, "me", 3, 3).first == []
    Inbox(bus, "me").want("t")
    assert UnseenMail(bus, "me", 5, 3).first == []


def test_no_seq_is_in_empty_notes() -> None:
    assert not any(seq in SeenMail() for seq in (0, 1, 2**53 - 1))


def test_note_waits_for_no_disk_whatever_the_durability(bus: Bus, bus_dir: Path) -> None:
    """A lost note shows mail again; all that comes after it waits as before."""
    with Bus.open(bus_dir, durability="full") as full:
        database, statements = file_of(full), list[str]()

        def note(_: object, sql: str, __: object) -> bool:
            statements.append(sql.partition(" (")[0])
            return True

        database.connection.exec_trace = note
        assert SeenMailNotes(full, "me").note(whole(1))
        database.connection.exec_trace = None
        waits = [text for text in statements if text.startswith(("INSERT", "PRAGMA sync"))]
        written = ["INSERT INTO sessions"]
        assert waits == ["PRAGMA synchronous = NORMAL", *written, "PRAGMA synchronous = FULL"]
        assert database.value("PRAGMA synchronous") == 2
