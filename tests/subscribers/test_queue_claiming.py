"""Claiming: the oldest first, one worker at a time, and whose claim it is."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Bus, Message
from ackbus.errors import InvalidInput
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.jobs.errors import JobNotFound, QueueMismatch, QueueNotFound
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queues import Queues

from ..programs import connect, raw_sql
from .conftest import Clock
from .work import attempts, job, publish, seqs, state, statuses, take


def test_jobs_are_claimed_oldest_first(bus: Bus) -> None:
    """P-27, D-16, K-01: in the order of seq, each under one transaction."""
    queue = Queue.create(bus, "job")
    publish(bus, 10)
    assert [take(queue).message.seq for _ in range(10)] == list(range(1, 11))
    assert queue.claim("worker") == []


def test_a_batch_is_claimed_in_the_same_order(bus: Bus) -> None:
    """P-27."""
    queue = Queue.create(bus, "job")
    publish(bus, 10)
    assert seqs(queue.claim("worker", limit=4)) == [1, 2, 3, 4]
    assert seqs(queue.claim("worker", limit=100)) == [5, 6, 7, 8, 9, 10]


def test_order_does_not_go_by_clock_times(bus: Bus, clock: Clock) -> None:
    """P-92, K-16: times are whole milliseconds, and seq decides: no text is ever compared."""
    queue = Queue.create(bus, "job")
    for ts_ms in (5_120, 5_100, 5_012, 5_000):
        clock.now_ms = ts_ms
        publish(bus)
    columns = {name: type for _, name, type, *_ in file_of(bus).rows("PRAGMA table_info(claims)")}
    assert {type for name, type in columns.items() if name.endswith("_ms")} == {"INTEGER"}
    assert seqs(queue.claim("worker", limit=9)) == [1, 2, 3, 4]


def test_live_claim_blocks_every_other_instance(bus: Bus) -> None:
    """P-30, P-31."""
    queue = Queue.create(bus, "job")
    publish(bus)
    take(queue)
    assert queue.claim("another") == []
    assert statuses(queue) == ["active"]


def test_group_and_instance_are_recorded(bus: Bus) -> None:
    """P-33: two workers of one group are told apart; the instance is the group by default."""
    queue = Queue.create(bus, "job")
    publish(bus, 3)
    for instance, group in (("w-1", "reviewers"), ("w-2", "reviewers"), ("loner", None)):
        queue.claim(instance, group=group)
    assert [(r.group, r.instance) for seq in (1, 2, 3) for r in attempts(queue, seq)] == [
        ("reviewers", "w-1"),
        ("reviewers", "w-2"),
        ("loner", "loner"),
    ]


def test_group_is_a_label_and_no_copy_of_the_stream(bus: Bus) -> None:
    """K-03, X-04: of one queue, groups share the messages."""
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    claimed = [seqs(queue.claim(f"of-{group}", group=group)) for group in ("g1", "g2", "g3")]
    assert claimed == [[1], [2], []]


def test_another_queue_is_another_full_copy_of_the_stream(bus: Bus) -> None:
    """X-04: scope by group is a queue for each group; what one does is nothing to the other."""
    reviews, audits = Queue.create(bus, "reviews", "job"), Queue.create(bus, "audits", "job")
    publish(bus, 3)
    for claim in reviews.claim("worker", limit=3):
        reviews.complete(claim)
    assert [state(reviews, seq) for seq in (1, 2, 3)] == ["succeeded"] * 3
    assert seqs(audits.claim("worker", limit=3)) == [1, 2, 3]
    jobs = Jobs.of(reviews.bus).of_message(2)
    assert [(one.queue, one.state) for one in jobs] == [
        ("audits", "running"),
        ("reviews", "succeeded"),
    ]


def test_one_instance_may_hold_many_claims_but_none_twice(bus: Bus) -> None:
    """K-04."""
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    first, second = take(queue), take(queue)
    assert (first.message.seq, second.message.seq) == (1, 2)
    assert second.token > first.token
    assert queue.claim("worker") == []


@pytest.mark.parametrize("end", ["completed", "failed", "timed_out"])
def test_what_has_ended_is_not_claimed_again(bus: Bus, end: str) -> None:
    """K-02, X-02: each end is final under `asked`; under `failures` a failure is tried again."""
    answers = Queue.create(bus, "answers", "job", retry="asked")
    jobs = Queue.create(bus, "jobs", "job", retry="failures", backoff_s=0)
    publish(bus)
    for queue in (answers, jobs):
        queue.end(take(queue, group="g1"), Outcome(status=end))
    assert [answers.claim("worker", group=group) for group in ("g1", "g2")] == [[], []]
    assert len(jobs.claim("worker", group="g2")) == (0 if end == "completed" else 1)


def test_a_job_comes_from_a_message_of_any_sender(bus: Bus, bus_dir: Path) -> None:
    """D-09, D-18: scheduler, webhook, router, command, API, or plain SQL: one queue."""
    queue = Queue.create(bus, "job")
    senders = ["scheduler", "webhook", "router", "cli", "api"]
    for sender in senders:
        publish(bus, from_agent=sender)
    raw_sql(
        bus_dir,
        "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES ('m', 1, 'raw', 'job')",
    )
    claims = queue.claim("worker", limit=9)
    assert [claim.message.from_agent for claim in claims] == [*senders, "raw"]


def test_claim_carries_the_message_and_its_token(bus: Bus, clock: Clock) -> None:
    """P-03, P-05."""
    queue = Queue.create(bus, "job")
    bus.publish("job", {"file": "a.py"}, from_agent="boss", correlation_id="c")
    claim = take(queue, lease_s=90)
    assert claim.message.payload == {"file": "a.py"}
    assert (claim.message.conversation, claim.message.attempt) == ("c", 1)
    assert claim.message.token == claim.token == attempts(queue)[0].token
    assert (claim.attempt, claim.max_attempts) == (1, 4)
    assert claim.claimed_at_ms == clock.now_ms
    assert claim.lease_until_ms == clock.now_ms + 90_000


def test_time_in_the_queue_is_recorded(bus: Bus, clock: Clock) -> None:
    """U-36: how long a job waited follows from what its claim keeps."""
    queue = Queue.create(bus, "job")
    publish(bus)
    clock.advance(2.5)
    take(queue)
    (record,) = attempts(queue)
    assert record.claimed_at_ms - record.available_at_ms == 2_500


def test_operations_of_the_exchange(bus: Bus) -> None:
    """P-03: publish, read by type and by conversation, claim, end in each way, list, get."""
    queue = Queue.create(bus, "job", retry="asked")
    publish(bus, 3, correlation_id="c")
    done, failed, late = queue.claim("worker", limit=3)
    queue.complete(done)
    queue.fail(failed, "no")
    queue.end(late, Outcome(status="timed_out", error="30 s are over"))

    def found(messages: object) -> list[int]:
        return [message.seq for message in messages]  # type: ignore[attr-defined]

    assert found(bus.read(type="job")) == found(bus.read(conversation="c")) == [1, 2, 3]
    assert found(bus.read()) == [1, 2, 3]
    assert bus.get(2).payload == 1  # type: ignore[union-attr]
    assert [statuses(queue, seq) for seq in (1, 2, 3)] == [["completed"], ["failed"], ["timed_out"]]
    assert [state(queue, seq) for seq in (1, 2, 3)] == ["succeeded", "failed", "timed_out"]


def test_job_whose_payload_can_not_be_read_is_work_all_the_same(bus: Bus, bus_dir: Path) -> None:
    """Bad input: the worker sees why, and decides; the queue goes on."""
    queue = Queue.create(bus, "job")
    raw = connect(bus_dir)
    for id, column, value in (
        ("not-json", "payload", "CAST(x'7b226122' AS TEXT)"),
        ("no-blob", "payload_ref", "'sha256-" + "0" * 64 + "'"),
        ("not-text", "payload", "CAST(x'ff' AS TEXT)"),
        ("odd-headers", "headers", """'{"dedupe_key": 7, "available_at_ms": "soon", "x": 1}'"""),
        ("half-text", "headers", """'{"dedupe_key": "\\ud800"}'"""),
    ):
        raw.execute(
            f"INSERT INTO messages (id, ts_ms, from_agent, type, {column})"
            f" VALUES ('{id}', 1, 'x', 'job', {value})"
        )
    raw.close()
    publish(bus)
    claims = queue.claim("worker", limit=9)
    errors = [claim.message.payload_error for claim in claims]
    assert errors == ["decode_failed", "blob_missing", "decode_failed", None, None, None]
    for claim in claims:
        queue.complete(claim)
    assert [state(queue, seq) for seq in range(1, 7)] == ["succeeded"] * 6


def test_two_queue_objects_in_two_threads_claim_each_job_once(bus: Bus) -> None:
    """P-31: in threads of one process; tests/concurrency has the processes."""
    Queue.create(bus, "job")
    publish(bus, 200)

    def work(_: int) -> list[int]:
        queue, done = Queue.open(bus, "job"), []
        while claims := queue.claim("worker", limit=3):
            for claim in claims:
                queue.complete(claim)
                done.append(claim.message.seq)
        return done

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, range(2))
    assert sorted(first + second) == list(range(1, 201))
    assert first == sorted(first)
    assert second == sorted(second)


def test_a_clock_that_steps_back_loses_nothing_and_keeps_the_order(bus: Bus, clock: Clock) -> None:
    """K-16, P-92, X-08: an hour back while jobs wait, run and come."""
    fifo = Queue.create(bus, "fifo", "job")
    urgent = Queue.create(bus, "urgent", "job", ordering="priority")
    publish(bus, 3)
    running = [take(queue) for queue in (fifo, urgent)]
    clock.advance(-3600)
    publish(bus, 3)
    for queue in (fifo, urgent):
        assert seqs(queue.claim("worker", limit=9)) == [2, 3, 4, 5, 6]
    for queue, claim in zip((fifo, urgent), running, strict=True):
        queue.complete(claim)
        assert state(queue) == "succeeded"
        assert job(queue, 6).created_at_ms >= clock.now_ms


def test_creating_a_queue_again_opens_it(bus: Bus) -> None:
    first = Queue.create(bus, "job", "job.*", backoff_s=5)
    again = Queue.create(bus, "job", "job.*", start="now")
    assert again.info == first.info
    assert [info.name for info in Queues(bus).list()] == ["job"]


def test_durations_are_whole_milliseconds(bus: Bus) -> None:
    """X-07: a third of a second is 333 ms, for whoever makes the queue, and makes it again."""
    for _ in range(2):
        queue = Queue.create(bus, "job", backoff_s=1 / 3, ageing_s=59.9999)
        assert (queue.info.policy.backoff_s, queue.info.policy.ageing_s) == (0.333, 60)


def test_queue_that_is_there_is_not_quietly_another_one(bus: Bus) -> None:
    """X-02: what was asked for must hold; what was left out may differ."""
    Queue.create(bus, "job", max_attempts=2)
    with pytest.raises(QueueMismatch, match=r"takes in job, not job\.>"):
        Queue.create(bus, "job", "job.>")
    with pytest.raises(QueueMismatch, match="max_attempts 2, not 3"):
        Queue.create(bus, "job", max_attempts=3)
    assert Queue.create(bus, "job").info.policy.max_attempts == 2


@pytest.mark.parametrize(
    "options",
    [
        {"limit": 0},
        {"limit": 1001},
        {"lease_s": 0},
        {"lease_s": -1},
        {"lease_s": float("nan")},
        {"lease_s": 86_401},
        {"group": "\x1b[31m"},
    ],
    ids=str,
)
def test_claim_refuses_what_breaks_a_rule(bus: Bus, options: dict[str, object]) -> None:
    """Promise 11: nothing is claimed."""
    queue = Queue.create(bus, "job")
    publish(bus)
    with pytest.raises(InvalidInput):
        queue.claim("worker", **options)  # type: ignore[arg-type]
    queue.fill()
    assert state(queue) == "queued"


@pytest.mark.parametrize("pattern", ["", "a..b", "a.>.b", "a*", ">.a", "x" * 256])
def test_queue_refuses_what_is_no_pattern(bus: Bus, pattern: str) -> None:
    with pytest.raises(InvalidInput):
        Queue.create(bus, "odd", pattern)
    assert Queues(bus).list() == []


@pytest.mark.parametrize("name", [".", "..", "a/../b", "./a"])
def test_queue_has_no_name_that_no_address_can_have(bus: Bus, name: str) -> None:
    with pytest.raises(InvalidInput):
        Queue.create(bus, name, "job")
    assert Queues(bus).list() == []


def test_queues_and_jobs_that_are_not_there_are_said_so(bus: Bus) -> None:
    """P-32."""
    with pytest.raises(QueueNotFound, match="no queue 'job'"):
        Queue.open(bus, "job")
    queue = Queue.create(bus, "job")
    with pytest.raises(JobNotFound, match="no job 7"):
        job(queue, 7)


def test_messages_stay_as_they_are_whatever_becomes_of_the_work(bus: Bus) -> None:
    """P-07: state lives in jobs and claims only."""

    def log() -> list[tuple[object, ...]]:
        return file_of(bus).rows("SELECT * FROM messages ORDER BY seq")

    queue = Queue.create(bus, "job", backoff_s=0)
    publish(bus, 4)
    before = log()
    first, second, third, fourth = queue.claim("worker", limit=4)
    queue.complete(first, result="ok")
    queue.fail(second, "no")
    queue.release(third)
    queue.cancel(fourth, "not needed")
    assert log() == before
    assert isinstance(bus.get(1), Message)
