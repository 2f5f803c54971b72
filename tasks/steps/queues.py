"""The queues from a request to a merge."""

from __future__ import annotations

from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.queues.queue import Queue
from .messages import QUEUES, TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...bus.bus import Bus

#: The names of the queues by their types.
_NAMES = {type: name for name, type in QUEUES.items()}


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


def take_in(bus: Bus, types_and_seqs: Iterable[tuple[str, int]]) -> None:
    """Make jobs of those of some messages that are acted upon; for steps, in their transaction.

    Args:
        bus: the bus.
        types_and_seqs: of what the step has just published.
    """
    for type, seq in types_and_seqs:
        name = _NAMES.get(type)
        if name is not None:
            open_queue(bus, name).take_in([seq])


def _takes_tasks(queue: Queue) -> bool:
    info = queue.info
    return info.pattern == QUEUES[queue.name] and info.policy.takes(TASKS)
