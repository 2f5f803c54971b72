"""Filling: which messages a queue takes in, each once, whatever the log looks like."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.bus.log import log
from ackbus.bus.log.catalog import STEP_MESSAGES
from ackbus.doctor.repair.database import mend_work
from ackbus.errors import InvalidInput
from ackbus.schema.message.message import Message, message_of
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.subscribers.queues.queues import PAGE_JOBS, STORE_AFTER
from ackbus.subscribers.views import list_jobs

from ..programs import connect
from .conftest import Clock
from .work import publish, seqs, take


def append_raw(bus: Bus, count: int, type: str = "noise") -> None:
    """Appends messages as fast as SQLite can."""
    file_of(bus).change(
        "INSERT INTO messages (id, ts_ms, from_agent, type)"
        " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " SELECT lower(hex(randomblob(8))), 1, 'raw', ? FROM n",
        (count, type),
    )


def filled(queue: Queue) -> list[int]:
    queue.fill()
    return seqs(list_jobs(queue, (), 10_000))[::-1]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("beginning", [1, 2, 3, 4]), ("now", [4]), (1, [1, 2, 3, 4]), (3, [3, 4]), (4, [4])],
)
def test_queue_begins_where_it_is_told_to(bus: Bus, start: str | int, expected: list[int]) -> None:
    """P-03: everything, what comes, or from a seq on, the next message's at the latest."""
    publish(bus, 3)
    queue = Queue.create(bus, "job", start=start)
    publish(bus)
    assert filled(queue) == expected


@pytest.mark.parametrize(
    ("start", "told"),
    [(start, "now, or a seq from 1 to 1") for start in ("end", "", 0, -1, 2**63)]
    + [(start, f"now or a seq, not {start}") for start in (True, 1.5, None)],
)
def test_beginning_that_is_none_is_refused(bus: Bus, start: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=f"start must be beginning, {told}"):
        Queue.create(bus, "job", start=start)  # type: ignore[arg-type]


def test_a_queue_does_not_start_after_the_next_message(bus: Bus) -> None:
    """Messages before its start would be kept out of inboxes by its type, and in no queue."""
    publish(bus)
    with pytest.raises(InvalidInput, match="a seq from 1 to 2, which is the next message, not 3"):
        Queue.create(bus, "job", start=3)
    assert Queue.create(bus, "job", start=2).info.filled_seq == 1


def test_what_was_addressed_to_a_queue_stays_its_work_when_its_policy_changes(bus: Bus) -> None:
    """It was kept out of an inbox by the policy of its time."""
    Queue.create(bus, "job", addressed="bob")
    bus.heartbeats.beat("bob")
    sent = bus.publish("job", from_agent="lead", to_agent="bob")
    assert Inbox(bus, "bob").poll() == []
    change_policy(bus, "job", addressed=None)
    assert take(Queue.open(bus, "job")).message.seq == sent.seq


def test_mail_stays_mail_when_a_policy_begins_to_take_it(bus: Bus) -> None:
    """Else an agent would have it, and a worker too."""
    Queue.create(bus, "job", addressed=None)
    bus.heartbeats.beat("bob")
    older = bus.publish("job", from_agent="lead", to_agent="bob")
    change_policy(bus, "job", addressed="bob")
    newer = bus.publish("job", from_agent="lead", to_agent="bob")
    assert [message.seq for message in Inbox(bus, "bob").poll()] == [older.seq]
    claims = Queue.open(bus, "job").claim("w", group="bob", limit=9)
    assert [claim.message.seq for claim in claims] == [newer.seq]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("job.done", [1]),
        ("job.*", [1, 2]),
        ("*.done", [1, 3]),
        ("job.>", [1, 2, 4]),
        ("*.*.late", [4]),
        ("*.done.>", [4]),
        (">", [1, 2, 3, 4, 5]),
        ("nothing.like.it", []),
    ],
)
def test_queue_takes_in_what_fits_its_pattern(bus: Bus, pattern: str, expected: list[int]) -> None:
    """P-27, X-05."""
    for type in ("job.done", "job.failed", "task.done", "job.done.late", "job"):
        publish(bus, type=type)
    assert filled(Queue.create(bus, "odd", pattern)) == expected


def test_queue_of_everything_takes_in_its_own_replies(bus: Bus) -> None:
    """A worker's message is a message as any other."""
    queue = Queue.create(bus, "all", ">")
    publish(bus)
    queue.complete(take(queue), Draft("job.done", from_agent="worker"))
    assert take(queue).message.type == "job.done"


def test_each_message_becomes_one_job_for_all_who_fill(bus: Bus) -> None:
    """P-31: two that look at the same time; one of them stores."""
    first, second = Queue.create(bus, "job"), Queue.open(bus, "job")
    publish(bus, 3)
    pages = [queue._filler.look() for queue in (first, second)]
    changes = []
    for queue, page in zip((first, second), pages, strict=True):
        assert page is not None
        before = file_of(bus).connection.total_changes()
        with bus.transaction():
            queue._filler.store(page, queue._refresh())
        changes.append(file_of(bus).connection.total_changes() - before)
    assert changes == [4, 0]  # three jobs and the position; nothing
    assert filled(second) == [1, 2, 3]


