"""Backpressure: a queue or an inbox that is full refuses what would be one more."""

import contextlib
import io
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.doctor.repair.database import mend_work
from ackbus.errors import InvalidInput
from ackbus.schema.errors import LimitReached, NotFound, Refused
from ackbus.schema.message.patterns import TypePattern
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Claim, Outcome
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy

from ..programs import raw_sql

pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")

TYPES = (
    *("a", "a.b", "a.b.c", "a.b.c.d", "a.x.c", "x.b", "x.b.c", "x.y.b.z", "b.b.b", "ab.c"),
    *("a[1].b", "a1.b", "a?.b", "ax.b", "A.B", "a.b.c.d.e"),
)
PATTERNS = (
    *("a", "a.b", "a.*", "*.b", "a.*.c", "*.*", "*.b.*", "*.*.*", "a.*.c.*", "*.*.c", "a.b.*.*"),
    *("a.>", "*.>", "a.*.>", "*.*.>", "a.b.>", ">", "a[1].b", "a[1].*", "a?.*", "a?.>"),
)


def waiting(bus: Bus) -> int:
    """The messages that count for the one limit that is set."""
    (limit,) = bus.limits.list()
    return limit.waiting


def publish(bus: Bus, count: int = 1, type: str = "job", **fields: object) -> None:
    options = {"from_agent": "boss"} | fields
    bus.publish_many([Draft(type, n, **options) for n in range(count)])  # type: ignore[arg-type]


@pytest.fixture
def queue(bus: Bus) -> Queue:
    """A queue in which five may wait."""
    queue = Queue.create(bus, "job", backoff_s=0)
    JobControl(queue).limit(5)
    return queue


# Refusing ------------------------------------------------------------------------------------


def test_full_queue_refuses_one_more(bus: Bus, queue: Queue) -> None:
    """Q-04: with the exit code for what is refused, and the facts as attributes."""
    publish(bus, 5)
    with pytest.raises(LimitReached, match="queue 'job' is full: 5 wait there") as caught:
        publish(bus)
    assert (caught.value.kind, caught.value.name, caught.value.exit_code) == ("queue", "job", 3)
    assert bus.log.newest_seq() == 5
    publish(bus, type="other")
    queue.claim("worker")
    publish(bus)
    assert waiting(bus) == 5


def test_full_inbox_refuses_one_more(bus: Bus) -> None:
    """Q-04: only what is for that agent; acknowledging makes room."""
    bus.limits.set_for_inbox("slow", 2)
    publish(bus, 2, to_agent="slow")
    with pytest.raises(LimitReached, match="inbox 'slow' is full: 2 wait there") as caught:
        publish(bus, to_agent="slow")
    assert (caught.value.kind, caught.value.name) == ("inbox", "slow")
    publish(bus, to_agent="fast")
    publish(bus, 10)  # broadcasts: one slow agent must not silence everybody
    assert waiting(bus) == 2
    Inbox(bus, "slow").ack(1)
    publish(bus, to_agent="slow")
    assert waiting(bus) == 2


def test_program_with_its_own_sql_is_refused_too(bus: Bus, queue: Queue, bus_dir: Path) -> None:
    """Q-04: the file keeps the limit; a refused batch leaves nothing."""
    bus.limits.set_for_inbox("slow", 1)
    insert = "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type) VALUES "
    raw_sql(bus_dir, insert + ",".join(f"('q-{n}', 1, 'raw', NULL, 'job')" for n in range(5)))
    raw_sql(bus_dir, insert + "('i-1', 1, 'raw', 'slow', 'note')")
    for values, refusal in (
        ("('q-6', 1, 'raw', NULL, 'job')", "a queue for messages of this type is full"),
        ("('i-2', 1, 'raw', 'slow', 'note')", "the inbox of the recipient is full"),
        ("('i-3', 1, 'raw', 'fast', 'note'), ('i-4', 1, 'raw', 'slow', 'note')", "the inbox"),
    ):
        with pytest.raises(AssertionError, match=refusal):
            raw_sql(bus_dir, insert + values)
    assert bus.log.newest_seq() == 6


@pytest.mark.parametrize("priority", [1, 7], ids=["a known id", "a rule that is broken"])
def test_message_that_is_ignored_does_not_count(
    bus: Bus, queue: Queue, bus_dir: Path, priority: int
) -> None:
    """Q-04: an INSERT OR IGNORE of another program that stores nothing takes up no room."""
    id = "known" if priority == 1 else "new"
    bus.publish("job", from_agent="boss", id="known")
    with contextlib.suppress(AssertionError):  # SQLite tells of it, or does not
        raw_sql(
            bus_dir,
            "INSERT OR IGNORE INTO messages (id, ts_ms, from_agent, type, priority)"
            f" VALUES ('{id}', 1, 'raw', 'job', {priority})",
        )
    assert (len(list(bus.read())), waiting(bus)) == (1, 1)
    queue.fill()
    assert Jobs.of(bus).counts(queue.info)["open"] == 1


