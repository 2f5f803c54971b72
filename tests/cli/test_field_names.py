"""The fields of what commands print as JSON have the names that other doors give them."""

import json
from collections.abc import Iterator

import pytest

from ackbus import Bus, Queue
from ackbus.tasks.steps.tasks import Tasks

from ..conftest import RunBus
from ..field_names import SECOND_NAMES
from ..tasks.conftest import new_task

pytestmark = pytest.mark.slow

COMMANDS = [
    *("read", "tail", "show r", "poll w", "parked list", "search disk", "log"),
    *("request t.request x --from a --timeout 10ms", "check r", "trace r", "inspect r"),
    *("publish t.x --from a", "ack w 1", "receipts 1", "inbox w"),
    *("queue list", "queue show q", "job list", "job show 1", "dead list", "stats"),
    *("lease list", "reservations", "agents list", "limit list", "token list", "segments"),
    *("task list", "task show fix-login", "task board", "board"),
]


def objects(value: object) -> Iterator[dict[str, object]]:
    """The objects in a value, but for what senders wrote."""
    if isinstance(value, dict):
        yield value
        for name, inner in value.items():
            if name not in ("payload", "headers"):
                yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def test_commands_print_no_second_name(run_bus: RunBus, bus: Bus) -> None:
    queue = Queue.create(bus, "q", "work.request")
    bus.publish("work.request", "disk", from_agent="a", id="r")
    (claim,) = queue.claim("w")
    queue.complete(claim, result={"ok": 1})
    bus.publish("work.done", "yes", from_agent="w", in_reply_to="r")
    bus.publish("work.request", "disk", from_agent="a")
    queue.claim("w")
    bus.leases.acquire("deploy", "a")
    bus.reservations.reserve(["src"], "a")
    bus.heartbeats.beat("w")
    Tasks(bus).assign(new_task(), agent="lead")
    printed = 0
    for command in COMMANDS:
        ended = run_bus(*command.split(), "--json")
        for line in (ended.out + ended.err).splitlines():
            if not line.startswith("{"):
                continue
            for each in objects(json.loads(line)):
                printed += 1
                assert each.keys() & SECOND_NAMES.keys() == set(), (command, each)
                is_line = {"ts", "from"} <= each.keys()  # of bus.jsonl, with its own word
                assert is_line or "correlation_id" not in each, (command, each)
    assert printed > 60
