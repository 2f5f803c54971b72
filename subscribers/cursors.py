"""Cursors: how far each agent has acknowledged."""

from __future__ import annotations

from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Database


class Cursors:
    """The table `cursors`. A cursor only moves forward."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def position(self, agent: str) -> int:
        """Return the last seq that the agent acknowledged; 0 for one that never did."""
        seq: int | None = self._database.value(SQL["cursor"], (agent,))
        return seq or 0

    def positions(self) -> dict[str, int]:
        """Return the position of every agent that ever acknowledged."""
        return {agent: seq for agent, seq, _ in self._database.rows(SQL["cursors"])}

    def advance(self, agent: str, seq: int) -> int:
        """Move an agent's cursor to `seq`, unless it is further, and return where it is."""
        values = (agent, seq, self._database.now_ms())
        ((position,),) = self._database.change(SQL["advance"], values)
        return int(position)
