"""An agent of the OpenAI Agents SDK with strict schemas: it asks its model until that is done."""

import asyncio
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main(model_url: str, command: str, *arguments: str) -> None:
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(
        model="m", openai_client=AsyncOpenAI(base_url=f"{model_url}/v1", api_key="key")
    )
    params = {"command": command, "args": list(arguments)}
    async with MCPServerStdio(params, client_session_timeout_seconds=60) as server:
        agent = Agent(
            name="a",
            instructions="Read.",
            model=model,
            mcp_servers=[server],
            mcp_config={"convert_schemas_to_strict": True},
        )
        run = Runner.run_streamed(agent, "look into your inbox")
        async for _ in run.stream_events():
            pass


asyncio.run(main(*sys.argv[1:]))
