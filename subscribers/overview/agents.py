"""The agents of a bus, each with its heartbeat and the state of its inbox."""

from __future__ import annotations

from ...bus.presence.heartbeats import Liveness
from ...schema.errors import InvalidInput
from ..inboxes.cursors import Cursors
from ..inboxes.session_inbox import inbox_of
from ..inboxes.session_names import SessionNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...bus.bus import Bus

#: Unread messages are counted up to this.
MAX_COUNTED = 1000


def agent_records(bus: Bus, *, online_s: float | None = None) -> list[dict[str, Any]]:
    """Return the JSON objects of the agents that a bus knows, by name.

    Each has what the last heartbeat says, if there was one, the cursor, and how many messages are
    unread, up to `MAX_COUNTED`; and a session the base name that it runs under, if it has another.

    Args:
        bus: an open bus.
        online_s: only agents whose last beat is no older, in seconds, and did not say that they
            stopped; None: all.
    """
    found = bus.heartbeats.list()
    beats = {beat.agent: beat.record() for beat in found}
    names = bus.agents.names()
    if online_s is not None:
        is_there = {
            beat.agent
            for beat in found
            if beat.age_s <= online_s and beat.liveness != Liveness.STOPPED
        }
        names = [name for name in names if name in is_there]
    cursors = Cursors.of(bus).positions()
    bases = SessionNames.of(bus).bases()
    return [
        {"agent": name}
        | beats.get(name, {})
        | {"cursor": cursors.get(name, 0), "unread": unread_of(bus, name)}
        | ({"session_of": bases[name]} if name in bases else {})
        for name in names
    ]


def unread_of(bus: Bus, agent: str, limit: int = MAX_COUNTED) -> int | None:
    """Return the number of messages that an agent's inbox would show, up to a limit.

    None for a name that another program wrote, and that nothing can be sent to.
    """
    try:
        return inbox_of(bus, agent).unread(limit)
    except InvalidInput:
        return None
