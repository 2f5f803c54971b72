"""Notices: each conversation once, over all processes, and at a cost that does not grow."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft
from ackbus.schema.queries import file_of
from ackbus.subscribers.overview.trace import Notices

from ..programs import held_write_lock, running_program

#: Looks for news on the word `go`, and prints the conversations that it was to tell of.
NOTIFIER = """
import json, sys
from ackbus import Bus
from ackbus.subscribers.overview.trace import Notices
with Bus.open(sys.argv[1]) as bus:
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([m.conversation for m in Notices(bus).news(first_since_ms=0)]), flush=True)
"""

#: On the word `go` publishes four requests, each with its answer.
ASKER = """
import sys
from ackbus import Bus
with Bus.open(sys.argv[1]) as bus:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(4):
        asked = bus.publish("t.request", from_agent="a")
        bus.publish("t.done", from_agent="b", in_reply_to=asked.id)
    print("done", flush=True)
"""


def told(bus: Bus, notices: Notices | None = None) -> list[str]:
    """The conversations of which one look tells."""
    found = (notices or Notices(bus)).news(first_since_ms=0)
    return [message.conversation for message in found]


def ask(bus: Bus, **fields: Any) -> str:
    return bus.publish("t.request", from_agent="a", **fields).id


def answer(bus: Bus, conversation: str, type: str = "t.done") -> None:
    bus.publish(type, from_agent="b", correlation_id=conversation)


def steps(bus: Bus, notices: Notices) -> int:
    """The work of SQLite for one look that finds nothing."""
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    file_of(bus).connection.set_progress_handler(step, 1)
    try:
        assert told(bus, notices) == []
    finally:
        file_of(bus).connection.set_progress_handler(None)
    return count


@pytest.mark.parametrize("type", ["t.done", "t.failed", "t.request.timed_out"])
def test_answer_is_told_of_once(type: str, bus: Bus) -> None:
    """P-77: by any number of notifiers."""
    notices = Notices(bus)
    root = ask(bus)
    assert told(bus, notices) == []
    answer(bus, root, type)
    assert told(bus, notices) == [root]
    assert told(bus, notices) == told(bus) == []
    answer(bus, root)
    assert told(bus, notices) == []


def test_second_request_in_a_conversation_adds_nothing(bus: Bus) -> None:
    """P-76: one notice for each conversation."""
    root = ask(bus)
    ask(bus, in_reply_to=root)
    answer(bus, root)
    answer(bus, root)
    assert told(bus) == [root]
    assert file_of(bus).rows("SELECT conversation, seq FROM notices") == [(root, 3)]


def test_only_answers_to_requests_are_news(bus: Bus) -> None:
    """P-76: x.done answers x.request, in its conversation, after it."""
    bus.publish("t.done", from_agent="b")
    root = ask(bus)
    answer(bus, root, "other.done")
    answer(bus, root, "t.progress")
    answer(bus, root, "t.request.failed")
    answer(bus, "elsewhere")
    assert told(bus) == []
    answer(bus, "elsewhere")
    ask(bus, correlation_id="elsewhere")
    notices = Notices(bus)
    assert told(bus, notices) == []
    answer(bus, "elsewhere")
    answer(bus, root)
    assert told(bus, notices) == ["elsewhere", root]


def test_state_is_in_the_bus_and_not_in_a_file(bus: Bus, project: Path, bus_dir: Path) -> None:
    """P-75, P-25: unlike upstream, a request leaves no tracking record; the log is enough."""
    before = {path.name for folder in (project, bus_dir) for path in folder.iterdir()}
    root = ask(bus)
    answer(bus, root)
    assert file_of(bus).value("SELECT count(*) FROM notices") == 0
    assert told(bus) == [root]
    after = {path.name for folder in (project, bus_dir) for path in folder.iterdir()}
    assert after - before <= {"doorbell", "write.lock"}


@pytest.mark.slow
def test_requests_of_processes_at_once_are_all_told_of(bus: Bus, bus_dir: Path) -> None:
    """P-93: upstream they overwrite each other's records; here there is nothing to overwrite."""
    with ExitStack() as stack:
        askers = [stack.enter_context(running_program(ASKER, bus_dir)) for _ in range(5)]
        for asker in askers:
            assert asker.stdout is not None
            assert asker.stdout.readline() == "ready\n"
        for asker in askers:
            assert asker.stdin is not None
            asker.stdin.write("go\n")
            asker.stdin.flush()
        for asker in askers:
            assert asker.stdout is not None
            assert asker.stdout.readline() == "done\n"
    assert sorted(told(bus)) == sorted(message.id for message in bus.read(type="t.request"))
    assert file_of(bus).value("SELECT count(*) FROM notices") == 20


