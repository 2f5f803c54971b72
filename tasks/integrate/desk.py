"""The desk of an integrator: it claims the next entries, and hands back what has no end."""

from __future__ import annotations

from ...bus.presence.heartbeats import OFFLINE
from ..roles.says import Says
from .entries import Entry
from .lander import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.presence.heartbeat_thread import Heart
    from ...subscribers.queues.queue import Queue
    from .book import Book
    from .holding import Holding
    from .lander import Lander
    from .rules import Rules


class Desk:
    """Claims entries of one target.

    Args:
        queue: the completions.
        group: the worker group of the target's integrators.
        rules, holding, book, heart: of the integrator.
    """

    def __init__(
        self, queue: Queue, group: str, rules: Rules, holding: Holding, book: Book, heart: Heart
    ) -> None:
        self._queue = queue
        self._group = group
        self._rules = rules
        self._holding = holding
        self._book = book
        self._says = Says(heart)

    def turn(self, lander: Lander) -> bool:
        """Integrate the next batch; return whether there was one."""
        claims = self._queue.claim(
            self._rules.agent,
            group=self._group,
            limit=self._rules.batch_size,
            lease_s=self._holding.lease_s,
        )
        if not claims:
            self._says("idle")
            return False
        self._holding.keep(claims)
        entries = [Entry.of(claim.message, claim) for claim in claims]
        self._says("working", ", ".join(entry.name for entry in entries)[:200])
        try:
            lander.land(entries)
        except Stopped:
            return False
        finally:
            for claim in claims:
                self._holding.let_go(claim)
            self._hand_back(entries)
            self._says("idle")
        return True

    def _hand_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.claim is not None and self._queue.status(entry.claim) == "active":
                self._book.hand_back(entry, "its integrator could not go on")

    def tell_offline(self) -> None:
        """Tell that nothing is integrated for a while."""
        self._says(OFFLINE)
