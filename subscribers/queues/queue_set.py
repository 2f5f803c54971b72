"""Several queues that a host works on together, and the changes of queues meanwhile."""

from __future__ import annotations

import heapq
from contextlib import suppress
from dataclasses import dataclass, replace

from ...bus import tracing
from ...bus.doorbell import ring
from ...bus.heartbeats import Liveness
from ...schema.errors import NotFound, Refused
from ...schema.message.names import near_names
from ...schema.message.patterns import TypePattern
from ...schema.paging import pages
from ...schema.queries import engine_of
from ..jobs import jobs as states
from ..jobs.claims import Claims
from ..jobs.jobs import BATCH, Jobs
from ..jobs.outcomes import REMOVE, SET, ManualActs
from ..jobs.statements import SQL
from .job_control import JobControl
from .queue import Queue
from .queues import Filler, Queues, policy_with, with_retries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from ...bus.local_bus import LocalBus
    from ..jobs.claims import Claim
    from ..jobs.jobs import QueueAtHand
    from ..options import PolicyRules
    from .queues import QueueInfo

# Changing the policy of a queue, and adapting what waits in it.


def change_policy(
    bus: LocalBus, name: str, *, by: str | None = None, **rules: Unpack[PolicyRules]
) -> QueueInfo:
    """Change rules of a queue; they hold from the next claim on, also for waiting jobs.

    The number of a job's attempts is settled when it is taken in. Waiting jobs are adapted to
    another order, and to another limit for each key, some hundreds of jobs a transaction.
    Until that is done, some jobs follow the old rule and some the new rule; after a crash in
    between, the same call does the rest.

    Args:
        bus: the bus.
        name: the queue.
        by: the actor, for the record; None: the account of this process.
        rules: fields of `Policy`.

    Raises:
        QueueNotFound: there is none of this name.
        InvalidInput: there is no such rule, or it can't have this value.
    """
    queues = Queues(bus)
    with bus.transaction():
        info = queues.get(name)
        by_contract = info.policy.retry == "contract"
        policy = policy_with(info.policy, with_retries(rules) if by_contract else rules)
        if policy.addressed != info.policy.addressed:
            _fill(bus, queues, info)
        queues.set_policy(info, policy)
        detail = ", ".join(f"{rule} {policy.said(rule)}" for rule in rules)
        ManualActs(engine_of(bus), by).note(info, SET, detail=detail)
        ring(bus)  # there may be room for more
    # Also if the rule had this value already: an earlier call may have been cut short.
    if rules.keys() & {"ordering", "ageing_s"}:
        _rank_again(bus, info)
    if "max_running_per_key" in rules:
        _open_keys_again(bus, queues, info)
    if "addressed" in rules:
        JobControl(Queue.open(bus, name)).recount_limit()
    return replace(info, policy=policy)


def _fill(bus: LocalBus, queues: Queues, info: QueueInfo) -> None:
    """Take in the messages that are stored by now: the present rules keep them out of inboxes."""
    filler = Filler(bus, info, queues, Jobs.of(bus))
    while (page := filler.look()) is not None:
        filler.store(page, queues.get(info.name))
    # Messages that the queue didn't take in are mail, and stay mail under another rule.
    filled_seq, newest = queues.position(info.id)
    queues.pass_by(info.id, filled_seq, newest)


def _rank_again(bus: LocalBus, info: QueueInfo) -> None:
    jobs = Jobs.of(bus)
    seqs = jobs.queued_seqs(info)  # jobs that come later are ranked by the new order anyway
    for start in range(0, len(seqs), BATCH):
        with bus.transaction():
            jobs.rank_again(info, seqs[start : start + BATCH])


def _open_keys_again(bus: LocalBus, queues: Queues, info: QueueInfo) -> None:
    jobs = Jobs.of(bus)

    def open_again(after_key: bytes) -> list[bytes]:
        with bus.transaction():
            opened = jobs.open_keys_again(queues.get(info.name), after_key)
            ring(bus)
        return opened

    for _ in pages(open_again, b"", place=bytes, what="keys of jobs"):
        pass  # a batch a transaction


# Removing a queue: what is published later is mail again, and its name is free.


