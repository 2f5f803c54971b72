"""Each cell of the table of the tools and resources, called over HTTP by a token of each scope."""

from typing import Any

import httpx
import pytest

from ackbus import Bus
from ackbus.server.access.table import TOOLS
from ackbus.server.access.tokens import Principal, Scope, Tokens
from ackbus.subscribers.queues.queue import Queue

from .conftest import Serve

pytestmark = pytest.mark.slow

#: What each tool must be given.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "bus_join": {"name": "a"},
    "bus_send": {"type": "note", "to": "b"},
    "bus_ack": {"seq": 1},
    "bus_receipts": {"seq": 1},
    "bus_thread": {"conversation": "c"},
    "bus_search": {"words": "x"},
    "bus_check": {"conversation": "first"},
    "bus_request": {"type": "x.request", "wait_s": 0.1},
    "bus_reserve": {"paths": ["a.py"]},
    "bus_claim": {"queue": "q"},
    "bus_finish": {"token": 1},
}

VALUES = {"agent": "a", "id": "first"}


def called(client: httpx.Client, secret: str, method: str, **params: Any) -> str:
    """The text of an answer of the newer protocol, which needs no session."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {secret}",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "Mcp-Name": params.get("name") or params["uri"],
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return client.post("/mcp?profile=full", json=body, headers=headers).text


@pytest.mark.parametrize("scope", Scope)
def test_each_tool_answers_those_with_its_scopes_alone(
    bus: Bus, serve: Serve, scope: Scope
) -> None:
    Queue.create(bus, "q", "q")
    for agent in ("a", "b"):
        bus.heartbeats.beat(agent)
    bus.publish("note", from_agent="b", to_agent="a", id="first")
    secret = Tokens.of(bus).create("t", [scope], agent="a")
    only = Principal("t", frozenset([scope]))
    client = serve()
    for name, row in TOOLS.items():
        newest = bus.log.newest_seq()
        if name.startswith("bus://"):
            told = called(client, secret, "resources/read", uri=name.format(**VALUES))
        else:
            arguments = ARGUMENTS.get(name, {})
            told = called(client, secret, "tools/call", name=name, arguments=arguments)
        may = all(map(only.may, row.scopes or ()))
        assert ("this token has no scope" in told) != may, (name, told)
        assert may or bus.log.newest_seq() == newest, name
