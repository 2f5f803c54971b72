"""The cost of a claim does not depend on finished and delayed jobs, or on other queues."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of
from ackbus.subscribers.queues.queue import Queue

from ..programs import connect
from ..sizes import sampled
from .work import publish, take

#: Jobs that are over, jobs that are delayed, other queues.
FINISHED, DELAYED, OTHER_QUEUES = 100_000, 100_000, 50

#: Claims that are measured, each followed by a completion.
CLAIMS = 200

#: A walk over what lies there would be hundreds of times slower; what other processes do is not.
LOOSE_FACTOR = 5

_PAST = """
INSERT INTO messages (id, ts_ms, from_agent, type)
  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :finished + :delayed)
  SELECT 'm-' || i, :now_ms, 'boss', 'job' FROM n;
INSERT INTO jobs (queue_id, seq, state, gate, max_attempts, available_at_ms, created_at_ms,
                  ended_at_ms)
  SELECT :queue_id, seq, iif(seq <= :finished, 'succeeded', 'queued'),
         iif(seq <= :finished, 'open', 'time'), 4,
         iif(seq <= :finished, :now_ms, :now_ms + 86400000), :now_ms,
         iif(seq <= :finished, :now_ms, NULL)
    FROM messages;
INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance, available_at_ms,
                    claimed_at_ms, lease_until_ms, status, ended_at_ms)
  SELECT :queue_id, seq, 1, 'old', 'old', :now_ms, :now_ms, :now_ms + 60000, 'completed', :now_ms
    FROM messages WHERE seq <= :finished;
UPDATE queues SET filled_seq = :finished + :delayed WHERE id = :queue_id;
"""


def live_through(bus_dir: Path, queue: Queue) -> None:
    """Gives a queue a past, as another program that knows the tables could."""
    told = {
        "finished": FINISHED,
        "delayed": DELAYED,
        "queue_id": queue.info.id,
        "now_ms": queue.bus.now_ms(),
    }
    other = connect(bus_dir)
    with other:
        other.execute(_PAST, told)
    other.close()


@contextmanager
def counted(bus: Bus) -> Iterator[dict[str, int]]:
    """Counts the statements that this thread runs, and the steps of SQLite's machine."""
    spent = {"statements": 0, "steps": 0}

    def note(event: dict[str, Any]) -> None:
        spent["statements"] += 1
        spent["steps"] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    connection = file_of(bus).connection
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    yield spent
    connection.trace_v2(0, None)


def cost(queue: Queue) -> tuple[float, int, int]:
    """The least time of a claim with its completion, and the least statements and steps of three.

    Every 10 ms one looks whether the tables changed, which is a statement more.
    """
    publish(queue.bus, CLAIMS)
    queue.fill()
    times_s = []
    for _ in range(CLAIMS - 3):
        began = time.perf_counter()
        queue.complete(take(queue))
        times_s.append(time.perf_counter() - began)
    statements, steps = [], []
    for _ in range(3):
        with counted(queue.bus) as spent:
            queue.complete(take(queue))
        statements.append(spent["statements"])
        steps.append(spent["steps"])
    return min(times_s), min(statements), min(steps)


@pytest.mark.slow
@pytest.mark.parametrize("ordering", sampled(["fifo", "priority"], every=2))
def test_claim_costs_the_same_whatever_lies_in_the_queue_and_around_it(
    bus: Bus, bus_dir: Path, tmp_path: Path, ordering: str
) -> None:
    """Issue 3, item 1: 100,000 finished jobs, 100,000 delayed, 50 queues against an empty bus."""
    queue = Queue.create(bus, "job", ordering=ordering)
    live_through(bus_dir, queue)
    for number in range(OTHER_QUEUES):
        Queue.create(bus, f"other-{number}", "job")
    with Bus.init(tmp_path / "empty") as empty_bus:
        empty_s, *empty = cost(Queue.create(empty_bus, "job", ordering=ordering))
        full_s, *full = cost(queue)
    assert full_s < LOOSE_FACTOR * empty_s, (full_s, empty_s)
    statements, steps = empty
    assert full == [statements, pytest.approx(steps, rel=0.2)]
