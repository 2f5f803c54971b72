"""The number of unread messages of an inbox, for frequent callers: no message is read for it."""

from __future__ import annotations

from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Database


def count_unread(database: Database, agent: str, limit: int, *, news: bool = True) -> int:
    """Return how many messages wait in an agent's inbox, counted up to `limit`.

    Args:
        database: of the bus.
        agent: the agent.
        limit: the highest count.
        news: whether `agent_started` and `agent_stopped` of others count.
    """
    count: int = database.value(SQL["unread" if news else "unread_but_news"], (agent, limit))
    return count
