"""The identity of an agent over HTTP: by its token, its address, or its session."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from ackbus import Bus
from ackbus.bus.signing import Keyring
from ackbus.server.access.access import LOOPBACK_NAMES, BusAccess
from ackbus.server.access.tokens import LOCAL, Principal, Scope
from ackbus.server.mcp.http import HttpDoor
from ackbus.server.running import create_app
from ackbus.subscribers.inboxes.inbox import Inbox
from ackbus.subscribers.jobs.claims import Claims
from ackbus.subscribers.queues.queue import Queue

from .conftest import problem

#: The tokens of these tests.
PRINCIPALS = {
    "of-a": Principal("of-a", frozenset({Scope.MESSAGES_RW}), agent="a"),
    "reader": Principal("reader", frozenset({Scope.MESSAGES_RO}), agent="r"),
    "alice": Principal("alice", frozenset({Scope.WORK_RW}), agent="alice"),
    "bob": Principal("bob", frozenset({Scope.WORK_RW}), agent="bob"),
    "any": Principal("any", frozenset({Scope.ADMIN})),
}


class ByToken(BusAccess):
    """Knows the tokens of these tests; nobody needs one."""

    def holder(self, connection: HTTPConnection) -> Principal:
        token = connection.headers.get("Authorization", "").removeprefix("Bearer ")
        return PRINCIPALS.get(token, LOCAL)


class Caller:
    """Speaks the protocol without the official client, to send what that would not."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def post(
        self, tool: str, *, path: str = "/mcp", headers: dict[str, str] | None = None, **given: Any
    ) -> httpx.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        call = {"name": tool, "arguments": given, "_meta": meta}
        usual = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        return await self.http.post(path, json=body, headers=usual | (headers or {}))

    async def call(self, tool: str, **options: Any) -> tuple[bool, str]:
        response = await self.post(tool, **options)
        assert response.status_code == 200, response.text
        result = response.json()["result"]
        return not result["isError"], result["content"][0]["text"]

    async def tools(self, path: str = "/mcp") -> dict[str, bool]:
        """Whether tools that are listed take the name of who calls: one joins, one acts."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/list",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        listed = (await self.http.post(path, json=body, headers=headers)).json()["result"]["tools"]
        return {
            each["name"]: "as_agent" in each["inputSchema"]["properties"]
            for each in listed
            if each["name"] in ("bus_join", "bus_inbox")
        }

    async def open_session(self, token: str) -> dict[str, str]:
        """Open a session of the older protocol, and return the headers that belong to it."""
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
            "Authorization": f"Bearer {token}",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        response = await self.http.post("/mcp", json=body, headers=headers)
        assert response.status_code == 200, response.text
        headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.http.post("/mcp", json=ready, headers=headers)
        return headers


def served(
    bus: Bus,
    act: Callable[[Caller], Awaitable[None]],
    hosts: Collection[str] | None = LOOPBACK_NAMES,
    max_rate: float | None = None,
) -> None:
    async def run() -> None:
        app = create_app(bus, ByToken(bus, max_rate=max_rate), hosts=hosts)
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as http,
        ):
            await act(Caller(http))

    asyncio.run(run())


def token(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def test_token_of_an_agent_speaks_in_its_name_only(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        of_a = token("of-a")
        assert (await caller.call("bus_send", type="t", headers=of_a))[0]
        assert (await caller.call("bus_join", name="a", headers=of_a))[0]
        done, why = await caller.call("bus_join", name="b", headers=of_a)
        assert not done
        assert "acts for 'a' only" in why
        done, why = await caller.call("bus_send", type="t", path="/mcp?agent=b", headers=of_a)
        assert not done
        assert "acts for agent 'a'" in why

    served(bus, act)
    assert [each.from_agent for each in bus.read()] == ["a"]


def test_server_signs_only_for_whom_a_token_is_bound_to(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever reaches a server could sign as anybody whose key it can read."""
    monkeypatch.setenv("BUS_KEYS_DIR", str(tmp_path / "keys"))
    Keyring().create("a")

    async def act(caller: Caller) -> None:
        named = {"path": "/mcp?agent=a", "type": "t"}
        assert (await caller.call("bus_send", headers=token("of-a"), **named))[0]
        for each in ("any", "nobody"):
            assert (await caller.call("bus_send", headers=token(each), **named))[0]

    served(bus, act)
    assert [bool(message.headers) for message in bus.read()] == [True, False, False]


