"""Issue 32, 6 and 10: what an agent has answered is known; its questions have a priority."""

from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus

from .mcp_clients import Agent, in_process

ANSWER = {"type": "review.done", "payload": "fine", "in_reply_to": "1"}


@pytest.fixture
def asked(bus: Bus) -> Bus:
    """A bus with a request to `me`, the first message."""
    for name in ("me", "lead", "ann"):
        bus.heartbeats.beat(name)
    bus.publish("review.request", "a.py?", from_agent="lead", to_agent="me")
    return bus


def test_mail_says_how_a_request_was_answered(asked: Bus, bus_dir: Path) -> None:
    async def act(me: Agent) -> None:
        (mail,) = (await me.call("bus_inbox"))["messages"]
        assert mail["answer"].startswith('bus_send(type="review.done", in_reply_to=1)')
        await me.call("bus_send", **ANSWER)
        (mail,) = (await me.call("bus_inbox"))["messages"]
        assert mail["answer"] == "you answered this as [2]"
        text = await me.read("bus_inbox")
        assert "\n| a.py?\nNote: you answered this as [2]." in text
        assert "Answer it by" not in text

    in_process(bus_dir, act)


@pytest.mark.parametrize("type", ["review.done", "review.failed", "opinion"])
@pytest.mark.parametrize("first", ["review.done", "opinion"])
def test_second_answer_needs_again(asked: Bus, bus_dir: Path, first: str, type: str) -> None:
    """In any words; nothing is stored without it, and bus_check names both."""

    async def act(me: Agent) -> None:
        await me.call("bus_send", **ANSWER | {"type": first})
        for more in ({}, {"id": "m-3"}, {"again": False}, {"to": ["lead", "ann"]}):
            refused = await me.fail("bus_send", **ANSWER | {"type": type} | more)
            assert "nothing was sent: message 1 has an answer of 'me' already, 2" in refused
            assert "bus_ack(seq=1)" in refused
            assert "again=true" in refused
        assert asked.log.newest_seq() == 2
        sent = await me.call("bus_send", **ANSWER, again=True)
        assert sent["seq"] == 3
        warning = (await me.call("bus_check", conversation="1"))["warning"]
        assert warning == "it was answered twice: all answers are [2, 3]"

    in_process(bus_dir, act)


@pytest.mark.parametrize(
    "more",
    [
        {"type": "review.progress"},  # news, before and after
        {"type": "lint.request", "to": "ann"},  # a question on the way
        {"type": "note", "to": "ann"},  # words to somebody else
        {"id": "m-2"},  # the answer itself, once more
    ],
)
def test_what_is_no_second_answer_is_sent(asked: Bus, bus_dir: Path, more: dict[str, Any]) -> None:
    async def act(me: Agent) -> None:
        await me.call("bus_send", **ANSWER, id="m-2")
        sent = await me.call("bus_send", **ANSWER | more)
        assert sent["seq"] == (2 if more == {"id": "m-2"} else 3)

    in_process(bus_dir, act)


def test_answers_of_others_are_none_of_its_own(asked: Bus, bus_dir: Path) -> None:
    """To a broadcast each agent answers for itself."""
    asked.publish("vote.request", from_agent="lead", id="all")
    asked.publish("vote.done", 1, from_agent="ann", to_agent="lead", in_reply_to="all")
    vote = {"type": "vote.done", "payload": 2, "in_reply_to": "all"}
    assert in_process(bus_dir, lambda me: me.call("bus_send", **vote))["seq"] == 4
    in_process(bus_dir, lambda me: me.fail("bus_send", **vote))


@pytest.mark.parametrize(("priority", "stored"), [("interactive", 0), ("normal", 1), (None, 1)])
def test_request_has_a_priority(
    asked: Bus, bus_dir: Path, priority: str | None, stored: int
) -> None:
    request = {"type": "lint.request", "to": "ann", "wait_s": 0, "priority": priority}
    in_process(bus_dir, lambda me: me.call("bus_request", **request))
    assert [each.priority for each in asked.read(type="lint.request")] == [stored]
    in_process(bus_dir, lambda me: me.fail("bus_request", **request | {"priority": "urgent"}))