def test_batch_is_stored_whole_or_not_at_all(bus: Bus, queue: Queue) -> None:
    """Q-04, M-06: also when only its last message is one too many."""
    publish(bus, 3)
    with pytest.raises(LimitReached):
        publish(bus, 3)
    assert (bus.log.newest_seq(), waiting(bus)) == (3, 3)
    publish(bus, 2)
    assert waiting(bus) == 5


def test_duplicate_gets_its_first_receipt_also_when_full(bus: Bus, queue: Queue) -> None:
    """Q-04, M-41, promise 3: a retry stores nothing, so it needs no room."""
    first = bus.publish("job", from_agent="boss", id="m")
    publish(bus, 4)
    again = bus.publish("job", from_agent="boss", id="m")
    assert (again.seq, again.duplicate) == (first.seq, True)
    assert waiting(bus) == 5


def test_reply_without_room_leaves_the_claim_as_it_was(bus: Bus) -> None:
    """Q-04, promise 7: the end and the reply are one."""
    queue = Queue.create(bus, "job")
    publish(bus)
    bus.limits.set_for_inbox("boss", 1)
    publish(bus, type="note", to_agent="boss")
    (claim,) = queue.claim("worker")
    reply = Draft("job.done", from_agent="worker", to_agent="boss")
    with pytest.raises(LimitReached):
        queue.complete(claim, reply)
    assert Jobs.of(queue.bus).get(queue.info, 1).state == "running"
    Inbox(bus, "boss").ack(2)
    assert len(queue.complete(claim, reply)) == 1


def test_reply_may_fill_the_room_that_its_own_claim_has_made(bus: Bus) -> None:
    """Q-04: what runs does not wait."""
    queue = Queue.create(bus, "job")
    JobControl(queue).limit(1)
    publish(bus)
    (claim,) = queue.claim("worker")
    queue.complete(claim, Draft("job", from_agent="worker"))
    assert waiting(bus) == 1


def test_several_limits_hold_at_once(bus: Bus) -> None:
    """Q-04: the one that is reached is named."""
    for name, pattern, most in (("narrow", "a.b", 1), ("wide", "a.>", 2)):
        JobControl(Queue.create(bus, name, pattern)).limit(most)
    bus.limits.set_for_inbox("slow", 1)
    publish(bus, type="a.b")
    publish(bus, type="a.c")
    for type, to_agent, name in (("a.b", None, "narrow"), ("a.c", None, "wide")):
        with pytest.raises(LimitReached) as caught:
            publish(bus, type=type, to_agent=to_agent)
        assert caught.value.name == name
    publish(bus, type="x", to_agent="slow")
    with pytest.raises(LimitReached, match="inbox 'slow'"):
        publish(bus, type="x", to_agent="slow")
    assert [(one.name, one.waiting) for one in bus.limits.list()] == [
        *(("slow", 1), ("narrow", 1), ("wide", 2)),
    ]


@pytest.mark.parametrize(
    ("addressed", "counts"), [(None, False), ("crew", False), ("alice", True), ("*", True)]
)
def test_what_is_addressed_counts_where_the_queue_takes_it_in(
    bus: Bus, addressed: str | None, counts: bool
) -> None:
    """It would count for ever else: no job of it begins, and the queue stays full."""
    queue = Queue.create(bus, "job", addressed=addressed)
    JobControl(queue).limit(1)
    publish(bus, to_agent="alice")
    assert waiting(bus) == counts
    if counts:
        with pytest.raises(LimitReached, match="queue 'job' is full"):
            publish(bus, to_agent="alice")
    else:
        publish(bus)  # the one that has room
        publish(bus, to_agent="alice")  # a full queue is no reason to refuse another's mail
        with pytest.raises(LimitReached, match="queue 'job' is full"):
            publish(bus)
    assert len(queue.claim("worker", limit=9)) == 1
    assert waiting(bus) == 0


def test_refusal_names_the_limit_that_refused(bus: Bus) -> None:
    """And not a full queue that does not take such a message in."""
    JobControl(Queue.create(bus, "crew", "job")).limit(1)
    bus.limits.set_for_inbox("alice", 1)
    publish(bus)
    publish(bus, to_agent="alice")
    with pytest.raises(LimitReached, match="inbox 'alice' is full"):
        publish(bus, to_agent="alice")


