"""Views of jobs and claims, for people: they change nothing.

Lists and statistics have statements of their own (`views.sql`), apart from those that change the
tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..schema.errors import InvalidInput, shown
from ..schema.message.names import MAX_SEQ
from ..schema.queries import Table
from .jobs import jobs as states
from .jobs.claims import ClaimRecord
from .jobs.jobs import Job
from .jobs.statements import VIEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .queues.queue import Queue
    from .queues.queues import QueueInfo

    #: Status, available_at_ms, claimed_at_ms, ended_at_ms of a claim.
    Attempt = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is over.

    Attributes:
        state, created_at_ms, started_at_ms, ended_at_ms, error: as for `Job`.
    """

    state: str
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int
    error: str | None


@dataclass(frozen=True, slots=True)
class ActiveClaim:
    """A claim that has not ended.

    Attributes:
        token, seq, group, instance, claimed_at_ms: as for `ClaimRecord`.
    """

    token: int
    seq: int
    group: str
    instance: str
    claimed_at_ms: int


class Views(Table):
    """Statements that read the tables `jobs` and `claims`, for lists and statistics."""

    def jobs(self, info: QueueInfo, statement: str, *values: object) -> list[Job]:
        """Return the jobs that a statement for lists finds."""
        return [Job(*row) for row in self._engine.rows(VIEWS[statement], (info.id, *values))]

    def count(self, info: QueueInfo, states: Collection[str], walked: int) -> int:
        """Count the jobs in some states, or in all (no state given), among the `walked` newest."""
        values = (info.id, json.dumps(list(states)) if states else None, walked)
        count: int = self._engine.value(VIEWS["count_in_states"], values)
        return count

    def oldest_active_claim_ms(self, info: QueueInfo) -> int | None:
        """Return when the oldest active claim was made; None without an active claim."""
        at_ms: int | None = self._engine.value(VIEWS["oldest_active_claim"], (info.id,))
        return at_ms

    def newest_attempts(self, info: QueueInfo, walked: int, limit: int) -> list[Attempt]:
        """Return up to `limit` of the newest attempts, from among the `walked` newest claims."""
        return self._engine.rows(VIEWS["newest_attempts"], (info.id, walked, limit))

    def count_lost_claims(self, info: QueueInfo, walked: int, since_ms: int) -> int:
        """Count the claims that were lost since a time, among the `walked` newest."""
        values = (info.id, walked, since_ms, self._engine.now_ms())
        count: int = self._engine.value(VIEWS["lost_claims"], values)
        return count

    def place(self, info: QueueInfo, seq: int) -> int | None:
        """Return a job's place in line, from 1; None if it may not be claimed.

        A job for a certain worker has its place in the line of that worker's jobs, which goes
        before all other jobs.
        """
        place: int = self._engine.value(VIEWS["place_in_line"], (info.id, seq))
        return place or None

    def counts(self, info: QueueInfo, walked: int) -> list[tuple[str, int, int]]:
        """Return how many jobs there are of each state and priority, among the `walked` newest."""
        return self._engine.rows(VIEWS["counts_by_state"], (info.id, walked))

    def ended_since(self, info: QueueInfo, walked: int, since_ms: int) -> list[EndedJob]:
        """Return the jobs that ended since a time, among the `walked` newest."""
        rows = self._engine.rows(VIEWS["jobs_ended_since"], (info.id, walked, since_ms))
        return [EndedJob(*row) for row in rows]

    def active_claims(self, info: QueueInfo) -> list[ActiveClaim]:
        """Return the claims on a queue that have not ended, the oldest messages first."""
        return [ActiveClaim(*row) for row in self._engine.rows(VIEWS["active_claims"], (info.id,))]

    def newest_claim(self, info: QueueInfo, seq: int) -> ClaimRecord | None:
        """Return the newest claim on a job; None before the first."""
        row = self._engine.row(VIEWS["newest_claim"], (info.id, seq))
        return None if row is None else ClaimRecord(*row)


# Lists of a queue's jobs for people. Each walks over an index that skips jobs of other states.


def list_jobs(
    queue: Queue, job_states: Collection[str], limit: int, *, before_seq: int | None = None
) -> list[Job]:
    """Return up to `limit` jobs of a queue, the newest first. Fills the queue first.

    Queued jobs alone come in line: first the jobs that may be claimed, in the order of claiming,
    then the delayed jobs, then the jobs that wait for others with their key.

    Args:
        queue: the queue.
        job_states: states of jobs; none for all.
        limit: how many at most.
        before_seq: only jobs of messages before this seq, the newest first in any case.

    Raises:
        InvalidInput: there is no such state.
    """
    unknown = sorted(set(job_states) - set(states.STATES))
    if unknown:
        raise InvalidInput(
            f"jobs have no state {shown(unknown[0])}; the states are {', '.join(states.STATES)}"
        )
    queue.fill()
    if before_seq is None and set(job_states) == {states.QUEUED}:
        return _rows(queue, "jobs_in_line", limit)
    upto_seq = MAX_SEQ if before_seq is None else before_seq - 1
    if not job_states:
        return _rows(queue, "jobs_newest", limit, upto_seq)
    jobs = [
        job for state in dict.fromkeys(job_states) for job in _newest(queue, state, limit, upto_seq)
    ]
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
