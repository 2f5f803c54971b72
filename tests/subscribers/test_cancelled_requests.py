"""A request whose job is over without a worker is answered: its asker does not wait for ever."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, Message
from ackbus.subscribers.jobs.outcomes import answer_to
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import DeadLetters, JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.statistics import QueueStats

from ..conftest import wait_until
from ..programs import raw_sql, running_program
from .conftest import Clock
from .work import publish, seqs, state, take

REQUEST = "job.request"

#: Waits for the answer to a request that it publishes, and prints what it says.
REQUESTER = """
import sys
from ackbus import Bus
from ackbus.subscribers.jobs.policy import work_headers
with Bus.open(sys.argv[1]) as bus:
    headers = work_headers(dedupe_key="k")
    print(bus.request("job.request", from_agent="me", timeout_s=30, headers=headers).reply.payload)
"""

#: Says what becomes of the job of a request, which nobody works on.
End = Callable[[Queue], object]


def cancel_by_hand(queue: Queue) -> None:
    JobControl(queue).cancel(queue.bus.log.newest_seq(), "wrong branch")


def cancel_by_worker(queue: Queue) -> None:
    queue.cancel(take(queue, group="builders"), "wrong branch")


def purge(queue: Queue) -> None:
    JobControl(queue).purge()


def fill(queue: Queue) -> None:
    queue.fill()


def work_off(queue: Queue) -> None:
    claim = take(queue)
    answer = answer_to(claim.message, "job.done", None, sender="w", headers={})
    assert answer is not None
    queue.complete(claim, answer)


ENDS: dict[str, tuple[End, str, str]] = {
    "cancelled by hand": (cancel_by_hand, "job.request", "wrong branch"),
    "cancelled by its worker": (cancel_by_worker, "builders", "wrong branch"),
    "purged": (purge, "job.request", "purged"),
    "a duplicate": (fill, "job.request", "duplicate of 1, which is not over, with dedupe key k"),
}


#: Those that end a job which was to be done.
GIVEN_UP = [how for how in ENDS if how != "a duplicate"]


def requested(bus: Bus, **fields: Any) -> Message:
    """A request that has been published."""
    (seq,) = publish(bus, type=REQUEST, **({"from_agent": "asker"} | fields))
    message = bus.get(seq)
    assert message is not None
    return message


def answers(bus: Bus) -> list[Message]:
    return list(bus.read(type="job.failed"))


@pytest.mark.parametrize("how", ENDS)
def test_request_that_nobody_will_work_on_is_answered(bus: Bus, how: str) -> None:
    """P-60: its conversation has ended, as failed, and the answer says why and who ended it."""
    end, sender, why = ENDS[how]
    queue = Queue.create(bus, REQUEST)
    if how == "a duplicate":
        requested(bus, headers=work_headers(dedupe_key="k", dedupe_window_s=60))
    headers = work_headers(dedupe_key="k", dedupe_window_s=60) | {"context": {"run": 7}}
    asked = requested(bus, headers=headers, correlation_id="talk", priority=0)
    end(queue)
    (said,) = answers(bus)
    assert state(queue, asked.seq) == "cancelled"
    assert (said.from_agent, said.to_agent, said.in_reply_to) == (sender, "asker", asked.id)
    assert (said.conversation, said.priority) == ("talk", 0)
    assert said.headers == {"status": "cancelled", "context": {"run": 7}, "hops": 1}
    assert said.payload == f"no worker finished this: {why}"
    answer = bus.answer("talk")
    assert answer.reply is not None
    assert (answer.state, answer.reply.seq) == ("failure", said.seq)


@pytest.mark.parametrize("how", ENDS)
def test_requester_that_waits_in_another_process_gets_its_answer(
    bus: Bus, bus_dir: Path, how: str
) -> None:
    """P-60: it is woken, whoever ended its job."""
    end, _, why = ENDS[how]
    queue = Queue.create(bus, REQUEST)
    if how == "a duplicate":
        requested(bus, headers=work_headers(dedupe_key="k"))
        queue.complete(take(queue))
        why = "duplicate of 1, which succeeded, with dedupe key k"
    before = bus.log.newest_seq()
    with running_program(REQUESTER, bus_dir) as program:
        wait_until(lambda: bus.log.newest_seq() > before)
        end(queue)
        assert program.stdout is not None
        assert program.stdout.readline() == f"no worker finished this: {why}\n"


def test_cancelling_what_runs_is_answered_once_and_not_by_its_worker(bus: Bus) -> None:
    """Promise 6: the worker that goes on has nothing to say any more."""
    queue = Queue.create(bus, REQUEST)
    asked = requested(bus)
    claim = take(queue)
    JobControl(queue).cancel(asked.seq)
    late = Draft("job.done", from_agent="worker", in_reply_to=asked.id)
    with pytest.raises(Exception, match="cancelled by hand"):
        queue.complete(claim, late)
    assert [said.payload for said in answers(bus)] == ["no worker finished this: cancelled by hand"]
    assert not list(bus.read(type="job.done"))


@pytest.mark.parametrize("how", GIVEN_UP)
def test_request_that_was_answered_and_tried_again_by_hand_gets_no_other_answer(
    bus: Bus, how: str
) -> None:
    """P-54: whoever gives it up then, it has its answer."""
    queue = Queue.create(bus, REQUEST, max_attempts=1)
    asked = requested(bus)
    queue.fail(take(queue), "no", Draft("job.failed", "no", from_agent="w", in_reply_to=asked.id))
    JobControl(queue).retry(asked.seq)
    if how == "cancelled by hand":
        JobControl(queue).cancel(asked.seq)
    else:
        ENDS[how][0](queue)
    assert state(queue, asked.seq) == "cancelled"
    assert [said.payload for said in answers(bus)] == ["no"]


@pytest.mark.parametrize("act", [fill, purge, cancel_by_hand])
@pytest.mark.parametrize("pattern", [">", "job.*"])
def test_queue_of_many_types_never_answers_in_its_own_name(
    bus: Bus, clock: Clock, pattern: str, act: End
) -> None:
    """P-60: whoever looks at what others work on must not tell that nobody will."""
    queue, audit = Queue.create(bus, REQUEST), Queue.create(bus, "audit", pattern)
    headers = work_headers(dedupe_key="k", dedupe_window_s=0.001)
    requested(bus, headers=headers)
    work_off(queue)
    clock.advance(1)
    duplicate = requested(bus, headers=headers)  # of what waits in `audit`, and only there
    last = requested(bus)
    act(audit)
    assert state(audit, duplicate.seq) == "cancelled"
    assert (state(audit, last.seq) == "queued") == (act is fill)
    assert seqs(queue.claim("worker", limit=9)) == [duplicate.seq, last.seq]
    assert not answers(bus)


def test_queue_that_takes_in_answers_is_empty_when_it_was_purged(bus: Bus) -> None:
    """P-60: it does not fill itself while it is emptied."""
    queue = Queue.create(bus, "everything", ">")
    publish(bus, 600, type=REQUEST)
    assert JobControl(queue).purge() == 600
    queue.fill()
    assert QueueStats.of(queue).waiting == 0


def test_worker_that_cancels_answers_whatever_the_queue_takes_in(bus: Bus) -> None:
    """P-60: it was the one to do the work; but not where another queue's worker has answered."""
    queue, other = Queue.create(bus, "everything", ">"), Queue.create(bus, REQUEST)
    first, second = requested(bus), requested(bus)
    queue.cancel(take(queue, group="builders"), "wrong branch")
    (said,) = answers(bus)
    assert (said.from_agent, said.in_reply_to) == ("builders", first.id)
    for claim in other.claim("worker", limit=2):
        other.complete(claim, Draft("job.done", from_agent="w", in_reply_to=claim.message.id))
    queue.cancel(take(queue), "wrong branch")
    assert [said.in_reply_to for said in answers(bus)] == [first.id]
    assert bus.answer(second.conversation).state == "success"


