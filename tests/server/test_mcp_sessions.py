"""Issue 19, item 3: over HTTP, a client with a session is an agent of its own."""

import asyncio
import os
from itertools import count
from pathlib import Path

import httpx
import pytest

from ackbus import Bus, Inbox
from ackbus.bus.heartbeats import Liveness
from ackbus.schema.process_table import process
from ackbus.server.mcp.session import BusHandle, McpSession
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..conftest import wait_until
from .conftest import scrape
from .mcp_clients import agent_at
from .stored_answers import hello


@pytest.mark.slow
def test_clients_with_sessions_under_one_name_are_two_agents(
    bus: Bus, client: httpx.Client
) -> None:
    """One that ends frees its name at once; one without a session acts under the base name."""
    url = f"{client.base_url}/mcp?profile=full&agent=reviewer"

    async def act() -> None:
        async with agent_at(url, mode="legacy") as second:
            async with agent_at(url, mode="legacy") as first:
                assert (await first.call("bus_join"))["agent"] == "reviewer"
                assert (await second.call("bus_join"))["agent"] == "reviewer-2"
                assert (await first.call("bus_reserve", paths=["a.py"]))["granted"] is True
                assert "reviewer" in await second.fail("bus_reserve", paths=["a.py"])
                bus.publish("t", "hi", from_agent="lead", to_agent="reviewer")
                assert (await second.call("bus_inbox"))["messages"] == []
                async with agent_at(url) as other:
                    assert (await other.call("bus_status"))["agent"] == "reviewer"
            (mail,) = (await second.call("bus_inbox"))["messages"]
            await second.call("bus_ack", seq=mail["seq"])
            assert Inbox(bus, "reviewer").position == mail["seq"]
            async with agent_at(url, mode="legacy") as third:
                assert (await third.call("bus_status"))["agent"] == "reviewer-3"

    asyncio.run(act())
    assert SessionNames.of(bus).running("reviewer") == ()
    beats = {each.agent: each.liveness for each in bus.heartbeats.list()}
    assert beats["reviewer-2"] is beats["reviewer-3"] is Liveness.STOPPED


@pytest.mark.slow
def test_session_under_another_name_frees_the_first_one(bus: Bus, client: httpx.Client) -> None:
    """A client may say another name in the address of a later call."""
    headers = {"accept": "application/json"}

    def say(agent: str, **message: object) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1} | message
        return client.post(f"/mcp?agent={agent}", json=body, headers=headers).raise_for_status()

    begun = say("ann", **hello("2025-06-18"))
    headers |= {"mcp-session-id": begun.headers["mcp-session-id"]}
    for agent in ("ann", "bob"):
        say(agent, method="tools/call", params={"name": "bus_status"})
    assert [len(SessionNames.of(bus).running(each)) for each in ("ann", "bob")] == [1, 1]
    client.delete("/mcp", headers=headers).raise_for_status()
    assert [len(SessionNames.of(bus).running(each)) for each in ("ann", "bob")] == [0, 0]


def test_inbox_over_http_is_what_the_session_is_shown(bus: Bus, client: httpx.Client) -> None:
    """Mail to the base name, too, where the session claims that: listed, counted, and handled."""
    names, server = SessionNames.of(bus), str(process(os.getpid()))
    first, second = ((server, each) for each in ("one", "two"))
    for holder in (first, second):
        names.take("reviewer", *holder)
    sent = [bus.publish("t", from_agent="lead", to_agent=to) for to in ("reviewer", "reviewer-2")]
    asked, own = sent[0].seq, sent[1].seq
    inbox = "/v1/inboxes/reviewer-2"

    def waiting() -> list[int]:
        return [each["seq"] for each in client.get(inbox).json()["messages"]]

    assert waiting() == [own]
    names.leave("reviewer", *first)
    names.take("reviewer", *second)
    assert waiting() == [asked, own]
    listed = {each["agent"]: each for each in client.get("/v1/inboxes").json()["inboxes"]}
    assert listed["reviewer-2"]["unread"] == 2
    assert scrape(client)["ackbus_inbox_unread", ("reviewer-2",)] == 2

    failed = client.post(f"{inbox}/fail", json={"seq": asked, "error": "no disk"}).json()
    assert (failed["attempts"], failed["parked"]) == (1, False)
    done = {"seq": asked, "replies": [{"type": "done"}]}
    assert [client.post(f"{inbox}/complete", json=done).json()["first"] for _ in range(2)] == [
        True,
        False,
    ]
    assert waiting() == [own]
    assert client.post(f"{inbox}/ack", json={"seq": own}).json()["cursor"] == own
    assert waiting() == []


def test_session_that_lost_its_name_stops_no_heart_of_another_one(bus_dir: Path) -> None:
    """Both came to one server, whose heart beats for each name."""
    now_ms, own = [1_768_053_600_000], str(process(os.getpid()))
    home = BusHandle(lambda: Bus.open(bus_dir, clock=lambda: now_ms[0]))
    silent, other = (
        McpSession(home, "reviewer", holder=own, connection=each) for each in ("one", "two")
    )
    markers = count()

    def has_stopped(agent: str) -> bool:
        """Whether its heart has stopped, once all that was said before is written."""
        marker = f"marker-{next(markers)}"
        home.beat(marker)
        wait_until(lambda: home.bus().heartbeats.get(marker))
        beat = home.bus().heartbeats.get(agent)
        return beat is not None and beat.liveness is Liveness.STOPPED

    try:
        assert silent.agent() == "reviewer"
        now_ms[0] += 3_600_000
        assert other.agent() == "reviewer"
        assert silent.agent() == "reviewer-2"
        assert not has_stopped("reviewer")
        now_ms[0] += 3_600_000
        assert other.agent() == "reviewer"
        silent.end()
        assert (has_stopped("reviewer"), has_stopped("reviewer-2")) == (False, True)
        other.end()
        assert has_stopped("reviewer")
    finally:
        home.close()
