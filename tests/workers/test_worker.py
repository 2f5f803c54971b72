"""The worker host with Python handlers: what it does with what they return, raise and wait for."""

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, JobControl, Message, NeverRetry, Queue, RetryLater, Worker
from ackbus.errors import InvalidInput, WrongProcess
from ackbus.subscribers.jobs.claims import ClaimRecord
from ackbus.subscribers.views import list_jobs
from ackbus.workers import executors
from ackbus.workers import worker as worker_module

from ..conftest import wait_until
from ..programs import held_write_lock, raw_sql, running_program
from ..subscribers.work import attempts, job, state, statuses
from .hosts import (
    LONG_S,
    REQUEST,
    answer,
    answers,
    ask,
    at_work,
    attempt,
    done,
    wait_for_done,
)

#: Ends as soon as it is asked for work that is about to come: for tests that wait for nothing.
QUICK = {"beats": False}


def drain(bus: Bus, handler: Any, queue: Queue | str = REQUEST, **options: Any) -> int:
    """Runs a worker until nothing is left, and returns how many attempts ended."""
    return Worker(bus, queue, group="worker", **QUICK | options).run(handler, drain=True)


def shout(message: Message) -> object:
    return message.payload.upper()


def fail(message: Message) -> object:
    raise ValueError("no such file")


# What a handler returns.


def test_what_a_handler_returns_is_the_answer_in_the_same_conversation(bus: Bus) -> None:
    """P-34, P-37, P-41, P-42: the success type is by convention, or as it is given.

    The worker group is the sender, and the answer goes to who asked.
    """
    ask(bus, "hello", correlation_id="talk", priority=0)
    assert drain(bus, shout) == 1
    said = answer(bus)
    assert (said.type, said.payload, said.from_agent) == ("job.done", "HELLO", "worker")
    assert (said.to_agent, said.conversation, said.priority) == ("boss", "talk", 0)
    assert (attempt(bus).status, attempt(bus).result) == ("completed", "HELLO")
    ask(bus, "more")
    drain(bus, shout, success_type="job.shouted")
    assert answer(bus, 3).type == "job.shouted"


def test_type_that_asks_for_nothing_gets_no_answer(bus: Bus) -> None:
    """P-43: our answer types follow the convention, and none of them must be given."""
    ask(bus, "hello", "again", type="job")
    assert drain(bus, shout, "job") == 2
    assert bus.log.newest_seq() == 2
    assert state(Queue.open(bus, "job")) == "succeeded"


@pytest.mark.parametrize("several", [False, True])
def test_drafts_are_published_as_they_are(bus: Bus, several: bool) -> None:
    draft = Draft("next.step", 1, from_agent="planner")
    ask(bus, "go", type="job")
    drain(bus, lambda message: [draft, draft] if several else draft, "job")
    published = [(found.type, found.payload, found.from_agent) for found in bus.read(after_seq=1)]
    assert published == [("next.step", 1, "planner")] * (1 + several)


def test_copy_of_the_stream_can_leave_the_answers_to_others(bus: Bus) -> None:
    """A journal beside the workers that do what is asked."""
    ask(bus, "hello")
    journal = Queue.create(bus, "journal", ">")
    assert drain(bus, lambda message: "noted", journal, answers=False) == 1
    assert drain(bus, shout) == 1
    assert [reply.payload for reply in answers(bus)] == ["HELLO"]
    with pytest.raises(InvalidInput, match="does not answer"):
        Worker(bus, journal, answers=False, success_type="noted")


@pytest.mark.parametrize("handler", ["cat", None])
def test_what_is_no_function_is_refused_before_a_job_is_claimed(bus: Bus, handler: object) -> None:
    ask(bus, "hello")
    with pytest.raises(InvalidInput, match=r"handler must be a function, not "):
        drain(bus, handler)
    queue = Queue.open(bus, REQUEST)
    queue.fill()
    assert state(queue) == "queued"


def test_handler_that_returns_nothing_is_answered_without_a_payload(bus: Bus) -> None:
    ask(bus, "go")
    drain(bus, lambda message: None)
    assert not answer(bus).has_payload


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), {1, 2}, "\ud800", [Draft("x", from_agent="me"), 5]],
    ids=lambda value: type(value).__name__,
)
def test_result_that_is_no_json_is_a_failure_and_the_worker_goes_on(
    bus: Bus, value: object
) -> None:
    """The bad result of one job does not undo what ended together with it."""
    ask(bus, "good", "bad", "good")
    Queue.create(bus, REQUEST, retry="asked")
    assert drain(bus, lambda message: value if message.payload == "bad" else "ok") == 3
    assert [answer(bus, seq).type for seq in (1, 2, 3)] == ["job.done", "job.failed", "job.done"]
    failed = attempt(bus, 2)
    assert failed.status == "failed"
    assert failed.error is not None
    assert failed.error.startswith("the result can't be stored: payload can't be written as JSON")


def test_follow_up_that_the_bus_refuses_is_a_failure_and_nothing_of_it_is_stored(bus: Bus) -> None:
    good = Draft("next", from_agent="me")
    orphan = Draft("next", from_agent="me", in_reply_to="nobody")
    Queue.create(bus, "job", retry="asked")
    ask(bus, "go", type="job")
    assert drain(bus, lambda message: [good, orphan], "job") == 1
    assert bus.log.newest_seq() == 1
    assert state(Queue.open(bus, "job")) == "failed"


# What a handler raises.