def test_queue_that_is_made_later_tells_nothing_of_requests_that_were_answered(
    bus: Bus, clock: Clock
) -> None:
    """P-54: what it takes for duplicates was done long ago, in another queue."""
    queue = Queue.create(bus, REQUEST)
    for _ in range(3):
        asked = requested(bus, headers=work_headers(dedupe_key="k", dedupe_window_s=0.001))
        queue.complete(take(queue), Draft("job.done", from_agent="w", in_reply_to=asked.id))
        clock.advance(1)
    late = Queue.create(bus, "late", REQUEST)
    late.fill()
    assert [state(late, seq) for seq in (1, 3, 5)] == ["queued", "cancelled", "cancelled"]
    assert not answers(bus)


@pytest.mark.parametrize("how", GIVEN_UP)
def test_answer_to_another_request_of_the_conversation_is_none_to_this_one(
    bus: Bus, how: str
) -> None:
    """P-60: the rule of `Request.wait`; each request has its own answer."""
    queue = Queue.create(bus, REQUEST)
    first = requested(bus, correlation_id="talk")
    second = requested(bus, correlation_id="talk")
    queue.complete(take(queue), Draft("job.done", from_agent="w", in_reply_to=first.id))
    JobControl(queue).cancel(second.seq) if how == "cancelled by hand" else ENDS[how][0](queue)
    assert [said.in_reply_to for said in answers(bus)] == [second.id]


