"""Keys: what is about the same is not done twice, and never at the same time."""

import json
import logging

import pytest

from ackbus import Bus
from ackbus.errors import InvalidInput
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy

from .conftest import Clock
from .work import job, publish, seqs, state, take

KEY = work_headers(dedupe_key="k")


def about(key: str, window_s: float | None = None) -> dict[str, object]:
    return work_headers(dedupe_key=key, dedupe_window_s=window_s)


def test_what_succeeded_inside_the_window_is_not_done_again(bus: Bus, clock: Clock) -> None:
    """D-19: the job is there, cancelled, and names the one that did it."""
    queue = Queue.create(bus, "job")
    publish(bus, headers=KEY)
    queue.complete(take(queue))
    clock.advance(60)
    publish(bus, headers=KEY)
    assert queue.claim("worker") == []
    duplicate = job(queue, 2)
    assert duplicate.state == "cancelled"
    assert duplicate.error == "duplicate of 1, which succeeded, with dedupe key k"


def test_window_is_a_day_unless_the_queue_says_otherwise(bus: Bus, clock: Clock) -> None:
    """D-20: exactly at its end still a duplicate, a millisecond later no more."""
    daily, hourly = (
        Queue.create(bus, "daily", "job"),
        Queue.create(bus, "hourly", "job", dedupe_window_s=3600),
    )
    publish(bus, headers=KEY)
    for queue in (daily, hourly):
        queue.complete(take(queue))
    clock.advance(3600)
    publish(bus, headers=KEY)
    clock.advance(0.001)
    publish(bus, headers=KEY)
    assert seqs(hourly.claim("worker", limit=9)) == [3]
    clock.advance(86_400 - 3600 - 0.001)
    publish(bus, headers=KEY)
    assert daily.claim("worker", limit=9) == []
    clock.advance(0.001)
    publish(bus, headers=KEY)
    assert seqs(daily.claim("worker", limit=9)) == [5]


def test_sender_may_give_another_window(bus: Bus, clock: Clock) -> None:
    """D-20: 1 s: refused at a second, accepted after it."""
    queue = Queue.create(bus, "job")
    publish(bus, headers=about("k", 1))
    queue.complete(take(queue))
    clock.advance(1)
    publish(bus, headers=about("k", 1))
    assert queue.claim("worker") == []
    clock.advance(0.001)
    publish(bus, headers=about("k", 1))
    assert seqs(queue.claim("worker")) == [3]


def test_window_of_zero_keeps_nothing_out(bus: Bus, clock: Clock) -> None:
    """D-20: by the queue, or by the sender."""
    queue = Queue.create(bus, "job", dedupe_window_s=0)
    publish(bus, headers=KEY)
    queue.complete(take(queue))
    publish(bus, headers=KEY)
    queue.complete(take(queue))
    publish(bus, headers=about("k", 0))
    assert seqs(queue.claim("worker")) == [3]


@pytest.mark.parametrize("runs", [False, True], ids=["queued", "running"])
def test_with_a_window_of_its_own_a_live_job_keeps_it_out(bus: Bus, runs: bool) -> None:
    """D-21: and without one it waits for its turn."""
    queue = Queue.create(bus, "job")
    publish(bus, headers=KEY)
    if runs:
        take(queue)
    publish(bus, headers=about("k", 60))
    publish(bus, headers=KEY)
    queue.fill()
    assert [state(queue, seq) for seq in (2, 3)] == ["cancelled", "queued"]


