"""Lists of a queue's jobs for people, each a walk over an index where most jobs are not meant."""

from __future__ import annotations

from ...schema.errors import InvalidInput, shown
from ...schema.message.limits import MAX_SEQ
from ..views import Views
from . import jobs as states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..queues.queue import Queue
    from .jobs import Job


def list_jobs(
    queue: Queue, found: Collection[str], limit: int, *, before_seq: int | None = None
) -> list[Job]:
    """Return up to `limit` jobs of a queue, the newest first. Fills the queue first.

    When only queued ones are asked for they come in line: first those that may be claimed, in the
    order of claiming, then the delayed ones, then those that wait for others with their key.

    Args:
        queue: the queue.
        found: states of jobs; none for all.
        limit: how many at most.
        before_seq: only jobs of messages before this one, the newest first in any case.

    Raises:
        InvalidInput: there is no such state.
    """
    unknown = sorted(set(found) - set(states.STATES))
    if unknown:
        raise InvalidInput(
            f"jobs have no state {shown(unknown[0])}; the states are {', '.join(states.STATES)}"
        )
    queue.fill()
    if before_seq is None and set(found) == {states.QUEUED}:
        return _rows(queue, "jobs_in_line", limit)
    upto_seq = MAX_SEQ if before_seq is None else before_seq - 1
    if not found:
        return _rows(queue, "jobs_newest", limit, upto_seq)
    jobs = [job for state in dict.fromkeys(found) for job in _newest(queue, state, limit, upto_seq)]
    return sorted(jobs, key=lambda job: -job.seq)[:limit]


def _newest(queue: Queue, state: str, limit: int, upto_seq: int) -> list[Job]:
    if state == states.QUEUED:
        return _rows(queue, "jobs_newest_queued", limit, upto_seq)
    if state == states.RUNNING:
        return _rows(queue, "jobs_running", limit, upto_seq)
    ended = "jobs_newest_ended_badly" if state in states.ENDED_BADLY else "jobs_newest_in_state"
    return _rows(queue, ended, limit, upto_seq, state)


def _rows(queue: Queue, statement: str, *values: object) -> list[Job]:
    return Views.of(queue.bus).jobs(queue.info, statement, *values)
