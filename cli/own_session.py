"""The session and the path of this command."""

from __future__ import annotations

import os
import sys

from ..schema.process_table import SESSION_VARIABLE, ancestors, program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.local_bus import LocalBus
    from ..subscribers.inboxes.session_names import SessionNames


def holder() -> str | None:
    """Return the process that holds the names of this command's session; None: it has none."""
    if os.environ.get(SESSION_VARIABLE) == "off":
        return None
    process = program()
    return None if process is None else str(process)


def process_here(bus: LocalBus, agent: str) -> str | None:
    """Return the process of the session under an agent's name that runs this command, or None."""
    from ..subscribers.inboxes.session_names import SessionNames

    if os.environ.get(SESSION_VARIABLE) == "off":
        return None
    session = SessionNames.of(bus).above(map(str, ancestors()), agent)
    is_own = session is not None and session.name == agent and not session.connection
    return session.process if session is not None and is_own else None


def name_here(sessions: SessionNames, agent: str | None) -> str | None:
    """Return the name of the session that runs this command, directly or through other processes.

    Args:
        sessions: of an open bus.
        agent: the given name, which is returned where no session of that name runs the command.
    """
    if os.environ.get(SESSION_VARIABLE) == "off":
        return agent
    session = sessions.above(map(str, ancestors()), agent)
    return agent if session is None else session.name


# The path of this command, for other programs that run it.


def own_path() -> str:
    """Return the path of this command: the PATH of other programs may find another, or none."""
    name = sys.argv[0]
    if os.path.dirname(name):
        return os.path.abspath(name)
    from shutil import which  # it loads all ways to compress, and hooks need none

    return which(name) or name