def test_duplicate_is_logged_with_its_key_and_the_original(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """D-22."""
    queue = Queue.create(bus, "job")
    publish(bus, headers=KEY)
    queue.complete(take(queue))
    publish(bus, headers=KEY)
    with caplog.at_level(logging.INFO, "ackbus.queue"):
        queue.claim("worker")
    assert caplog.messages == ["queue job: 2: duplicate of 1, which succeeded, with dedupe key k"]


def test_without_a_key_equal_messages_are_all_done(bus: Bus) -> None:
    """D-23."""
    queue = Queue.create(bus, "job")
    for _ in range(3):
        bus.publish("job", {"same": True}, from_agent="boss")
    assert seqs(queue.claim("worker", limit=9)) == [1, 2, 3]


@pytest.mark.parametrize("retry", ["asked", "failures"])
def test_what_ended_badly_keeps_nothing_out(bus: Bus, retry: str) -> None:
    """D-24: failed or dead."""
    queue = Queue.create(bus, "job", retry=retry, max_attempts=1)
    publish(bus, headers=KEY)
    queue.fail(take(queue), "no")
    publish(bus, headers=about("k", 60))
    assert seqs(queue.claim("worker")) == [2]


def test_jobs_with_one_key_never_run_at_once(bus: Bus) -> None:
    """D-25: each waits until the one before is over, and others pass them."""
    queue = Queue.create(bus, "job", dedupe_window_s=0)
    publish(bus, 3, headers=KEY)
    publish(bus, 1, headers=about("other"))
    publish(bus)
    first, other, plain = queue.claim("worker", limit=9)
    assert seqs([first, other, plain]) == [1, 4, 5]
    assert [job(queue, seq).gate for seq in (2, 3)] == ["key", "key"]
    queue.complete(first)
    (second,) = queue.claim("worker", limit=9)
    assert second.message.seq == 2
    queue.release(second)
    assert seqs(queue.claim("worker", limit=9)) == [2]


def test_job_that_waits_for_another_attempt_lets_the_next_with_its_key_run(
    bus: Bus, clock: Clock
) -> None:
    """D-25, D-33: and when it is due, it waits for that one."""
    queue = Queue.create(bus, "job")
    publish(bus, 2, headers=KEY)
    queue.fail(take(queue), "no", after_s=10)
    second = take(queue)
    clock.advance(10)
    assert queue.claim("worker") == []
    queue.fail(second, "no", after_s=10)
    assert seqs(queue.claim("worker", limit=9)) == [1]


def test_siblings_with_one_key_and_different_targets_run_at_once(bus: Bus) -> None:
    """D-26, X-32: a target is a queue; a key is looked at within one, and a fast one loses none."""
    targets = [Queue.create(bus, f"to-{name}", "job") for name in ("a", "b", "slow")]
    publish(bus, headers=about("fan-out", 60))
    claims = [take(queue) for queue in targets]
    targets[0].complete(claims[0])
    targets[1].complete(claims[1])
    assert [state(queue) for queue in targets] == ["succeeded", "succeeded", "running"]
    late = Queue.create(bus, "late", "job")
    assert seqs(late.claim("worker")) == [1]


def test_lost_worker_leaves_no_key_behind(bus: Bus, clock: Clock) -> None:
    """D-27: the guard is a look at the jobs; there is no lock that could be left."""
    queue = Queue.create(bus, "job", on_lost="fail")
    publish(bus, 2, headers=KEY)
    take(queue, lease_s=1)
    assert queue.claim("worker") == []
    clock.advance(1)
    assert seqs(queue.claim("worker")) == [2]


def test_several_may_run_for_a_key_where_the_queue_allows_it(bus: Bus) -> None:
    """D-25: two of four, and never more."""
    queue = Queue.create(bus, "job", max_running_per_key=2)
    publish(bus, 4, headers=about("k"))
    first, second = queue.claim("worker", limit=9)
    assert queue.claim("worker", limit=9) == []
    queue.release(second)
    assert seqs(queue.claim("worker", limit=9)) == [2]
    queue.cancel(first, "no")
    assert seqs(queue.claim("worker", limit=9)) == [3]


def test_limit_for_a_key_may_change_while_jobs_wait(bus: Bus) -> None:
    """D-25: raised, the next ones run at once; lowered, no more than that begin."""
    queue = Queue.create(bus, "job")
    publish(bus, 5, headers=KEY)
    assert seqs(queue.claim("worker", limit=9)) == [1]
    change_policy(bus, "job", max_running_per_key=3)
    two, three = queue.claim("worker", limit=9)
    assert seqs([two, three]) == [2, 3]
    queue.fill()
    change_policy(bus, "job", max_running_per_key=2)
    queue.cancel(two, "no")
    assert queue.claim("worker", limit=9) == []
    queue.cancel(three, "no")
    assert seqs(queue.claim("worker", limit=9)) == [4]


def test_limit_for_a_key_that_is_lowered_holds_for_what_was_open(bus: Bus) -> None:
    """D-25: open, but not begun."""
    queue = Queue.create(bus, "job", max_running_per_key=3)
    publish(bus, 3, headers=KEY)
    queue.fill()
    change_policy(bus, "job", max_running_per_key=1)
    assert seqs(queue.claim("worker", limit=9)) == [1]


def test_filling_late_makes_no_difference(bus: Bus, clock: Clock) -> None:
    """D-19: what had not succeeded when it was published does not keep it out."""
    queue = Queue.create(bus, "job")
    publish(bus, headers=KEY)
    claim = take(queue)
    clock.advance(1)
    publish(bus, headers=KEY)  # while the first still runs
    clock.advance(1)
    queue.complete(claim)
    assert seqs(queue.claim("worker")) == [2]


@pytest.mark.parametrize(
    "wish",
    [
        {"dedupe_key": ""},
        {"dedupe_key": "x" * 256},
        {"dedupe_key": "a\x00b"},
        {"dedupe_window_s": 60},
        {"dedupe_key": "k", "dedupe_window_s": -1},
        {"available_at_ms": -1},
        {"available_at_ms": "tomorrow"},
        {"available_at_ms": 1.5},
    ],
    ids=str,
)
def test_wish_that_breaks_a_rule_is_refused(wish: dict[str, object]) -> None:
    """Bad input: before anything is published."""
    with pytest.raises(InvalidInput):
        work_headers(**wish)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "headers",
    [
        {"dedupe_key": 5},
        {"dedupe_key": ""},
        {"dedupe_key": ["k"]},
        {"dedupe_key": "x" * 300},
        {"dedupe_window_ms": 5},
        {"available_at_ms": True},
        {"available_at_ms": 2**62},
        {"available_at_ms": "later"},
    ],
    ids=str,
)
def test_wish_that_others_stored_wrongly_is_not_there(bus: Bus, headers: object) -> None:
    """Bad input: the message is work all the same."""
    queue = Queue.create(bus, "job")
    publish(bus, 2, headers=headers)
    assert seqs(queue.claim("worker", limit=9)) == [1, 2]


