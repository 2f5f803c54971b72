"""The session that a command belongs to: that of the agent's program above it."""

from __future__ import annotations

import os

from ..schema.process_table import program

#: The environment variable that turns sessions off, with the value `off`: then all programs under
#: one name act as one agent.
SESSION_VARIABLE = "BUS_SESSION"


def holder() -> str | None:
    """Return the process that holds the names of this command's session; None: it has none."""
    if os.environ.get(SESSION_VARIABLE) == "off":
        return None
    found = program()
    return None if found is None else str(found)