@pytest.mark.parametrize(("was", "becomes"), [(None, "*"), ("*", None)])
def test_queue_that_takes_other_messages_in_is_counted_again(
    bus: Bus, was: str | None, becomes: str | None
) -> None:
    queue = Queue.create(bus, "job", addressed=was)
    JobControl(queue).limit(5)
    publish(bus)
    publish(bus, to_agent="alice")
    change_policy(bus, "job", addressed=becomes)
    waits = waiting(bus)
    assert len(Queue.open(bus, "job").claim("worker", limit=9)) == waits
    assert waiting(bus) == 0


# Counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_counts_is_what_the_queue_takes_in(bus: Bus, pattern: str) -> None:
    """Q-04: SQL's patterns and ours agree, for every form of pattern and type."""
    queue = Queue.create(bus, "odd", pattern)
    JobControl(queue).limit(1000)
    for type in TYPES:
        publish(bus, type=type)
    queue.fill()
    taken_in = Jobs.of(queue.bus).counts(queue.info)["open"]
    expected = [type for type in TYPES if TypePattern(pattern).matches(type)]
    assert waiting(bus) == taken_in == len(expected) > 0


def test_repair_counts_only_what_the_queue_takes_in(bus: Bus, queue: Queue) -> None:
    publish(bus, 2)
    publish(bus, 2, to_agent="boss")
    list(mend_work(bus, {"waiting_limits"}))
    assert waiting(bus) == 2


@pytest.mark.parametrize("pattern", ["*.b.>", "a.*.c.>"])
def test_pattern_that_sql_can_not_tell_gets_no_limit(bus: Bus, pattern: str) -> None:
    """Q-04: rather than a count that is wrong."""
    queue = Queue.create(bus, "odd", pattern)
    with pytest.raises(InvalidInput, match="can't be counted"):
        JobControl(queue).limit(5)
    assert bus.limits.list() == []


def test_limit_counts_what_waits_already(bus: Bus) -> None:
    """Q-04: in the queue, and in the log before it has been filled; running jobs do not."""
    queue = Queue.create(bus, "job")
    publish(bus, 4)
    queue.claim("worker")
    publish(bus, 2)
    JobControl(queue).limit(6)
    assert waiting(bus) == 5
    publish(bus)
    with pytest.raises(LimitReached):
        publish(bus)