@pytest.mark.parametrize("ts_ms", [-(2**63), -1, 0, 2**63 - 1])
@pytest.mark.parametrize("window_s", [None, 60])
def test_any_time_that_others_stored_is_taken(
    bus: Bus, clock: Clock, ts_ms: int, window_s: float | None
) -> None:
    """Bad input: no message can stop its queue; older versions of the file took any time."""
    queue = Queue.create(bus, "job", ordering="priority")
    file_of(bus).refuses_foreign_objects = False
    file_of(bus).change("DROP TRIGGER messages_are_only_appended")
    file_of(bus).change(
        "INSERT INTO messages (id, ts_ms, from_agent, type, headers)"
        " VALUES ('m', ?, 'x', 'job', ?)",
        (ts_ms, json.dumps(about("k", window_s))),
    )
    publish(bus)
    assert seqs(queue.claim("worker", limit=9)) == [1, 2]
    assert 0 <= job(queue).created_at_ms <= clock.now_ms


def test_delayed_message_comes_at_its_time(bus: Bus, clock: Clock) -> None:
    """D-33: it blocks nobody, and takes its place by seq when it is due."""
    queue = Queue.create(bus, "job")
    publish(bus, headers=work_headers(available_at_ms=clock.now_ms + 1000))
    publish(bus, 2)
    assert seqs(queue.claim("worker")) == [2]
    clock.advance(0.999)
    assert job(queue, 1).gate == "time"
    clock.advance(0.001)
    assert seqs(queue.claim("worker", limit=9)) == [1, 3]


def test_delayed_message_with_a_key_waits_for_both(bus: Bus, clock: Clock) -> None:
    """D-25, D-33."""
    queue = Queue.create(bus, "job", dedupe_window_s=0)
    later = work_headers(available_at_ms=clock.now_ms + 1000, dedupe_key="k")
    publish(bus, headers=later)
    publish(bus, headers=KEY)
    second = take(queue)
    assert second.message.seq == 2
    clock.advance(1)
    assert queue.claim("worker") == []
    queue.complete(second)
    assert seqs(queue.claim("worker")) == [1]
