"""Recovery: the jobs that a service left running when it died count an attempt, and go on.

The lock of the service shows that its predecessor is gone, so nobody waits for leases.
"""

from __future__ import annotations

import logging

from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.queries import engine_of
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import Claims
from ...subscribers.queues.queue import Queue
from ..records.job_log import JobLog
from .endings import JobEnd
from .plugin_queues import queues_of_plugins
from .submission import PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...subscribers.jobs.jobs import Job
    from .endings import Endings

#: The error of an attempt that nobody has seen the end of.
WHY = "the service ended while it ran"

_log = logging.getLogger("ackbus.automation.recovery")


def recover(bus: Bus, endings: Endings) -> int:
    """End the attempts that a predecessor left running; return how many there were.

    Each counts: the job is queued again, or dead after its last. One transaction for each queue.
    """
    count = 0
    for info in queues_of_plugins(bus):
        with bus.transaction():
            endings.check()
            tokens = {seq: token for token, seq in Claims.of(bus).active(info)}
            lost = Queue(bus, info).jobs.lose_running(WHY)
            for job in lost:
                _follow_up(bus, endings, job, tokens[job.seq])
        count += len(lost)
        for job in lost:
            _warn(bus, job)
    JobLog(engine_of(bus)).clear_output()
    return count


def _follow_up(bus: Bus, endings: Endings, job: Job, token: int) -> None:
    end = _end(bus, job)
    if end is None:
        return
    output = JobLog(engine_of(bus)).output(token)
    stdout, stderr = (
        "".join(text for name, text in output if name == stream) for stream in ("stdout", "stderr")
    )
    status = states.DEAD if end.is_over else states.FAILED
    endings.log_attempt(end, token, status, stdout, stderr)
    if not end.is_over:
        return
    endings.conclude(end, WHY)
    try:
        with bus.transaction():
            endings.route(end, (), WHY)
    except (InvalidInput, NotFound, Refused) as error:
        # Nobody makes room in a queue before the service has begun.
        _log.error("no job follows from it: %s", error, extra=_about(end.plugin, end.message))


def _end(bus: Bus, job: Job) -> JobEnd | None:
    """Return what became of a job that was lost; None where its message can't be read."""
    message = bus.log.readable(job.seq)
    if message is None:
        return None
    command = message.type.removeprefix(job.queue + ".")
    attempt = job.attempt - 1 if job.state == states.QUEUED else job.attempt
    return JobEnd(message, job.queue.removeprefix(PREFIX), command, job.state, attempt, WHY)


def _warn(bus: Bus, job: Job) -> None:
    message = bus.log.readable(job.seq)
    told = _about(job.queue.removeprefix(PREFIX), message)
    if job.state == states.QUEUED:
        _log.warning(
            "%s: it is queued again, for attempt %s of %s",
            *(WHY, job.attempt, job.max_attempts),
            extra=told,
        )
    else:
        _log.warning("%s: it is dead after attempt %s", WHY, job.attempt, extra=told)


def _about(plugin: str, message: Message | None) -> dict[str, str]:
    return {"plugin": plugin, "job_id": message.id if message else ""}
