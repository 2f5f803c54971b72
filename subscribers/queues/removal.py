"""Removing a queue: what is published later is mail again, and its name is free."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ...bus.doorbell import ring
from ...schema.errors import NotFound, Refused
from ...schema.queries import engine_of
from ..jobs import jobs as states
from ..jobs.manual_acts import REMOVE, Acts
from .queue import Queue
from .queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus


def remove_queue(bus: Bus, name: str, *, by: str | None = None) -> str:
    """Remove a queue without waiting or running jobs, and return the name that its history keeps.

    Its jobs and claims stay on record under that name. Messages that are published from now on are
    in inboxes, as if the queue had never been. A new queue of the old name is another queue, which
    begins with the whole log unless it is told otherwise.

    Args:
        bus: an open bus.
        name: the queue.
        by: who does it, for the record; None: the account of this process.

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
        kept = f"{name[:200]}~removed-{info.id}"
        Acts(engine_of(bus), by).note(info, REMOVE)
        queues.remove(info, kept)
        ring(bus)  # its workers learn it
    return kept


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
