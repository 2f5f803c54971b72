"""How far the log has been exported: the table `export_state`."""

from __future__ import annotations

from ..schema import Queries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Database

_SQL = Queries(beside=__file__)


class Position:
    """The seq of the last message in `bus.jsonl`, as the database knows it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self) -> int:
        """Return it; 0 before the first export."""
        seq: int = self._database.value(_SQL["position"])
        return seq

    def set(self, seq: int) -> None:
        """Store it; only the one exporter does."""
        self._database.change(_SQL["advance"], (seq,))