@pytest.mark.parametrize("how", [*GIVEN_UP, "done"])
def test_headers_too_deep_to_be_written_are_left_out_of_the_answer(
    bus: Bus, bus_dir: Path, how: str
) -> None:
    """A program with its own SQL may store any JSON; it keeps nobody from filling or emptying."""
    queue = Queue.create(bus, REQUEST)
    deep = "[" * 400 + "]" * 400
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, headers) VALUES"
        f""" ('deep', 1, 'asker', 'job.request', '{{"context":{deep},"tracestate":"t=1"}}')""",
    )
    if how == "done":
        work_off(queue)
    else:
        ENDS[how][0](queue)
    (said,) = bus.read(conversation="deep", after_seq=bus.log.newest_seq() - 1)
    assert said.in_reply_to == "deep"
    assert not {"context", "tracestate"} & set(said.headers)


@pytest.mark.parametrize("how", ["cancelled by hand", "purged", "a duplicate"])
def test_queue_whose_name_is_no_senders_is_filled_and_emptied_all_the_same(
    bus: Bus, bus_dir: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program with its own SQL may store any name."""
    Queue.create(bus, REQUEST)
    raw_sql(bus_dir, "UPDATE queues SET name = '-odd'")
    queue = Queue.open(bus, "-odd")
    headers = work_headers(dedupe_key="k", dedupe_window_s=60)
    asked = requested(bus, headers=headers)
    if how == "a duplicate":
        asked = requested(bus, headers=headers)
    ENDS[how][0](queue)
    assert state(queue, asked.seq) == "cancelled"
    assert not answers(bus)
    assert "was cancelled without an answer: sender '-odd'" in caplog.text


def test_request_that_has_its_answer_gets_no_second_one_when_it_is_dropped(bus: Bus) -> None:
    """P-54: the failure was answered when the job died."""
    queue = Queue.create(bus, REQUEST, max_attempts=1)
    asked = requested(bus)
    queue.fail(take(queue), "no", Draft("job.failed", "no", from_agent="w", in_reply_to=asked.id))
    letters = DeadLetters(queue)
    assert [job.state for job in letters.drop(letters.find())] == ["cancelled"]
    assert [said.payload for said in answers(bus)] == ["no"]


def test_what_is_no_request_is_given_up_in_silence(bus: Bus) -> None:
    """P-43: by the convention of the types alone."""
    queue = Queue.create(bus, "job")
    publish(bus, 3)
    JobControl(queue).cancel(1)
    queue.cancel(take(queue), "no")
    assert JobControl(queue).purge() == 1
    assert bus.log.newest_seq() == 3


def test_purging_answers_every_request(bus: Bus, clock: Clock) -> None:
    """P-60: over several transactions, whatever each waits for."""
    queue = Queue.create(bus, REQUEST)
    publish(bus, 600, type=REQUEST)
    publish(bus, 2, type=REQUEST, headers=work_headers(available_at_ms=clock.now_ms + 1000))
    publish(bus, 2, type=REQUEST, headers=work_headers(dedupe_key="k"))
    asked = {message.id for message in bus.read()}
    assert JobControl(queue).purge() == 604
    assert {said.in_reply_to for said in answers(bus)} == asked
    assert len(answers(bus)) == 604


@pytest.mark.parametrize("how", ENDS)
def test_answer_without_room_keeps_nothing_from_being_cancelled(
    bus: Bus, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Q-04: a full queue of answers must not stop those who fill or empty another; it is told."""
    end, _, _ = ENDS[how]
    JobControl(Queue.create(bus, "failures", "job.failed", addressed="*")).limit(1)
    bus.publish("job.failed", from_agent="x")
    queue = Queue.create(bus, REQUEST)
    window_s = 60 if how == "a duplicate" else None
    headers = work_headers(dedupe_key="k", dedupe_window_s=window_s)
    first, second = (requested(bus, headers=headers).seq for _ in range(2))
    end(queue)
    cancelled = [seq for seq in (first, second) if state(queue, seq) == "cancelled"]
    assert cancelled
    assert len(answers(bus)) == 1
    (told,) = caplog.messages[-1:]
    assert "was cancelled without an answer: queue 'failures' is full" in told


@pytest.mark.parametrize("how", ENDS)
def test_request_that_no_answer_can_name_is_cancelled_all_the_same(
    bus: Bus, bus_dir: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program with its own SQL may store any text; it keeps nobody from filling or emptying."""
    end, _, _ = ENDS[how]
    queue = Queue.create(bus, REQUEST)
    if how == "a duplicate":
        requested(bus, headers=work_headers(dedupe_key="k"))
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, headers) VALUES ('odd', 1,"
        """ 'a' || char(10), 'job.request', '{"dedupe_key":"k","dedupe_window_ms":60000}')""",
    )
    end(queue)
    assert state(queue, bus.log.newest_seq()) == "cancelled"
    assert not answers(bus)
    assert "can't be answered" in caplog.text


def test_cancelling_that_is_undone_warns_of_no_answer_without_room(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 7: what did not happen is not told."""
    JobControl(Queue.create(bus, "failures", "job.failed", addressed="*")).limit(1)
    bus.publish("job.failed", from_agent="x")
    queue = Queue.create(bus, REQUEST)
    asked = requested(bus)
    queue.fill()
    with contextlib.suppress(KeyError), bus.transaction():
        JobControl(queue).cancel(asked.seq)
        raise KeyError
    assert not caplog.messages
    with bus.transaction():
        JobControl(queue).cancel(asked.seq)
        assert not caplog.messages
    assert len(caplog.messages) == 1


def test_cancelling_that_is_undone_is_not_answered(bus: Bus) -> None:
    """Promise 7: the job and its answer are one transaction."""
    queue = Queue.create(bus, REQUEST)
    requested(bus)
    queue.fill()
    with contextlib.suppress(KeyError), bus.transaction():
        JobControl(queue).cancel(1)
        raise KeyError
    assert (state(queue), answers(bus)) == ("queued", [])


def test_lost_request_of_a_queue_without_a_worker_host_is_answered(bus: Bus, clock: Clock) -> None:
    """P-60, promise 7: whoever claims next answers by the convention, under its group's name."""
    queue = Queue.create(bus, REQUEST, on_lost="fail")
    asked = requested(bus, headers={"context": 1})
    take(queue, lease_s=1)
    clock.advance(1)
    assert queue.claim("sweeper", group="sweepers") == []
    (said,) = answers(bus)
    assert (said.from_agent, said.in_reply_to) == ("sweepers", asked.id)
    assert said.payload == "no worker finished this: the lease ran out"
    assert said.headers == {"status": "failed", "context": 1, "hops": 1}


def test_lost_request_that_no_answer_can_name_ends_all_the_same(
    bus: Bus, bus_dir: Path, clock: Clock
) -> None:
    """Nobody could claim from the queue any more if it did not."""
    queue = Queue.create(bus, REQUEST, on_lost="fail")
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type)"
        " VALUES ('odd', 1, 'a' || char(10), 'job.request')",
    )
    take(queue, lease_s=1)
    clock.advance(1)
    assert queue.claim("sweeper") == []
    assert state(queue) == "failed"
