"""Jobs that feed each other: how they are told from work, and how they end."""

import warnings
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Message, Queue, Worker
from ackbus.errors import HopsWarning, InvalidInput, TooManyHops
from ackbus.subscribers.jobs.outcomes import MAX_HOPS, WARN_HOPS, hops_of

from ..conftest import RunBus
from ..subscribers.work import attempts, state, take
from .hosts import REQUEST, ask, python

#: Prints a response of the json contract with an event that its own queue takes in.
FEED_ITSELF = f"""
import json, sys
request = json.load(sys.stdin)
event = {{"type": "{REQUEST}", "payload": 1}}
print(json.dumps({{"status": "ok", "result": "more", "events": [event]}}))
"""


def hops(bus: Bus) -> list[int]:
    """The hops of each request, in order."""
    return [hops_of(message) for message in bus.read(type=REQUEST)]


def test_limits_are_the_documented_ones() -> None:
    assert (WARN_HOPS, MAX_HOPS) == (20, 100)


@pytest.mark.slow
@pytest.mark.parametrize("retry", ["asked", "failures"])
def test_worker_whose_answer_feeds_its_own_queue_stops_by_itself(
    bus: Bus, run_bus: RunBus, retry: str
) -> None:
    """It made 722 messages in 3 s: now it is warned of once, and the job at its end says why."""
    queue = Queue.create(bus, REQUEST, retry=retry, addressed="*")  # answers have a recipient
    ask(bus, "go")
    ended = run_bus("run", "--type", REQUEST, "--success-type", REQUEST, "--drain", "--", "cat")
    assert ended.code == 0
    assert hops(bus) == list(range(MAX_HOPS))
    last = bus.log.newest_seq()
    assert last == MAX_HOPS
    (record,) = attempts(queue, last)
    assert "what would follow is 100 hops from its start, and the limit is 100" in (
        record.error or ""
    )
    assert state(queue, last) == {"asked": "failed", "failures": "dead"}[retry]
    warned = [line for line in ended.err.splitlines() if "is 20 hops from its start" in line]
    assert len(warned) == 1
    assert len(ended.err.splitlines()) == 2, ended.err


@pytest.mark.slow
def test_events_of_the_json_contract_are_counted(bus: Bus, run_bus: RunBus, project: Path) -> None:
    """And both limits can be set."""
    ask(bus, "go")
    options = ("--contract", "json", "--warn-hops", "3", "--max-hops", "5", "--drain")
    ended = run_bus("run", "--type", REQUEST, *options, "--", *python(FEED_ITSELF))
    assert ended.code == 0
    assert hops(bus) == [0, 1, 2, 3, 4]
    assert "is 3 hops from its start, and the limit is 5" in ended.err
    *_, last = bus.read(type=REQUEST)
    assert state(Queue.open(bus, REQUEST), last.seq) == "dead"


def test_messages_of_a_handler_are_counted_and_its_own_word_for_it_is_not(bus: Bus) -> None:
    def again(message: Message) -> Draft:
        return Draft(REQUEST, "again", from_agent="loop", headers={"hops": 0, "mine": 1})

    ask(bus, "go")
    worker = Worker(bus, REQUEST, beats=False, warn_hops=4, max_hops=6)
    with pytest.warns(HopsWarning, match="is 4 hops from its start") as warned:
        worker.run(again, drain=True)
    assert hops(bus) == [0, 1, 2, 3, 4, 5]
    assert list(bus.read(type=REQUEST))[-1].headers["mine"] == 1
    assert len(warned) == 1  # although each message begins a conversation of its own


def test_worker_that_publishes_nothing_may_end_a_chain(bus: Bus) -> None:
    """A journal, for instance: what it does is no loop."""
    ask(bus, "go", headers={"hops": 5})
    seen: list[int] = []
    worker = Worker(bus, REQUEST, beats=False, answers=False, max_hops=3)
    worker.run(lambda message: seen.append(message.seq), drain=True)
    assert (seen, state(Queue.open(bus, REQUEST))) == ([1], "succeeded")


def test_what_an_agent_publishes_has_no_hops(bus: Bus) -> None:
    """Also as an answer: an agent that asks again, and again, is at work."""
    (seq,) = ask(bus, "go", headers={"hops": 50})
    asked = bus.get(seq)
    assert asked is not None
    bus.publish("note", from_agent="alice", in_reply_to=asked.id)
    assert [message.headers for message in bus.read(type="note")] == [{}]


@pytest.mark.parametrize("claimed", [-1, True, "7", 2.5, None, [1]])
def test_header_that_is_no_count_is_none(bus: Bus, claimed: object) -> None:
    ask(bus, "go", headers={"hops": claimed})
    with warnings.catch_warnings(action="error"):
        Worker(bus, REQUEST, beats=False).run(lambda message: "done", drain=True)
    (done,) = bus.read(type="job.done")
    assert done.headers["hops"] == 1


def test_end_of_a_claim_by_hand_is_refused_too_and_the_job_is_over(bus: Bus) -> None:
    """A client that ends a claim with an answer is a worker: over HTTP, or with the library."""
    queue = Queue.create(bus, REQUEST)
    ask(bus, "go", headers={"hops": MAX_HOPS - 1})
    claim = take(queue)
    with pytest.raises(TooManyHops, match="the limit is 100") as refused:
        queue.complete(claim, Draft("job.done", from_agent="worker"), result="result")
    assert (refused.value.seq, refused.value.hops) == (1, 100)
    assert (state(queue), list(bus.read(type="job.done"))) == ("dead", [])


def test_answer_for_a_job_whose_workers_were_lost_is_counted(bus: Bus) -> None:
    queue = Queue.create(bus, REQUEST, on_lost="dead")
    ask(bus, "a", headers={"hops": 7})
    ask(bus, "b", headers={"hops": MAX_HOPS - 1})
    for _ in range(2):
        take(queue, lease_s=0.001)
    while [state(queue, seq) for seq in (1, 2)] != ["dead", "dead"]:
        queue.claim("another")
    assert [said.headers["hops"] for said in bus.read(type="job.failed")] == [8]


@pytest.mark.parametrize("limits", [{"warn_hops": 0}, {"max_hops": 0}])
def test_limit_below_one_is_refused(bus: Bus, limits: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        Worker(bus, REQUEST, **limits)  # type: ignore[arg-type]
