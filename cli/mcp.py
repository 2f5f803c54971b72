"""The door for agents: mcp."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..schema import BusNotFound, InvalidInput, check_agent
from . import output
from .commands import Commands
from .extras import require
from .options import HERE, Place
from .prompt import AGENT_VARIABLE

commands = Commands()


@commands.command("mcp", example="bus mcp --agent reviewer --profile full")
def mcp(
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The only name under which the agent acts. Default: $BUS_AGENT, else it says.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(metavar="P", help="Which tools: default (6) or full (13).")
    ] = "default",
    place: Place = HERE,
) -> int:
    """Serve a coding agent that speaks MCP, over stdin and stdout, until stdin ends.

    An agent's program starts this by itself; put it into its configuration.
    """
    require("mcp", "mcp")
    from ..server import PROFILES, serve_stdio

    if profile not in PROFILES:
        raise InvalidInput(f"--profile must be {' or '.join(PROFILES)}, not {profile!a}")
    place.named()  # refuses --dir beside --user, before a program waits for an answer
    name = (os.environ.get(AGENT_VARIABLE) or None) if agent is None else agent
    if name is not None:
        check_agent(name)
    output.show_logs()
    if sys.stdin.isatty():
        _explain_to_a_person(place)
    serve_stdio(place.open, agent=name, profile=profile)
    return 0


def _explain_to_a_person(place: Place) -> None:
    """Tell whoever starts this by hand what it does, and what an agent would be told later."""
    output.note("speaking MCP on stdin and stdout, as agents' programs do; Ctrl-C ends it")
    try:
        place.open().close()
    except BusNotFound as error:
        output.note(f"warning: {error}")
