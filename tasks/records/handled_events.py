"""Handling each event of a session once: over reconnections, restarts and crashes."""

from __future__ import annotations

from contextlib import contextmanager

from ...schema.queries import Table
from .statements import SESSIONS as SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How many marks an agent has in a session: an event that is older than all of them is handled.
KEPT = 5_000


class HandledEvents(Table):
    """The tables `session_cursors` and `handled_messages`."""

    def cursor(self, agent: str, session: str) -> int:
        """Return the cursor from which an agent goes on after a restart; it only grows."""
        return self._positions(agent, session)[0]

    def move_cursor(self, agent: str, session: str, seq: int) -> None:
        """Move the cursor of an agent forward to a seq; one that is further stays."""
        self._engine.change(SQL["move_session_cursor"], (agent, session, seq))

    def is_handled(self, agent: str, session: str, seq: int) -> bool:
        """Whether an agent has handled an event."""
        if seq <= self._positions(agent, session)[1]:
            return True
        return bool(self._engine.value(SQL["is_handled"], (agent, session, seq)))

    @contextmanager
    def handling(self, agent: str, session: str, seq: int, *, kept: int = KEPT) -> Iterator[bool]:
        """Run a block in one transaction with the mark that an event is handled.

        All that the block stores in the bus is there with the mark, or nothing is. Wait for nothing
        inside it. Changes of other things than the bus belong before it, and may happen twice.

        Args:
            agent: who handles it.
            session, seq: of the event.
            kept: how many marks stay.

        Yields:
            Whether the event is new to the agent; one that is not gets no mark.
        """
        with self._engine.write():
            is_new = not self.is_handled(agent, session, seq)
            yield is_new
            if is_new:
                self._mark(agent, session, seq, kept)

    def _mark(self, agent: str, session: str, seq: int, kept: int) -> None:
        """Mark an event as handled, and drop the oldest marks beyond `kept`."""
        row = (agent, session, seq, self._engine.now_ms())
        self._engine.change(SQL["mark_handled"], row)
        oldest = self._engine.value(SQL["last_to_prune"], (agent, session, kept))
        if oldest is not None:
            self._engine.change(SQL["note_pruned"], (agent, session, oldest))
            self._engine.change(SQL["prune_handled"], (agent, session, oldest))

    def _positions(self, agent: str, session: str) -> tuple[int, int]:
        row = self._engine.row(SQL["session_cursor"], (agent, session))
        return (0, 0) if row is None else (row[0], row[1])
