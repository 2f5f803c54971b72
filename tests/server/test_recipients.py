"""Recipients over MCP and HTTP: several of one message, and names that no agent has."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from ackbus import Bus, Inbox

from .conftest import problem
from .mcp_clients import Agent, in_process

MISTAKES = ["everyone", "ALL", "*", "alice,bob", '["alice","all"]', ""]


@pytest.fixture
def agents(bus: Bus) -> None:
    for name in ("alice", "bob", "carol"):
        bus.heartbeats.beat(name)


# MCP -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("agents")
def test_tool_sends_to_several(bus: Bus, bus_dir: Path) -> None:
    """Issue 19, 6: the seq of each is in both forms of the result."""

    async def act(me: Agent) -> None:
        sent = await me.call("bus_send", type="task", payload="x", to=["alice", "bob"], id="once")
        assert (sent["seqs"], sent["seq"]) == ({"alice": 1, "bob": 2}, 1)
        assert (sent["id"], sent.get("conversation")) == ("once", None)
        again = await me.read("bus_send", type="task", payload="x", to=["alice", "bob"], id="once")
        assert again == "was sent before: seq 1, to alice; seq 2, to bob, id once."
        one = await me.call("bus_send", type="task", payload="x", to=["carol"])
        assert (one["to"], one["seq"], one.get("seqs")) == ("carol", 3, None)
        await me.call("bus_send", type="task.done", in_reply_to="3", to=["carol", "bob"])

    in_process(bus_dir, act)
    assert [(m.to_agent, m.conversation) for m in bus.read(conversation="once")] == [
        ("alice", "once"),
        ("bob", "once"),
    ]
    assert len({m.conversation for m in bus.read(after_seq=2)}) == 1


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("tool", ["bus_send", "bus_request"])
def test_tool_refuses_a_name_that_means_several(
    bus: Bus, bus_dir: Path, tool: str, name: str
) -> None:
    """Issue 19, 6: an empty one, too: taken for an absent one it would go to everyone."""

    async def act(me: Agent) -> str:
        return await me.fail(tool, type="t.request", to=name)

    said = in_process(bus_dir, act)
    assert "\n" not in said
    assert "name no recipient" in said or "`to` out for everyone; name several as a list" in said
    assert bus.log.newest_seq() == 0


@pytest.mark.parametrize("to", [0, 5, True, {"name": "alice"}, ["alice", 5], [["alice"]]])
@pytest.mark.parametrize("tool", ["bus_send", "bus_request"])
def test_tool_takes_no_number_for_a_name(bus: Bus, bus_dir: Path, tool: str, to: object) -> None:
    """No agent would read the inbox of 0."""
    said = in_process(bus_dir, lambda me: me.fail(tool, type="t.request", to=to))
    wrong = re.search(
        r"to(\.\d)?: (it must be (a list or text|text|a name)|a request waits for one)", said
    )
    assert wrong is not None, said
    assert bus.log.newest_seq() == 0


@pytest.mark.usefixtures("agents")
def test_request_tool_says_how_several_are_asked(bus: Bus, bus_dir: Path) -> None:
    """Issue 19, 6 and 7: and each answer is found by the seq of its request."""

    async def act(me: Agent) -> None:
        said = await me.fail("bus_request", type="t.request", to=["alice", "bob"])
        assert "bus_send asks several, bus_check(seq) each" in said
        sent = await me.call("bus_send", type="t.request", to=["alice", "bob"])
        bus.publish("mine", from_agent="bob", to_agent="me", in_reply_to=bus.get(2).id)  # type: ignore[union-attr]
        states = [
            (await me.call("bus_check", conversation=str(seq)))["state"]
            for seq in sent["seqs"].values()
        ]
        assert states == ["pending", "answered"]

    in_process(bus_dir, act)


@pytest.mark.usefixtures("agents")
def test_tool_names_who_is_there_beside_near_names(bus: Bus, bus_dir: Path) -> None:
    """Issue 19, 6: the message is stored, with a warning of a bounded length."""
    for number in range(9):
        bus.heartbeats.beat(f"helper-{number}")

    async def act(me: Agent) -> dict[str, Any]:
        return await me.call("bus_send", type="t", to="alicf")

    sent = in_process(bus_dir, act)
    assert sent["warning"] == (
        "the bus has never seen an agent 'alicf'; did you mean alice?; alive now: alice, bob,"
        " carol, helper-0, helper-1 and 7 more"
    )
    assert len(Inbox(bus, "alicf").poll()) == 1


def test_tool_says_that_nobody_is_there(bus: Bus, bus_dir: Path) -> None:
    said = in_process(bus_dir, lambda me: me.read("bus_send", type="t", to="ann"))
    assert "never seen an agent 'ann'; no other agent is alive" in said


# HTTP ----------------------------------------------------------------------------------------


def test_post_to_several(client: httpx.Client, bus: Bus) -> None:
    """Issue 19, 6: a receipt for each, in order; repeating it by its id stores nothing."""
    message = {"type": "task", "from": "lead", "to": ["alice", "bob"], "id": "once"}
    first, again = (client.post("/v1/messages", json=message) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    receipts = first.json()["receipts"]
    assert [(each["seq"], each["id"]) for each in receipts] == [(1, "once"), (2, "once:bob")]
    assert "never seen an agent 'alice'" in receipts[0]["warning"]
    assert [each["duplicate"] for each in again.json()["receipts"]] == [True, True]
    one = client.post("/v1/messages", json=message | {"to": ["carol"], "id": "one"})
    assert [each["id"] for each in one.json()["receipts"]] == ["one"]
    batch = {"messages": [message | {"id": "b"}, {"type": "t", "from": "lead"}]}
    seqs = [
        each["seq"] for each in client.post("/v1/messages/batch", json=batch).json()["receipts"]
    ]
    assert seqs == [4, 5, 6]
    assert [each.to_agent for each in bus.read(after_seq=3)] == ["alice", "bob", None]


def test_replies_over_http_may_go_to_several(client: httpx.Client, bus: Bus) -> None:
    asked = bus.publish("t.request", from_agent="lead")
    reply = {"type": "t.done", "to": ["lead", "bob"]}
    done = client.post("/v1/inboxes/alice/complete", json={"seq": asked.seq, "replies": [reply]})
    assert [each["seq"] for each in done.json()["receipts"]] == [2, 3]
    assert {each.conversation for each in bus.read()} == {asked.id}


@pytest.mark.parametrize("name", [*MISTAKES, ["alice", ""], [], ["everyone"]], ids=str)
def test_every_path_refuses_a_name_that_means_several(
    one_client: httpx.Client, one_bus: Bus, name: object
) -> None:
    """Issue 19, 6: before anything is stored."""
    before = one_bus.publish("t.request", from_agent="lead").seq
    message = {"type": "t.request", "from": "lead", "to": name}
    doors = {
        "/v1/messages": message,
        "/v1/messages/batch": {"messages": [{"type": "t", "from": "lead"}, message]},
        "/v1/inboxes/alice/complete": {"seq": before, "replies": [{"type": "t", "to": name}]},
    }
    if isinstance(name, str):
        doors["/v1/requests"] = message
        doors["/v1/sessions/s/message"] = {"text": "hi", "to": name}
    for path, body in doors.items():
        refused = one_client.post(path, json=body)
        assert refused.status_code in (409, 422), path
        detail = problem(refused, refused.status_code, refused.json()["type"].split(":")[-1])
        assert "everyone" in detail or "one by one" in detail, (path, detail)
    assert one_bus.log.newest_seq() == before


def test_request_over_http_goes_to_one(one_client: httpx.Client, one_bus: Bus) -> None:
    asked = {"type": "t.request", "from": "lead", "to": ["alice", "bob"]}
    before = one_bus.log.newest_seq()
    said = problem(one_client.post("/v1/requests", json=asked), 422, "invalid-input")
    assert "waits for one answer" in said
    for wrong in (7, {"alice": 1}, ["alice", 7]):
        said = problem(
            one_client.post("/v1/messages", json=asked | {"to": wrong}), 422, "invalid-input"
        )
        assert said == "body.to: it must be a name, or a list of names"
    assert one_bus.log.newest_seq() == before
