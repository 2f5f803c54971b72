"""Waiting for a job: until no other attempt follows."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...bus.doorbell import listen
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.jobs import SUCCEEDED, Jobs
from ...subscribers.queues.queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...subscribers.jobs.jobs import Job
    from .job_request import Submitted

#: The longest wait without a look, in seconds: the end of a job may ring nobody.
_RECHECK_S = 0.1


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job as a caller sees it.

    Attributes:
        job_id, seq: of its message.
        state: `queued`, `running`, `succeeded`, `dead` or `cancelled`.
        attempt: the attempt that is next, runs, or was the last.
        result: what its plugin said of it in the end, or None.
        error: why its last attempt failed, or None.
    """

    job_id: str
    seq: int
    state: str
    attempt: int
    result: str | None
    error: str | None


def outcome_of(bus: Bus, done: Submitted, timeout_s: float | None = None) -> JobOutcome:
    """Wait until a job is over, or the time is, and return what became of it."""
    job = wait_for_job(bus, done.seq, done.queue, timeout_s)
    claims = Claims.of(bus).of_job(Queues(bus).get(done.queue), done.seq)
    result = claims[-1].result if claims and job.state == SUCCEEDED else None
    return JobOutcome(done.job_id, done.seq, job.state, job.attempt, result, job.error)


def job_of(bus: Bus, seq: int, queue: str) -> Job:
    """Return the job of a message in a queue."""
    return next(job for job in Jobs.of(bus).of_message(seq) if job.queue == queue)


def wait_for_job(bus: Bus, seq: int, queue: str, timeout_s: float | None = None) -> Job:
    """Wait until a job is over, or the time is, and return it as it is then.

    Args:
        bus: the bus.
        seq: of its message.
        queue: where it is.
        timeout_s: how long to wait, in seconds; None waits as long as it takes.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    with listen(bus) as listener:
        while True:
            job = job_of(bus, seq, queue)
            left_s = _RECHECK_S if end is None else end - time.monotonic()
            if job.ended_at_ms is not None or left_s <= 0:
                return job
            listener.wait(min(_RECHECK_S, left_s))
