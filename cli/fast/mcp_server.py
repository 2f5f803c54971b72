"""The MCP server that agents' programs start, over stdin and stdout.

Not all programs wait for it before the first turn, so it loads no more than it needs.
"""

from __future__ import annotations

import os
import sys

from ...schema.errors import BusNotFound, InvalidInput
from ...schema.message.names import check_agent
from ..extras import require
from ..hints import AGENT_VARIABLE
from ..own_session import holder
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus


def mcp(
    output: Output,
    *,
    agent: str | None = None,
    profile: str = "default",
    directory: str | None = None,
    user: bool = False,
) -> int:
    """Serve an agent until stdin ends."""
    require("mcp", "mcp")
    from ...server.mcp.stdio import serve_stdio
    from ...server.mcp.tools.profiles import check_profile

    check_profile(profile)
    if directory is not None and user:  # refused before a program waits for an answer
        raise InvalidInput("give --dir or --user, not both")
    name = (os.environ.get(AGENT_VARIABLE) or None) if agent is None else agent
    if name is not None:
        check_agent(name)
    if sys.stdin is not None and sys.stdin.isatty():
        _explain_to_a_person(output, directory, user)
    serve_stdio(
        lambda: _open_bus(output, directory, user, lives_long=True),
        agent=name,
        holder=holder(),
        profile=profile,
        prepare=output.show_logs,
    )
    return 0


def _open_bus(
    output: Output, directory: str | None, user: bool, *, lives_long: bool = False
) -> LocalBus:
    from .. import arguments

    return arguments.open_bus(output, directory, user, lives_long=lives_long)


def _explain_to_a_person(output: Output, directory: str | None, user: bool) -> None:
    """Tell a person at a terminal what this does, and the error that an agent would get later."""
    output.note("speaking MCP on stdin and stdout, as agents' programs do; Ctrl-C ends it")
    try:
        _open_bus(output, directory, user).close()
    except BusNotFound as error:
        output.note(f"warning: {error}")