def test_failure_is_tried_again_until_the_job_is_dead_and_answered_once(bus: Bus) -> None:
    """X-02, D-72: 4 attempts by default, then the job is dead; only the last is answered."""
    queue = Queue.create(bus, REQUEST, backoff_s=0)
    ask(bus, "go")
    assert drain(bus, fail) == 4
    assert (state(queue), statuses(queue)) == ("dead", ["failed"] * 4)
    assert [record.attempt for record in attempts(queue)] == [1, 2, 3, 4]
    assert (answer(bus).type, answer(bus).payload) == ("job.failed", "ValueError: no such file")
    stderr = attempts(queue)[0].stderr
    assert stderr is not None
    assert "Traceback" in stderr


def test_failure_is_an_answer_where_the_queue_says_so(bus: Bus) -> None:
    """P-38, X-02: one attempt, the claim failed, the failure type."""
    queue = Queue.create(bus, REQUEST, retry="asked")
    ask(bus, "go")
    assert drain(bus, fail, failure_type="job.broken") == 1
    assert (state(queue), statuses(queue), answer(bus).type) == ("failed", ["failed"], "job.broken")


@pytest.mark.parametrize(("retry", "end"), [("failures", "dead"), ("asked", "failed")])
def test_handler_can_forbid_another_attempt(bus: Bus, retry: str, end: str) -> None:
    queue = Queue.create(bus, REQUEST, retry=retry)

    def refuse(message: Message) -> None:
        raise NeverRetry("wrong for ever")

    ask(bus, "go")
    assert drain(bus, refuse) == 1
    assert state(queue) == end
    assert answer(bus).payload == "NeverRetry: wrong for ever"


@pytest.mark.parametrize("retry", ["failures", "asked"])
def test_handler_can_ask_for_another_attempt_after_a_pause(bus: Bus, retry: str) -> None:
    """X-14: whatever the queue's rule, and not before its time."""
    queue = Queue.create(bus, REQUEST, retry=retry)

    def later(message: Message) -> None:
        raise RetryLater("not yet", after_s=1000)

    ask(bus, "go")
    before_ms = bus.now_ms()
    assert drain(bus, later) == 1
    waiting = job(queue)
    assert (waiting.state, waiting.gate, waiting.attempt) == ("queued", "time", 2)
    assert 1_000_000 <= waiting.available_at_ms - before_ms < 1_060_000
    assert answers(bus) == []


def test_handler_that_asks_for_ever_is_dead_after_its_attempts(bus: Bus) -> None:
    queue = Queue.create(bus, REQUEST, retry="asked", max_attempts=3)

    def now(message: Message) -> None:
        raise RetryLater(after_s=0)

    ask(bus, "go")
    assert drain(bus, now) == 3
    assert (state(queue), answer(bus).type) == ("dead", "job.failed")


def test_pause_that_is_no_number_is_a_failure_of_the_handler(bus: Bus) -> None:
    def nonsense(message: Message) -> None:
        raise RetryLater("x", after_s="soon")  # type: ignore[arg-type]

    Queue.create(bus, REQUEST, retry="asked")
    ask(bus, "go")
    assert drain(bus, nonsense) == 1
    assert attempt(bus).error == "InvalidInput: after_s must be seconds, not 'soon'"


def test_interrupt_ends_the_worker_and_hands_the_job_back(bus: Bus) -> None:
    """The attempt does not count, and the job can be claimed at once."""

    def interrupt(message: Message) -> None:
        raise KeyboardInterrupt

    ask(bus, "go", "go")
    with pytest.raises(KeyboardInterrupt):
        drain(bus, interrupt)
    queue = Queue.open(bus, REQUEST)
    assert statuses(queue) == ["lost"]
    assert (job(queue).state, job(queue).gate, job(queue).attempt) == ("queued", "open", 1)
    assert drain(bus, lambda message: None) == 2


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Odd:
    def __repr__(self) -> str:
        raise ValueError("no picture")


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), Speechless()])
def test_whatever_a_handler_raises_counts_as_a_failure(bus: Bus, error: BaseException) -> None:
    """Pitfall 12: a job that ends its worker would else come again for ever."""

    def fail(message: Message) -> None:
        raise error

    Queue.create(bus, REQUEST, max_attempts=2, backoff_s=0)
    ask(bus, "go")
    assert drain(bus, fail) == 2
    assert job(Queue.open(bus, REQUEST)).state == "dead"


@pytest.mark.parametrize("error", [SystemExit(3), Speechless(), GeneratorExit()])
def test_whatever_a_coroutine_raises_counts_as_a_failure(bus: Bus, error: BaseException) -> None:
    """It ends neither the event loop nor the worker; and the worker does not wait for it."""

    async def fail(message: Message) -> None:
        raise error

    Queue.create(bus, REQUEST, max_attempts=2, backoff_s=0)
    ask(bus, "go")
    assert drain(bus, fail) == 2
    assert job(Queue.open(bus, REQUEST)).state == "dead"


def test_interrupt_in_a_coroutine_ends_the_worker_and_hands_the_job_back(bus: Bus) -> None:
    async def interrupted(message: Message) -> None:
        raise KeyboardInterrupt

    ask(bus, "go")
    with pytest.raises(KeyboardInterrupt):
        drain(bus, interrupted)
    queue = Queue.open(bus, REQUEST)
    assert (statuses(queue), job(queue).state, job(queue).attempt) == (["lost"], "queued", 1)


def test_result_without_a_picture_fails_its_job_alone(bus: Bus) -> None:
    Queue.create(bus, REQUEST, retry="asked")
    ask(bus, "go", "go")
    assert drain(bus, lambda message: Odd()) == 2
    assert {state(Queue.open(bus, REQUEST), seq) for seq in (1, 2)} == {"failed"}


def test_coroutine_function_is_awaited_by_run_too(bus: Bus) -> None:
    """The issue's words: `Worker(bus, queue).run(handler)`, sync or async."""

    async def handle(message: Message) -> object:
        await asyncio.sleep(0)
        return message.payload

    ask(bus, "go")
    assert drain(bus, handle) == 1
    assert answers(bus)[0].payload == "go"


