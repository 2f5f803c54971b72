"""Each event is handled once, whatever happens in between."""

import os
import signal
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.tasks.control.sessions import Sessions
from ackbus.tasks.records.handled_events import KEPT, HandledEvents


@pytest.fixture
def sessions(bus: Bus) -> Sessions:
    found = Sessions(bus)
    found.create("s1")
    return found


def handle_all(sessions: Sessions, handled: HandledEvents, after: int = 0) -> int:
    """Handles all events after a cursor, each by a message; returns how many were new."""
    new = 0
    for event in sessions.replay("s1", after):
        with handled.handling("agent", "s1", event.seq) as is_new:
            if is_new:
                sessions.bus.publish("effect", event.seq, from_agent="agent")
                new += 1
    return new


def effects(bus: Bus) -> list[int]:
    return [message.payload for message in bus.read(type="effect")]


def test_u_61_replaying_all_events_repeats_none(sessions: Sessions) -> None:
    """U-61: 5,000 marks are kept in a session; what is older than they are counts as handled."""
    count = KEPT + 200
    with sessions.bus.transaction():
        seqs = [sessions.emit("s1", "done", {"ok": True}).seq for _ in range(count)]
    handled = HandledEvents.of(sessions.bus)
    with sessions.bus.transaction():
        for seq in seqs:
            with handled.handling("agent", "s1", seq) as is_new:
                assert is_new
    assert handle_all(sessions, handled) == 0
    assert effects(sessions.bus) == []
    assert not handled.is_handled("another", "s1", seqs[0])
    assert not handled.is_handled("agent", "s2", seqs[-1])


def test_u_61_the_larger_cursor_wins(sessions: Sessions) -> None:
    """U-61, X-06: a cursor that is stored never goes back."""
    handled = HandledEvents.of(sessions.bus)
    assert handled.cursor("agent", "s1") == 0
    for seq, expected in ((7, 7), (3, 7), (9, 9)):
        handled.move_cursor("agent", "s1", seq)
        assert handled.cursor("agent", "s1") == expected


def test_u_62_an_event_whose_handling_failed_is_new_again(sessions: Sessions) -> None:
    """U-62: the mark is made with the outcome, never before it."""
    seq = sessions.emit("s1", "done", {"ok": True}).seq
    handled = HandledEvents.of(sessions.bus)

    def fail() -> None:
        with handled.handling("agent", "s1", seq):
            sessions.bus.publish("effect", seq, from_agent="agent")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert effects(sessions.bus) == []
    assert handle_all(sessions, handled) == 1
    assert effects(sessions.bus) == [seq]


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_u_79_a_crash_at_any_moment_leaves_one_effect(
    sessions: Sessions, moment: str, tmp_path: Path
) -> None:
    """U-79, U-62: kill -9 before handling, between effect and mark, after the mark; restart."""
    seq = sessions.emit("s1", "done", {"ok": True}).seq
    directory = sessions.bus.directory
    child = os.fork()
    if child == 0:
        with Bus.open(directory) as bus:
            handled = HandledEvents.of(bus)
            if moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            with handled.handling("agent", "s1", seq):
                bus.publish("effect", seq, from_agent="agent")
                if moment == "between":
                    os.kill(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    for _ in range(2):
        with Bus.open(directory) as bus:
            handle_all(Sessions(bus), HandledEvents.of(bus))
    assert effects(sessions.bus) == [seq]
