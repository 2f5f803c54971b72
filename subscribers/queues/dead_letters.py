"""Dead letters: jobs that ended badly, and wait for a person's decision."""

from __future__ import annotations

from functools import partial
from itertools import islice

from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput, shown
from ...schema.message.patterns import TypePattern
from ...schema.paging import pages, seq_of
from ..jobs.jobs import BATCH, DEAD, ENDED_BADLY, Job, Jobs
from .job_control import JobControl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..options import JobState
    from .queue import Queue


@with_checked_arguments
class DeadLetters:
    """The dead letters of a queue. Nothing is deleted: the job, its claims and its message stay.

    Args:
        queue, by: as for `JobControl`.
    """

    def __init__(self, queue: Queue, *, by: str | None = None) -> None:
        self._queue = queue
        self._bus = queue.bus
        self._jobs = Jobs.of(queue.bus)
        self._control = JobControl(queue, by=by)

    def find(
        self,
        states: Sequence[JobState] = (DEAD,),
        *,
        type: str | None = None,
        since_ms: int | None = None,
        after_seq: int = 0,
    ) -> Iterator[Job]:
        """Yield those that fit the filters, by state and in order, a page in memory at a time.

        Args:
            states: `dead`, which used up their attempts; `failed` and `timed_out`, whose failure
                was an answer, may be asked for too.
            type: only messages of a type that fits this type pattern.
            since_ms: only jobs that ended at this epoch millisecond or later.
            after_seq: only jobs of messages after this one.

        Raises:
            InvalidInput: jobs never end badly in a state, or `type` is no pattern.
        """
        wanted = None if type is None else TypePattern(type)
        for state in states:
            if state not in ENDED_BADLY:
                raise InvalidInput(
                    f"states must be of {', '.join(ENDED_BADLY)}, not {shown(state)}"
                )
        return self._find(states, wanted, since_ms, after_seq)

    def _find(
        self,
        states: Sequence[JobState],
        wanted: TypePattern | None,
        since_ms: int | None,
        after_seq: int,
    ) -> Iterator[Job]:
        for state in states:
            bad = partial(self._ended_badly, state)
            for page in pages(bad, after_seq, place=seq_of, what="jobs that ended badly"):
                for job in page:
                    is_recent = since_ms is None or (job.ended_at_ms or 0) >= since_ms
                    if is_recent and (wanted is None or self._is_of(job, wanted)):
                        yield job

    def _ended_badly(self, state: JobState, after_seq: int) -> list[Job]:
        return self._jobs.ended_badly(self._queue.info, state, after_seq, BATCH)

    def requeue(self, found: Iterable[Job]) -> Iterator[Job]:
        """Queue jobs again, from their first attempt, and yield them as they are then.

        Some hundreds a transaction. What is no longer as it was found is passed over.
        """
        return self._each(found, self._control.retry)

    def drop(self, found: Iterable[Job]) -> Iterator[Job]:
        """Cancel jobs, and yield them as they are then.

        Some hundreds a transaction. What is no longer as it was found is passed over.
        """
        return self._each(found, lambda seq: self._control.cancel(seq, "dropped by hand"))

    def _each(self, found: Iterable[Job], act: Callable[[int], Job]) -> Iterator[Job]:
        found = iter(found)
        while batch := list(islice(found, BATCH)):
            with self._bus.transaction():
                done = [act(job.seq) for job in batch if self._is_as_found(job)]
            yield from done

    def _is_as_found(self, job: Job) -> bool:
        return self._jobs.get(self._queue.info, job.seq).state == job.state

    def _is_of(self, job: Job, pattern: TypePattern) -> bool:
        message = self._bus.log.readable(job.seq)
        return message is not None and pattern.matches(message.type)