def test_object_with_a_coroutine_for_its_call_is_awaited_by_run_too(bus: Bus) -> None:
    class Handler:
        async def __call__(self, message: Message) -> object:
            return message.payload

    ask(bus, "go")
    assert drain(bus, Handler()) == 1
    assert answers(bus)[0].payload == "go"


def test_handler_that_would_never_run_is_refused_before_a_job_is_claimed(bus: Bus) -> None:
    def generate(message: Message) -> Iterator[object]:
        yield message.payload

    ask(bus, "go")
    with pytest.raises(InvalidInput, match="would never run 'generate', a generator function"):
        drain(bus, generate)
    for handler in (shout, generate):
        given: Any = handler
        with pytest.raises(InvalidInput, match="run_async takes a coroutine function, not "):
            asyncio.run(Worker(bus, REQUEST).run_async(given, drain=True))
    assert statuses(Queue.open(bus, REQUEST)) == []


@pytest.mark.filterwarnings("error")
def test_attempt_whose_work_was_not_done_has_failed(bus: Bus) -> None:
    """Without a warning that a coroutine was never awaited: it is closed."""

    async def handle(message: Message) -> None:
        raise AssertionError("it ran")

    async def hand_on(message: Message) -> object:
        return handle(message)

    Queue.create(bus, REQUEST, retry="asked")
    handlers: list[Any] = [lambda message: handle(message), hand_on]
    for handler in handlers:
        (seq,) = ask(bus, "go")
        assert drain(bus, handler) == 1
        told = "returned a coroutine, which is never run: its work was not done"
        assert told in str(attempt(bus, seq).error)
        assert answer(bus, seq).type == "job.failed"


def test_handler_that_awaits_what_was_cancelled_has_failed(bus: Bus) -> None:
    async def handle(message: Message) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    Queue.create(bus, REQUEST, retry="asked")
    ask(bus, "go")
    assert drain(bus, handle) == 1
    assert state(Queue.open(bus, REQUEST)) == "failed"


def test_what_runs_in_threads_is_finished_before_an_interrupt_ends_the_worker(bus: Bus) -> None:
    """Nobody else may claim what still runs."""
    begun, may_end = threading.Event(), threading.Event()

    def handle(message: Message) -> str:
        begun.set()
        assert may_end.wait(LONG_S)
        return "done"

    ask(bus, "go")
    worker = Worker(bus, REQUEST, concurrency=2, **QUICK)  # type: ignore[arg-type]
    claim = worker.queue.claim
    calls = []

    def interrupted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) > 1:
            may_end.set()
            raise KeyboardInterrupt
        return claim(*args, **options)

    worker.queue.claim = interrupted  # type: ignore[method-assign]  # the moment of a Ctrl-C
    with pytest.raises(KeyboardInterrupt):
        worker.run(handle)
    assert statuses(Queue.open(bus, REQUEST)) == ["completed"]
    assert answers(bus)[0].payload == "done"


def test_handler_in_a_thread_can_not_end_the_worker(bus: Bus) -> None:
    def leave(message: Message) -> None:
        raise SystemExit(3)

    Queue.create(bus, REQUEST, retry="asked")
    ask(bus, "go", "go")
    assert drain(bus, leave, concurrency=2) == 2
    assert answer(bus, 1).payload == answer(bus, 2).payload == "SystemExit: 3"


# When it begins and ends.


def test_once_handles_one_message_and_leaves_the_others(bus: Bus) -> None:
    """P-48: also when the handler fails, and with room for more."""
    ask(bus, "a", "b")
    queue = Queue.create(bus, REQUEST, retry="asked")
    worker = Worker(bus, queue, concurrency=4, **QUICK)  # type: ignore[arg-type]
    assert worker.run(fail, once=True) == 1
    assert (state(queue, 1), state(queue, 2)) == ("failed", "queued")


def test_once_waits_for_the_message(bus: Bus) -> None:
    """P-48: started before anything is published."""
    worker = Worker(bus, REQUEST)
    counts: list[int] = []
    thread = threading.Thread(
        target=lambda: counts.append(worker.run(shout, once=True)), daemon=True
    )
    thread.start()
    wait_until(lambda: bus.heartbeats.get(worker.group))
    ask(bus, "a", "b")
    thread.join(LONG_S)
    assert counts == [1]
    assert done(bus) == 1


