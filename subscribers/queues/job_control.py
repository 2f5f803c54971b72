"""The acts of people on a queue and its jobs: lists, retries, changed policies, removal."""

from __future__ import annotations

from functools import partial
from itertools import islice

from ...bus.doorbell import ring
from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput, shown
from ...schema.message.names import MAX_AGENT_CHARS
from ...schema.message.patterns import TypePattern
from ...schema.paging import pages, seq_of
from ...schema.queries import engine_of
from ..jobs import jobs as job_states
from ..jobs.claims import Claims
from ..jobs.jobs import BATCH, DEAD, ENDED_BADLY, Job, Jobs, refuse_unproven, wrong_state
from ..jobs.outcomes import (
    CANCEL,
    LIMIT,
    PURGE,
    RETRY,
    SKIP,
    UNLIMIT,
    ClaimEnder,
    ManualActs,
    last_words,
)
from ..views import list_jobs
from .queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..options import JobState
    from .queue import Queue
    from .queues import QueueInfo

#: How many jobs a list has unless the caller says otherwise.
LIST_LIMIT = 100


@with_checked_arguments
class JobControl:
    """The jobs of a queue, and the acts of people on them, which stay on record with their actors.

    A request whose job is given up before it is over is answered, in the same transaction, by the
    queue under its name (`ReplyTypes` says by which type), unless it has an answer. Only a queue
    whose pattern is the type of the request does so: another queue may only watch work that is done
    elsewhere. Where the answer has no room, a warning is logged and the job is given up without an
    answer.

    Args:
        queue: the queue.
        by: the actor, an agent as a rule; None: the account of this process.
    """

    def __init__(self, queue: Queue, *, by: str | None = None) -> None:
        self._queue = queue
        self._bus = queue.bus
        self._queues = Queues(queue.bus)
        self._jobs = Jobs.of(queue.bus)
        self._acts = ManualActs(engine_of(queue.bus), by)
        self._claims = Claims.of(queue.bus)
        self._claim_ender = ClaimEnder(queue.bus, self._jobs, self._claims)

    def get(self, seq: int) -> Job:
        """Return the job of a message. Fills the queue first.

        Raises:
            JobNotFound: the queue has no such job.
        """
        self._queue.fill()
        return self._jobs.get(self._info(), seq)

    def retry(self, seq: int) -> Job:
        """Retry a job that ended without success, from its first attempt.

        A queued job that waits for its time need not wait any longer.

        Raises:
            JobNotFound: the queue has no such job.
            WrongJobState: the job runs, succeeded, or waits for nothing but a worker.
        """
        self._queue.fill()
        with self._bus.transaction():
            info = self._info()
            job = self._jobs.get(info, seq)
            is_delayed = job.state == job_states.QUEUED and job.gate == job_states.TIME
            if job.state not in (*job_states.ENDED_BADLY, job_states.CANCELLED) and not is_delayed:
                raise wrong_state(job, "tried again")
            refuse_unproven(info, job)
            attempt = job.attempt if is_delayed else 1
            self._jobs.queue_again(info, job, attempt, self._bus.now_ms(), job.error)
            self._acts.note(info, RETRY, seq=seq, detail=f"it was {job.state}")
            ring(self._bus)
            return self._jobs.get(info, seq)

    def cancel(self, seq: int, why: str = "cancelled by hand") -> Job:
        """Cancel a job. A worker that has claimed it learns that the claim is lost.

        Raises:
            JobNotFound: the queue has no such job.
            WrongJobState: it succeeded, or was cancelled before.
        """
        self._queue.fill()
        with self._bus.transaction():
            info = self._info()
            job = self._jobs.get(info, seq)
            if job.state in (job_states.SUCCEEDED, job_states.CANCELLED):
                raise wrong_state(job, "cancelled")
            self._claim_ender.give_up(info, [job], why)
            self._acts.note(info, CANCEL, seq=seq, detail=why)
            return self._jobs.get(info, seq)

    def counts(self) -> dict[str, int]:
        """Return how many jobs there are by gate (`open`, `time`, `key`) or state.

        Jobs that succeeded or were cancelled are not counted.
        """
        return self._jobs.counts(self._info())

    def waiting(self) -> int:
        """Return how many jobs wait: for a worker, their time, or others with their key."""
        self._queue.fill()
        return self._count_waiting(self._info())

    def _count_waiting(self, info: QueueInfo) -> int:
        counts = self._jobs.counts(info)
        return sum(counts[gate] for gate in (job_states.OPEN, job_states.TIME, job_states.KEY))

    def purge(self) -> int:
        """Cancel the waiting jobs of the queue, and return their number.

        Running jobs go on. A few hundred jobs are cancelled in a transaction: jobs of messages that
        are published meanwhile may stay.
        """
        return self._give_up_waiting("purged", job_states.CANCELLED)

    def bury(self, why: str) -> int:
        """Make dead letters of the waiting jobs of the queue, and return their number.

        Args:
            why: the error of these jobs from then on.
        """
        return self._give_up_waiting(why, job_states.DEAD)

    def lose_running(self, why: str) -> list[Job]:
        """End the claims of all running jobs as lost, since their workers are known to be gone.

        The queue's policy decides about the jobs, as if the leases had run out.

        Returns:
            The jobs as they are then.
        """
        with self._bus.transaction():
            info, now_ms = self._info(), self._bus.now_ms()
            words = last_words(info.name[:MAX_AGENT_CHARS].rstrip())
            lost = self._claims.active(info)
            for token, seq in lost:
                self._claim_ender.lose(info, token, seq, now_ms, words, why)
            return [self._jobs.get(info, seq) for _, seq in lost]

    def lose(self, seq: int, why: str) -> Job:
        """End the claim of a running job as lost, since its worker is known to have ended.

        The job goes on as if the claim's lease had run out.

        Raises:
            JobNotFound: the queue has no such job.
            WrongJobState: it does not run.
        """
        with self._bus.transaction():
            info = self._info()
            token = self._claims.active_of(info, seq)
            if token is None:
                raise wrong_state(self._jobs.get(info, seq), "lost")
            words = last_words(info.name[:MAX_AGENT_CHARS].rstrip())
            self._claim_ender.lose(info, token, seq, self._bus.now_ms(), words, why)
            return self._jobs.get(info, seq)

    def _give_up_waiting(self, why: str, state: str) -> int:
        self._queue.fill()
        count = 0
        while True:
            with self._bus.transaction():
                info = self._info()
                waiting = self._jobs.queued(info, BATCH)
                if not waiting:
                    return count
                self._claim_ender.give_up(info, waiting, why, state)
                reason = "" if state == job_states.CANCELLED else f": {why}"
                self._acts.note(info, PURGE, detail=f"{len(waiting)} jobs{reason}")
            count += len(waiting)

    def skip(self) -> list[tuple[int, int]]:
        """Pass over lost parts of the archive, without making jobs of their messages.

        Returns:
            The ranges of the log that were passed over: first and last seq.
        """
        skipped: list[tuple[int, int]] = []
        while (lost := self._pass_by_lost()) is not None:
            first_seq, last_seq = lost
            if skipped and skipped[-1][1] == first_seq - 1:  # several frames, but one loss
                first_seq, _ = skipped.pop()
            skipped.append((first_seq, last_seq))
        if skipped:
            self.recount_limit()  # skipped messages no longer wait
        return skipped

    def limit(self, max_waiting: int) -> None:
        """Limit how many messages may wait in the queue; publishers of more are refused.

        Raises:
            InvalidInput: the limit is not at least 1, or the queue's first message is still to
                come: until then the waiting messages can't be counted.
            QueueStuck: a part of the archive is lost, so the waiting messages can't be counted.
        """
        self._queue.fill()
        with self._bus.transaction():
            info = self._set_limit(max_waiting)
            self._acts.note(info, LIMIT, detail=f"{max_waiting:,} may wait")

    def clear_limit(self) -> None:
        """Remove the limit of the queue.

        Raises:
            NotFound: it has no limit.
        """
        with self._bus.transaction():
            self._bus.limits.clear("queue", self._queue.name)
            self._acts.note(self._info(), UNLIMIT)

    def recount_limit(self) -> None:
        """Count the waiting messages again, if the queue has a limit; otherwise do nothing.

        Raises:
            QueueStuck: as for `limit`.
        """
        for waiting_limit in self._bus.limits.list():
            if (waiting_limit.kind, waiting_limit.name) == ("queue", self._queue.name):
                self._queue.fill()
                with self._bus.transaction():
                    self._set_limit(waiting_limit.max_waiting)

    def list(
        self, *states: JobState, limit: int = LIST_LIMIT, before_seq: int | None = None
    ) -> list[Job]:
        """Return jobs of the queue, the newest first. Fills the queue first.

        Queued jobs alone come in line: first the jobs that may be claimed, in the order of
        claiming, then the delayed jobs, then the jobs that wait for others with their key.

        Args:
            states: states of jobs, such as `failed`; none for all.
            limit: how many at most.
            before_seq: only jobs of messages before this seq, the newest first in any case.

        Raises:
            InvalidInput: there is no such state.
        """
        return list_jobs(self._queue, states, limit, before_seq=before_seq)

    def _set_limit(self, max_waiting: int) -> QueueInfo:
        """Set the limit, and count the messages that wait now, in the caller's transaction."""
        self._queue.fill()  # takes in what came since; from here on triggers count
        if self._queue.stuck is not None:
            raise self._queue.stuck
        info = self._info()
        if info.filled_seq > self._bus.log.newest_seq():
            raise InvalidInput(
                f"queue {info.name!r} begins with message {info.filled_seq + 1}, which is"
                " still to come; limit it then"
            )
        waiting = self._count_waiting(info)
        self._bus.limits.set_for_queue(info.name, info.pattern, max_waiting, waiting)
        return info

    def _pass_by_lost(self) -> tuple[int, int] | None:
        """Move the queue over the next messages if they are lost; return their range, or None."""
        self._queue.fill()
        with self._bus.transaction():
            self._queue.fill()  # messages came since, or another process has passed them by
            stuck = self._queue.stuck
            if stuck is None:
                return None
            info = self._info()
            first_seq = max(stuck.first_seq, info.filled_seq + 1)
            self._queues.pass_by(info.id, info.filled_seq, stuck.last_seq)
            self._acts.note(info, SKIP, detail=f"messages {first_seq} to {stuck.last_seq}")
            return first_seq, stuck.last_seq

    def _info(self) -> QueueInfo:
        """Read the queue again: another process may have changed its policy meanwhile."""
        return self._queues.get(self._queue.name)


