"""Dead letters: jobs that used up their attempts and wait for a person's decision."""

from __future__ import annotations

from itertools import islice

from .job_control import JobControl
from .jobs import DEAD, Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..schema import TypePattern
    from .queue import Queue

#: How many jobs one transaction changes, so that publishers hardly notice.
_BATCH = 500


class DeadLetters:
    """The dead letters of a queue. Nothing is deleted: the job, its claims and its message stay."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._control = JobControl(queue)

    def find(
        self, *, type: TypePattern | None = None, since_ms: int | None = None
    ) -> Iterator[Job]:
        """Yield those that fit the filters, in order, a page in memory at a time.

        Args:
            type: only messages of a type that fits this pattern.
            since_ms: only jobs that died at this epoch millisecond or later.
        """
        return self._control.ended_badly((DEAD,), type=type, since_ms=since_ms)

    def requeue(self, found: Iterable[Job]) -> Iterator[Job]:
        """Let jobs be tried again, from their first attempt, and yield them as they are then.

        Some hundreds a transaction. What is no longer dead is passed over.
        """
        return self._each(found, self._control.retry)

    def drop(self, found: Iterable[Job]) -> Iterator[Job]:
        """Give jobs up, and yield them as they are then; they end as cancelled.

        Some hundreds a transaction. What is no longer dead is passed over.
        """
        return self._each(found, lambda seq: self._control.cancel(seq, "dropped by hand"))

    def _each(self, found: Iterable[Job], act: Callable[[int], Job]) -> Iterator[Job]:
        found = iter(found)
        while batch := list(islice(found, _BATCH)):
            with self._queue.bus.transaction():
                done = [act(job.seq) for job in batch if self._is_dead(job)]
            yield from done

    def _is_dead(self, job: Job) -> bool:
        return self._queue.jobs.get(self._queue.info, job.seq).state == DEAD