def test_worker_drains_the_backlog_and_waits_again(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-47, P-74: a burst is done without another wake, and each later message too."""
    monkeypatch.setattr(worker_module, "RECHECK_S", 3600.0)
    worker = Worker(bus, REQUEST)
    with at_work(worker, shout):
        for batch in range(1, 4):
            seqs = ask(bus, "a", "b", "c")
            wait_for_done(bus, len(seqs) * batch)
    assert Counter(found.type for found in bus.read()) == {REQUEST: 9, "job.done": 9}


def test_drain_leaves_what_waits_for_its_time(bus: Bus) -> None:
    queue = Queue.create(bus, REQUEST, backoff_s=1000)
    ask(bus, "go")
    assert drain(bus, fail) == 1
    assert (job(queue).state, job(queue).gate) == ("queued", "time")
    assert drain(bus, fail) == 0


@pytest.mark.parametrize("concurrency", [1, 4])
def test_worker_that_was_stopped_before_it_ran_takes_nothing(bus: Bus, concurrency: int) -> None:
    """And for good: it would not do to lose a stop that came a moment too early."""
    ask(bus, "go")
    worker = Worker(bus, REQUEST, concurrency=concurrency)
    worker.stop()
    assert worker.run(shout) == worker.run(shout) == 0
    assert attempts(Queue.open(bus, REQUEST)) == []


@pytest.mark.parametrize("concurrency", [1, 3])
def test_stopped_worker_finishes_what_runs_and_takes_no_more(bus: Bus, concurrency: int) -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def wait(message: Message) -> None:
        begun.release()
        assert go_on.wait(LONG_S)

    ask(bus, *range(10))
    worker = Worker(bus, REQUEST, concurrency=concurrency)
    with at_work(worker, wait) as thread:
        for _ in range(concurrency):
            assert begun.acquire(timeout=LONG_S)
        worker.stop()
        assert thread.is_alive()
        go_on.set()
        thread.join(LONG_S)
    queue = Queue.open(bus, REQUEST)
    assert Counter(state(queue, seq) for seq in range(1, 11)) == {
        "succeeded": concurrency,
        "queued": 10 - concurrency,
    }
    assert list_jobs(queue, ["running"], 10) == []


def test_stop_in_the_middle_of_a_batch_hands_the_rest_back_uncounted(bus: Bus) -> None:
    """Quick work is claimed by the dozen: what was not begun is queued, as a first attempt."""
    queue = Queue.create(bus, REQUEST)
    seqs = ask(bus, *range(400))
    worker = Worker(bus, queue, **QUICK)  # type: ignore[arg-type]

    def stop_at_last(message: Message) -> None:
        if message.payload == 150:
            worker.stop()

    assert worker.run(stop_at_last) == 151
    handed_back = [seq for seq in seqs if statuses(queue, seq) == ["lost"]]
    assert handed_back == list(range(152, 152 + len(handed_back)))
    assert all(job(queue, seq).attempt == 1 for seq in handed_back)
    assert drain(bus, lambda message: None) == 400 - 151


def test_worker_does_not_hoard_what_takes_longer_than_expected(bus: Bus) -> None:
    """Jobs were quick, so a dozen is claimed; now they are slow, and others get their share."""
    queue = Queue.create(bus, REQUEST)
    ask(bus, *range(100))
    ask(bus, *["slow"] * 20)
    is_slow, is_shared = threading.Event(), threading.Event()

    def work(message: Message) -> None:
        if message.payload == "slow" and not is_slow.is_set():
            is_slow.set()
            time.sleep(1.5 * executors.SHARE_AFTER_S)  # time itself is what this is about
        elif message.payload == "slow":
            assert is_shared.wait(LONG_S)

    with at_work(Worker(bus, queue, **QUICK), work):  # type: ignore[arg-type]
        assert is_slow.wait(LONG_S)
        wait_until(lambda: len(list_jobs(queue, ["running"], 20)) == 1)
        assert drain(bus, lambda message: None, queue) >= 15
        is_shared.set()
    assert {state(queue, seq) for seq in range(1, 121)} == {"succeeded"}


# Several at once.


@pytest.mark.parametrize(("concurrency", "count"), [(1, 5), (3, 20)])
def test_concurrency_is_reached_and_never_exceeded(bus: Bus, concurrency: int, count: int) -> None:
    """D-28: 20 jobs with room for 3 overlap by 3 and never by 4; with room for 1, never."""
    ask(bus, *range(count))
    lock = threading.Condition()
    running: Counter[str] = Counter()

    def overlap(message: Message) -> None:
        with lock:
            running["now"] += 1
            running["most"] = max(running["most"], running["now"])
            lock.notify_all()
            assert lock.wait_for(lambda: running["most"] >= concurrency, LONG_S)
        time.sleep(0.01)  # so that one too many would be seen
        with lock:
            running["now"] -= 1

    assert drain(bus, overlap, concurrency=concurrency) == count
    assert running == {"now": 0, "most": concurrency}


def test_threads_share_the_work_and_each_sees_its_own_claim(bus: Bus) -> None:
    """200 jobs with room for 8: each runs once, and its handler knows the token of its claim."""
    seqs = ask(bus, *range(200))
    seen: list[tuple[int, int | None, int | None, object]] = []

    def note(message: Message) -> object:
        seen.append((message.seq, message.token, message.attempt, message.payload))
        return message.payload

    assert drain(bus, note, concurrency=8) == 200
    queue = Queue.open(bus, REQUEST)
    assert sorted(seen) == [(seq, attempt(bus, seq).token, 1, seq - 1) for seq in seqs]
    assert {state(queue, seq) for seq in seqs} == {"succeeded"}
    assert sorted(found.payload for found in bus.read(type="job.done")) == list(range(200))


def test_two_groups_share_one_queue(bus: Bus) -> None:
    """P-45, K-03: a group is a label on the claim, and no copy of the stream."""
    ask(bus, "a", "b")
    queue = Queue.create(bus, REQUEST)
    for group in ("red", "blue"):
        Worker(bus, queue, group=group).run(shout, once=True)
    assert [attempt(bus, seq).group for seq in (1, 2)] == ["red", "blue"]
    assert Worker(bus, queue, group="green").run(shout, drain=True) == 0
    assert Worker(bus, queue).group == f"{REQUEST}-worker"


def test_two_queues_have_a_copy_each(bus: Bus) -> None:
    ask(bus, "a", "b")
    others = Queue.create(bus, "audit", REQUEST)
    assert drain(bus, shout) == drain(bus, lambda message: None, others) == 2


# asyncio


async def wait_for_ever(message: Message) -> None:
    await asyncio.Event().wait()


def test_coroutines_run_at_once_and_the_loop_is_never_blocked(bus: Bus) -> None:
    ask(bus, *range(20))
    running: Counter[str] = Counter()

    async def handle(message: Message) -> object:
        running["now"] += 1
        running["most"] = max(running["most"], running["now"])
        for _ in range(100):
            await asyncio.sleep(0)
        while running["most"] < 5:
            await asyncio.sleep(0.001)
        running["now"] -= 1
        return message.payload

    worker = Worker(bus, REQUEST, concurrency=5)
    assert asyncio.run(worker.run_async(handle, drain=True)) == 20
    assert running == {"now": 0, "most": 5}
    assert sorted(found.payload for found in bus.read(type="job.done")) == list(range(20))


def test_coroutine_that_takes_too_long_is_cancelled_and_timed_out(bus: Bus) -> None:
    """P-39, D-66: with an answer of its own type; a handler's own TimeoutError is a failure."""
    Queue.create(bus, REQUEST, retry="asked")
    ask(bus, "hang", "raise")

    async def handle(message: Message) -> None:
        if message.payload == "raise":
            raise TimeoutError("of a server")
        await wait_for_ever(message)

    worker = Worker(bus, REQUEST)
    assert asyncio.run(worker.run_async(handle, timeout_s=0.05, drain=True)) == 2
    assert answer(bus, 1).type == "job.request.timed_out"
    assert answer(bus, 1).payload == "the handler timed out after 0.05 s"
    assert (attempt(bus, 1).status, attempt(bus, 2).status) == ("timed_out", "failed")
    assert answer(bus, 2).type == "job.failed"


def test_worker_that_is_cancelled_finishes_what_runs(bus: Bus) -> None:
    ask(bus, "one", "two")
    begun, go_on = threading.Event(), threading.Event()

    async def handle(message: Message) -> None:
        begun.set()
        while not go_on.is_set():
            await asyncio.sleep(0.001)

    async def cancel() -> None:
        task = asyncio.create_task(Worker(bus, REQUEST).run_async(handle))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    queue = Queue.open(bus, REQUEST)
    assert (state(queue, 1), state(queue, 2)) == ("succeeded", "queued")


def test_error_of_the_bus_reaches_who_awaits_the_worker(bus: Bus) -> None:
    worker = Worker(bus, Queue.create(bus, REQUEST), group="two\nlines")
    with pytest.raises(InvalidInput, match="agent name"):
        asyncio.run(worker.run_async(wait_for_ever))


# Leases.


def is_renewed(record: ClaimRecord) -> bool:
    """Whether a claim of 3 s was renewed, and again."""
    return record.lease_until_ms > record.claimed_at_ms + 4500


def test_leases_are_renewed_for_as_long_as_the_handler_takes(bus: Bus) -> None:
    """Another worker, idle all the time, never gets the job."""
    ask(bus, "long")
    runs: list[str] = []

    def long(message: Message) -> object:
        runs.append(message.payload)
        wait_until(lambda: is_renewed(attempt(bus)))
        return "done"

    first, second = (Worker(bus, REQUEST, lease_s=3) for _ in "12")
    with at_work(first, long), at_work(second, long):
        wait_until(lambda: answers(bus))
    assert runs == ["long"]
    assert attempt(bus).status == "completed"


def test_worker_that_lost_its_claim_publishes_nothing_and_goes_on(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """P-87: what it reports is kept on the claim, its answer is not published."""
    ask(bus, "lost", "next")
    queue = Queue.create(bus, REQUEST)

    def handle(message: Message) -> object:
        if message.payload == "lost":
            JobControl(queue).cancel(message.seq, "not wanted")
        return message.payload

    assert drain(bus, handle) == 2
    assert (answer(bus, 1).type, answer(bus, 1).headers["status"]) == ("job.failed", "cancelled")
    assert (answer(bus, 1).from_agent, answer(bus, 2).payload) == (REQUEST, "next")
    assert (state(queue, 1), attempt(bus, 1).status) == ("cancelled", "lost")
    assert attempt(bus, 1).result == "lost"
    assert attempt(bus, 1).error == "not wanted; reported too late: completed"
    assert "claim 1 on message 1 of queue 'job.request' is no longer held" in caplog.text


@pytest.mark.parametrize(
    ("rule", "end"), [("dead", "dead"), ("fail", "failed"), ("requeue", "dead")]
)
def test_job_that_ends_because_its_workers_were_lost_is_answered(
    bus: Bus, rule: str, end: str
) -> None:
    """P-86: no end without its answer, whoever finds it out."""
    queue = Queue.create(bus, REQUEST, on_lost=rule, max_attempts=1)
    ask(bus, "doomed")
    queue.claim("somebody", lease_s=0.001)
    wait_until(lambda: attempt(bus).state(bus.now_ms()) == "expired_active")
    assert drain(bus, shout) == 0
    assert (state(queue), attempt(bus).status) == (end, "lost")
    said = answer(bus)
    assert (said.type, said.headers["status"]) == ("job.failed", end)
    assert said.payload == "no worker finished this: the lease ran out"


def test_once_does_not_take_a_lost_job_that_is_over_for_its_message(bus: Bus) -> None:
    """P-48: that was another worker's; this one handles the next."""
    queue = Queue.create(bus, REQUEST, on_lost="dead")
    ask(bus, "doomed")
    queue.claim("somebody", lease_s=0.001)
    wait_until(lambda: attempt(bus).state(bus.now_ms()) == "expired_active")
    ask(bus, "next", "later")
    assert Worker(bus, queue, **QUICK).run(shout, once=True) == 1  # type: ignore[arg-type]
    ends = [state(queue, found.seq) for found in bus.read(type=REQUEST)]
    assert ends == ["dead", "succeeded", "queued"]


# What it tells others.


def test_heart_tells_what_is_done_and_stops_with_the_worker(bus: Bus, run_bus: Any) -> None:
    """Within 2 s of a long job the group is seen to work at it."""
    go_on = threading.Event()
    ask(bus, "a", "b", "c")
    worker = Worker(bus, REQUEST, group="smiths", concurrency=2)
    with at_work(worker, lambda message: go_on.wait(LONG_S)):
        wait_until(lambda: (beat := bus.heartbeats.get("smiths")) and beat.status == "working", 9)
        beat = bus.heartbeats.get("smiths")
        assert beat is not None
        assert beat.task == "job.request 1 and 1 more"
        assert "working" in run_bus("agents").out
        go_on.set()
        wait_until(lambda: (beat := bus.heartbeats.get("smiths")) and beat.status == "idle", 9)
    beat = bus.heartbeats.get("smiths")
    assert beat is not None
    assert (beat.status, beat.task) == ("stopped", None)


def test_debug_log_tells_of_claims_waits_and_wakes(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """P-52: at the level debug only."""
    with caplog.at_level("DEBUG", "ackbus.worker"), at_work(Worker(bus, REQUEST), shout):
        wait_until(lambda: "looking again after 0.250 s" in caplog.text)
        ask(bus, "a")
        wait_until(lambda: "claimed message 1 as 1" in caplog.text)
        wait_until(lambda: "woken" in caplog.text)
    caplog.clear()
    with caplog.at_level("INFO", "ackbus.worker"), at_work(Worker(bus, REQUEST), shout):
        ask(bus, "b")
        wait_until(lambda: done(bus) == 2)
    assert caplog.text == ""


# Being woken, and not.

INSERT = (
    "INSERT INTO messages (id, ts_ms, from_agent, type, payload)"
    " VALUES ('raw-{0}', {0}, 'raw', 'job.request', '\"x\"')"
)


@pytest.mark.parametrize("bell", ["there", "deleted", "a folder"])
def test_writers_that_never_ring_are_served_within_a_quarter_second(
    bus: Bus, bus_dir: Path, bell: str
) -> None:
    """P-46, P-70, P-71, P-72: our wake signal is a doorbell file, written after each commit.

    Nothing depends on it. Here it is never rung, or is not even a file.
    """
    worker = Worker(bus, REQUEST)
    doorbell = bus_dir / "doorbell"
    if bell == "a folder":
        doorbell.unlink(missing_ok=True)
        doorbell.mkdir()
    with at_work(worker, shout):
        wait_until(lambda: bus.heartbeats.get(worker.group))
        if bell == "deleted":
            doorbell.unlink()
        for number in range(3):
            raw_sql(bus_dir, INSERT.format(number))
            wait_for_done(bus, number + 1)
    answered = Counter(found.in_reply_to for found in bus.read(type="job.done"))
    assert answered == {"raw-0": 1, "raw-1": 1, "raw-2": 1}


def test_wait_without_the_doorbell_is_bounded(bus: Bus, bus_dir: Path) -> None:
    """P-70: 250 ms, and what a busy machine adds."""
    with at_work(Worker(bus, REQUEST), shout):
        late: list[float] = []
        for number in range(5):
            source = f"""
                import sqlite3, sys, time
                connection = sqlite3.connect(sys.argv[1], isolation_level=None)
                connection.execute({INSERT.format(number)!r})
                print(time.monotonic(), flush=True)
            """
            with running_program(source, bus_dir / "bus.db") as program:
                assert program.stdout is not None
                inserted = float(program.stdout.readline())
            wait_for_done(bus, number + 1)
            late.append(time.monotonic() - inserted)
    assert worker_module.RECHECK_S == 0.25
    assert min(late) < 10


_TELLS_WHEN = """
    import sys
    from ackbus import Bus, Worker
    from ackbus.workers import worker
    worker.RECHECK_S = 3600.0
    with Bus.open(sys.argv[1]) as bus:
        print("ready", flush=True)
        Worker(bus, "job.request").run(lambda message: print(message.seq, flush=True))
"""


def test_idle_worker_in_another_process_begins_at_once(bus: Bus, bus_dir: Path) -> None:
    """P-73, P-74: by the bell alone, which none of 40 misses."""
    with running_program(_TELLS_WHEN, bus_dir) as program:
        assert program.stdout is not None
        program.stdout.readline()
        for number in range(40):
            (seq,) = ask(bus, "x")
            assert program.stdout.readline() == f"{seq}\n"
            wait_for_done(bus, number + 1)


# Room elsewhere.


def test_answers_into_a_full_queue_wait_for_room_and_none_is_lost(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """Q-04: the worker takes no more than it can get rid of, and says so once."""
    next_queue = Queue.create(bus, "next", "job.done", addressed="*")
    JobControl(next_queue).limit(2)
    ask(bus, *range(6))
    worker = Worker(bus, REQUEST, **QUICK)  # type: ignore[arg-type]

    def has_room_for_all() -> bool:
        drain(bus, lambda message: None, next_queue)
        return done(bus) == 6

    with at_work(worker, lambda message: message.payload):
        wait_until(lambda: "waits: queue 'next' is full" in caplog.text)
        for _ in range(4):
            worker._waiting.wake()  # what is tried again is not told again
        wait_until(lambda: done(bus) == 2)
        wait_until(has_room_for_all)
    # In no promised order: room may appear between one that still had none and the next.
    assert sorted(found.payload for found in bus.read(type="job.done")) == list(range(6))
    assert len(attempts(Queue.open(bus, REQUEST), 3)) == 1
    assert caplog.text.count("the end of claim 3 waits") == 1


def test_worker_that_waits_for_room_can_be_stopped_and_hands_back(bus: Bus) -> None:
    JobControl(Queue.create(bus, "next", "job.done", addressed="*")).limit(1)
    ask(bus, *range(3))
    worker = Worker(bus, REQUEST)
    with at_work(worker, lambda message: message.payload):
        wait_until(lambda: done(bus) == 1)
        queue = Queue.open(bus, REQUEST)
        wait_until(lambda: list_jobs(queue, ["running"], 9))
    assert state(queue, 2) == "queued"
    assert job(queue, 2).attempt == 1
    assert done(bus) == 1


def test_last_words_that_find_no_room_are_told_once_and_tried_again(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """Q-04: a job that ends because its worker is lost does not end without its answer."""
    JobControl(Queue.create(bus, "failures", "job.failed", addressed="*")).limit(1)
    bus.publish("job.failed", from_agent="x")
    queue = Queue.create(bus, REQUEST, on_lost="fail")
    ask(bus, "doomed")
    queue.claim("somebody", lease_s=0.001)
    wait_until(lambda: attempt(bus, 2).state(bus.now_ms()) == "expired_active")
    ask(bus, "next")
    with at_work(Worker(bus, queue, **QUICK), shout):  # type: ignore[arg-type]
        wait_until(lambda: "can't end yet: queue 'failures' is full" in caplog.text)
        bus.limits.clear("queue", "failures")
        wait_until(lambda: answers(bus, 2) and answers(bus, 3))
    assert caplog.text.count("can't end yet") == 1


def test_queue_that_its_own_worker_fills_comes_to_no_stop_at_its_limit(bus: Bus) -> None:
    """Q-04: to claim is what makes room there, so the worker goes on claiming."""
    queue = Queue.create(bus, "all", "job.>", addressed="*")
    ask(bus, *range(4))
    JobControl(queue).limit(4)

    def handle(message: Message) -> object:
        time.sleep(0.006)  # too long to be claimed by the dozen
        return message.payload

    assert Worker(bus, queue, **QUICK).run(handle, drain=True) == 8  # type: ignore[arg-type]
    assert {state(queue, seq) for seq in range(1, 9)} == {"succeeded"}


def test_full_inbox_of_a_requester_takes_its_answers(bus: Bus) -> None:
    """Q-04: no worker waits for one agent that does not read."""
    bus.heartbeats.beat("boss")
    bus.publish("mail", from_agent="x", to_agent="boss")
    bus.limits.set_for_inbox("boss", 1)
    ask(bus, "a", "b")
    assert drain(bus, shout) == 2
    assert [answers(bus, seq)[0].to_agent for seq in (2, 3)] == ["boss", "boss"]


# What others do to the bus.


def test_worker_goes_on_after_another_program_kept_the_bus_locked(
    bus_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A claim that can't be had, and an end that can't be written, are tried again."""
    with Bus.open(bus_dir, write_timeout_s=0.2) as bus, Bus.open(bus_dir) as other:
        ask(other, "a", "b")
        worker = Worker(bus, REQUEST, **QUICK)  # type: ignore[arg-type]
        begun, go_on = threading.Event(), threading.Event()

        def handle(message: Message) -> object:
            begun.set()
            assert go_on.wait(LONG_S)
            return message.payload

        with at_work(worker, handle):
            assert begun.wait(LONG_S)
            with held_write_lock(bus_dir) as program:
                go_on.set()
                wait_until(lambda: "1 ends wait" in caplog.text)
                assert program.stdin is not None
                program.stdin.close()
                program.wait(LONG_S)
            wait_until(lambda: answers(other, 1) and answers(other, 2))
        queue = Queue.open(other, REQUEST)
        assert statuses(queue, 1) == statuses(queue, 2) == ["completed"]


def test_ends_that_find_the_bus_locked_are_kept_together_and_written_once(
    bus_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 13: none waits for the lock alone, and none is lost or answered twice."""
    with Bus.open(bus_dir, write_timeout_s=0.2) as bus, Bus.open(bus_dir) as other:
        seqs = ask(other, *range(3))
        worker = Worker(bus, REQUEST, concurrency=3, **QUICK)  # type: ignore[arg-type]
        all_run, go_on = threading.Barrier(4), threading.Event()

        def handle(message: Message) -> object:
            all_run.wait(LONG_S)
            assert go_on.wait(LONG_S)
            return message.payload

        with at_work(worker, handle):
            all_run.wait(LONG_S)
            with held_write_lock(bus_dir) as program:
                go_on.set()
                wait_until(lambda: len(worker._unwritten) == 3)
                assert not any(answers(other, seq) for seq in seqs)
                assert program.stdin is not None
                program.stdin.close()
                program.wait(LONG_S)
            wait_until(lambda: all(answers(other, seq) for seq in seqs))
        queue = Queue.open(other, REQUEST)
        assert [statuses(queue, seq) for seq in seqs] == [["completed"]] * 3
        assert [answer(other, seq).payload for seq in seqs] == [0, 1, 2]
        assert len({attempt(other, seq).ended_at_ms for seq in seqs}) == 1
    assert sum("ends wait" in text for text in caplog.messages) <= 3


def test_drain_does_not_take_a_locked_bus_for_an_empty_queue(bus_dir: Path) -> None:
    with Bus.open(bus_dir, write_timeout_s=0.2) as bus:
        ask(bus, "a", "b")
        worker = Worker(bus, REQUEST, **QUICK)  # type: ignore[arg-type]
        counts: list[int] = []
        thread = threading.Thread(
            target=lambda: counts.append(worker.run(shout, drain=True)), daemon=True
        )
        with held_write_lock(bus_dir) as program:
            thread.start()
            wait_until(lambda: not worker._may_claim)
            assert program.stdin is not None
            program.stdin.close()
            program.wait(LONG_S)
        thread.join(LONG_S)
    assert counts == [2]


def test_worker_that_begins_on_a_locked_bus_waits_and_is_on_record(bus_dir: Path) -> None:
    """It writes that it serves the queue before it claims: that waits as a claim does."""
    with Bus.open(bus_dir, write_timeout_s=0.2) as bus, Bus.open(bus_dir) as other:
        ask(other, "a")
        worker = Worker(bus, REQUEST)
        with held_write_lock(bus_dir) as program, at_work(worker, shout):
            wait_until(lambda: not worker._may_claim)
            assert program.stdin is not None
            program.stdin.close()
            program.wait(LONG_S)
            wait_until(lambda: answers(other, 1))
    assert raw_sql(bus_dir, "SELECT worker_group FROM queue_workers") == [[worker.group]]


ODD = {
    "sender": ("'a' || char(10) || 'b'", "'odd'", "NULL"),
    "id": ("'raw'", "char(27) || '[31m'", "NULL"),
    "conversation": ("'raw'", "'odd'", "char(7)"),
}


@pytest.mark.parametrize("field", ODD)
def test_message_that_no_answer_can_name_is_handled_without_one(
    bus: Bus, bus_dir: Path, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program with its own SQL may store any text: no worker dies of it, and none is held up."""
    sender, id, conversation = ODD[field]
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type, correlation_id)"
        f" VALUES ({id}, 1, {sender}, 'job.request', {conversation})",
    )
    ask(bus, "next")
    assert drain(bus, lambda message: "done") == 2
    queue = Queue.open(bus, REQUEST)
    assert (state(queue, 1), state(queue, 2)) == ("succeeded", "succeeded")
    assert [found.payload for found in bus.read(type="job.done")] == ["done"]
    assert "message 1 can't be answered" in caplog.text


def test_lost_job_that_no_answer_can_name_does_not_keep_the_queue_from_being_claimed(
    bus: Bus, bus_dir: Path
) -> None:
    queue = Queue.create(bus, REQUEST, on_lost="fail")
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type)"
        " VALUES ('odd', 1, 'a' || char(10), 'job.request')",
    )
    queue.claim("somebody", lease_s=0.001)
    ask(bus, "next")
    wait_until(lambda: attempt(bus).state(bus.now_ms()) == "expired_active")
    assert drain(bus, shout) == 1
    assert (state(queue, 1), state(queue, 2)) == ("failed", "succeeded")


def test_odd_type_does_not_stop_the_renewal_of_leases(bus: Bus, bus_dir: Path) -> None:
    """The heart can't tell such a type; the thread that keeps the leases must not die of it."""
    queue = Queue.create(bus, "all", ">")
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type)"
        " VALUES ('odd', 1, 'raw', 'a' || char(27) || 'b')",
    )

    def long(message: Message) -> None:
        wait_until(lambda: is_renewed(attempt(bus, 1, "all")))

    assert Worker(bus, queue, lease_s=3).run(long, drain=True) == 1
    assert attempt(bus, 1, "all").status == "completed"


def test_answer_goes_without_what_makes_its_headers_too_long(bus: Bus) -> None:
    context = {"note": "x" * 16_000}
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    ask(bus, "hi", headers={"context": context, "traceparent": trace})
    ask(bus, "hi", headers={"context": {"note": "short"}, "tracestate": "vendor=1"})
    drain(bus, shout)
    assert answer(bus, 1).headers["context"] == context
    assert answer(bus, 1).headers["traceparent"].startswith(trace[:35])
    assert answer(bus, 2).headers == {
        "context": {"note": "short"},
        "hops": 1,
        "tracestate": "vendor=1",
    }


# Forks, and arguments.


def test_child_of_a_fork_can_not_use_the_worker_and_does_no_harm(bus: Bus) -> None:
    """Pitfall 7: the child learns it at once; the parent's job ends as if nothing had been."""
    refused: list[int] = []

    def fork(message: Message) -> object:
        pid = os.fork()
        if pid == 0:
            try:
                bus.publish("from.child", from_agent="child")
            except WrongProcess:
                os._exit(7)
            finally:
                os._exit(1)
        refused.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return "parent"

    ask(bus, "go")
    assert drain(bus, fork) == 1
    assert (refused, answer(bus).payload) == ([7], "parent")
    assert [found.type for found in bus.read()] == [REQUEST, "job.done"]


def test_child_of_a_fork_that_comes_back_from_the_handler_ends_with_an_error(bus: Bus) -> None:
    """It must not end the parent's claim: that would publish a second answer."""
    parent = os.getpid()
    ended: list[int] = []

    def fork(message: Message) -> object:
        pid = os.fork()
        if pid == 0:
            return "child"
        ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return "parent"

    ask(bus, "go")
    try:
        count = drain(bus, fork)
    except WrongProcess:
        os._exit(9 if os.getpid() != parent else 1)
    assert (count, ended) == (1, [9])
    assert answer(bus).payload == "parent"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"success_type": "not a type"}, "type"),
        ({"failure_type": "job.*"}, "type"),
        ({"lease_s": 0}, "lease"),
        ({"group": "two\nlines"}, "agent name"),
    ],
)
def test_worker_refuses_what_breaks_a_rule_before_it_claims(
    bus: Bus, options: dict[str, Any], word: str
) -> None:
    ask(bus, "go")
    Queue.create(bus, REQUEST)
    with pytest.raises(InvalidInput, match=word):
        Worker(bus, REQUEST, **options).run(shout, drain=True)
    assert attempts(Queue.open(bus, REQUEST)) == []


@pytest.mark.parametrize("lease_s", [0, -1.0, float("nan"), 86_400.1])
def test_worker_can_not_be_made_with_a_lease_that_is_none(bus: Bus, lease_s: float) -> None:
    with pytest.raises(
        InvalidInput,
        match=r"a lease lasts more than 0 s and at most 86400 s|lease_s must be a number, not nan",
    ):
        Worker(bus, REQUEST, lease_s=lease_s)
    assert Worker(bus, REQUEST, lease_s=86_400).lease_s == 86_400


def test_group_may_be_as_long_as_an_agents_name(bus: Bus) -> None:
    ask(bus, "go")
    assert Worker(bus, REQUEST, group="g" * 128).run(shout, drain=True) == 1


def test_signal_handler_may_stop_the_worker(bus: Bus) -> None:
    worker = Worker(bus, REQUEST)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: worker.stop())
    try:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        assert worker.run(shout) == 0
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
