"""Issue 32, item 6: each door says so when an agent answers a request for the second time."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from ackbus import Bus, Draft, Inbox, Session
from ackbus.errors import AnsweredAgainWarning
from ackbus.subscribers.inboxes.session_names import SessionNames
from ackbus.subscribers.jobs.claims import Claim
from ackbus.subscribers.queues.queue import Queue

from ..conftest import RunBus
from .mcp_clients import Agent, in_process

REQUEST, TYPE = "x.request", "x.done"
WARNING = "message 1 has an answer of 'ann' already, 2"
ANSWER: dict[str, Any] = {"from_agent": "ann", "to_agent": "lead", "in_reply_to": "r"}
OVER_HTTP = {"type": TYPE, "from": "ann", "to": "lead", "in_reply_to": "r"}


@pytest.fixture
def claim(bus: Bus) -> Claim:
    """The job of a request that its worker has answered by mail."""
    for name in ("ann", "lead"):
        bus.heartbeats.beat(name)
    queue = Queue.create(bus, REQUEST, REQUEST, addressed="ann")
    bus.publish(REQUEST, 1, from_agent="lead", to_agent="ann", id="r")
    bus.publish(TYPE, 1, **ANSWER)
    (claim,) = queue.claim("ann")
    return claim


def complete(bus: Bus) -> None:
    request = bus.get("r")
    assert request is not None
    Inbox(bus, "ann").complete(request, Draft(TYPE, 2, **ANSWER))


def reply(bus: Bus) -> None:
    request = bus.get("r")
    assert request is not None
    Session(bus, "ann").reply(request, TYPE, 2)


BY_LIBRARY: dict[str, Callable[[Bus, Claim], object]] = {
    "publish": lambda bus, claim: bus.publish(TYPE, 2, **ANSWER),
    "publish_many": lambda bus, claim: bus.publish_many([Draft(TYPE, 2, **ANSWER)]),
    "another form": lambda bus, claim: bus.publish("opinion", 2, **ANSWER | {"to_agent": None}),
    "a failure": lambda bus, claim: bus.publish("x.failed", 2, **ANSWER),
    "reply": lambda bus, claim: reply(bus),
    "complete": lambda bus, claim: complete(bus),
    "complete a claim": lambda bus, claim: Queue.open(bus, REQUEST).complete(
        claim, Draft(TYPE, 2, **ANSWER)
    ),
}


@pytest.mark.parametrize("door", BY_LIBRARY)
def test_library_warns(bus: Bus, claim: Claim, door: str) -> None:
    """By a warning of Python, as of an unknown recipient; the answer is stored."""
    with pytest.warns(AnsweredAgainWarning) as issued:
        BY_LIBRARY[door](bus, claim)
    assert [str(each.message) for each in issued] == [WARNING]
    assert bus.log.newest_seq() == 3


def test_session_of_the_agent_that_was_asked_is_warned_of(bus: Bus, claim: Claim) -> None:
    SessionNames.of(bus).take("ann", "one")
    SessionNames.of(bus).take("ann", "two")
    with pytest.warns(AnsweredAgainWarning, match="answer of 'ann' already, 2"):
        bus.publish(TYPE, 2, **ANSWER | {"from_agent": "ann-2"})


@pytest.mark.parametrize(
    "other",
    [
        {"type": "x.progress"},
        {"type": "more.request"},
        {"from_agent": "lead"},
        {"to_agent": "ann"},
        {"in_reply_to": None},
    ],
)
def test_what_is_no_second_answer_is_not(bus: Bus, claim: Claim, other: dict[str, Any]) -> None:
    """Warnings are errors here."""
    bus.publish(payload=2, **({"type": TYPE} | ANSWER | other))
    first = bus.get(2)
    assert first is not None
    bus.publish(TYPE, 1, **ANSWER, id=first.id)


@pytest.mark.parametrize("form", ["one", "many"])
def test_commands_warn(bus: Bus, claim: Claim, run_bus: RunBus, form: str) -> None:
    if form == "one":
        words = ("--from", "ann", "--to", "lead", "--reply-to", "1")
        done = run_bus("publish", TYPE, "2", *words)
    else:
        line = {"type": TYPE, "from": "ann", "to": "lead", "in_reply_to": "r", "payload": 2}
        done = run_bus("publish", "--jsonl", "-", stdin=f"{json.dumps(line)}\n" * 2)
    assert (done.code, done.err) == (0, f"bus: warning: {WARNING}\n")


def test_http_warns(bus: Bus, claim: Claim, client: httpx.Client) -> None:
    """In the receipt, by each operation that answers."""
    one = client.post("/v1/messages", json=OVER_HTTP).json()
    many = client.post("/v1/messages/batch", json={"messages": [OVER_HTTP]}).json()
    replies = {"replies": [{"type": TYPE, "payload": 2}]}
    ended = client.post(f"/v1/claims/{claim.token}/complete", json=replies).json()
    receipts = [one, *many["receipts"], *ended["receipts"]]
    assert [each["warning"] for each in receipts] == [WARNING] * 3


def test_tool_that_ends_a_claim_warns_once(bus_dir: Path, bus: Bus, claim: Claim) -> None:
    """Its repeat has the same answer, which is no further one."""

    async def act(ann: Agent) -> None:
        ended = await ann.call("bus_finish", token=claim.token, result=2)
        again = await ann.call("bus_finish", token=claim.token, result=2)
        assert (ended["warning"], ended["answer_seq"]) == (WARNING, 3)
        assert (again.get("warning"), again["answer_seq"]) == (None, 3)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnsweredAgainWarning)  # as the server of tools does
        in_process(bus_dir, act, name="ann")
