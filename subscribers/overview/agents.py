"""The agents of a bus, each with its heartbeat and the state of its inbox."""

from __future__ import annotations

from ...schema.errors import InvalidInput
from ..inboxes.cursors import Cursors
from ..inboxes.inbox import Inbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...bus.bus import Bus

#: Unread messages are counted up to this.
MAX_COUNTED = 1000


def agent_records(bus: Bus) -> list[dict[str, Any]]:
    """Return the JSON objects of all agents that a bus knows, by name.

    Each has what the last heartbeat says, if there was one, the cursor, and how many messages are
    unread, up to `MAX_COUNTED`.
    """
    beats = {beat.agent: beat.record() for beat in bus.heartbeats.list()}
    cursors = Cursors.of(bus).positions()
    return [
        {"agent": name}
        | beats.get(name, {})
        | {"cursor": cursors.get(name, 0), "unread": unread_of(bus, name)}
        for name in bus.agents.names()
    ]


def unread_of(bus: Bus, agent: str, limit: int = MAX_COUNTED) -> int | None:
    """Return the number of unread messages of an agent, up to a limit.

    None for a name that another program wrote, and that nothing can be sent to.
    """
    try:
        return Inbox(bus, agent).unread(limit)
    except InvalidInput:
        return None
