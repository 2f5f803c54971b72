"""Tools forgive what clients with strict schemas must send, and say what they take."""

import re
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Inbox, Queue
from ackbus.schema.message.names import MAX_PAYLOAD_BYTES
from ackbus.server.mcp.tools.catalog import tools_of
from ackbus.server.mcp.tools.profiles import FULL

from .mcp_clients import Agent, in_process, text_of


def optional_of(tool: str) -> list[str]:
    """The names of the arguments that may be left out."""
    schema = tools_of(FULL)[tool].input_schema
    return [each for each in schema["properties"] if each not in schema.get("required", [])]


#: Values that mean something where the others are absent.
MEANT = {"": {"payload", "to", "result"}}


@pytest.mark.parametrize("nothing", [None, ""], ids=["null", "empty"])
def test_optional_arguments_that_hold_nothing_are_absent(
    bus: Bus, bus_dir: Path, nothing: Any
) -> None:
    """Clients with strict schemas send every argument of a tool."""
    Inbox(bus, "me").join()
    Queue.create(bus, "work")
    for _ in range(2):
        bus.publish("work", from_agent="a")
    bus.publish("t.request", "look", from_agent="a", to_agent="me", id="asked")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("bus_join", {}),
        ("bus_send", {"type": "t"}),
        ("bus_inbox", {}),
        ("bus_reserve", {"paths": ["a.py"]}),
        ("bus_status", {}),
        ("bus_task", {}),
        ("bus_thread", {"conversation": "asked"}),
        ("bus_search", {"words": "look"}),
        ("bus_agents", {}),
        ("bus_claim", {"queue": "work"}),
        ("bus_check", {"conversation": "asked"}),
        ("bus_request", {"type": "t.request", "to": "a", "wait_s": 0.01}),
        ("bus_ack", {"seq": 1}),
    ]

    async def act(me: Agent) -> None:
        for tool, needed in calls:
            meant = MEANT.get(nothing, set()) if nothing is not None else set()
            absent = {name: nothing for name in optional_of(tool) if name not in meant}
            plain, strict = [
                await me.try_to(tool, **{**absent_or_not, **needed})
                for absent_or_not in ({}, absent)
            ]
            assert not strict.is_error, text_of(strict)
            assert shape(strict.structured_content) == shape(plain.structured_content), tool
        token = (await me.call("bus_claim", queue="work", renew=nothing)).get("token")
        assert token is None  # both are taken
        assert [each.has_payload for each in bus.read(type="t", from_agent="me")] == [False] * 2

    in_process(bus_dir, act)


def shape(value: Any) -> Any:
    """A record without what differs from call to call."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key != "payload"}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value)


def test_values_that_mean_something_are_taken_as_they_are(bus: Bus, bus_dir: Path) -> None:
    """A body may be an empty text or 0; `to` of "" would be to all."""

    async def act(me: Agent) -> None:
        for payload in ("", 0, False, [], {}):
            await me.call("bus_send", type="t", payload=payload)
        await me.fail("bus_send", type="t", to="")
        await me.call("bus_send", type="t", payload=None, to=None)
        asked = await me.call("bus_request", type="t.request", wait_s=0)
        assert asked["state"] == "pending"

    in_process(bus_dir, act)
    bodies = [(each.payload, each.has_payload) for each in bus.read(type="t")]
    assert bodies == [("", True), (0, True), (False, True), ([], True), ({}, True), (None, False)]


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("bus_send", {"type": "t", "too": "b"}, "no argument 'too'; did you mean 'to'? It takes"),
        (
            "bus_send",
            {"type": "t", "recipient": "b"},
            "'recipient'. It takes type, payload",
        ),
        ("bus_ack", {"seq": 1, "agent": "me"}, "no argument 'agent'. It takes seq, skip."),
        ("bus_status", {"verbose": True}, "no argument 'verbose'. It takes none."),
        ("bus_inbox", {"waits": 1, "cursr": "2"}, "'waits', 'cursr'; did you mean 'wait_s'"),
    ],
)
def test_unknown_argument_is_answered_with_the_accepted_ones(
    bus: Bus, bus_dir: Path, tool: str, given: dict[str, Any], told: str
) -> None:
    assert told in in_process(bus_dir, lambda me: me.fail(tool, **given))
    assert bus.log.newest_seq() == 0


@pytest.mark.parametrize("tool", ["bus_inbox", "bus_search"])
def test_pattern_that_no_type_can_match_is_an_error(bus: Bus, bus_dir: Path, tool: str) -> None:
    given = {"words": "x"} if tool == "bus_search" else {}

    async def act(me: Agent) -> str:
        return await me.fail(tool, type="bad pattern!!", **given)

    assert "is not a type pattern" in in_process(bus_dir, act)


@pytest.mark.parametrize(
    ("outcome", "more"),
    [("done", {"result": "built"}), ("failed", {"error": "broken"}), ("released", {})],
)
def test_claim_that_is_ended_again_answers_as_the_first_time(
    bus: Bus, bus_dir: Path, outcome: str, more: dict[str, str]
) -> None:
    """The seq of the answer is a part of it; another outcome is refused."""
    Queue.create(bus, "build.request", retry="asked")
    bus.publish("build.request", from_agent="a")

    async def act(me: Agent) -> None:
        token = (await me.call("bus_claim", queue="build.request"))["token"]
        ends = [
            await me.try_to("bus_finish", token=token, outcome=outcome, **more) for _ in range(3)
        ]
        assert not ends[0].is_error, text_of(ends[0])
        assert ("answer_seq" in (ends[0].structured_content or {})) == (outcome != "released")
        for each in ends[1:]:
            assert each.structured_content == ends[0].structured_content
            assert text_of(each) == text_of(ends[0])
        other = "failed" if outcome == "done" else "done"
        assert "Stop this work" in await me.fail(
            "bus_finish", token=token, outcome=other, error="no"
        )

    in_process(bus_dir, act)


def test_errors_name_tools_and_no_commands(bus: Bus, bus_dir: Path) -> None:
    """Commands are for the owner of a project alone, who is named beside them."""
    Queue.create(bus, "work")
    bus.publish("t", 1, from_agent="a", id="taken")
    bus.limits.set_for_inbox("full", 1)
    bus.heartbeats.beat("full")
    Inbox(bus, "full").join()
    bus.publish("t", to_agent="full", from_agent="a")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("bus_ack", {"seq": 99}),
        ("bus_finish", {"token": 99}),
        ("bus_claim", {"queue": "none"}),
        ("bus_claim", {"queue": "work", "renew": 99}),
        ("bus_search", {"words": "!!"}),
        ("bus_send", {"type": "t", "in_reply_to": "99"}),
        ("bus_send", {"type": "t", "id": "taken"}),
        ("bus_send", {"type": "t", "to": "full"}),
        ("bus_send", {"type": "t", "payload": "x" * MAX_PAYLOAD_BYTES}),
        ("bus_thread", {"conversation": "99"}),
        ("bus_check", {"conversation": "99"}),
        ("bus_task", {"action": "show", "task": "none"}),
        ("bus_task", {"action": "comment", "task": "none", "line": "a:1", "text": "x"}),
        ("bus_task", {"action": "answer", "task": "none", "text": "x"}),
    ]

    async def act(me: Agent) -> None:
        for tool, given in calls:
            text = await me.fail(tool, **given)
            assert not re.search(r"'bus |bus (poll|read|ack)|--\w", text), text
            assert re.search(r"bus_|again|Nothing|[Gg]ive|Send", text), text

    in_process(bus_dir, act)
