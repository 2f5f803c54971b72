"""Changing the policy of a queue, and adapting what waits in it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ...bus.doorbell import ring
from ...schema.errors import NotFound, Refused
from ...schema.paging import pages
from ...schema.queries import engine_of
from ..jobs import jobs as states
from ..jobs.jobs import BATCH, Jobs
from ..jobs.manual_acts import REMOVE, SET, ManualActs
from .job_control import JobControl
from .queue import Queue
from .queues import Filler, Queues, policy_with, with_retries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Unpack

    from ...bus.bus import Bus
    from ..options import PolicyRules
    from .queues import QueueInfo


def change_policy(
    bus: Bus, name: str, *, by: str | None = None, **rules: Unpack[PolicyRules]
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
        InvalidInput: a rule is none.
    """
    queues = Queues(bus)
    with bus.transaction():
        info = queues.get(name)
        is_open = info.policy.retry == "contract"
        policy = policy_with(info.policy, with_retries(rules) if is_open else rules)
        if policy.addressed != info.policy.addressed:
            _fill(bus, queues, info)
        queues.set_policy(info, policy)
        detail = ", ".join(f"{rule} {policy.said(rule)}" for rule in rules)
        ManualActs(engine_of(bus), by).note(info, SET, detail=detail)
        ring(bus)  # there may be room for more
    # Also where a rule is given that holds already: an earlier call may have been cut short.
    if rules.keys() & {"ordering", "ageing_s"}:
        _rank_again(bus, info)
    if "max_running_per_key" in rules:
        _open_keys_again(bus, queues, info)
    if "addressed" in rules:
        JobControl(Queue.open(bus, name)).recount_limit()
    return replace(info, policy=policy)


def _fill(bus: Bus, queues: Queues, info: QueueInfo) -> None:
    """Take in what was stored by now: it is kept out of inboxes by the rules of its time."""
    filler = Filler(bus, info, queues, Jobs.of(bus))
    while (page := filler.look()) is not None:
        filler.store(page, queues.get(info.name))
    # Messages that the queue didn't take in are mail, and stay mail under another rule.
    filled_seq, newest = queues.position(info.id)
    queues.pass_by(info.id, filled_seq, newest)


def _rank_again(bus: Bus, info: QueueInfo) -> None:
    jobs = Jobs.of(bus)
    seqs = jobs.queued_seqs(info)  # what comes later is ranked by the new order anyway
    for start in range(0, len(seqs), BATCH):
        with bus.transaction():
            jobs.rank_again(info, seqs[start : start + BATCH])


def _open_keys_again(bus: Bus, queues: Queues, info: QueueInfo) -> None:
    jobs = Jobs.of(bus)

    def open_again(after_key: bytes) -> list[bytes]:
        with bus.transaction():
            opened = jobs.open_keys_again(queues.get(info.name), after_key)
            ring(bus)
        return opened

    for _ in pages(open_again, b"", place=bytes, what="keys of jobs"):
        pass  # a batch a transaction


# Removing a queue: what is published later is mail again, and its name is free.


def remove_queue(bus: Bus, name: str, *, by: str | None = None) -> str:
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
        queue.fill()  # what came since
        refuse_live(queue)
        queues = Queues(bus)
        info = queues.get(name)
        with suppress(NotFound):  # most queues have no limit
            bus.limits.clear("queue", name)
        queues.set_policy(info, replace(info.policy, hides="none", addressed=None))
        history_name = f"{name[:200]}~removed-{info.id}"
        ManualActs(engine_of(bus), by).note(info, REMOVE)
        queues.remove(info, history_name)
        ring(bus)  # its workers learn it
    return history_name


def refuse_live(queue: Queue) -> None:
    """Refuse to remove a queue in which jobs wait or run.

    Raises:
        Refused: some do.
    """
    counts = queue.jobs.counts()
    waiting = sum(counts.get(gate, 0) for gate in (states.OPEN, states.TIME, states.KEY))
    running = counts.get(states.RUNNING, 0)
    if waiting or running:
        raise Refused(
            f"queue {queue.name!r} has {waiting} waiting and {running} running jobs; see"
            f" 'bus job list --queue {queue.name}'"
        )
