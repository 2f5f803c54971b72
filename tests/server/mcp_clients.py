"""Agents that speak MCP, by the official client."""

import asyncio
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, Implementation

from ackbus import Bus
from ackbus.server.mcp.sdk_server import Protocol
from ackbus.server.mcp.session import BusHandle, McpSession
from ackbus.server.mcp.tools.profiles import FULL

T = TypeVar("T")

BUS = str(Path(sysconfig.get_path("scripts"), "bus"))


class Agent:
    """An agent: calls tools, and fails the test when one says that it failed."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def try_to(self, tool: str, **arguments: Any) -> CallToolResult:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.try_to(tool, **arguments)
        assert not result.is_error, text_of(result)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def read(self, tool: str, **arguments: Any) -> str:
        result = await self.try_to(tool, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def fail(self, tool: str, **arguments: Any) -> str:
        result = await self.try_to(tool, **arguments)
        assert result.is_error, text_of(result)
        return text_of(result)


def text_of(result: CallToolResult) -> str:
    """The text of a result for an agent."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


def started_by(bus_dir: Path, env: dict[str, str], *options: str) -> StdioServerParameters:
    """The start of the server by an agent's program."""
    arguments = ["mcp", "--dir", str(bus_dir), *options]
    return StdioServerParameters(command=BUS, args=arguments, env=env, cwd=bus_dir.parent)


@asynccontextmanager
async def agent_at(
    server: Any, mode: str = "auto", program: str | None = None
) -> AsyncIterator[Agent]:
    """An agent that is connected to a server, a URL, or a program to start."""
    info = Implementation(name=program, version="1") if program else None
    async with Client(server, mode=mode, client_info=info) as client:
        yield Agent(client)


def in_process(
    bus_dir: Path,
    act: Callable[[Agent], Awaitable[T]],
    *,
    name: str | None = "me",
    program: str | None = None,
    mode: str = "auto",
) -> T:
    """Lets an agent act on a bus by the protocol, without a process between them."""
    home = BusHandle(lambda: Bus.open(bus_dir))
    session = McpSession(home, name)

    async def run() -> T:
        server = Protocol(lambda context: session, lambda context: FULL).server()
        async with agent_at(server, mode, program) as agent:
            return await act(agent)

    try:
        return asyncio.run(run())
    finally:
        home.close()


def listeners(pid: int) -> int:
    """The number of waiters for the bell in a process."""
    links = Path(f"/proc/{pid}/fd").iterdir()
    return sum("inotify" in str(link.readlink()) for link in links if link.is_symlink())
