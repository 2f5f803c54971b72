"""Issue 19, item 3: over HTTP, a client with a session is an agent of its own."""

import asyncio

import httpx

from ackbus import Bus, Inbox
from ackbus.bus.presence.heartbeats import Liveness
from ackbus.subscribers.inboxes.session_names import SessionNames

from .mcp_clients import agent_at


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
