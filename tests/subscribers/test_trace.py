"""Traces: from any id the whole chain."""

from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.bus.log.log import find_message
from ackbus.errors import NotFound
from ackbus.schema.queries import file_of
from ackbus.subscribers.overview.trace import Trace, WorkHistory
from ackbus.subscribers.queues.queue import Queue

from ..programs import raw_sql


def shape(trace: Trace) -> list[tuple[int, int]]:
    """Seq and depth of each step."""
    return [(step.message.seq, step.depth) for step in trace.steps]


@pytest.fixture
def chain(bus: Bus) -> list[str]:
    """A request, a lost claim on it, one that succeeds, its reply, and what that brought.

    Returns the keys by which the chain can be found.
    """
    queue = Queue.create(bus, "review", "review.request", backoff_s=0)
    asked = bus.publish("review.request", "look", from_agent="lead", id="the-request")
    (first,) = queue.claim("worker-1")
    queue.release(first, "went home")
    (second,) = queue.claim("worker-2")
    done = Draft("review.done", "fine", from_agent="worker-2", in_reply_to=asked.id)
    (reply,) = queue.complete(second, done)
    merge = bus.publish("merge.request", from_agent="lead", in_reply_to=reply.id)
    merging = Queue.create(bus, "merge", "merge.request")
    (third,) = merging.claim("worker-3")
    merging.fail(third, "conflict", retry=False)
    bus.publish("merge.failed", from_agent="worker-3", in_reply_to=merge.id)
    bus.publish("note", from_agent="lead", correlation_id=asked.id)
    bus.publish("unrelated", from_agent="x")
    return [
        *("1", "the-request", "2", reply.id, merge.id, "4"),
        *(f"claim:{first.token}", f"claim:{third.token}", "review:1", "merge:3"),
    ]


def test_every_id_leads_to_the_whole_chain(bus: Bus, chain: list[str]) -> None:
    """U-76: message, seq, conversation, claim, job."""
    for key in chain:
        trace = Trace.of(bus, key)
        assert trace.conversations == ["the-request"], key
        assert shape(trace) == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 0)], key
    assert [Trace.of(bus, key).seq for key in chain] == [1, 1, 2, 2, 3, 4, 1, 3, 1, 3]


def test_steps_have_their_jobs_and_every_claim(bus: Bus, chain: list[str]) -> None:
    """U-76, P-67: who tried what, and how it ended."""
    found = {
        step.message.seq: [
            (work.job.queue, work.job.state, [(c.instance, c.status, c.error) for c in work.claims])
            for work in step.work
        ]
        for step in Trace.of(bus, chain[0]).steps
    }
    assert found == {
        1: [
            (
                "review",
                "succeeded",
                [("worker-1", "lost", "went home"), ("worker-2", "completed", None)],
            )
        ],
        2: [],
        3: [("merge", "dead", [("worker-3", "failed", "conflict")])],
        4: [],
        5: [],
    }


def test_message_in_several_queues_has_a_job_in_each(bus: Bus) -> None:
    """X-04: another queue name is another full copy of the stream."""
    bus.publish("t", from_agent="a")
    for name in ("b", "a"):
        Queue.create(bus, name, "t").claim("w")
    assert [work.job.queue for work in WorkHistory(bus).of(1)] == ["a", "b"]


def test_trace_goes_up_into_other_conversations(bus: Bus) -> None:
    """P-11: a child with a conversation of its own is still led back to where it began."""
    root = bus.publish("root", from_agent="a")
    parent = bus.publish("parent", from_agent="a", in_reply_to=root.id)
    bus.publish("sibling", from_agent="a", in_reply_to=root.id)
    bus.publish("child", from_agent="a", in_reply_to=parent.id, correlation_id="own")
    bus.publish("later", from_agent="a", correlation_id="own")
    for key in ("4", "own", "5"):
        trace = Trace.of(bus, key)
        assert trace.conversations == ["own", root.id], key
        assert shape(trace) == [(1, 0), (2, 1), (4, 2), (3, 1), (5, 0)], key
    assert shape(Trace.of(bus, "1")) == [(1, 0), (2, 1), (3, 1)]


def test_circles_of_other_programs_have_an_end(bus: Bus, bus_dir: Path) -> None:
    """A plain INSERT may let messages answer each other, themselves, or what is not there."""
    insert = (
        "INSERT INTO messages (id, ts_ms, from_agent, type, correlation_id, in_reply_to)"
        " VALUES ('{}', 1, 'raw', 't', 'c', '{}')"
    )
    pairs = [("a", "b"), ("b", "a"), ("self", "self"), ("orphan", "gone")]
    raw_sql(bus_dir, *(insert.format(*pair) for pair in pairs))
    for key in ("c", "a", "b", "self", "orphan"):
        assert shape(Trace.of(bus, key)) == [(1, 0), (2, 1), (3, 0), (4, 0)], key


def test_two_agents_may_answer_each_other_a_thousand_times(bus: Bus) -> None:
    """No recursion: the depth of a conversation has no limit."""
    last = bus.publish("t", from_agent="a")
    with bus.transaction():
        for _ in range(1500):
            last = bus.publish("t", from_agent="a", in_reply_to=last.id)
    assert shape(Trace.of(bus, last.id)) == [(seq, seq - 1) for seq in range(1, 1502)]


@pytest.mark.parametrize(
    "key", ["nobody", "17", "0", "claim:2", "claim:x", "claim:", "review:2", "gone:1", ":1", "1:"]
)
def test_name_of_nothing_is_refused(key: str, bus: Bus) -> None:
    bus.publish("review", from_agent="a")
    Queue.create(bus, "review").claim("w", limit=1)
    bus.publish("other", from_agent="a")
    with pytest.raises(NotFound, match="QUEUE:SEQ"):
        Trace.of(bus, key)


def test_id_that_looks_like_something_else_is_an_id_first(bus: Bus) -> None:
    for id in ("claim:1", "2", "x:1"):
        bus.publish("t", from_agent="a", id=id)
    assert [Trace.of(bus, key).seq for key in ("claim:1", "2", "x:1")] == [1, 2, 3]
    bus.publish("t", from_agent="a", id="77")
    message = find_message(bus, "77")
    assert message is not None
    assert message.seq == 4
    assert find_message(bus, "78") is None


def test_tracing_changes_nothing(bus: Bus, chain: list[str]) -> None:
    """PITFALLS 18: reading never writes; a claim whose lease ran out stays as it is."""
    before = file_of(bus).value("SELECT total_changes()")
    for key in chain:
        Trace.of(bus, key)
    assert file_of(bus).value("SELECT total_changes()") == before
