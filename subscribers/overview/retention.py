"""Retention: the part of the log that agents and queues still need, and the agents to ignore."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from ...bus.errors import SegmentMissing
from ...bus.log.append import Imports
from ...schema.errors import InvalidInput, NotFound, shown
from ..inboxes.failed_deliveries import Cursors, Deliveries
from ..inboxes.session_names import LEASE_S, SessionNames
from ..jobs.claims import Claims
from ..jobs.jobs import Jobs
from ..jobs.policy import AUTOMATION
from ..queues.queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ...bus.local_bus import LocalBus
    from ..queues.queues import QueueInfo

#: After how long without an act an agent or a queue is idle, in seconds: a week.
IDLE_AFTER_S = 7 * 86_400.0

#: For how long an ended session still holds messages back, in seconds.
SESSION_IDLE_AFTER_S = 3600.0

#: Readers that may need a part of the log.
INBOX, QUEUE = "inbox", "queue"


@dataclass(frozen=True, slots=True)
class Hold:
    """An agent or a queue that still needs the log from some message on.

    Attributes:
        kind: `inbox` or `queue`.
        name: the name of the agent or the queue.
        seq: the first message that it needs.
        seen_ms: when it last acted, or when that message was sent or imported, whichever is latest;
            in epoch milliseconds.
        is_living: whether `seen_ms` is recent: it is not idle.
        is_passed_over: whether mail of the agent was archived unread, and it has not acknowledged,
            joined, run a loop or beaten its heart since; or it is a session that ended an hour ago.
    """

    kind: str
    name: str
    seq: int
    seen_ms: int
    is_living: bool
    is_passed_over: bool = False


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """A plan for archiving.

    Attributes:
        upto_seq: the last message.
        held_by: the agents and queues that hold messages back.
        passed_over: the agents whose unread messages are archived.
    """

    upto_seq: int
    held_by: list[Hold]
    passed_over: list[Hold]

    @property
    def idle(self) -> list[Hold]:
        """The idle agents and queues without which more could be archived."""
        by_seq = sorted(self.held_by, key=lambda hold: (hold.seq, not hold.is_living))
        return list(takewhile(lambda hold: not hold.is_living, by_seq))


class Retention:
    """Finds the part of the log that is still needed.

    An inbox needs its first message that is not acknowledged; broadcasts of others count for
    readers: agents that have acknowledged, run a loop or joined (`Inbox.join`). A heart makes no
    reader. Mail to `automation` is not needed. A queue needs the first message that is not a
    job yet, or is a job that is not over.

    After `idle_after_s` without an act an agent or a queue is idle: a queue without a claim; an
    agent that has not acknowledged, joined, published or beaten its heart, has no loop that runs,
    and whose first unread message was sent or imported as long ago. Polling does not count, since
    it changes nothing.

    Args:
        bus: an open bus.
        idle_after_s: after how long without a sign of life agents and queues are idle.
    """

    def __init__(self, bus: LocalBus, *, idle_after_s: float = IDLE_AFTER_S) -> None:
        if idle_after_s < 0:
            raise InvalidInput(f"idle_after_s must be 0 or more, not {idle_after_s}")
        self._bus = bus
        self._idle_ms = round(idle_after_s * 1000)
        self._cursors = Cursors.of(bus)
        self._jobs = Jobs.of(bus)
        self._claims = Claims.of(bus)
        self._imports = Imports.of(bus)

    def plan(
        self, wanted_seq: int, *, pass_over: Collection[str] = (), pass_over_idle: bool = False
    ) -> ArchivePlan:
        """Return a plan to archive the log, at most up to `wanted_seq`.

        Unread mail of an agent, idle or not, is only archived if that is asked for here, or was
        asked for before and the agent has not come back since. Idle queues hold nothing: they read
        the archive.

        Args:
            wanted_seq: the last message to archive.
            pass_over: agents to wait for no longer, whenever they were seen.
            pass_over_idle: whether not to wait for idle agents.

        Raises:
            InvalidInput: `pass_over` is one name, and not a collection of names.
            NotFound: the bus has never seen one of these agents, nor stored mail to it.
        """
        if isinstance(pass_over, str):
            raise InvalidInput(f"pass_over takes a list of agents, like [{shown(pass_over)}]")
        self._check_known(pass_over)
        last = min(wanted_seq, self._bus.log.newest_seq() - 1)  # the newest message never leaves
        holds = [hold for hold in self.holds() if hold.seq <= last]
        passed_over = [hold for hold in holds if _may_pass_over(hold, pass_over, pass_over_idle)]
        held_by = [hold for hold in holds if hold not in passed_over]
        upto = max(0, min([last, *(hold.seq - 1 for hold in held_by)]))
        return ArchivePlan(upto, held_by, [hold for hold in passed_over if hold.seq <= upto])

    def pass_over(self, plan: ArchivePlan) -> None:
        """Note for the agents that a plan passes over that mail of theirs is archived unread.

        Their next poll says so. A queue needs no note: it reads the archive as it reads the log.
        """
        with self._bus.transaction():
            for hold in plan.passed_over:
                if hold.kind == INBOX:
                    self._cursors.pass_over(hold.name, plan.upto_seq)

    def holds(self) -> list[Hold]:
        """Return all holds, in the order of their messages."""
        holds = [*self._inboxes(), *self._queues()]
        return sorted(holds, key=lambda hold: (hold.seq, hold.kind, hold.name))

    def held_by_queues(self, upto_seq: int) -> list[Hold]:
        """Return the holds of queues up to a seq, idle or not: no queue can read discarded jobs."""
        return [hold for hold in self._queues() if hold.seq <= upto_seq]

    def _check_known(self, names: Collection[str]) -> None:
        if not names:
            return
        waited_for = {*self._cursors.seen(), *self._bus.log.recipients()}
        for name in names:
            stranger = None if name in waited_for else self._bus.agents.stranger(name, repeat=True)
            if stranger is not None:
                raise NotFound(str(stranger))

    def _is_living(self, seen_ms: int) -> bool:
        return seen_ms > self._bus.now_ms() - self._idle_ms

    def _inboxes(self) -> Iterator[Hold]:
        log = self._bus.log
        readers, passed_over = self._cursors.seen(), self._cursors.passed_over()
        acts, ended = self._acts(), self._ended_sessions()
        for name in sorted({*readers, *log.recipients()}):
            if name == AUTOMATION and name not in readers:
                continue  # no program reads its mail: its queues hold the messages that they need
            _, moved_ms = readers.get(name, (0, 0))
            seq = self._cursors.first_waiting(name, is_reader=name in readers)
            if seq is not None:
                acted_ms = max(moved_ms, acts.get(name, 0))
                seen_ms = max(acted_ms, log.last_sent_ms(name) or 0, self._came_ms(seq))
                is_passed_over = acted_ms <= passed_over.get(name, -1) or (
                    name in ended and max(acted_ms, ended[name]) < self._hour_ago_ms()
                )
                is_living = self._is_living(seen_ms)
                yield Hold(INBOX, name, seq, seen_ms, is_living, is_passed_over)

    def _hour_ago_ms(self) -> int:
        return self._bus.now_ms() - round(SESSION_IDLE_AFTER_S * 1000)

    def _ended_sessions(self) -> dict[str, int]:
        """Return the sessions that have ended, without base names, and when they were there last.

        A later session begins at the cursor of the base name. For a session that came by a
        connection the time is 0, since a server holds its name far ahead: its heart counts.
        """
        names = SessionNames.of(self._bus)
        return {
            session.name: 0 if session.connection else session.until_ms - round(LEASE_S * 1000)
            for session in names.list()
            if session.number > 1 and not names.is_live(session)
        }

    def _acts(self) -> dict[str, int]:
        """Return when agents last beat their hearts: now, for those whose loops run."""
        beats = {beat.agent: beat.ts_ms for beat in self._bus.heartbeats.list()}
        return beats | dict.fromkeys(Deliveries.of(self._bus).agents_in_loops(), self._bus.now_ms())

    def _came_ms(self, seq: int) -> int:
        """Return since when a message waits: an import may be long after its sending."""
        message = self._bus.log.at(seq)
        sent_ms = 0 if message is None else message.ts_ms
        return max(sent_ms, self._imports.came_ms(seq) or 0)

    def _queues(self) -> Iterator[Hold]:
        for info in Queues(self._bus).list():
            first_job = self._jobs.first_live(info)
            needed = [seq for seq in (self._first_to_come(info), first_job) if seq is not None]
            if needed:
                seen_ms = self._claims.last_at_ms(info) or info.created_at_ms
                yield Hold(QUEUE, info.name, min(needed), seen_ms, self._is_living(seen_ms))

    def _first_to_come(self, info: QueueInfo) -> int | None:
        """Return the first message that the queue has yet to take in."""
        messages = self._bus.log.read(after_seq=info.filled_seq, type=info.pattern)
        try:
            message = next(
                (arrived for arrived in messages if info.policy.takes(arrived.to_agent)), None
            )
        except SegmentMissing as lost:  # the lost part may come back
            return max(lost.first_seq, info.filled_seq + 1)
        return None if message is None else message.seq


def _may_pass_over(hold: Hold, names: Collection[str], pass_over_idle: bool) -> bool:
    if hold.kind == QUEUE:
        return not hold.is_living
    return hold.is_passed_over or hold.name in names or (pass_over_idle and not hold.is_living)
