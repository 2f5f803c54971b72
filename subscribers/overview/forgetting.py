"""Forgetting an agent that is gone for good."""

from __future__ import annotations

from ...bus.presence.heartbeats import Liveness
from ...schema.errors import NotFound, Refused
from ..inboxes.cursors import Cursors
from ..inboxes.failed_deliveries import Deliveries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus


def forget_agent(bus: Bus, agent: str) -> None:
    """Delete an agent's cursor, deliveries and heartbeat; the messages stay. Safe to repeat.

    It holds no archive any more. When it comes back it is a new agent: it begins with the oldest
    message that it may read. One that has sent messages stays known by them.

    Args:
        bus: an open bus.
        agent: its name.

    Raises:
        NotFound: the bus has never seen it.
        Refused: its heart beats, or its delivery loop runs; nothing was changed.
    """
    with bus.transaction():
        check_gone(bus, agent)
        Cursors.of(bus).forget(agent)
        Deliveries.of(bus).forget(agent)
        bus.heartbeats.forget(agent)


def check_gone(bus: Bus, agent: str) -> None:
    """Refuse an agent that is there, or that never was.

    Raises:
        NotFound: the bus has never seen it.
        Refused: its heart beats, or its delivery loop runs.
    """
    stranger = bus.agents.stranger(agent, repeat=True)
    if stranger is not None:
        raise NotFound(str(stranger))
    beat = bus.heartbeats.get(agent)
    if beat is not None and beat.liveness == Liveness.ALIVE:
        raise Refused(f"agent {agent!r} is alive: its heart beat {beat.age_s:.0f} s ago")
    if agent in Deliveries.of(bus).agents_in_loops():
        raise Refused(f"agent {agent!r} is alive: its delivery loop runs")
