"""The number of an agent's unread messages, for prompts and hooks: no more of the bus is opened."""

from __future__ import annotations

from contextlib import suppress

from ...schema.errors import BusBusy, BusUnusable
from ...schema.sqlite.database import Database
from .cursors import Cursors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os


def unread_in(
    directory: str | os.PathLike[str],
    agent: str,
    limit: int,
    *,
    wait_s: float,
    joins: bool = False,
) -> int:
    """Return how many messages wait in an agent's inbox, in a bus that is opened for that alone.

    Args:
        directory: the bus directory.
        agent, limit: as for `Cursors.count_unread`.
        wait_s: how long to wait for a lock, in seconds. Reading waits only in rare moments.
        joins: whether the agent joins first, so that broadcasts wait for it; where it can't, its
            messages are counted all the same.

    Raises:
        BusNotFound: there is no bus.
        BusUnusable: there is one that this process can't use.
    """
    database = Database(directory, write_timeout_s=wait_s)
    try:
        cursors = Cursors(database)
        if joins:
            with suppress(BusBusy, BusUnusable):
                cursors.join(agent)
        return cursors.count_unread(agent, limit)
    finally:
        database.close()
