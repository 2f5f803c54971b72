"""The documented message types, and the views that people build on them."""

from pathlib import Path
from typing import Unpack

import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.bus.options import ReadFilters
from ackbus.export.archive_writer import Archiver
from ackbus.model import Liveness
from ackbus.schema.queries import file_of

from ..programs import raw_sql

TASK_TYPES = [
    "task_assign",
    "task_claim",
    "task_progress",
    "task_done",
    "task_failed",
    "task_blocked",
]
COORDINATION_TYPES = ["heartbeat", "state_change", "review_request", "review_result"]


@pytest.mark.parametrize("types", [TASK_TYPES, COORDINATION_TYPES, ["agent_started"]])
def test_documented_types_are_ordinary_messages(types: list[str], bus: Bus) -> None:
    """M-31, M-32, M-33, X-39: every type is accepted and read back, `heartbeat` too."""
    for type in types:
        bus.publish(type, {"type": type}, from_agent="bob")
    assert [(message.type, message.payload) for message in bus.read()] == [
        (type, {"type": type}) for type in types
    ]


def test_first_claimer_of_a_task_wins(bus: Bus) -> None:
    """M-34: the lease decides; the one that has it says so with `task_claim`."""
    bus.publish("task_assign", {"path": "a.py"}, from_agent="lead", id="t1")
    told = {}
    for agent in ("alice", "bob"):
        told[agent] = bus.leases.acquire("t1", agent) is not None
        if told[agent]:
            bus.publish("task_claim", from_agent=agent, correlation_id="t1")
    assert told == {"alice": True, "bob": False}
    assert [(m.type, m.from_agent) for m in bus.read(type="task_claim")] == [
        ("task_claim", "alice")
    ]


def test_review_goes_round_by_its_conversation(bus: Bus) -> None:
    """M-94: the result answers the request, and carries the task as its conversation."""
    for agent in ("alice", "lead"):
        bus.heartbeats.beat(agent)
    bus.publish(
        "review_request",
        {"branch": "worker-auth/skills-abc", "commit": "abc123"},
        from_agent="alice",
        to_agent="lead",
        correlation_id="task-1",
    )
    (request,) = Inbox(bus, "lead").poll(type="review_request")
    assert request.correlation_id == "task-1"
    bus.publish(
        "review_result",
        {"approved": False, "reason": "no tests"},
        from_agent="lead",
        to_agent=request.from_agent,
        in_reply_to=request.id,
    )
    (result,) = Inbox(bus, "alice").poll(type="review_result")
    assert (result.correlation_id, result.in_reply_to) == ("task-1", request.id)
    assert result.payload["approved"] is False
    assert [message.type for message in bus.read(conversation="task-1")] == [
        "review_request",
        "review_result",
    ]


def test_newest_hundred_changes_of_state_are_one_statement_away(bus: Bus, bus_dir: Path) -> None:
    """M-95, X-38: as the document asks for them, by seq descending, with the column `ts_ms`."""
    for n in range(60):
        bus.publish("state_change", {"n": n}, from_agent="bob")
        bus.publish("heartbeat", from_agent="bob")
        bus.publish("noise", from_agent="bob")
    rows = raw_sql(
        bus_dir,
        "SELECT seq, type FROM messages WHERE type IN ('heartbeat', 'state_change')"
        " ORDER BY seq DESC LIMIT 100",
    )
    assert len(rows) == 100
    assert {type for _, type in rows} == {"heartbeat", "state_change"}
    assert rows[0][0] == 179
    wanted = [m.seq for m in bus.read() if m.type in ("heartbeat", "state_change")]
    assert [seq for seq, _ in rows] == wanted[-100:][::-1]


def test_newest_of_a_type_are_found_from_the_end(bus: Bus) -> None:
    """M-95, X-38: `bus tail --type`, however much else came meanwhile."""
    for n in range(120):
        bus.publish("state_change", {"n": n}, from_agent="bob")
    bus.publish_many([Draft("noise", from_agent="bob")] * 5000)
    bus.stats()  # counts what is there: then only the blocks with this type are read
    bus.publish("state_change", {"n": 120}, from_agent="bob")
    newest = bus.log.newest(100, type="state_change")
    assert [message.payload["n"] for message in newest] == list(range(21, 121))
    assert [message.seq for message in bus.log.newest(2)] == [5120, 5121]


def test_newest_before_a_seq_are_found_by_every_filter(bus: Bus) -> None:
    """The page goes back through the log so."""
    (root,) = bus.publish_many([Draft("task.asked", from_agent="coder")])
    for n in range(300):
        bus.publish("noise", {"n": n}, from_agent="bob")
    answer = Draft("task.done", from_agent="coder", correlation_id=root.id)
    (answered,) = bus.publish_many([answer])
    newest = bus.log.newest
    assert [message.seq for message in newest(2, before_seq=301)] == [299, 300]
    assert [message.seq for message in newest(9, agent="coder")] == [1, answered.seq]
    assert [message.seq for message in newest(9, agent="coder", before_seq=answered.seq)] == [1]
    assert [message.seq for message in newest(1, conversation=root.id)] == [answered.seq]
    assert [message.seq for message in newest(9, type="task.>", before_seq=300)] == [1]
    assert newest(9, before_seq=1) == []


@pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")
def test_newest_to_an_agent_are_found_in_the_file_and_in_the_archive(bus: Bus) -> None:
    for n in range(60):
        bus.publish("note", {"n": n}, from_agent="bob", to_agent="ann" if n % 10 == 0 else "cy")
    with Archiver(bus) as archiver:
        archiver.archive(25)
    assert bus.log.count(0, 60) == 35

    def newest(count: int, **filters: Unpack[ReadFilters]) -> list[int]:
        return [each.seq for each in bus.log.newest(count, to_agent="ann", **filters)]

    assert newest(2) == [41, 51]
    assert newest(9) == [1, 11, 21, 31, 41, 51]
    assert newest(9, from_agent="cy") == []


def test_status_is_beats_from_the_table_and_changes_from_the_log(bus: Bus) -> None:
    """X-38, X-39: beats are rows, so they add no message however many there are."""
    for _ in range(20):
        bus.heartbeats.beat("alice", "working", task="t1")
    bus.publish("state_change", {"from": "ASSIGNED", "to": "WORKING"}, from_agent="alice")
    assert [(beat.agent, beat.liveness) for beat in bus.heartbeats.list()] == [
        ("alice", Liveness.ALIVE)
    ]
    assert bus.log.newest_seq() == 1
    assert [message.payload["to"] for message in bus.read(type="state_change")] == ["WORKING"]


def test_phases_of_the_document_are_there_as_far_as_this_version_goes(bus: Bus) -> None:
    """M-97: phase 0 and 1 whole; of phase 2 adaptive polling. Search and compaction come later."""
    assert file_of(bus).value("PRAGMA journal_mode") == "wal"
    bus.heartbeats.beat("alice", "working")
    bus.publish("note", "x" * 5000, from_agent="bob", to_agent="alice")
    inbox = Inbox(bus, "alice")
    inbox.run(lambda message: None, drain=True)
    assert inbox.position == 1
    assert bus.leases.acquire("t1", "alice") is not None
    assert len(list(bus.blobs)) == 1
    assert [beat.liveness for beat in bus.heartbeats.list()] == [Liveness.ALIVE]
    assert [inbox._pace.next() for _ in range(2)] == [0.2, pytest.approx(0.3)]
