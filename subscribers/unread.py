"""The number of unread messages of an inbox, for frequent callers: no message is read for it."""

from __future__ import annotations

from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Database


def count_unread(database: Database, agent: str, limit: int) -> int:
    """Return how many messages wait in an agent's inbox, counted up to `limit`."""
    count: int = database.value(SQL["unread"], (agent, limit))
    return count
