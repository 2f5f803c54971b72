"""What people do with jobs: try them again, give them up, empty a queue."""

from __future__ import annotations

from ..schema import InvalidInput
from . import jobs as states
from .jobs import Job, wrong_state
from .queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..schema import TypePattern
    from .queue import Queue
    from .queues import QueueInfo

#: How many jobs one transaction changes, so that publishers hardly notice.
_BATCH = 500


class JobControl:
    """The acts of people on the jobs of a queue. Everything stays on record."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._bus = queue.bus
        self._jobs = queue.jobs
        self._queues = Queues(queue.bus)

    def retry(self, seq: int) -> Job:
        """Let a job that is over, and did not succeed, be tried again, from its first attempt.

        A queued job that waits for its time need not wait any longer.

        Raises:
            JobNotFound: the queue has no such job.
            WrongJobState: it runs, succeeded, or waits for nothing but a worker.
        """
        self._queue.fill()
        with self._bus.database.write():
            info = self._info()
            job = self._jobs.get(info, seq)
            is_delayed = job.state == states.QUEUED and job.gate == states.TIME
            if job.state not in (*states.ENDED_BADLY, states.CANCELLED) and not is_delayed:
                raise wrong_state(job, "tried again")
            attempt = job.attempt if is_delayed else 1
            self._jobs.queue_again(info, job, attempt, self._bus.database.now_ms(), job.error)
            self._bus.ring()
            return self._jobs.get(info, seq)

    def cancel(self, seq: int, why: str = "cancelled by hand") -> Job:
        """Give a job up. A worker that is at it learns that it has lost its claim.

        Raises:
            JobNotFound: the queue has no such job.
            WrongJobState: it succeeded, or was cancelled before.
        """
        self._queue.fill()
        with self._bus.database.write():
            info = self._info()
            job = self._jobs.get(info, seq)
            if job.state in (states.SUCCEEDED, states.CANCELLED):
                raise wrong_state(job, "cancelled")
            now_ms = self._bus.database.now_ms()
            token = self._queue.claims.active_of(info, seq)
            if token is not None:
                self._queue.claims.lose(token, why, now_ms)
            self._jobs.end(info, seq, states.CANCELLED, now_ms, why, job.dedupe_key)
            self._bus.ring()
            return self._jobs.get(info, seq)

    def ended_badly(
        self,
        found: tuple[str, ...] = (states.DEAD,),
        *,
        type: TypePattern | None = None,
        since_ms: int | None = None,
    ) -> Iterator[Job]:
        """Yield the jobs that ended in one of these states and fit the filters, a page at a time.

        Args:
            found: `dead`, `failed`, `timed_out`.
            type: only messages of a type that fits this pattern.
            since_ms: only jobs that ended at this epoch millisecond or later.
        """
        for state in found:
            after = 0
            while page := self._jobs.ended_badly(self._queue.info, state, after, _BATCH):
                after = page[-1].seq
                for job in page:
                    if since_ms is not None and (job.ended_at_ms or 0) < since_ms:
                        continue
                    if type is not None and not self._is_of(job, type):
                        continue
                    yield job

    def purge(self) -> int:
        """Cancel all that waits in the queue, and return how much that was.

        What runs goes on. A few hundred jobs a transaction: what is published meanwhile may stay.
        """
        self._queue.fill()
        count = 0
        while True:
            with self._bus.database.write():
                info = self._info()
                now_ms = self._bus.database.now_ms()
                waiting = self._jobs.queued(info, _BATCH)
                for job in waiting:
                    end = (states.CANCELLED, now_ms, "purged", job.dedupe_key)
                    self._jobs.end(info, job.seq, *end)
            count += len(waiting)
            if not waiting:
                return count

    def limit(self, max_waiting: int) -> None:
        """Let at most so many messages wait in the queue; publishers of more are refused.

        Raises:
            InvalidInput: the limit is not at least 1, or the queue's first message is still to
                come: until then it has no way to tell what will wait in it.
        """
        self._queue.fill()
        with self._bus.database.write():
            self._queue.fill()  # what came since; from here on triggers count
            info = self._info()
            if info.filled_seq > self._bus.log.newest_seq():
                raise InvalidInput(
                    f"queue {info.name!r} begins with message {info.filled_seq + 1}, which is"
                    " still to come; limit it then"
                )
            counts = self._jobs.counts(info)
            waiting = sum(counts[gate] for gate in (states.OPEN, states.TIME, states.KEY))
            self._bus.limits.set_for_queue(info.name, info.pattern, max_waiting, waiting)

    def _info(self) -> QueueInfo:
        """Read the queue anew: another process may have changed its policy meanwhile."""
        return self._queues.get(self._queue.name)

    def _is_of(self, job: Job, pattern: TypePattern) -> bool:
        message = self._bus.log.at(job.seq)
        return message is not None and pattern.matches(message.type)
