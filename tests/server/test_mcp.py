"""Agents over real transports: every tool, two at a time, servers that are killed."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from ackbus import Bus, Queue
from ackbus.bus.heartbeats import Liveness
from ackbus.server.mcp.tools.profiles import PROFILES

from ..conftest import wait_until
from .conftest import serving
from .mcp_clients import BUS, Agent, agent_at, listeners, started_by

pytestmark = pytest.mark.slow

Connect = Callable[[str], AbstractAsyncContextManager[Agent]]


@pytest.fixture
def url(bus_dir: Path, bus_env: dict[str, str]) -> Iterator[str]:
    with serving(bus_dir, env=bus_env) as url:
        yield url


@pytest.fixture(params=["stdio", "http", "http with a session"])
def connect(request: pytest.FixtureRequest, bus_dir: Path, bus_env: dict[str, str]) -> Connect:
    """Connects an agent under a name."""
    if request.param == "stdio":

        def over_stdio(name: str) -> AbstractAsyncContextManager[Agent]:
            return agent_at(started_by(bus_dir, bus_env, "--agent", name, "--profile", "full"))

        return over_stdio
    url: str = request.getfixturevalue("url")
    if request.param == "http":
        return lambda name: agent_at(f"{url}/mcp?profile=full&agent={name}")

    @asynccontextmanager
    async def with_session(name: str) -> AsyncIterator[Agent]:
        async with agent_at(f"{url}/mcp?profile=full", mode="legacy") as agent:
            await agent.call("bus_join", name=name)
            yield agent

    return with_session


def test_every_tool_does_its_work(connect: Connect, bus: Bus) -> None:
    Queue.create(bus, "build.request")

    async def act() -> set[str]:
        async with connect("me") as me:
            standing = await me.call("bus_join", name="me", task="tests")
            assert (standing["agent"], standing["unread"]) == ("me", 0)
            sent = await me.call("bus_send", type="note.text", payload={"n": [1, None]}, to="me")
            assert sent["seq"] == 1
            (message,) = (await me.call("bus_inbox"))["messages"]
            assert (message["from"], message["payload"]) == ("me", {"n": [1, None]})
            assert message["untrusted"] is True
            assert await me.call("bus_ack", seq=1) == {"acknowledged": 1, "unread": 0}
            reserved = await me.call("bus_reserve", paths=["src/a.py"], reason="tests")
            assert reserved["granted"]
            status = await me.call("bus_status")
            assert (status["acknowledged"], status["reserved"]) == (1, ["src/a.py"])

            asked = await me.call("bus_request", type="build.request", payload="all", wait_s=0)
            assert asked["state"] == "pending"
            assert "no live worker serves 'build.request'" in asked["warning"]
            claim = await me.call("bus_claim", queue="build.request")
            assert claim["message"]["payload"] == "all"
            ended = await me.call("bus_finish", token=claim["token"], result={"ok": True})
            assert ended["job"] == "succeeded"
            answer = await me.call("bus_check", conversation=asked["conversation"])
            assert (answer["state"], answer["reply"]["payload"]) == ("success", {"ok": True})
            thread = await me.call("bus_thread", conversation=2)
            assert [each["seq"] for each in thread["messages"]] == [2, 3]
            found = await me.call("bus_search", words="all")
            assert [each["seq"] for each in found["messages"]] == [2]
            (seen,) = (await me.call("bus_agents"))["agents"]
            assert (seen["agent"], seen["liveness"], seen["task"]) == ("me", "alive", "tests")
            return {tool.name for tool in (await me.client.list_tools()).tools}

    assert asyncio.run(act()) == set(PROFILES["full"])
    assert [each.type for each in bus.read()] == ["note.text", "build.request", "build.done"]
    assert bus.reservations.list(agent="me")


@pytest.mark.parametrize("connect", ["stdio", "http with a session"], indirect=True)
def test_two_agents_are_two(connect: Connect, bus: Bus) -> None:
    async def act() -> None:
        async with connect("a") as a, connect("b") as b:
            sent = await a.call("bus_send", type="question", payload="?", to="b")
            (question,) = (await b.call("bus_inbox", wait_s=20))["messages"]
            assert (question["from"], question["to"]) == ("a", "b")
            reply = await b.call(
                "bus_send", type="answer", payload="!", in_reply_to=question["seq"]
            )
            assert (reply["to"], reply["conversation"]) == ("a", sent["id"])
            assert (await a.call("bus_inbox", wait_s=20))["messages"][0]["payload"] == "!"
            assert await b.call("bus_ack", seq=2) == {"acknowledged": 2, "unread": 0}
            assert (await a.call("bus_status"))["unread"] == 1
            await b.call("bus_reserve", paths=["src"])
            refusal = await a.fail("bus_reserve", paths=["src/a.py"])
            assert "NOT reserved" in refusal
            assert "b has src" in refusal

    asyncio.run(act())
    assert {each.agent for each in bus.heartbeats.list()} == {"a", "b"}


def test_what_was_not_acknowledged_comes_again_after_the_server_was_killed(
    bus: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    bus.publish("t", "work", from_agent="lead")
    server = started_by(bus_dir, bus_env, "--agent", "me")

    async def act() -> None:
        async with agent_at(server) as me:
            assert len((await me.call("bus_inbox"))["messages"]) == 1
            beat = bus.heartbeats.get("me")
            assert beat is not None
            assert beat.pid is not None
            os.kill(beat.pid, signal.SIGKILL)
            with pytest.raises(Exception, match=r"(?i)closed"):
                await me.call("bus_status")
        async with agent_at(server) as me:
            assert len((await me.call("bus_inbox"))["messages"]) == 1

    asyncio.run(act())


def test_client_without_a_session_goes_on_after_the_server_was_killed(
    bus: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    @contextmanager
    def killed_at_the_end(port: int) -> Iterator[str]:
        process = subprocess.Popen(
            [BUS, "serve", "--json", "--port", str(port), "--dir", bus_dir],
            stdout=subprocess.PIPE,
            env=bus_env,
        )
        with process:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
            process.kill()

    async def act() -> None:
        with ExitStack() as servers:
            url = servers.enter_context(killed_at_the_end(0))
            async with agent_at(f"{url}/mcp?agent=me") as me:
                await me.call("bus_send", type="t", payload=1)
                servers.close()
                servers.enter_context(killed_at_the_end(int(url.rpartition(":")[2])))
                assert (await me.call("bus_send", type="t", payload=2))["seq"] == 2

    asyncio.run(act())
    assert [each.payload for each in bus.read()] == [1, 2]


def test_server_that_stops_lets_calls_that_wait_come_back(
    bus: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    """And says nothing of a client that left in the middle of its request."""
    process = subprocess.Popen(
        [BUS, "serve", "--json", "--port", "0", "--dir", bus_dir],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=bus_env,
    )

    async def act(url: str) -> None:
        async with agent_at(f"{url}/mcp?agent=me", mode="legacy") as me:
            await me.call("bus_status")
            leave_in_the_middle(url)
            before = listeners(process.pid)
            wait = asyncio.create_task(me.call("bus_inbox", wait_s=25))
            await asyncio.to_thread(wait_until, lambda: listeners(process.pid) > before)
            process.terminate()
            assert (await wait)["messages"] == []

    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        asyncio.run(act(json.loads(process.stdout.readline())["url"]))
        assert process.wait(60) == 0
        assert b"Traceback" not in process.stderr.read()


def leave_in_the_middle(url: str) -> None:
    """Sends half of a request."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as client:
        head = f"POST /mcp HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
        more = "Accept: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n"
        client.sendall(f"{head}{more}Content-Length: 100\r\n\r\n{{".encode())