# Dead letters: jobs that ended badly, and wait for a person's decision.


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
        """Yield the dead letters that fit the filters, by state and in order, a page at a time.

        Args:
            states: `dead`, which used up their attempts; `failed` and `timed_out`, whose failure
                was an answer, may be asked for too.
            type: only messages of a type that fits this type pattern.
            since_ms: only jobs that ended at this epoch millisecond or later.
            after_seq: only jobs of messages after this seq.

        Raises:
            InvalidInput: jobs never end badly in a state, or `type` is no pattern.
        """
        pattern = None if type is None else TypePattern(type)
        for state in states:
            if state not in ENDED_BADLY:
                raise InvalidInput(
                    f"states must be of {', '.join(ENDED_BADLY)}, not {shown(state)}"
                )
        return self._find(states, pattern, since_ms, after_seq)

    def _find(
        self,
        states: Sequence[JobState],
        pattern: TypePattern | None,
        since_ms: int | None,
        after_seq: int,
    ) -> Iterator[Job]:
        for state in states:
            read = partial(self._ended_badly, state)
            for page in pages(read, after_seq, place=seq_of, what="jobs that ended badly"):
                for job in page:
                    is_recent = since_ms is None or (job.ended_at_ms or 0) >= since_ms
                    if is_recent and (pattern is None or self._is_of(job, pattern)):
                        yield job

    def _ended_badly(self, state: JobState, after_seq: int) -> list[Job]:
        return self._jobs.ended_badly(self._queue.info, state, after_seq, BATCH)

    def requeue(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Queue jobs again, from their first attempt, and yield them as they are then.

        Some hundreds in a transaction. Jobs whose state has changed meanwhile are passed over.
        """
        return self._each(jobs, self._control.retry)

    def drop(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Cancel jobs, and yield them as they are then.

        Some hundreds in a transaction. Jobs whose state has changed meanwhile are passed over.
        """
        return self._each(jobs, lambda seq: self._control.cancel(seq, "dropped by hand"))

    def _each(self, jobs: Iterable[Job], act: Callable[[int], Job]) -> Iterator[Job]:
        jobs = iter(jobs)
        while batch := list(islice(jobs, BATCH)):
            with self._bus.transaction():
                done = [act(job.seq) for job in batch if self._is_as_found(job)]
            yield from done

    def _is_as_found(self, job: Job) -> bool:
        return self._jobs.get(self._queue.info, job.seq).state == job.state

    def _is_of(self, job: Job, pattern: TypePattern) -> bool:
        message = self._bus.log.readable(job.seq)
        return message is not None and pattern.matches(message.type)