def test_limit_counts_what_comes_while_it_is_set(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Q-04: a message between the filling and the transaction is not forgotten."""
    queue = Queue.create(bus, "job")
    publish(bus, 2)
    fill = queue.fill

    def fill_and_be_overtaken() -> None:
        fill()
        if bus.log.newest_seq() == 2:
            publish(bus)

    monkeypatch.setattr(queue, "fill", fill_and_be_overtaken)
    JobControl(queue).limit(5)
    assert waiting(bus) == 3


def test_count_stays_right_through_a_job(bus: Bus, queue: Queue) -> None:
    """Q-04: claimed, failed, tried again, released, lost, dead, tried again by hand, done."""
    queue = Queue.open(bus, "job")
    control = JobControl(queue)
    publish(bus)

    def claim() -> Claim:
        (claim,) = queue.claim("worker")
        assert waiting(bus) == 0
        return claim

    queue.fail(claim(), "no")
    assert waiting(bus) == 1
    queue.release(claim())
    assert waiting(bus) == 1
    queue.fail(claim(), "no", after_s=3600)
    assert waiting(bus) == 1
    control.retry(1)
    assert waiting(bus) == 1
    queue.fail(claim(), "no", retry=False)
    assert waiting(bus) == 0
    control.retry(1)
    assert waiting(bus) == 1
    queue.complete(claim())
    assert waiting(bus) == 0


def test_count_stays_right_over_cancelling_and_purging(bus: Bus, queue: Queue) -> None:
    """Q-04: what is cancelled before it was taken in, while it waits, and while it runs."""
    control = JobControl(queue)
    publish(bus, 4)
    queue.claim("worker")
    control.cancel(1)
    control.cancel(2)
    assert waiting(bus) == 2
    publish(bus, 3)
    assert control.purge() == 5
    assert waiting(bus) == 0


def test_count_stays_right_over_duplicates_and_delays(bus: Bus, queue: Queue) -> None:
    """Q-04, D-19: a duplicate counts until it has been found to be one."""
    key = work_headers(dedupe_key="k")
    publish(bus, headers=key)
    (claim,) = queue.claim("worker")
    queue.complete(claim)
    publish(bus, headers=key)
    publish(bus, headers=work_headers(available_at_ms=bus.now_ms() + 10**7))
    assert waiting(bus) == 2
    queue.fill()
    assert waiting(bus) == 1


def test_count_stays_right_while_workers_are_lost(bus: Bus, queue: Queue) -> None:
    """Q-04, X-03: until the jobs are dead."""
    publish(bus, 2)
    counts = Jobs.of(queue.bus).counts(queue.info)
    while counts.get("dead") != 2:
        queue.claim("worker", lease_s=0.001)
        counts = Jobs.of(queue.bus).counts(queue.info)
        assert waiting(bus) == 2 - counts["running"] - counts.get("dead", 0)
    assert waiting(bus) == 0


@pytest.mark.parametrize("seed", range(4))
def test_count_is_right_after_anything(bus: Bus, seed: int) -> None:
    """Q-04: 200 random acts; after each, what counts is what a filled queue has waiting."""
    chance = random.Random(seed)
    queue = Queue.create(bus, "job", backoff_s=0, max_attempts=2, dedupe_window_s=0)
    control = JobControl(queue)
    control.limit(20)
    held: list[Claim] = []

    def one_job() -> int:
        return chance.randint(1, max(1, bus.log.newest_seq()))

    acts: list[Callable[[], object]] = [
        lambda: publish(bus, chance.randint(1, 5)),
        lambda: publish(bus, headers=work_headers(dedupe_key=chance.choice("ab"))),
        lambda: publish(
            bus, headers=work_headers(dedupe_key=chance.choice("ab"), dedupe_window_s=60)
        ),
        lambda: publish(bus, headers=work_headers(available_at_ms=bus.now_ms() + 2)),
        lambda: held.extend(queue.claim("worker", limit=3)),
        lambda: held.extend(queue.claim("worker", limit=3)),
        lambda: queue.claim("lost", lease_s=0.001),
        lambda: queue.complete(held.pop()),
        lambda: queue.fail(held.pop(), "no"),
        lambda: queue.fail(held.pop(), "no", retry=False),
        lambda: queue.release(held.pop()),
        lambda: queue.cancel(held.pop(), "no"),
        lambda: control.retry(one_job()),
        lambda: control.cancel(one_job()),
        lambda: chance.random() < 0.1 and control.purge(),
        queue.fill,
    ]
    for _ in range(200):
        with contextlib.suppress(Refused, NotFound, IndexError):  # IndexError: none is held
            chance.choice(acts)()
        counted = waiting(bus)
        with contextlib.suppress(KeyError), bus.transaction():
            queue.fill()
            counts = Jobs.of(queue.bus).counts(queue.info)
            assert waiting(bus) == counts["open"] + counts["time"] + counts["key"]
            raise KeyError  # so that the next act meets a queue that is not filled
        assert waiting(bus) == counted <= 25


def test_retried_jobs_may_exceed_the_limit_and_publishers_wait_for_them(bus: Bus) -> None:
    """Q-04: what was accepted once is never refused."""
    queue = Queue.create(bus, "job", max_attempts=1)
    control = JobControl(queue)
    publish(bus, 3)
    claims = queue.claim("worker", limit=3)
    queue.end_many([(claim, Outcome(status="failed"), ()) for claim in claims])
    control.limit(2)
    for seq in (1, 2, 3):
        control.retry(seq)
    assert waiting(bus) == 3
    with pytest.raises(LimitReached):
        publish(bus)


def test_undone_transaction_is_not_counted(bus: Bus, queue: Queue) -> None:
    """Q-04, promise 11."""
    with contextlib.suppress(KeyError), bus.transaction():
        publish(bus, 3)
        assert waiting(bus) == 3
        raise KeyError
    assert waiting(bus) == 0


def test_limit_may_be_changed_and_cleared(bus: Bus, queue: Queue) -> None:
    """Q-04: lowered below what waits, it lets work go on."""
    publish(bus, 5)
    JobControl(queue).limit(2)
    assert len(queue.claim("worker", limit=3)) == 3
    with pytest.raises(LimitReached):
        publish(bus)
    bus.limits.clear("queue", "job")
    publish(bus, 100)
    with pytest.raises(NotFound, match="queue 'job' has no limit"):
        bus.limits.clear("queue", "job")
    JobControl(queue).limit(1000)
    assert waiting(bus) == 102


@pytest.mark.parametrize(
    ("most", "told"),
    [(most, f"a limit is a whole number of at least 1, not {most}") for most in (0, -1, 2**31)]
    + [(most, f"must be a whole number, not {most!r}") for most in (1.5, True, None, "5")],
)
def test_limit_that_is_none_is_refused(bus: Bus, most: object, told: str) -> None:
    """Bad input."""
    queue = Queue.create(bus, "job")
    with pytest.raises(InvalidInput, match=told):
        JobControl(queue).limit(most)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        bus.limits.set_for_inbox("slow", most)  # type: ignore[arg-type]
    assert bus.limits.list() == []


# Waiting for room ----------------------------------------------------------------------------


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """Somebody else, who publishes at the same time."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_publisher_gets_in_when_there_is_room(
    bus: Bus, queue: Queue, elsewhere: ThreadPoolExecutor
) -> None:
    """Q-04: as soon as a job begins, long before its patience ends."""
    publish(bus, 5)
    pending = elsewhere.submit(bus.publish, "job", "late", from_agent="patient", wait_s=60)
    queue.claim("worker")
    assert pending.result(30).seq == 6
    assert waiting(bus) == 5


