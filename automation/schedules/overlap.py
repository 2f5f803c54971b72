"""Making room for a scheduled job: its predecessors are cancelled where the policy says so."""

from __future__ import annotations

from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import QUEUED, RUNNING
from ...subscribers.queues.job_control import JobControl
from ...subscribers.queues.queue import Queue
from ..jobs.submission import PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus

#: How many jobs of a plugin are looked at: more never wait under a poll guard.
_MAX_JOBS = 1000


def cancel_outstanding(bus: Bus, plugin: str, command: str, why: str) -> int:
    """Cancel the jobs of a command that wait or run, in the open transaction; return how many.

    A process that runs is ended by its host, which learns that its claim is lost.
    """
    try:
        queue = Queue.open(bus, PREFIX + plugin)
    except QueueNotFound:
        return 0
    control = JobControl(queue, by="scheduler")
    count = 0
    for job in control.list(QUEUED, RUNNING, limit=_MAX_JOBS):
        message = bus.log.at(job.seq)
        if message is not None and message.type == f"{PREFIX}{plugin}.{command}":
            control.cancel(job.seq, why)
            count += 1
    return count
