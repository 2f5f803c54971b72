"""Retention: who still needs which part of the log, and who is waited for no longer."""

from __future__ import annotations

from dataclasses import dataclass

from ..bus import Heartbeats, Imports, SegmentMissing
from ..schema import InvalidInput, is_running
from .claims import Claims
from .cursors import Cursors
from .deliveries import Deliveries
from .jobs import Jobs
from .queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..bus import Bus
    from .queues import QueueInfo

#: For how long an agent or a queue that nobody sees keeps what it needs, in seconds: a week.
IDLE_AFTER_S = 7 * 86_400.0

#: What may need a part of the log.
INBOX, QUEUE = "inbox", "queue"


@dataclass(frozen=True, slots=True)
class Hold:
    """An agent or a queue that has not done with the log from some message on.

    Attributes:
        kind: `inbox` or `queue`.
        name: whose.
        seq: the first message that it needs.
        seen_ms: when it was last seen to do something, in epoch milliseconds, or that message was
            sent, or came by an import, whichever is latest.
        is_living: whether that is not too long ago.
    """

    kind: str
    name: str
    seq: int
    seen_ms: int
    is_living: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What may be archived.

    Attributes:
        upto_seq: the last message.
        held_by: who is living, and needs something of what was to be archived.
        passed_over: who is waited for no longer, and needs something of what may be archived.
    """

    upto_seq: int
    held_by: list[Hold]
    passed_over: list[Hold]


class Retention:
    """Says what of the log is still needed.

    An inbox needs its first message that is not acknowledged; broadcasts of others count for agents
    that have acknowledged something before, or have a loop. A queue needs the first message that
    is not a job yet, or is a job that is not over. Who has not been seen for `idle_after_s` is
    waited for no longer: an agent that has not acknowledged, published or beaten its heart, has no
    loop that runs, and whose first unread message is as old, or came by an import as long ago.
    Polling can't be seen, since it changes nothing.

    Args:
        bus: an open bus.
        idle_after_s: for how long to wait for those who are not seen.
    """

    def __init__(self, bus: Bus, *, idle_after_s: float = IDLE_AFTER_S) -> None:
        if idle_after_s < 0:
            raise InvalidInput(f"nobody can be idle for {idle_after_s} s")
        self._bus = bus
        self._idle_ms = round(idle_after_s * 1000)
        self._cursors = Cursors(bus.database)
        self._jobs = Jobs(bus.database)
        self._claims = Claims(bus.database)
        self._imports = Imports(bus.database)

    def plan(self, wanted_seq: int) -> Plan:
        """Return up to where the log may be archived, if nothing above `wanted_seq` is to be."""
        holds = [hold for hold in self.holds() if hold.seq <= wanted_seq]
        held_by = [hold for hold in holds if hold.is_living]
        newest = self._bus.log.newest_seq()
        upto = min(wanted_seq, newest, *(hold.seq - 1 for hold in held_by))
        passed_over = [hold for hold in holds if not hold.is_living and hold.seq <= upto]
        return Plan(upto, held_by, passed_over)

    def pass_over(self, plan: Plan) -> None:
        """Note for the idle agents of a plan that mail of theirs is about to be archived unread.

        Their next poll says so. A queue needs no note: it reads the archive as it reads the log.
        """
        with self._bus.transaction():
            for hold in plan.passed_over:
                if hold.kind == INBOX:
                    self._cursors.pass_over(hold.name, plan.upto_seq)

    def holds(self) -> list[Hold]:
        """Return who needs what, the first message first."""
        found = [*self._inboxes(), *self._queues()]
        return sorted(found, key=lambda hold: (hold.seq, hold.kind, hold.name))

    def _hold(self, kind: str, name: str, seq: int, seen_ms: int) -> Hold:
        is_living = seen_ms > self._bus.database.now_ms() - self._idle_ms
        return Hold(kind, name, seq, seen_ms, is_living)

    def _inboxes(self) -> Iterator[Hold]:
        log, now_ms = self._bus.log, self._bus.database.now_ms()
        moved = self._cursors.seen()
        beats = {beat.agent: beat.ts_ms for beat in Heartbeats(self._bus.database).list()}
        loops = Deliveries(self._bus.database).loops()
        for name in sorted({*moved, *loops, *log.recipients()}):
            cursor, moved_ms = moved.get(name, (0, 0))
            seq = log.first_for(name, cursor, by_name=name not in moved and name not in loops)
            if seq is not None:
                looped_ms = now_ms if name in loops and is_running(loops[name]) else 0
                acted_ms = max(moved_ms, beats.get(name, 0), looped_ms, log.last_sent_ms(name) or 0)
                yield self._hold(INBOX, name, seq, max(acted_ms, self._came_ms(seq)))

    def _came_ms(self, seq: int) -> int:
        """Return since when a message waits: an imported one may have been sent long before."""
        message = self._bus.log.at(seq)
        sent_ms = 0 if message is None else message.ts_ms
        return max(sent_ms, self._imports.came_ms(seq) or 0)

    def _queues(self) -> Iterator[Hold]:
        for info in Queues(self._bus).list():
            first_job = self._jobs.first_live(info)
            needed = [seq for seq in (self._first_to_come(info), first_job) if seq is not None]
            if needed:
                seen_ms = self._claims.last_at_ms(info) or info.created_at_ms
                yield self._hold(QUEUE, info.name, min(needed), seen_ms)

    def _first_to_come(self, info: QueueInfo) -> int | None:
        """Return the first message that the queue has not taken in."""
        found = self._bus.log.read(after_seq=info.filled_seq, type=info.pattern)
        try:
            message = next(found, None)
        except SegmentMissing as lost:  # what it waits for may come back
            return max(lost.first_seq, info.filled_seq + 1)
        return None if message is None else message.seq
