"""The MCP server for coding agents: mcp."""

from __future__ import annotations

from typing import Annotated

import typer

from ..definition import Commands, optional
from ..fast import mcp_server
from ..options.common import HERE, PlaceOnly

commands = Commands()


@commands.command("mcp", example="bus mcp --agent reviewer --profile full")
def mcp(
    agent: Annotated[
        str | None,
        optional(
            "NAME", "The only name of the agent. Default: $BUS_AGENT, else the agent chooses."
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="P", help="Which tools: default (6) or full (13).")
    ] = "default",
    place: PlaceOnly = HERE,
) -> int:
    """Serve a coding agent that speaks MCP, over stdin and stdout.

    It ends with stdin. An agent's program starts this by itself; put it into its configuration.
    """
    return mcp_server.mcp(agent=agent, profile=profile, directory=place.directory, user=place.user)