def test_many_pages_are_taken_in(bus: Bus) -> None:
    """P-27: claims go on from page to page, in order."""
    queue = Queue.create(bus, "job")
    append_raw(bus, 2 * PAGE_JOBS + 10, "job")
    claimed = []
    while claims := queue.claim("worker", limit=400):
        claimed += seqs(claims)
    assert claimed == list(range(1, 2 * PAGE_JOBS + 11))


def test_page_of_nothing_but_delayed_jobs_hides_no_work(bus: Bus, clock: Clock) -> None:
    """D-33: what can be done now is found behind any number of jobs that must wait."""
    queue = Queue.create(bus, "job")
    later = work_headers(available_at_ms=clock.now_ms + 1000)
    publish(bus, 2 * PAGE_JOBS, headers=later)
    publish(bus)
    assert take(queue).message.seq == 2 * PAGE_JOBS + 1


def test_claim_finds_what_came_while_another_process_filled(bus: Bus) -> None:
    """X-10: a page that is not stored by us, because somebody was faster, is no empty queue."""
    mine, theirs = Queue.create(bus, "job"), Queue.open(bus, "job")
    publish(bus)
    look = mine._filler.look

    def look_slowly() -> object:
        page = look()
        if page is not None and page.upto == 2:
            take(theirs)  # takes the first in, and both
            take(theirs)
            publish(bus)
        return page

    publish(bus)
    mine._filler.look = look_slowly  # type: ignore[method-assign, assignment]
    assert take(mine).message.seq == 3


def test_what_a_transaction_saw_and_undid_is_looked_at_again(bus: Bus) -> None:
    """Promise 2, pitfall 6: the seqs of a transaction that was undone are given to others."""
    queue = Queue.create(bus, "job")
    with contextlib.suppress(KeyError), bus.transaction():
        publish(bus, type="other")
        assert queue.claim("worker") == []
        raise KeyError
    assert bus.log.newest_seq() == 0
    publish(bus)
    assert seqs(queue.claim("worker")) == [1]


def test_what_a_transaction_claimed_and_undid_is_claimed_again(bus: Bus) -> None:
    """Pitfall 5."""
    queue = Queue.create(bus, "job")
    with contextlib.suppress(KeyError), bus.transaction():
        publish(bus)
        assert seqs(queue.claim("worker")) == [1]
        raise KeyError
    assert queue.claim("worker") == []
    publish(bus)
    assert seqs(queue.claim("worker")) == [1]


@pytest.mark.slow
def test_rare_types_are_found_in_a_long_log(bus: Bus) -> None:
    """K-01: one of 40,000, before and after the catalog has been brought up to date."""
    append_raw(bus, 20_000)
    publish(bus)
    append_raw(bus, STEP_MESSAGES)
    queue = Queue.create(bus, "job")
    assert seqs(queue.claim("worker")) == [20_001]
    append_raw(bus, 5_000)
    publish(bus)
    newest = bus.log.newest_seq()
    assert seqs(queue.claim("worker")) == [newest]
    assert filled(Queue.create(bus, "again", "job")) == [20_001, newest]


def test_long_look_in_vain_is_remembered_for_all(bus: Bus) -> None:
    """K-01: the next process does not look there again; a short one writes nothing."""
    queue = Queue.create(bus, "job")
    append_raw(bus, STORE_AFTER)
    changes = file_of(bus).connection.total_changes()
    assert queue.claim("worker") == []
    assert file_of(bus).connection.total_changes() == changes
    append_raw(bus, 1)
    assert queue.claim("worker") == []
    assert Queue.open(bus, "job").info.filled_seq == STORE_AFTER + 1


def test_looking_in_vain_writes_nothing(bus: Bus) -> None:
    """K-01: idle workers cost nobody anything."""
    queue = Queue.create(bus, "job")
    publish(bus, 3, type="other")
    changes = file_of(bus).connection.total_changes()
    for _ in range(3):
        assert queue.claim("worker") == []
    assert file_of(bus).connection.total_changes() == changes


def test_gap_in_the_log_is_no_end(bus: Bus, bus_dir: Path) -> None:
    """X-41: a client with SQL may leave numbers out."""
    queue = Queue.create(bus, "job")
    publish(bus)
    connect(bus_dir).execute(
        "INSERT INTO messages (seq, id, ts_ms, from_agent, type) VALUES (900, 'm', 1, 'x', 'job')"
    )
    publish(bus)
    assert seqs(queue.claim("worker", limit=9)) == [1, 900, 901]


def test_repair_makes_no_jobs_of_what_the_queue_does_not_take_in(bus: Bus) -> None:
    queue = Queue.create(bus, "job")
    publish(bus)
    publish(bus, to_agent="boss")
    publish(bus)
    queue.fill()
    assert list(mend_work(bus, {"jobs"})) == []
    assert seqs(queue.claim("worker", limit=9)) == [1, 3]


def test_messages_of_other_types_are_not_read(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue with little work lies behind what all others got: their rows stay in the file."""
    queue = Queue.create(bus, "rare", "rare.*")
    bus.publish_many([Draft("often.one", {"n": n}, from_agent="a") for n in range(2000)])
    bus.publish("rare.one", from_agent="a")
    read: list[str] = []

    def noted(row: Any, blobs: Any) -> Message:
        message = message_of(row, blobs)
        read.append(message.type)
        return message

    monkeypatch.setattr(log, "message_of", noted)
    (claim,) = queue.claim("w", limit=9)
    assert claim.message.type == "rare.one"
    assert set(read) == {"rare.one"}
