"""The MCP server that agents' programs start, over stdin and stdout.

Not all programs wait for it before the first turn, so it loads no more than it needs.
"""

from __future__ import annotations

import os
import sys

from ...schema.errors import BusNotFound, InvalidInput
from ...schema.message.names import check_agent
from .. import arguments
from ..extras import require
from ..hints import AGENT_VARIABLE
from ..logs import show_logs
from ..show import output


def mcp(
    *,
    agent: str | None = None,
    profile: str = "default",
    directory: str | None = None,
    user: bool = False,
) -> int:
    """Serve an agent until stdin ends."""
    require("mcp", "mcp")
    from ...server.mcp.stdio import serve_stdio
    from ...server.mcp.tools.profiles import PROFILES

    if profile not in PROFILES:
        raise InvalidInput(f"--profile must be {' or '.join(PROFILES)}, not {profile!a}")
    arguments.named_by(directory, user)  # refuses both, before a program waits for an answer
    name = (os.environ.get(AGENT_VARIABLE) or None) if agent is None else agent
    if name is not None:
        check_agent(name)
    show_logs()
    if sys.stdin.isatty():
        _explain_to_a_person(directory, user)
    serve_stdio(lambda: arguments.open_bus(directory, user), agent=name, profile=profile)
    return 0


def _explain_to_a_person(directory: str | None, user: bool) -> None:
    """Tell a person at a terminal what this does, and the error that an agent would get later."""
    output.note("speaking MCP on stdin and stdout, as agents' programs do; Ctrl-C ends it")
    try:
        arguments.open_bus(directory, user).close()
    except BusNotFound as error:
        output.note(f"warning: {error}")