def test_call_over_http_whose_client_hangs_up_waits_no_longer(url: str, bus: Bus) -> None:
    """Else those that hang up take all places from those that are there."""

    async def act() -> None:
        async with agent_at(f"{url}/mcp?agent=me") as me:
            await me.call("bus_status")
            async with anyio.create_task_group() as calls:
                for _ in range(66):
                    calls.start_soon(wait_in_turn, me)
                await asyncio.to_thread(wait_until, lambda: not asyncio.run(can_wait()))
                calls.cancel_scope.cancel()
            await asyncio.to_thread(wait_until, lambda: asyncio.run(can_wait()))

    async def wait_in_turn(me: Agent) -> None:
        while (await me.try_to("bus_inbox", wait_s=25)).is_error:
            pass  # who looks whether there is a place takes one meanwhile

    async def can_wait() -> bool:
        async with agent_at(f"{url}/mcp?agent=you") as you:
            return not (await you.try_to("bus_inbox", wait_s=0.01)).is_error

    asyncio.run(act())


def test_agent_is_alive_while_it_is_there(bus: Bus, bus_dir: Path, bus_env: dict[str, str]) -> None:
    def liveness() -> Liveness | None:
        beat = bus.heartbeats.get("me")
        return None if beat is None else beat.liveness

    async def act() -> None:
        async with agent_at(started_by(bus_dir, bus_env), mode="legacy") as me:
            assert liveness() is None
            await me.call("bus_join", name="me")
            await asyncio.to_thread(wait_until, lambda: liveness() is Liveness.ALIVE)

    asyncio.run(act())
    wait_until(lambda: liveness() is Liveness.STOPPED)