def test_publisher_gets_into_an_inbox_when_there_is_room(
    bus: Bus, elsewhere: ThreadPoolExecutor
) -> None:
    """Q-04: as soon as its owner acknowledges."""
    bus.limits.set_for_inbox("slow", 1)
    publish(bus, to_agent="slow")
    drafts = [Draft("note", from_agent="patient", to_agent="slow")]
    pending = elsewhere.submit(bus.publish_many, drafts, wait_s=60)
    Inbox(bus, "slow").ack(1)
    assert pending.result(30)[0].seq == 2


def test_publisher_whose_patience_ends_is_refused(bus: Bus, queue: Queue) -> None:
    """Q-04: nothing is stored; and a batch that can never fit is refused as well."""
    publish(bus, 5)
    with pytest.raises(LimitReached, match="queue 'job'"):
        bus.publish("job", from_agent="patient", wait_s=0.05)
    queue.claim("worker", limit=5)
    with pytest.raises(LimitReached):
        bus.publish_many([Draft("job", from_agent="boss")] * 6, wait_s=0.05)
    assert bus.log.newest_seq() == 5


def test_nobody_waits_inside_a_transaction(bus: Bus, queue: Queue) -> None:
    """Pitfall 7: it would keep those out who could make room."""
    publish(bus, 5)
    with pytest.raises(LimitReached), bus.transaction():
        bus.publish("job", from_agent="patient", wait_s=3600)


def test_history_has_to_fit_too(bus: Bus, queue: Queue) -> None:
    """Q-04: an import is no way around a limit; what had no room comes when it is repeated."""
    lines = "".join(f'{{"id": "m{n}", "from": "a", "type": "job"}}\n' for n in range(7)).encode()
    report = bus.import_jsonl(io.BytesIO(lines))
    assert (report.stored, report.skipped) == (5, 2)
    assert [number for number, _ in report.reasons] == [6, 7]
    assert "queue 'job' is full" in report.reasons[0][1]
    queue.claim("worker", limit=5)
    again = bus.import_jsonl(io.BytesIO(lines))
    assert (again.stored, again.duplicates, waiting(bus)) == (2, 5, 2)


def test_queue_that_has_not_begun_gets_no_limit(bus: Bus, bus_dir: Path) -> None:
    """Q-04: what comes before its first message would count, and never be done.

    Another program makes such a queue; ours begin with the next message at the latest.
    """
    raw_sql(
        bus_dir,
        "INSERT INTO queues (name, pattern, filled_seq, created_at_ms) VALUES ('job', 'job', 2, 1)",
    )
    queue = Queue.open(bus, "job")
    publish(bus)
    with pytest.raises(InvalidInput, match="begins with message 3, which is still to come"):
        JobControl(queue).limit(1)
    publish(bus)
    JobControl(queue).limit(1)
    publish(bus)
    with pytest.raises(LimitReached):
        publish(bus)
    assert [claim.message.seq for claim in queue.claim("worker", limit=9)] == [3]
    publish(bus)


def test_refusal_is_explained_while_nobody_can_make_room(bus: Bus) -> None:
    """Else a limit that an acknowledgement has lifted meanwhile would look like bad input."""
    bus.heartbeats.beat("bob")
    bus.limits.set_for_inbox("bob", 1)
    bus.publish("note", from_agent="ann", to_agent="bob")
    change = file_of(bus).change

    def make_room_after(*arguments: Any, **options: Any) -> Any:
        try:
            return change(*arguments, **options)
        finally:
            if not file_of(bus).writing:
                patch.undo()
                bus.limits.set_for_inbox("bob", 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_of(bus), "change", make_room_after)
        assert bus.publish("note", from_agent="ann", to_agent="bob").seq == 2
