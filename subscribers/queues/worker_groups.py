"""The worker groups of each queue, and whether a type of requests is served."""

from __future__ import annotations

from ...bus.presence.heartbeats import Liveness
from ...schema.message.patterns import TypePattern
from ...schema.queries import engine_of
from ..jobs.claims import Claims
from ..jobs.statements import SQL
from .queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from .queues import QueueInfo

#: How many served types that are similar a warning names.
_NEAREST = 3

#: The states of a group that counts as there.
_THERE = (Liveness.ALIVE, Liveness.WARN)


class QueueWorkers:
    """The table `queue_workers`: which groups have begun to work for a queue, and answer for it.

    Whether they are there still, their hearts tell.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._engine = engine_of(bus)

    def note(self, info: QueueInfo, group: str) -> None:
        """Record that a group begins to work for a queue. Writes only what is new."""
        if group not in self.groups(info):
            row = (info.id, group, self._engine.now_ms())
            self._engine.change(SQL["add_queue_worker"], row)

    def unserved(self, type: str) -> str | None:
        """Return a warning, for people, if no live worker serves a type of messages; else None.

        A worker serves a type if its queue takes it in, and the heart of its group beats; or if it
        is at a job of the queue.
        """
        there = {beat.agent for beat in self._bus.heartbeats.list() if beat.liveness in _THERE}
        queues = Queues(self._bus).list()
        for info in queues:
            if TypePattern(info.pattern).matches(type) and self._is_served(info, there):
                return None
        import difflib  # slow to load, and only mistakes need it

        served = [info.pattern for info in queues if self._is_served(info, there)]
        near = difflib.get_close_matches(type, served, _NEAREST)
        hint = f"; near: {', '.join(near)}" if near else ""
        return f"no live worker serves {type!r}{hint}; it waits for one all the same"

    def _is_served(self, info: QueueInfo, there: set[str]) -> bool:
        if not there.isdisjoint(self.groups(info)):
            return True
        return Claims(self._engine).is_at_work(info, self._engine.now_ms())

    def groups(self, info: QueueInfo) -> set[str]:
        """Return the groups that have begun to work for a queue."""
        return {group for (group,) in self._engine.rows(SQL["queue_workers"], (info.id,))}
