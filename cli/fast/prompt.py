"""The number of an agent's unread messages, for a shell's prompt. Loads little, never fails."""

from __future__ import annotations

import os

from ...schema.directory.discovery import find_bus
from ...schema.directory.layout import user_bus
from ...schema.errors import AckbusError, InvalidInput
from ...schema.message.names import check_agent
from ...subscribers.inboxes.unread_count import unread_in
from ..hints import AGENT_VARIABLE
from ..show.output import Output

#: Messages are counted up to this, so that a prompt costs the same however much waits.
_MAX_COUNTED = 1000

#: How long SQLite may wait for a lock, in seconds. Reading waits only in rare moments.
_PATIENCE_S = 0.1


def prompt(
    output: Output,
    agent: str | None = None,
    *,
    format: str = "{}",
    directory: str | None = None,
    user: bool = False,
) -> int:
    """Print the number of an agent's unread messages; nothing when it is 0 or unknown."""
    if directory is not None and user:
        raise InvalidInput("give --dir or --user, not both")
    agent = agent or os.environ.get(AGENT_VARIABLE)
    if not agent:
        output.detail(f"no AGENT is given, and {AGENT_VARIABLE} is not set")
        return 0
    check_agent(agent)
    try:
        count = _unread(agent, user_bus() if user else directory)
    except (AckbusError, OSError) as error:  # a prompt is no place for it
        output.detail(str(error))
        return 0
    if output.is_json:
        output.json_line({"agent": agent, "unread": count})
    elif count:
        output.body(format.replace("{}", str(count) if count < _MAX_COUNTED else f"{count}+"))
    return 0


def _unread(agent: str, directory: str | None) -> int:
    bus_directory = find_bus() if directory is None else directory
    return unread_in(bus_directory, agent, _MAX_COUNTED, wait_s=_PATIENCE_S)
