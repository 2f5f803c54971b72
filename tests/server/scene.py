"""A small project at work on a bus: what the page is looked at with."""

import os
from collections.abc import Mapping

from ackbus import Bus, Draft, Queue
from ackbus.subscribers.inboxes.inbox import Inbox

#: Who says what to whom in the conversation that is drawn: from, to, type, payload.
CONVERSATION = (
    ("lead", None, "plan.proposed", {"goal": "Move the store to schema 7", "steps": 4}),
    ("reviewer", "lead", "plan.accepted", {"note": "Keep the old column until all have upgraded."}),
    ("lead", "coder", "code.request", {"title": "Write migration 0007", "files": ["migrations/"]}),
    ("coder", "lead", "code.accepted", {"eta_min": 20}),
    ("coder", "tester", "test.request", {"suite": "migration", "commit": "4e1c2a9"}),
    ("tester", "coder", "test.failed", {"failed": 2, "first": "upgrade of an empty file"}),
    ("coder", "coder", "note", {"text": "An empty file has no row of meta; look for that first."}),
    ("coder", "tester", "test.request", {"suite": "migration", "commit": "9b07d13"}),
    ("tester", "coder", "test.done", {"passed": 148}),
    ("coder", "lead", "code.done", {"commit": "9b07d13", "lines": {"added": 64, "removed": 11}}),
)


#: How long ago the project began, and the time from one of these messages to the next, in ms.
BEGAN_MS, CHATTER_MS, STEP_MS = 3_600_000, 35_000, 97_000


def fill(bus: Bus) -> str:
    """Fill the bus with a while of work; returns the id of the conversation."""
    _chatter(bus)
    conversation = _converse(bus)
    _work(bus)
    _hold(bus)
    return conversation


def _converse(bus: Bus) -> str:
    last: dict[str, str] = {}
    first: str | None = None
    began_ms = bus.now_ms() - len(CONVERSATION) * STEP_MS
    for number, (sender, recipient, type, payload) in enumerate(CONVERSATION):
        ts_ms = began_ms + number * STEP_MS
        id = _say(bus, sender, recipient, type, payload, first, last.get(sender), ts_ms)
        first = first or id
        if recipient is not None:
            last[recipient] = id
    assert first is not None
    return first


def _say(
    bus: Bus,
    sender: str,
    recipient: str | None,
    type: str,
    payload: Mapping[str, object],
    conversation: str | None,
    answers: str | None,
    ts_ms: int | None = None,
) -> str:
    draft = Draft(
        type,
        payload,
        from_agent=sender,
        to_agent=recipient,
        correlation_id=conversation,
        in_reply_to=answers if type.endswith((".done", ".failed", ".accepted")) else None,
        ts_ms=ts_ms,
    )
    (receipt,) = bus.publish_many([draft])
    return receipt.id


def _chatter(bus: Bus) -> None:
    areas = ("parser", "store", "cli", "docs", "search")
    began_ms = bus.now_ms() - BEGAN_MS
    for number in range(60):
        area = areas[number % len(areas)]
        _say(
            bus,
            ("coder", "tester", "reviewer", "docs-writer")[number % 4],
            None if number % 7 == 0 else "lead",
            ("state_change", "review.comment", "build.done", "note")[number % 4],
            {"area": area, "text": f"{area}: step {number} is through", "ms": 40 + number * 7 % 90},
            None,
            None,
            began_ms + number * CHATTER_MS,
        )


def _work(bus: Bus) -> None:
    queue = Queue.create(
        bus, "review", "review.request", addressed="reviewer", max_attempts=2, backoff_s=0
    )
    for number in range(9):
        payload = {
            "commit": f"{0x4E1C2A9 * (number + 3) % 0xFFFFFFF:07x}",
            "paths": ["bus/log/log.py"],
        }
        _say(bus, "coder", "reviewer", "review.request", payload, None, None)
    for claim in queue.claim("reviewer-1", limit=4):
        queue.complete(claim, result={"remarks": 0})
    for _ in range(2):
        for claim in queue.claim("reviewer-2", limit=2):
            queue.fail(claim, "the model refused: context too long")
    queue.claim("reviewer-1", limit=1)
    Queue.create(bus, "build", "build.request")
    for number in range(3):
        _say(bus, "lead", None, "build.request", {"target": "wheel", "try": number}, None, None)
    Queue.open(bus, "build").claim("builder-1")


def _hold(bus: Bus) -> None:
    bus.leases.acquire("release", "lead", lease_s=600)
    bus.leases.acquire("database/migration", "coder", lease_s=120)
    bus.reservations.reserve(["schema/**", "tests/migration/**"], "coder", reason="schema 7")
    bus.reservations.reserve(["docs/**"], "docs-writer", shared=True)
    beats = (("lead", "working", "plan the release", 0.25), ("coder", "working", "schema 7", 0.8))
    for agent, status, task, progress in beats:
        bus.heartbeats.beat(agent, status, task=task, progress=progress, pid=os.getpid())
    bus.heartbeats.beat("tester", "idle", pid=os.getpid())
    box = Inbox(bus, "lead", max_deliveries=1)
    box.fail(box.poll(1)[0], "no handler knows this type")
