"""The adapters of LangChain: call a tool, and print the message that its model would be sent."""

import asyncio
import json
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools


async def main(call: str, command: str, *arguments: str) -> None:
    wanted = json.loads(call)
    server = {"transport": "stdio", "command": command, "args": list(arguments)}
    client = MultiServerMCPClient({"ackbus": server})
    async with client.session("ackbus") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        for name, given in wanted:
            asked = {"name": name, "args": given, "id": "1", "type": "tool_call"}
            message = await tools[name].ainvoke(asked)
            print(json.dumps(str(message.content)))


asyncio.run(main(*sys.argv[1:]))