def remove_queue(bus: LocalBus, name: str, *, by: str | None = None) -> str:
    """Remove a queue without waiting or running jobs, and return the name that its history keeps.

    Its jobs and claims stay on record under that name. Messages that are published from now on are
    in inboxes, as if the queue had never been. A new queue of the old name is another queue, which
    begins with the whole log by default.

    Args:
        bus: an open bus.
        name: the queue.
        by: the actor, for the record; None: the account of this process.

    Raises:
        QueueNotFound: there is none of this name.
        Refused: jobs wait or run in it; nothing was changed.
    """
    queue = Queue.open(bus, name)
    queue.fill()
    with bus.transaction():
        queue.fill()  # messages may have come since
        refuse_live(queue)
        queues = Queues(bus)
        info = queues.get(name)
        with suppress(NotFound):  # most queues have no limit
            bus.limits.clear("queue", name)
        queues.set_policy(info, replace(info.policy, hides="none", addressed=None))
        history_name = f"{name[:200]}~removed-{info.id}"
        ManualActs(engine_of(bus), by).note(info, REMOVE)
        queues.remove(info, history_name)
        ring(bus)  # wakes its workers, which notice
    return history_name


def refuse_live(queue: Queue) -> None:
    """Refuse to remove a queue in which jobs wait or run.

    Raises:
        Refused: some jobs wait or run.
    """
    counts = queue.jobs.counts()
    waiting = sum(counts.get(gate, 0) for gate in (states.OPEN, states.TIME, states.KEY))
    running = counts.get(states.RUNNING, 0)
    if waiting or running:
        raise Refused(
            f"queue {queue.name!r} has {waiting} waiting and {running} running jobs; see"
            f" 'bus job list --queue {queue.name}'"
        )


#: How long the claims of a `QueueSet` last, in milliseconds: 300 days. Its host is alone, by a lock
#: that the kernel frees, and its successor takes its claims for lost. So setting a clock ends no
#: claim.
_LEASE_MS = 300 * 86_400_000

#: Up to how many new messages their types are checked; after more, every queue is filled.
_MAX_LOOKED_AT = 10_000


@dataclass(frozen=True, slots=True)
class _Member:
    queue: Queue
    pattern: TypePattern

    @classmethod
    def of(cls, bus: LocalBus, name: str) -> _Member:
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

    def __init__(self, bus: LocalBus, names: Iterable[str]) -> None:
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
            instance: the process that takes them; for people.
            group: the class of workers that the process belongs to.
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

#: The states of the heart of a live worker group.
_ALIVE = (Liveness.ALIVE, Liveness.WARN)


class QueueWorkers:
    """The table `queue_workers`: which groups have begun to work for a queue, and answer for it.

    Their heartbeats show whether they are still there.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._engine = engine_of(bus)

    def note(self, info: QueueInfo, group: str) -> None:
        """Record that a group begins to work for a queue. Writes only what is new."""
        if group not in self.groups(info):
            row = (info.id, group, self._engine.now_ms())
            self._engine.change(SQL["add_queue_worker"], row)

    def unserved(self, type: str) -> str | None:
        """Return a warning, for people, if no live worker serves a type of messages; else None.

        A worker serves a type if its queue takes in messages of the type, and the heart of its
        group beats; or if it is at a job of the queue.
        """
        live = {beat.agent for beat in self._bus.heartbeats.list() if beat.liveness in _ALIVE}
        queues = Queues(self._bus).list()
        for info in queues:
            if TypePattern(info.pattern).matches(type) and self._is_served(info, live):
                return None
        served = [info.pattern for info in queues if self._is_served(info, live)]
        near = near_names(type, served)
        hint = f"; near: {', '.join(near)}" if near else ""
        return f"no live worker serves {type!r}{hint}; it waits for one all the same"

    def _is_served(self, info: QueueInfo, live: set[str]) -> bool:
        if not live.isdisjoint(self.groups(info)):
            return True
        return Claims(self._engine).is_at_work(info, self._engine.now_ms())

    def groups(self, info: QueueInfo) -> set[str]:
        """Return the groups that have begun to work for a queue."""
        return {group for (group,) in self._engine.rows(SQL["queue_workers"], (info.id,))}
