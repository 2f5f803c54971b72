"""A session: an agent that comes, works and goes, and says so."""

import os
import threading
from pathlib import Path

import pytest

from ackbus import Bus, Inbox, Message, Session
from ackbus.model import Liveness

from ..conftest import wait_until
from ..programs import run_program_to_sigkill

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def test_session_says_when_it_began_and_ended(bus: Bus) -> None:
    """M-33: `agent_started` and `agent_stopped`, with a heart between that ends with it."""
    with Session(bus, "alice"):
        wait_until(lambda: bus.heartbeats.get("alice"))
        assert [message.type for message in bus.read()] == ["agent_started"]
    found = [(m.type, m.from_agent, m.to_agent, m.payload) for m in bus.read()]
    assert found == [
        ("agent_started", "alice", None, {"pid": os.getpid()}),
        ("agent_stopped", "alice", None, {"pid": os.getpid(), "error": None}),
    ]
    beat = bus.heartbeats.get("alice")
    assert beat is not None
    assert beat.liveness is Liveness.STOPPED
    assert "heart of alice" not in {thread.name for thread in threading.enumerate()}


def test_session_that_fails_says_why(bus: Bus) -> None:
    """M-33: and the error comes out as it is."""

    def fail() -> None:
        with Session(bus, "alice"):
            raise RuntimeError("no more tasks")

    with pytest.raises(RuntimeError):
        fail()
    (stopped,) = bus.read(type="agent_stopped")
    assert stopped.payload["error"] == "RuntimeError('no more tasks')"


def test_killed_session_says_nothing_and_its_heart_tells(bus: Bus, bus_dir: Path) -> None:
    """M-33, M-66: no `agent_stopped`; the last beat ages until it is DEAD."""
    run_program_to_sigkill(
        """
        import os, signal, sys, time
        from ackbus import Bus, Session
        bus = Bus.open(sys.argv[1])
        with Session(bus, "alice"):
            while bus.heartbeats.get("alice") is None:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        bus_dir,
    )
    assert [message.type for message in bus.read()] == ["agent_started"]
    beat = bus.heartbeats.get("alice")
    assert beat is not None
    with Bus.open(bus_dir, clock=lambda: beat.ts_ms + 300_000) as later:
        (late,) = later.heartbeats.list()
        assert late.liveness is Liveness.DEAD


def test_heart_says_what_the_session_is_at(bus: Bus) -> None:
    """M-63, M-64: `working` with the type of the message, `idle` after it, also after a failure."""
    bus.publish("task.one", from_agent="lead", to_agent="alice")
    seen = []

    def handle(message: Message) -> None:
        wait_until(lambda: current() == ("working", message.type))
        seen.append(message.type)
        if len(seen) == 1:
            raise RuntimeError

    def current() -> tuple[str, str | None] | None:
        beat = bus.heartbeats.get("alice")
        return None if beat is None else (beat.status, beat.task)

    with Session(bus, "alice", own_broadcasts=False) as me:
        me.run(handle, drain=True)
        wait_until(lambda: current() == ("idle", None))
    assert seen == ["task.one", "task.one"]


def test_reply_goes_to_the_sender_in_the_same_conversation(bus: Bus) -> None:
    """M-94, M-96."""
    with Session(bus, "alice") as me:
        asked = bus.publish("ask", 1, from_agent="lead", to_agent="alice")
        (message,) = me.inbox.poll(type="ask")
        me.reply(message, "answer", 2)
    (answer,) = Inbox(bus, "lead").poll(type="answer")
    assert (answer.from_agent, answer.to_agent, answer.payload) == ("alice", "lead", 2)
    assert (answer.in_reply_to, answer.correlation_id) == (asked.id, asked.id)
