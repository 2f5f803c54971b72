"""Sessions and their events, by the library."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.export.archive_writer import Archiver
from ackbus.model import Trace
from ackbus.schema.errors import InvalidInput
from ackbus.schema.queries import file_of
from ackbus.schema.sqlite.transactions import without_triggers
from ackbus.tasks.control.ingress import NotPending, Posts
from ackbus.tasks.control.jobs import JobQueue
from ackbus.tasks.control.requests import Requests
from ackbus.tasks.control.sessions import READY, SessionNotFound, Sessions

from ..replay import replay
from .conftest import add, ask


@pytest.fixture
def sessions(bus: Bus) -> Sessions:
    found = Sessions(bus)
    found.create("s1")
    return found


@pytest.fixture
def posts(sessions: Sessions) -> Posts:
    return Posts(sessions)


@pytest.fixture
def file(bus: Bus) -> Iterator[sqlite3.Connection]:
    """The file as any program opens it."""
    with closing(sqlite3.connect(bus.layout.database)) as opened:
        opened.execute("PRAGMA foreign_keys = ON")
        yield opened


def texts(sessions: Sessions, after: int = 0) -> list[str]:
    return [event.envelope["payload"]["text"] for event in replay(sessions, "s1", after)]


def say(sessions: Sessions, *words: str) -> list[int]:
    return [sessions.emit("s1", "assistant_message", {"text": text}).seq for text in words]


def test_u_09_all_of_the_control_plane_is_in_one_file(bus: Bus, file: sqlite3.Connection) -> None:
    """U-09: sessions, events, requests, jobs and their logs, completions, the three of autonomy."""
    names = {name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'view'")}
    assert names >= {
        *("pushpals_sessions", "pushpals_events", "pushpals_requests", "pushpals_jobs"),
        *("pushpals_job_logs", "pushpals_completions", "pushpals_autonomy_state"),
        *("pushpals_autonomy_snapshots", "pushpals_autonomy_dispatch_lock"),
    }


def test_u_11_views_have_the_columns_of_pushpals(
    sessions: Sessions, file: sqlite3.Connection
) -> None:
    """U-11: and an event of a session that is not there is refused by the foreign key."""
    (seq,) = say(sessions, "hello")
    cursor = file.execute("SELECT * FROM pushpals_events")
    columns = [each[0] for each in cursor.description]
    assert columns == ["event_id", "id", "session_id", "type", "ts", "envelope"]
    (row,) = cursor.fetchall()
    (event,) = replay(sessions, "s1")
    assert row[:5] == (seq, event.id, "s1", "assistant_message", event.envelope["ts"])
    cursor = file.execute("SELECT * FROM pushpals_sessions")
    assert [each[0] for each in cursor.description] == ["session_id", "created_at", "label"]
    assert cursor.fetchall() == [("s1", "2026-01-10T14:00:00.000Z", None)]
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        file.execute("INSERT INTO session_events (session_id, seq) VALUES ('nowhere', 1)")
    with pytest.raises(SessionNotFound):
        sessions.emit("nowhere", "done", {"ok": True})
    assert sessions.bus.log.newest_seq() == seq


@pytest.mark.parametrize("id", ["", "a b", "x" * 65, "ä", "a/b", "a\n"])
def test_u_19_a_bad_id_makes_no_session(sessions: Sessions, id: str) -> None:
    """U-19: letters, digits, dots, underscores and hyphens: 1 to 64."""
    with pytest.raises(InvalidInput, match="Invalid sessionId"):
        sessions.create(id)


def test_u_19_a_session_is_made_once(sessions: Sessions) -> None:
    """U-19: the second time it is joined; without an id it gets one."""
    assert sessions.create("s1") == ("s1", False)
    assert sessions.create("x" * 64) == ("x" * 64, True)
    first, second = sessions.create(), sessions.create()
    assert (first[1], second[1]) == (True, True)
    assert first[0] != second[0]


@pytest.mark.slow
def test_u_12_replay_goes_on_over_all_pages(sessions: Sessions) -> None:
    """U-12: 12,000 events; a page has 1,000 unless more are asked for, and 10,000 at most."""
    with sessions.bus.transaction():
        seqs = [sessions.emit("s1", "done", {"ok": True}).seq for _ in range(12_000)]
    assert [event.seq for event in replay(sessions, "s1")] == seqs
    assert [event.seq for event in replay(sessions, "s1", seqs[10_999])] == seqs[11_000:]
    page = sessions.page("s1")
    assert (len(page.events), page.upto, page.is_last) == (1000, seqs[999], False)
    assert len(sessions.page("s1", 0, 99_999).events) == 10_000
    assert sessions.page("s1", seqs[-2], 0).upto == seqs[-1]


def test_u_13_a_cursor_that_is_ahead_begins_at_the_beginning(sessions: Sessions) -> None:
    """U-13, X-06: that of the client alone: nothing that the bus stores goes back."""
    seqs = say(sessions, "a", "b")
    assert texts(sessions, 10**9) == ["a", "b"]
    assert texts(sessions, seqs[0]) == ["b"]
    assert texts(sessions, seqs[1]) == []
    assert texts(sessions, -1) == ["a", "b"]


@pytest.mark.parametrize("damage", ["'no json'", "'[1]'", "NULL"])
def test_u_14_a_damaged_event_is_skipped(sessions: Sessions, damage: str) -> None:
    """U-14: those after it come all the same."""
    seqs = say(sessions, "a", "b", "c")
    connection = file_of(sessions.bus).connection
    with sessions.bus.transaction(), without_triggers(connection):
        connection.execute(f"UPDATE messages SET payload = {damage} WHERE seq = {seqs[1]}")
    assert texts(sessions) == ["a", "c"]
    page = sessions.page("s1", seqs[0], 1)
    assert (page.events, page.upto) == ([], seqs[1])


def test_u_14_an_event_whose_blob_is_gone_is_skipped(sessions: Sessions) -> None:
    """U-14: a large payload is a blob, invisible to clients until it is lost."""
    words = ["x" * 10_000, "y"]
    seqs = say(sessions, *words)
    assert texts(sessions) == words
    message = sessions.bus.get(seqs[0])
    assert message is not None
    assert message.payload_ref is not None
    (Path(sessions.bus.directory) / "blobs" / message.payload_ref).unlink()
    assert texts(sessions) == ["y"]


def test_u_15_an_error_is_stored_in_place_of_an_invalid_event(sessions: Sessions) -> None:
    """U-15: it tells what is wrong; the event itself is nowhere."""
    for type, payload in (("nothing", {}), ("log", {"level": "loud", "message": "x"})):
        event = sessions.emit("s1", type, payload)
        assert event.wrong
        assert event.envelope["type"] == "error"
        assert event.envelope["payload"]["message"] == "Failed to validate event"
    found = list(replay(sessions, "s1"))
    assert [event.envelope["type"] for event in found] == ["error", "error"]
    assert "/payload/level must be one of" in found[1].envelope["payload"]["detail"]


def test_u_10_what_is_rolled_back_was_never_there(sessions: Sessions) -> None:
    """U-10: an event is there with what it tells of, or neither is."""

    def fail() -> None:
        with sessions.bus.transaction():
            say(sessions, "a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert texts(sessions) == []
    assert sessions.bus.log.newest_seq() == 0


def test_u_27_a_call_that_needs_approval_waits_for_one_word(
    posts: Posts, sessions: Sessions
) -> None:
    """U-27: it is asked before the call is told, decided once, and told once."""
    call = {"toolCallId": "c1", "tool": "git.push", "args": {}, "requiresApproval": True}
    posts.command("s1", {"type": "tool_call", "payload": call}, sender="w1")
    posts.decide("c1", "approve")
    for decision in ("approve", "deny"):
        with pytest.raises(NotPending, match="approved already"):
            posts.decide("c1", decision)
    for wrong in ("maybe", "", None, ["approve"]):
        with pytest.raises(InvalidInput, match="Invalid decision"):
            posts.decide("c1", wrong)
    with pytest.raises(NotPending, match="not found"):
        posts.decide("c2", "deny")
    found = [
        (event.envelope["type"], event.envelope["payload"]) for event in replay(sessions, "s1")
    ]
    assert found == [
        (
            "approval_required",
            {
                "approvalId": "c1",
                "action": "other",
                "summary": "Tool call: git.push",
                "details": call,
            },
        ),
        ("tool_call", call),
        ("approved", {"approvalId": "c1"}),
    ]


def test_u_27_an_agent_decides_nothing_twice_by_an_event(posts: Posts, sessions: Sessions) -> None:
    """U-27: a decision that is posted as an event counts as one, in its own session alone."""
    asked = {"approvalId": "a1", "action": "git.push", "summary": "s", "details": {}}
    posts.command("s1", {"type": "approval_required", "payload": asked}, sender="w1")
    sessions.create("s2")
    denied = {"type": "denied", "payload": {"approvalId": "a1"}}
    with pytest.raises(NotPending):
        posts.command("s2", denied, sender="w1")
    posts.command("s1", denied, sender="w1")
    with pytest.raises(NotPending):
        posts.command("s1", {"type": "approved", "payload": {"approvalId": "a1"}}, sender="w1")
    assert [event.envelope["type"] for event in replay(sessions, "s1")] == [
        "approval_required",
        "denied",
    ]


def test_u_27_an_id_that_was_asked_under_is_not_used_again(
    posts: Posts, sessions: Sessions
) -> None:
    """U-27: else nobody could decide what is asked the second time; asking again is no harm."""
    sessions.create("s2")

    def ask(session: str, id: str) -> None:
        call = {"toolCallId": id, "tool": "git", "args": {}, "requiresApproval": True}
        posts.command(session, {"type": "tool_call", "payload": call}, sender="w1")

    ask("s1", "c1")
    ask("s1", "c1")
    for session, id in (("s2", "c1"), ("s1", "")):
        with pytest.raises(InvalidInput, match=r"use another id|must not be empty"):
            ask(session, id)
    posts.decide("c1", "approve")
    with pytest.raises(InvalidInput, match="asked for before; use another id"):
        ask("s1", "c1")
    told = [event.envelope["type"] for event in replay(sessions, "s1")]
    assert told == ["approval_required", "tool_call"] * 2 + ["approved"]
    assert list(replay(sessions, "s2")) == []


def test_u_78_archived_events_are_replayed(sessions: Sessions) -> None:
    """U-78: a reader sees no difference between the log and its archive."""
    say(sessions, *(str(n) for n in range(200)))
    before = [event.frame() for event in replay(sessions, "s1")]
    with Archiver(sessions.bus) as archiver:
        assert archiver.archive(150)
    assert [event.frame() for event in replay(sessions, "s1")] == before
    say(sessions, "live")
    assert len(texts(sessions)) == 201


def test_a_call_that_is_invalid_asks_for_nothing(posts: Posts, sessions: Sessions) -> None:
    """U-15, U-27: the error is all that is told."""
    call = {"tool": "git", "args": {}, "requiresApproval": True}
    assert posts.command("s1", {"type": "tool_call", "payload": call}, sender="w1").wrong
    assert [event.envelope["type"] for event in replay(sessions, "s1")] == ["error"]


def test_u_83_ready_is_told_once(sessions: Sessions) -> None:
    """U-83: when all three services are online together; one that went away must come back."""

    def report(agent: str, state: str = "idle") -> None:
        sessions.emit("s1", "status", {"agentId": agent, "state": state}, sender=agent)

    for agent in ("localbuddy", "remotebuddy-orchestrator"):
        report(agent)
    report("localbuddy", "shutting_down")
    report("source_control_manager", "busy")
    report("worker-1")
    assert READY not in [event.envelope["payload"].get("text") for event in replay(sessions, "s1")]
    for _ in range(2):
        for agent in ("localbuddy", "remotebuddy", "SourceControlManager"):
            report(agent)
    told = [event.envelope["payload"].get("text") for event in replay(sessions, "s1")]
    assert told.count(READY) == 1


def test_u_76_events_join_the_conversation_of_what_they_tell_of(
    bus: Bus, sessions: Sessions
) -> None:
    """U-76: a request, its job, and the events about them are one chain."""
    request = ask(Requests(bus, sessions.tell))
    jobs = JobQueue(bus, sessions.tell)
    job = add(jobs, params={"requestId": request})
    told = sessions.emit("s1", "job_claimed", {"jobId": job, "workerId": "w1"}, sender="w1")
    assert jobs.claim("w1") is not None
    jobs.fail(job, "it broke", agent="w1")
    failed = list(replay(sessions, "s1"))[-1]
    assert failed.envelope["type"] == "job_failed"
    chain = [step.message.id for step in Trace.of(bus, request).steps]
    assert set(chain) >= {request, job, told.id, failed.id}
    alone = sessions.emit("s1", "done", {"ok": True})
    message = bus.get(alone.id)
    assert message is not None
    assert (message.correlation_id, message.to_agent) == ("s1", "tasks")


def test_a_session_that_is_not_there_is_told_nothing(bus: Bus) -> None:
    """The control plane goes on without sessions."""
    Sessions(bus).tell("nowhere", "done", {"ok": True}, "w1", None)
    assert bus.log.newest_seq() == 0
