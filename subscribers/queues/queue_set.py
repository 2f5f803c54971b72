"""Several queues that a host works on together, in the order of the log."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from ...bus import tracing
from ...bus.heartbeats import Liveness
from ...schema.message.patterns import TypePattern
from ...schema.queries import engine_of
from ..jobs.claims import Claims
from ..jobs.jobs import Jobs
from ..jobs.statements import SQL
from .queue import Queue
from .queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...bus.bus import Bus
    from ..jobs.claims import Claim
    from ..jobs.jobs import QueueAtHand
    from .queues import QueueInfo

#: How long these claims last, in milliseconds: 300 days. The host is alone, by a lock that the
#: kernel frees, and its successor takes its claims for lost. So setting a clock ends no claim.
_LEASE_MS = 300 * 86_400_000

#: Up to how many new messages their types are checked; after more, every queue is filled.
_MAX_LOOKED_AT = 10_000


@dataclass(frozen=True, slots=True)
class _Member:
    queue: Queue
    pattern: TypePattern

    @classmethod
    def of(cls, bus: Bus, name: str) -> _Member:
        queue = Queue.open(bus, name)
        return cls(queue, TypePattern(queue.info.pattern))

    def takes_any(self, types: set[str]) -> bool:
        return any(map(self.pattern.matches, types))


class QueueSet:
    """Queues from which a host claims the lowest seq first; queues that are full are skipped.

    Only one thread may use it.

    Args:
        bus: an open bus.
        names: existing queues.

    Attributes:
        next_due_ms: when a delay ends next, in epoch milliseconds, as of the last claim; None
            without a delay.

    Raises:
        QueueNotFound: a queue does not exist.
    """

    def __init__(self, bus: Bus, names: Iterable[str]) -> None:
        self._bus = bus
        self._jobs = Jobs.of(bus)
        members = (_Member.of(bus, name) for name in names)
        self._members = {member.queue.info.id: member for member in members}
        self._filled_upto: int | None = None
        self.next_due_ms: int | None = None

    def claim(
        self, instance: str, *, group: str, limit: int, check: Callable[[], None] = lambda: None
    ) -> list[Claim]:
        """Take up to `limit` jobs, the lowest seq over all queues first. Never waits for work.

        One transaction; none when there is nothing.

        Args:
            instance: which process takes them; for people.
            group: the class of workers that it belongs to.
            limit: how many at most.
            check: is called in that transaction; it raises where another host has taken over.
        """
        self.fill()
        at_hand = self._look()
        now_ms = self._bus.now_ms()
        if limit < 1 or not any(_has_work(queue, now_ms) for queue in at_hand):
            return []
        with self._bus.transaction():
            check()
            self._open_due(at_hand)
            taken = self._take((group, instance), limit)
        for claim in taken:
            tracing.claimed(claim.message, claim.queue, claim.group, claim.claimed_at_ms)
        return taken

    def fill(self) -> None:
        """Take in the messages since the last call; a read of the log finds the queues for them."""
        newest = self._bus.log.newest_seq()
        after = self._filled_upto
        if newest == after:
            return
        if after is None or newest - after > _MAX_LOOKED_AT:
            to_fill = list(self._members.values())
        else:
            types = self._bus.log.work_between(after, newest)
            to_fill = [member for member in self._members.values() if member.takes_any(types)]
        for member in to_fill:
            member.queue.fill()
        self._filled_upto = newest

    def _look(self) -> list[QueueAtHand]:
        at_hand = self._jobs.at_hand_of(list(self._members))
        dues = (queue.next_due_ms for queue in at_hand if queue.next_due_ms is not None)
        self.next_due_ms = min(dues, default=None)
        return at_hand

    def _open_due(self, at_hand: list[QueueAtHand]) -> None:
        now_ms = self._bus.now_ms()
        for queue in at_hand:
            if queue.next_due_ms is not None and queue.next_due_ms <= now_ms:
                self._jobs.open_due(self._members[queue.id].queue.info, now_ms)

    def _take(self, who: tuple[str, str], limit: int) -> list[Claim]:
        line = [(queue.first_seq, queue.id) for queue in self._look() if _may_begin(queue)]
        heapq.heapify(line)
        taken: list[Claim] = []
        while line and len(taken) < limit:
            _, id = heapq.heappop(line)
            taken += self._members[id].queue.take(who, 1, _LEASE_MS)
            for queue in self._jobs.at_hand_of([id]):
                if _may_begin(queue):
                    heapq.heappush(line, (queue.first_seq, id))
        return taken


def _may_begin(queue: QueueAtHand) -> bool:
    return queue.first_seq is not None and not queue.is_shut


def _has_work(queue: QueueAtHand, now_ms: int) -> bool:
    is_due = queue.next_due_ms is not None and queue.next_due_ms <= now_ms
    return is_due or _may_begin(queue)


# The worker groups of each queue, and whether a type of requests is served.

#: How many served types that are similar a warning names.
_NEAREST = 3

#: The states of a group that counts as there.
_THERE = (Liveness.ALIVE, Liveness.WARN)


class QueueWorkers:
    """The table `queue_workers`: which groups have begun to work for a queue, and answer for it.

    Their heartbeats show whether they are still there.
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
