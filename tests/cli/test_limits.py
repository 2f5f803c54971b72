"""bus limit list, set, clear, and publishing over a limit."""

import json
import time

import pytest

from ackbus import Bus
from ackbus.subscribers.queues.queue import Queue

from ..conftest import RunBus
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")

PUBLISH = ("publish", "review", "--from", "lead")


def test_full_queue_refuses_until_there_is_room(run_bus: RunBus, bus: Bus) -> None:
    """Q-04: exit code 3, one clear line, and nothing stored; what waits already counts."""
    queue = Queue.create(bus, "reviews", "review")
    bus.publish("review", from_agent="lead")
    done = run_bus("limit", "set", "2", "--queue", "reviews")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert run_bus(*PUBLISH).code == 0
    assert_error(run_bus(*PUBLISH), 3, "queue 'reviews' is full: 2 wait there", "--wait")
    assert_error(run_bus(*PUBLISH, "--wait", "50ms"), 3, "queue 'reviews' is full")
    assert bus.log.newest_seq() == 2
    assert run_bus("publish", "other", "--from", "lead").code == 0
    queue.claim("worker")
    assert run_bus(*PUBLISH).code == 0


def test_full_inbox_refuses_what_is_for_it_and_no_broadcast(run_bus: RunBus, bus: Bus) -> None:
    """Q-04: one slow agent must not silence everybody."""
    record = json.loads(run_bus("limit", "set", "1", "--inbox", "worker-1", "--json").out)
    assert record == {"kind": "inbox", "name": "worker-1", "max_waiting": 1, "waiting": 0}
    bus.heartbeats.beat("worker-1", "idle")
    assert run_bus(*PUBLISH, "--to", "worker-1").code == 0
    assert_error(run_bus(*PUBLISH, "--to", "worker-1"), 3, "inbox 'worker-1' is full")
    assert run_bus(*PUBLISH).code == 0
    assert run_bus("ack", "worker-1", "2").code == 0
    assert run_bus(*PUBLISH, "--to", "worker-1").code == 0


def test_publisher_that_waits_gets_the_room_that_is_made(
    run_bus: RunBus, start_bus: StartBus, bus: Bus
) -> None:
    """Q-04: or waits up to a bound, as it chose."""
    queue = Queue.create(bus, "review")
    bus.publish("review", from_agent="lead")
    assert run_bus("limit", "set", "1", "--queue", "review").code == 0
    waiting = start_bus(*PUBLISH, "--wait", "20s", "--json")
    time.sleep(0.3)  # most likely it waits by now; it must be stored either way
    assert bus.log.newest_seq() == 1
    queue.claim("worker")
    out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, json.loads(out)["seq"]) == (0, 2)


def test_limits_are_listed_and_cleared(run_bus: RunBus, bus: Bus) -> None:
    """Q-04: with what waits there now."""
    assert (run_bus("limit", "list").code, run_bus("limit", "list").out) == (4, "")
    Queue.create(bus, "review")
    bus.publish("review", from_agent="lead")
    assert run_bus("limit", "set", "5", "--queue", "review").code == 0
    assert run_bus("limit", "set", "6", "--inbox", "me").code == 0
    assert run_bus("limit", "set", "7", "--inbox", "me").code == 0
    rows = [line.split() for line in run_bus("limit", "list").out.splitlines()]
    assert rows == [
        ["kind", "name", "max", "waiting", "waiting"],
        ["inbox", "me", "7", "0"],
        ["queue", "review", "5", "1"],
    ]
    assert run_bus("limit", "clear", "--inbox", "me").code == 0
    (left,) = run_bus("limit", "list", "--json").out.splitlines()
    assert json.loads(left)["name"] == "review"
    assert_error(run_bus("limit", "clear", "--inbox", "me"), 4, "no limit", "bus limit list")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("set", "5"), 2, ["--queue or --inbox"]),
        (("set", "5", "--queue", "q", "--inbox", "a"), 2, ["--queue or --inbox"]),
        (("set", "0", "--inbox", "a"), 2, ["at least 1", "0"]),
        (("set", "x", "--inbox", "a"), 2, ["N must be a whole number"]),
        (("set", "5", "--inbox", "a\nb"), 2, ["agent name"]),
        (("set", "5", "--queue", "ghost"), 4, ["no queue 'ghost'"]),
        (("clear",), 2, ["--queue or --inbox"]),
        (("clear", "--queue", "ghost"), 4, ["no queue"]),
    ],
)
def test_bad_input_sets_no_limit(
    arguments: tuple[str, ...], code: int, words: list[str], run_bus: RunBus, bus: Bus
) -> None:
    assert_error(run_bus("limit", *arguments), code, *words)
    assert bus.limits.list() == []