def test_second_program_of_the_same_name_is_told_so(
    bus: Bus, bus_dir: Path, bus_env: dict[str, str]
) -> None:
    server = started_by(bus_dir, bus_env, "--agent", "me")

    async def act() -> None:
        async with agent_at(server) as first, agent_at(server) as second:
            assert "warning" not in await first.call("bus_join")
            assert "each other's mail" in (await second.call("bus_join"))["warning"]

    asyncio.run(act())


@contextmanager
def started(bus_dir: Path, env: dict[str, str], bus: Bus) -> Iterator[subprocess.Popen[bytes]]:
    """A server whose agent is alive, with pipes to it."""
    process = subprocess.Popen(
        [BUS, "mcp", "--dir", bus_dir, "--agent", "me"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    with process:
        try:
            wait_until(lambda: bus.heartbeats.get("me"))
            yield process
        finally:
            process.kill()


HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


def lines_of(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0"} | each).encode() + b"\n" for each in messages)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_server_at_once_and_its_agent_says_so(
    bus: Bus, bus_dir: Path, bus_env: dict[str, str], number: signal.Signals
) -> None:
    """Though stdin stays open, and somebody reads it."""
    with started(bus_dir, bus_env, bus) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines_of({"id": 1, "method": "initialize", "params": HELLO}))
        process.stdin.flush()
        process.stdout.readline()  # it is up
        process.send_signal(number)
        assert process.wait(60) == -number
        beat = bus.heartbeats.get("me")
        assert beat is not None
        assert beat.liveness is Liveness.STOPPED


def test_program_that_is_gone_is_no_error(bus: Bus, bus_dir: Path, bus_env: dict[str, str]) -> None:
    with started(bus_dir, bus_env, bus) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        with suppress(BrokenPipeError):  # it may have noticed before it is asked
            process.stdin.write(lines_of({"id": 1, "method": "initialize", "params": HELLO}))
            process.stdin.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


#: Makes a process write to its standard output, as soon as it loads the SDK.
NOISE = """
import os, sys, threading, time, warnings
def make_noise():
    while "mcp" not in sys.modules:
        time.sleep(0.001)
    while True:
        time.sleep(0.001)
        print("noise", flush=True)
        os.write(1, b"noise")
        warnings.warn("noise")
if "mcp" in sys.argv:
    threading.Thread(target=make_noise, daemon=True).start()
"""


def test_stdout_is_the_protocols_whatever_others_print(
    bus_dir: Path, bus_env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NOISE)
    paths = os.pathsep.join([str(tmp_path), bus_env.get("PYTHONPATH", "")])
    env = bus_env | {"PYTHONPATH": paths, "BUS_LOG": "debug", "PYTHONWARNINGS": "always"}
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": HELLO},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "no/such"},
        {
            "id": 3,
            "method": "tools/call",
            "params": {"name": "bus_send", "arguments": {"type": "t", "to": "nobody"}},
        },
        {
            "id": 4,
            "method": "tools/call",
            "params": {"name": "bus_send", "arguments": {"type": "t", "payload": float("nan")}},
        },
    ]
    process = subprocess.Popen(
        [BUS, "mcp", "--dir", bus_dir, "--agent", "me"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"rubbish\n\xff\xfe\n" + lines_of(*lines))
        process.stdin.flush()
        answers: dict[Any, Any] = {}
        while not answers.keys() >= {1, 2, 3, 4}:
            answer = json.loads(process.stdout.readline())
            answers[answer.get("id")] = answer
        out, err = process.communicate()
    assert b"noise" not in out
    assert b"noise" in err
    assert "error" in answers[2]
    assert "never seen" in answers[3]["result"]["structuredContent"]["warning"]
    assert "NaN" in answers[4]["result"]["content"][0]["text"]
    assert process.returncode == 0