@pytest.mark.slow
def test_notifiers_at_once_tell_of_each_conversation_once(bus: Bus, bus_dir: Path) -> None:
    """P-77: over all processes."""
    roots = [ask(bus) for _ in range(100)]
    for root in roots:
        answer(bus, root)
    with ExitStack() as stack:
        notifiers = [stack.enter_context(running_program(NOTIFIER, bus_dir)) for _ in range(4)]
        for notifier in notifiers:
            assert notifier.stdout is not None
            assert notifier.stdout.readline() == "ready\n"
        for notifier in notifiers:
            assert notifier.stdin is not None
            notifier.stdin.write("go\n")
            notifier.stdin.flush()
        found = []
        for notifier in notifiers:
            assert notifier.stdout is not None
            found += json.loads(notifier.stdout.readline())
    assert sorted(found) == sorted(roots)


def test_first_look_at_an_old_bus_does_not_flood(bus_dir: Path) -> None:
    """Only answers younger than asked for; later looks tell of all that came since."""
    now_ms = 1_000_000
    with Bus.open(bus_dir, clock=lambda: now_ms) as bus:
        old, new = ask(bus), ask(bus)
        answer(bus, old)
        now_ms = 9_000_000
        answer(bus, new)
        notices = Notices(bus)
        found = [m.conversation for m in notices.news(first_since_ms=8_000_000)]
        assert found == [new]
        late = ask(bus)
        answer(bus, late)
        now_ms = 99_000_000
        found = [m.conversation for m in notices.news(first_since_ms=98_000_000)]
        assert found == [late]


def test_notifier_that_dies_tells_nothing_twice(bus: Bus) -> None:
    """P-77: noted before it is told, so at most once; the others are told by the next one."""
    roots = [ask(bus) for _ in range(3)]
    for root in roots:
        answer(bus, root)
    looking = Notices(bus).news(first_since_ms=0)
    assert next(looking).conversation == roots[0]
    del looking
    assert told(bus) == roots[1:]
    assert told(bus) == []


def test_look_costs_the_same_however_long_the_log_is(bus: Bus) -> None:
    """The position is stored: what was looked at is not looked at again."""
    notices = Notices(bus)
    ask(bus)
    assert told(bus, notices) == []
    bus.publish("noise", from_agent="x")
    few = steps(bus, notices)
    bus.publish_many([Draft("t.done", from_agent="x", correlation_id="run")] * 3000)
    assert told(bus, notices) == []
    bus.publish("noise", from_agent="x")
    assert steps(bus, notices) < 1.5 * few
    assert notices.position == bus.log.newest_seq()


def test_long_conversation_without_a_request_is_looked_at_once(bus: Bus) -> None:
    """A run whose every task reports under one conversation must not cost its square."""
    notices = Notices(bus)
    costs = []
    for _ in range(2):
        bus.publish_many([Draft("t.done", from_agent="x", correlation_id="run")] * 1000)
        costs.append(steps(bus, notices))
    assert costs[1] < 1.5 * costs[0]


def test_look_without_news_waits_for_no_writer(bus_dir: Path) -> None:
    """P-81: notices are in nobody's way, and nobody in theirs, while there is nothing to note."""
    with Bus.open(bus_dir, write_timeout_s=0.05) as bus:
        ask(bus)
        notices = Notices(bus)
        assert told(bus, notices) == []
        with held_write_lock(bus_dir):
            assert told(bus, notices) == []
