"""The queues from a request to a merge."""

from __future__ import annotations

from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.queues.queue import Queue
from .messages import QUEUES, TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus


def open_queue(bus: Bus, name: str) -> Queue:
    """Open one of the queues; it is made when it is not there. A person may have set its rules.

    Raises:
        QueueMismatch: another queue has its name.
    """
    try:
        found = Queue.open(bus, name)
    except QueueNotFound:
        found = None
    if found is not None and _takes_tasks(found):
        return found
    return Queue.create(bus, name, QUEUES[name], ordering="priority", addressed=TASKS)


def _takes_tasks(queue: Queue) -> bool:
    info = queue.info
    return info.pattern == QUEUES[queue.name] and info.policy.takes(TASKS)
