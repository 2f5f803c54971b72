"""Lists of a queue's jobs for people, each a walk over an index where most jobs are not meant.

Lists and statistics read jobs and claims by statements of their own (`views.sql`): what people ask
for must not widen what changes the tables.
"""

from __future__ import annotations

from ..schema import InvalidInput
from . import jobs as states
from .jobs import Job
from .work_statements import VIEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .queue import Queue


def list_jobs(queue: Queue, found: Collection[str], limit: int) -> list[Job]:
    """Return up to `limit` jobs of a queue, the newest first. Fills the queue first.

    When only queued ones are asked for they come in line: first those that may be claimed, in the
    order of claiming, then the delayed ones, then those that wait for others with their key.

    Args:
        queue: the queue.
        found: states of jobs; none for all.
        limit: how many at most.

    Raises:
        InvalidInput: there is no such state.
    """
    unknown = sorted(set(found) - set(states.STATES))
    if unknown:
        raise InvalidInput(f"jobs have no state {unknown[0]!r}; it is {', '.join(states.STATES)}")
    queue.fill()
    if not found:
        return _rows(queue, "jobs_newest", limit)
    if set(found) == {states.QUEUED}:
        return _rows(queue, "jobs_in_line", limit)
    jobs = [job for state in dict.fromkeys(found) for job in _newest(queue, state, limit)]
    return sorted(jobs, key=lambda job: -job.seq)[:limit]


def _newest(queue: Queue, state: str, limit: int) -> list[Job]:
    if state == states.QUEUED:
        return _rows(queue, "jobs_newest_queued", limit)
    if state == states.RUNNING:
        return _rows(queue, "jobs_running", limit)
    is_bad = state in states.ENDED_BADLY
    return _rows(
        queue, "jobs_newest_ended_badly" if is_bad else "jobs_newest_in_state", limit, state
    )


def _rows(queue: Queue, statement: str, *values: object) -> list[Job]:
    rows = queue.bus.database.rows(VIEWS[statement], (queue.info.id, *values))
    return [Job(*row) for row in rows]