def test_token_is_good_for_its_scopes_only(bus: Bus) -> None:
    bus.publish("t", from_agent="x")

    async def act(caller: Caller) -> None:
        full = "/mcp?profile=full"
        for tool, given in (
            ("bus_send", {"type": "t"}),
            ("bus_ack", {"seq": 1}),
            ("bus_claim", {"queue": "q"}),
            ("bus_reserve", {"paths": ["a.py"]}),
        ):
            done, why = await caller.call(tool, path=full, headers=token("reader"), **given)
            assert not done
            assert "has no scope" in why
        assert (await caller.call("bus_agents", path=full, headers=token("reader")))[0]
        for tool, given in (("bus_claim", {"queue": "q"}), ("bus_reserve", {"paths": ["a.py"]})):
            done, why = await caller.call(tool, path=full, headers=token("of-a"), **given)
            assert "has no scope 'work:rw'; 'bus token create NAME --scope" in why

    served(bus, act)
    assert bus.log.newest_seq() == 1
    assert bus.heartbeats.list() == []


def test_call_counts_once_towards_the_rate(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        assert (await caller.call("bus_send", type="t", path="/mcp?agent=b"))[0]
        problem(await caller.post("bus_status"), 429, "too-many-requests")

    served(bus, act, max_rate=0.01)


def test_claim_is_that_of_the_agent_of_the_token_whatever_worker_took_it(bus: Bus) -> None:
    """As over HTTP: the group is who owns it, and the worker is for people."""
    Queue.create(bus, "build")
    bus.publish("build", from_agent="x")

    async def act(caller: Caller) -> None:
        response = await caller.http.post(
            "/v1/queues/build/claims", json={"worker": "bob"}, headers=token("alice")
        )
        (claim,) = response.json()["claims"]
        finish = {"path": "/mcp?profile=full", "token": claim["token"]}
        done, why = await caller.call("bus_finish", **finish, headers=token("bob"))
        assert not done
        assert "'alice''s, not yours" in why.replace('"', "'")
        assert (await caller.call("bus_finish", **finish, headers=token("alice")))[0]

    served(bus, act)
    claim = Claims.of(bus).get(1)
    assert claim is not None
    assert (claim.group, claim.instance, claim.status) == ("alice", "bob", "completed")


def test_name_of_the_address_is_the_agents(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        assert (await caller.call("bus_send", type="t", path="/mcp?agent=b"))[0]
        done, why = await caller.call("bus_send", type="t", path="/mcp?agent=b", as_agent="c")
        assert not done
        assert "no argument 'as_agent'" in why

    served(bus, act)
    assert [each.from_agent for each in bus.read()] == ["b"]


def test_agent_joins_where_no_session_remembers_it(bus: Bus) -> None:
    """Each call then says who calls, in one more argument, which the tools list there alone."""
    Inbox(bus, "c").join()
    bus.publish("t", "for c", from_agent="x", to_agent="c")

    async def act(caller: Caller) -> None:
        done, told = await caller.call("bus_join", name="c")
        assert done
        assert "Give as_agent='c' to every later call" in told
        done, why = await caller.call("bus_inbox")
        assert not done
        assert "give as_agent=..." in why
        for nobody in (None, ""):
            assert not (await caller.call("bus_inbox", as_agent=nobody))[0]
        for none in ("a\nb", 7, ["c"]):
            assert not (await caller.call("bus_send", type="t", as_agent=none))[0]
        assert "for c" in (await caller.call("bus_inbox", as_agent="c"))[1]
        assert (await caller.call("bus_send", type="t", as_agent="c"))[0]
        assert await caller.tools() == {"bus_join": False, "bus_inbox": True}
        assert await caller.tools("/mcp?agent=c") == {"bus_join": False, "bus_inbox": False}

    served(bus, act)
    assert [each.from_agent for each in bus.read()] == ["x", "c"]


def test_token_that_is_bound_to_a_name_lends_no_other(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        given: dict[str, Any] = {"type": "t", "as_agent": "b"}
        assert not (await caller.call("bus_send", **given, headers=token("of-a")))[0]
        done, why = await caller.call("bus_send", **given, headers=token("reader"))
        assert not done
        assert "has no scope" in why
        assert (await caller.call("bus_send", **given, headers=token("any")))[0]

    served(bus, act)
    assert [each.from_agent for each in bus.read()] == ["b"]


def test_session_can_not_be_taken_over_by_another_token(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        own = await caller.open_session("any")
        assert (await caller.call("bus_join", name="z", headers=own))[0]
        assert (await caller.call("bus_send", type="t", headers=own))[0]
        response = await caller.post("bus_send", type="t", headers=own | token("of-a"))
        assert response.status_code == 404
        assert (await caller.http.delete("/mcp", headers=own)).status_code == 200
        assert (await caller.post("bus_status", headers=own)).status_code == 404

    served(bus, act)
    assert [each.from_agent for each in bus.read()] == ["z"]


def test_token_that_only_reads_by_now_leaves_the_inbox_of_its_session(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rights of the session's first token do not count for later calls."""
    bus.publish("t.request", from_agent="z", id="asked")
    bus.publish("t.done", from_agent="w", to_agent="z", in_reply_to="asked")
    left = []

    async def act(caller: Caller) -> None:
        own = await caller.open_session("any")
        assert (await caller.call("bus_join", name="z", headers=own))[0]
        for scope in (Scope.MESSAGES_RO, Scope.ADMIN):
            monkeypatch.setitem(PRINCIPALS, "any", Principal("any", frozenset({scope})))
            given: Any = {"conversation": "asked", "headers": own, "path": "/mcp?profile=full"}
            done, told = await caller.call("bus_check", **given)
            assert (done, "success" in told) == (True, True), told
            left.append(Inbox(bus, "z").unread())

    served(bus, act)
    assert left == [1, 0]


@pytest.mark.requirement("D-59", "D-120")
def test_tools_publish_nothing_that_runs_plugins_for_who_may_not(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        headers = {"Authorization": "Bearer of-a"}
        for tool, type in (("bus_send", "plugin.x.poll"), ("bus_request", "schedule.x.request")):
            given: Any = {"type": type, "headers": headers, "path": "/mcp?profile=full&agent=a"}
            done, told = await caller.call(tool, **given)
            assert (done, "'plugin:rw'" in told) == (False, True), told

    served(bus, act)
    assert list(bus.read()) == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Content-Type": "text/plain"}, 400),
    ],
)
def test_page_of_another_site_reaches_nothing(
    bus: Bus, headers: dict[str, str], status: int
) -> None:
    """Not even by a name of its own that leads to this machine."""

    async def act(caller: Caller) -> None:
        response = await caller.post("bus_send", type="t", path="/mcp?agent=a", headers=headers)
        assert response.status_code == status

    served(bus, act)
    assert bus.log.newest_seq() == 0


def test_server_of_another_name_is_reached_with_a_token(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        headers = token("of-a") | {"Host": "build.example:8765"}
        assert (await caller.call("bus_send", type="t", headers=headers))[0]

    served(bus, act, hosts=None)


def test_session_is_one_that_was_given_out(bus: Bus) -> None:
    """The protocol without sessions looks at no id: anybody could make one up, or guess one."""

    async def act(caller: Caller) -> None:
        made_up = {"Mcp-Session-Id": "made-up"}
        done, why = await caller.call("bus_join", name="z", headers=made_up)
        assert done
        assert "this connection forgets it" in why
        done, why = await caller.call("bus_status", headers=made_up)
        assert not done

    served(bus, act)


def test_sessions_are_bounded(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackbus.server.mcp.http._MAX_SESSIONS", 2)

    async def act(caller: Caller) -> None:
        names = {}
        for name in "abc":
            names[name] = await caller.open_session("any")
            assert (await caller.call("bus_join", name=name, headers=names[name]))[0]
            if name == "a":  # makes room at the SDK, which tells nobody
                assert (await caller.http.delete("/mcp", headers=names["a"])).status_code == 200
        with pytest.raises(AssertionError, match="Too many open sessions"):
            await caller.open_session("any")
        for name in "bc":
            assert f"You are {name}" in (await caller.call("bus_status", headers=names[name]))[1]

    served(bus, act)


def test_inbox_of_another_agent_is_no_resource(bus: Bus) -> None:
    bus.heartbeats.beat("b")
    bus.publish("t", "for b only", from_agent="x", to_agent="b")

    async def act(caller: Caller) -> None:
        async def read(agent: str) -> str:
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            uri = f"bus://inbox/{agent}"
            body = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "resources/read",
                "params": {"uri": uri, "_meta": meta},
            }
            headers = token("of-a") | {
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": "resources/read",
                "Mcp-Name": uri,
            }
            return (await caller.http.post("/mcp", json=body, headers=headers)).text

        assert "acts for 'a' only" in await read("b")
        assert "for b only" not in await read("b")
        assert "messages" in await read("a")

    served(bus, act)


def test_door_that_can_not_be_opened_is_an_error_and_tried_again(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a wait without an end, for this request and for all that follow."""

    @asynccontextmanager
    async def fail(door: HttpDoor) -> AsyncIterator[None]:
        raise RuntimeError("a defect")
        yield

    async def act(caller: Caller) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(HttpDoor, "running", fail)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="a defect"):
                    await asyncio.wait_for(caller.post("bus_status"), 10)
        assert (await caller.post("bus_status")).status_code == 200

    served(bus, act)


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_call_that_turns_out_too_long_is_a_problem(bus: Bus, version: str) -> None:
    """Its length is not said before."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(18):
            yield bytes(1024 * 1024)

    async def act(caller: Caller) -> None:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": version,
        }
        response = await caller.http.post("/mcp", content=pieces(), headers=headers)
        assert "at most" in problem(response, 413, "content-too-large")

    served(bus, act)


def test_what_is_no_call_is_a_problem(bus: Bus) -> None:
    async def act(caller: Caller) -> None:
        problem(await caller.http.get("/mcp"), 405, "method-not-allowed")
        response = await caller.post("bus_status", path="/mcp?profile=zzz")
        assert "default or full" in problem(response, 422, "invalid-input")
        rubbish = {"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28"}
        accept = {"Accept": "application/json, text/event-stream"}
        response = await caller.http.post("/mcp", content=b"{", headers=rubbish | accept)
        assert response.status_code == 400

    served(bus, act)


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize(
    ("body", "id", "why"),
    [
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None, "no batches are taken"),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, "id must be text or an integer"),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, "id must be text or an integer"),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}', 5, "params (an object)"),
        (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"\\ud83d"}}', 5, "no JSON"),
    ],
)
def test_what_is_no_message_is_answered_in_one_line(
    bus: Bus, body: bytes, id: object, why: str, version: str
) -> None:
    async def act(caller: Caller) -> None:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": version,
        }
        response = await caller.http.post("/mcp", content=body, headers=headers)
        answer = response.json()
        assert (response.status_code, answer["id"]) == (400, id)
        assert why in answer["error"]["message"]
        assert "\n" not in answer["error"]["message"]

    served(bus, act)
