"""Processes that act under the name of a session, and do not belong to it."""

from __future__ import annotations

from ...bus.presence.heartbeats import Heartbeats, Liveness
from ...schema.process_table import Process, process
from ...schema.queries import engine_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...bus.presence.session_name import SessionName


def outsider(bus: Bus, session: SessionName) -> Process | None:
    """Return a process that beats for a session and is none of its own; None where none is seen.

    Such a process takes part without `bus hook` and `bus mcp`, as `bus listen` does, or turned
    sessions off.
    """
    beat = Heartbeats(engine_of(bus)).get(session.name)
    if beat is None or beat.pid is None or beat.liveness is not Liveness.ALIVE:
        return None
    beating = found = process(beat.pid)
    while found is not None:
        if session.process == str(found):
            return None
        found = process(found.parent) if found.parent > 0 else None
    return beating
