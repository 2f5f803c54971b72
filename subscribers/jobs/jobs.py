"""Jobs: the messages of each queue, and their states."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.message.patterns import UNPROVEN
from ...schema.queries import Table
from .errors import JobNotFound, WrongJobState
from .policy import kept_error
from .statements import SQL, VIEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from ...schema.message.message import Message
    from ..options import JobGate, JobState
    from ..queues.queues import QueueInfo
    from .policy import WorkHeaders

    #: A job that is about to run: seq, attempt, max_attempts, available_at_ms, dedupe_key.
    Ready = tuple[int, int, int, int, str | None]

# The work at hand in a queue, by one statement on its tables, without a write lock.


@dataclass(frozen=True, slots=True)
class AtHand:
    """The jobs that a claim would find without filling the queue.

    Attributes:
        ready: how many jobs may be claimed, counted up to a limit.
        is_due: whether the time of some jobs has come.
        is_lost: whether the workers of some jobs are lost.
        is_shut: whether no job may begin, since the queue is paused or `max_running` jobs run.
        is_by_age: whether later messages never go first.
    """

    ready: int
    is_due: int
    is_lost: int
    is_shut: int
    is_by_age: int

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.is_due or self.is_lost or (self.ready and not self.is_shut))


#: Assumed for a worker that was idle, when new messages come: it begins without counting the work
#: that is ready. After these messages it looks for all work.
NEWS = AtHand(ready=0, is_due=0, is_lost=0, is_shut=0, is_by_age=1)


@dataclass(frozen=True, slots=True)
class QueueAtHand:
    """The work at hand in one queue of several.

    Attributes:
        id: the queue.
        first_seq: the job that goes first, or None where none may be claimed.
        next_due_ms: when the next delay ends, in epoch milliseconds; None without a delay.
        is_shut: whether no job may begin, since the queue is paused or `max_running` jobs run.
    """

    id: int
    first_seq: int | None
    next_due_ms: int | None
    is_shut: int


#: The states of a job that is over.
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
TIMED_OUT: Final = "timed_out"
DEAD: Final = "dead"
CANCELLED: Final = "cancelled"
#: The states of a job that is not over.
QUEUED: Final = "queued"
RUNNING: Final = "running"

STATES: tuple[JobState, ...] = (QUEUED, RUNNING, SUCCEEDED, FAILED, TIMED_OUT, DEAD, CANCELLED)

#: The states of jobs that a person may want to look at, and try again.
ENDED_BADLY: tuple[JobState, ...] = (FAILED, TIMED_OUT, DEAD)

#: The reason why a queued job waits: none, its time, or other jobs with its key.
OPEN, TIME, KEY = "open", "time", "key"

#: How many jobs at the head of the line are searched for the job that has waited longest.
_NEXT_IN_LINE = 1000

#: How many jobs become due in one transaction.
_DUE_BATCH = 1000

#: How many jobs one transaction changes if many are to change, so that publishers hardly notice.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Job:
    """A message in a queue.

    Attributes:
        queue: the queue's name.
        seq: the message.
        state: `queued`, `running`, `succeeded`, `failed`, `timed_out`, `dead` or `cancelled`.
        gate: what a queued job waits for: `open` (a worker), `time` (its time), or `key` (others
            with its dedupe key).
        attempt: the attempt that is next, runs, or was the last; from 1.
        max_attempts: how many there may be.
        available_at_ms: from when on it may be claimed, in epoch milliseconds.
        priority: 0 interactive, 1 normal, 2 background.
        dedupe_key: what it is about, or None.
        created_at_ms: when the message was published.
        started_at_ms: when the last attempt began, or None before the first.
        ended_at_ms: when it was over; None while it is not.
        error: why the last attempt failed, or why it was cancelled; else None.
        for_worker: the only worker, by its group, that may claim it; None: any.
    """

    queue: str
    seq: int
    state: JobState
    gate: JobGate
    attempt: int
    max_attempts: int
    available_at_ms: int
    priority: int
    dedupe_key: str | None
    created_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    error: str | None
    for_worker: str | None


class Jobs(Table):
    """The table `jobs`. What changes it belongs into a transaction that the caller has open."""

    # Taking in ---------------------------------------------------------------------------------

    def row(
        self, info: QueueInfo, message: Message, created_at_ms: int, turn_ms: int
    ) -> tuple[object, ...]:
        """Return the row of a job without special wishes.

        Args:
            info, message: the queue, and the message of the job.
            created_at_ms: when the message was published.
            turn_ms: when that was by the queue's own clock.
        """
        return (
            info.id,
            message.seq,
            QUEUED,
            OPEN,
            info.policy.max_attempts,
            created_at_ms,
            message.priority,
            turn_ms,
            info.policy.rank_ms(turn_ms, message.priority),
            None,
            created_at_ms,
            None,
            None,
            None,
        )

    def add(self, rows: list[tuple[object, ...]]) -> None:
        """Store new jobs."""
        if rows:
            self._engine.run_many(SQL["add_job"], rows)

    def add_special(
        self,
        info: QueueInfo,
        message: Message,
        wishes: WorkHeaders,
        created_at_ms: int,
        turn_ms: int,
    ) -> str | None:
        """Store a job whose sender has wishes, or record it as a duplicate.

        Args:
            info, message, created_at_ms, turn_ms: as for `row`.
            wishes: the sender's wishes.

        Returns:
            A text for people that names the original of a duplicate, or None.
        """
        now_ms = self._engine.now_ms()
        original = self._original(info, message, wishes)
        is_later = wishes.available_at_ms is not None and wishes.available_at_ms > now_ms
        state, gate, ended_at_ms, error = QUEUED, OPEN, None, None
        if original is not None:
            state, ended_at_ms = CANCELLED, now_ms
            error = f"duplicate of {original} with dedupe key {wishes.dedupe_key}"
        elif is_later:
            gate = TIME
        elif wishes.dedupe_key is not None:
            gate = KEY
        available_at_ms = max(created_at_ms, wishes.available_at_ms or 0)
        rank_ms = info.policy.rank_ms(turn_ms, message.priority)
        row = (
            *(info.id, message.seq, state, gate, info.policy.max_attempts, available_at_ms),
            *(message.priority, turn_ms, rank_ms, wishes.dedupe_key),
            *(created_at_ms, ended_at_ms, error, wishes.for_worker),
        )
        self._engine.rows(SQL["add_job"], row)
        if gate == KEY:
            self.open_key(info, wishes.dedupe_key)
        if original is not None:
            import logging

            logging.getLogger("ackbus.queue").info(
                "queue %s: %s: %s", info.name, message.seq, error
            )
        return error

    def add_unproven(
        self, info: QueueInfo, message: Message, created_at_ms: int, turn_ms: int
    ) -> None:
        """Note a message as cancelled, since no step that has the right published it.

        Args:
            info, message, created_at_ms, turn_ms: as for `row`.
        """
        row = list(self.row(info, message, created_at_ms, turn_ms))
        row[2], row[11], row[12] = CANCELLED, self._engine.now_ms(), UNPROVEN
        self._engine.rows(SQL["add_job"], tuple(row))

    def _original(self, info: QueueInfo, message: Message, wishes: WorkHeaders) -> str | None:
        """Return the job of which a message is a duplicate, and how it stands, or None.

        The message is compared with jobs that had succeeded when it was published, so that it
        makes no difference when the queue is filled.
        """
        if wishes.dedupe_key is None:
            return None
        published_ms = max(0, message.ts_ms)  # another program may have stored any number
        original = self.original(info, wishes.dedupe_key, published_ms, wishes.dedupe_window_ms)
        return original and f"{original[0]}, which {original[1]},"

    def original(
        self, info: QueueInfo, key: str, published_ms: int, window_ms: int | None
    ) -> tuple[int, str] | None:
        """Return the job of which another job with a key would be a duplicate, or None.

        Args:
            info: the queue.
            key: the dedupe key.
            published_ms: when the other job was published.
            window_ms: for how long a success keeps the other job out; then a job that waits or
                runs keeps it out, too. None: the queue's window, and only successes count.

        Returns:
            The seq, and `succeeded` or `is not over`.
        """
        until_ms = published_ms
        if window_ms is None:
            window_ms = round(info.policy.dedupe_window_s * 1000)
        else:
            until_ms = max(until_ms, self._engine.now_ms())
            live: int | None = self._engine.value(SQL["live_with_key"], (info.id, key))
            if live is not None:
                return live, "is not over"
        if not window_ms:
            return None
        span = (published_ms - window_ms, until_ms)
        done: int | None = self._engine.value(SQL["succeeded_with_key"], (info.id, key, *span))
        return None if done is None else (done, "succeeded")

    # Claiming ----------------------------------------------------------------------------------

    def open_due(self, info: QueueInfo, now_ms: int) -> None:
        """Open the jobs whose time has come."""
        for (key,) in set(self._engine.rows(SQL["open_due"], (info.id, now_ms, _DUE_BATCH))):
            self.open_key(info, key)

    def open_key(self, info: QueueInfo, key: str | None) -> None:
        """Open as many jobs as may run with a key; to be called whenever such a job has ended."""
        if key is not None:
            limit = info.policy.max_running_per_key
            self._engine.rows(SQL["open_key"], (info.id, key, limit))

    def rank_again(self, info: QueueInfo, seqs: list[int]) -> None:
        """Rank jobs again, if they are queued, by the present ordering of their queue."""
        rows = [(info.id, seq) for seq in seqs]
        self._engine.run_many(SQL["rank_job"], rows)

    def open_keys_again(self, info: QueueInfo, after_key: bytes) -> list[bytes]:
        """Open or close the waiting jobs of a batch of keys after a key; return the keys' bytes."""
        rows = self._engine.rows(SQL["live_keys_after"], (info.id, after_key, BATCH))
        for _, key in rows:
            self._engine.rows(SQL["close_key"], (info.id, key))
            self.open_key(info, key)
        return [stored for stored, _ in rows]

    def take(self, info: QueueInfo, worker: str, now_ms: int, limit: int) -> list[Ready]:
        """Mark up to `limit` jobs as running, and return them: a worker's own, then others."""
        ready = self._engine.rows(SQL["first_ready"], (info.id, limit, worker))
        for seq, *_ in ready:
            self.begin(info, seq, now_ms)
        return ready

    def begin(self, info: QueueInfo, seq: int, now_ms: int) -> None:
        """Note that a job runs."""
        self._engine.rows(SQL["start_job"], (now_ms, info.id, seq))

    def end(
        self,
        info: QueueInfo,
        seq: int,
        state: str,
        now_ms: int,
        error: str | None,
        key: str | None,
    ) -> None:
        """Note that a job is over; others with its key may be claimed now."""
        values = (state, now_ms, kept_error(error), info.id, seq)
        self._engine.rows(SQL["end_job"], values)
        self.open_key(info, key)

    def follow_clock_back(self, info: QueueInfo, now_ms: int) -> None:
        """Bring what was stored by a clock that was ahead to the present time; safe to repeat.

        A job that waits for another attempt waits its pause from now on. A success
        is dated now at the latest: from then on it keeps out others with its key.
        """
        self._engine.rows(SQL["bring_retries_nearer"], (info.id, now_ms))
        self._engine.rows(SQL["end_no_later"], (info.id, now_ms))

    def queue_again(
        self, info: QueueInfo, job: Job, attempt: int, at_ms: int, error: str | None
    ) -> None:
        """Queue a job for another attempt, from `at_ms` on."""
        is_later = at_ms > self._engine.now_ms()
        gate = TIME if is_later else OPEN if job.dedupe_key is None else KEY
        values = (gate, attempt, at_ms, kept_error(error), info.id, job.seq)
        self._engine.rows(SQL["queue_job_again"], values)
        self.open_key(info, job.dedupe_key)

    # Looking -----------------------------------------------------------------------------------

    def at_hand(self, info: QueueInfo, worker: str, limit: int) -> AtHand:
        """Return the work at hand for a worker; jobs that it may claim are counted up to a limit.

        One statement, which looks at the claims on the queue, too.
        """
        key = (info.id, self._engine.now_ms(), limit, worker)
        return AtHand(*self._engine.rows(SQL["work_at_hand"], key)[0])

    def count_live(self, info: QueueInfo, type: str, from_agent: str | None) -> int:
        """Return how many jobs of messages of one type, and of one sender or any, are not over."""
        count: int = self._engine.value(SQL["count_live"], (info.id, type, from_agent))
        return count

    def at_hand_of(self, ids: Sequence[int]) -> list[QueueAtHand]:
        """Return the work at hand in several queues, by their ids: one look, which fills none."""
        return [
            QueueAtHand(*row)
            for row in self._engine.rows(SQL["work_of_queues"], (orjson.dumps(ids).decode(),))
        ]

    def next_change_ms(self, info: QueueInfo) -> int | None:
        """Return when a delay ends or a lease runs out next, in epoch milliseconds, or None."""
        at_ms: int | None = self._engine.value(SQL["next_due"], (info.id,))
        return at_ms

    def get(self, info: QueueInfo, seq: int) -> Job:
        """Return a job.

        Raises:
            JobNotFound: the queue has no job of this seq.
        """
        row = self._engine.row(SQL["job"], (info.id, seq))
        if row is None:
            raise JobNotFound(
                f"queue {info.name!r} has no job {seq}; see 'bus job list --queue {info.name}'"
            )
        return Job(*row)

    def of_message(self, seq: int) -> list[Job]:
        """Return the jobs that a message became, by queue."""
        return [Job(*row) for row in self._engine.rows(SQL["jobs_of_message"], (seq,))]

    def named(self, names: Iterable[tuple[str, int]]) -> list[Job]:
        """Return the jobs of these queues and seqs, as far as there are any, by one look."""
        pairs = orjson.dumps(list(names)).decode()
        return [Job(*row) for row in self._engine.rows(VIEWS["jobs_named"], (pairs,))]

    def queued_seqs(self, info: QueueInfo) -> list[int]:
        """Return the seqs of all queued jobs, also of those that wait for others, in no order."""
        return [seq for (seq,) in self._engine.rows(SQL["queued_seqs"], (info.id,))]

    def queued(self, info: QueueInfo, limit: int) -> list[Job]:
        """Return up to `limit` queued jobs, also jobs that wait for others, in no order."""
        return [Job(*row) for row in self._engine.rows(SQL["jobs_queued"], (info.id, limit))]

    def ended_badly(self, info: QueueInfo, state: str, after_seq: int, limit: int) -> list[Job]:
        """Return up to `limit` jobs in a bad end state above a seq, in order."""
        values = (info.id, state, after_seq, limit)
        return [Job(*row) for row in self._engine.rows(SQL["jobs_ended_badly"], values)]

    def first_live(self, info: QueueInfo) -> int | None:
        """Return the seq of the first job that is not over; a walk over all such jobs."""
        seq: int | None = self._engine.value(SQL["first_live_job"], (info.id,))
        return seq

    def counts(self, info: QueueInfo) -> dict[str, int]:
        """Return how many jobs there are by gate (`open`, `time`, `key`) or state.

        Jobs that succeeded or were cancelled are not counted: this would walk over all of them.
        """
        none: dict[str, int] = dict.fromkeys(ENDED_BADLY, 0)
        return none | dict(self._engine.rows(SQL["count_jobs"], (info.id,)))

    def oldest_available_ms(self, info: QueueInfo, now_ms: int) -> int | None:
        """Return since when the longest waiting job could be claimed; None without such a job."""
        values = (info.id, _NEXT_IN_LINE, now_ms)
        since_ms: int | None = self._engine.value(VIEWS["oldest_available"], values)
        return since_ms


def refuse_unproven(info: QueueInfo, job: Job) -> None:
    """Raise for a job that was cancelled because no step with the right published it.

    Raises:
        WrongJobState: the job was cancelled for that.
    """
    if info.is_acted_upon and job.state == CANCELLED and job.error == UNPROVEN:
        raise WrongJobState(
            f"job {job.seq} of queue {job.queue!r} can't be tried again: {UNPROVEN}; have it done"
            " by the command or the tool for that"
        )


def wrong_state(job: Job, act: str) -> WrongJobState:
    """Return the error for something that can't be done to a job in its state."""
    return WrongJobState(f"job {job.seq} of queue {job.queue!r} is {job.state}: it can't be {act}")
