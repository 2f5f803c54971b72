"""A server of MCP by the SDK, whose one tool does nothing; with an argument, over HTTP."""

import sys

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

#: The command that starts it.
NOTHING = (sys.executable, __file__)


async def _list_tools(context: object, params: object) -> ListToolsResult:
    return ListToolsResult(tools=[Tool(name="nothing", input_schema={"type": "object"})])


async def _call_tool(context: object, params: object) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text="")])


def _server() -> Server[object]:
    return Server("nothing", on_list_tools=_list_tools, on_call_tool=_call_tool)


async def _over_stdio() -> None:
    server = _server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _over_http() -> None:
    """Print the URL, and serve."""
    import socket

    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = _server().streamable_http_app(json_response=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


if __name__ == "__main__":
    if sys.argv[1:]:
        _over_http()
    else:
        anyio.run(_over_stdio)
