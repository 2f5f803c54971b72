"""Jobs that have no task yet: planned, queued, being made, or ended before their task was made."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from ...schema.message.times import format_ts
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import ENDED_BADLY, Jobs
from ...subscribers.queues.dead_letters import DeadLetters
from ...subscribers.queues.queue import Queue
from ...subscribers.views import Views
from ..records.planned_jobs import PlannedJobs
from ..records.task import PRIORITIES
from ..records.task_table import TaskTable
from .messages import JOBS
from .planning import task_of_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...subscribers.jobs.jobs import Job
    from ..records.planned_jobs import PlannedJob

#: The states of a job without a task, by those of its queue; `PLANNED` is in none yet.
_STATES = {
    "queued": "QUEUED",
    "running": "RUNNING",
    "dead": "DEAD",
    "failed": "FAILED",
    "timed_out": "FAILED",
}
STATES = ("PLANNED", "QUEUED", "RUNNING", "DEAD", "FAILED")

#: Those that only a person can change.
STUCK = ("DEAD", "FAILED")

#: How many jobs that ended badly are looked at, of each state.
_MAX_ENDED = 1000


@dataclass(frozen=True, slots=True)
class TaskJob:
    """A job whose task is not made.

    Attributes:
        task: the name that its task has, or would have.
        state: `PLANNED` until what it depends on has landed; `QUEUED` until a worker has it;
            `RUNNING` while that makes the tree; `DEAD` or `FAILED` when none could.
        attempt: of the job: the number of the next or newest; 0 before the first.
        worker: who has it, or None.
        requester: who published it.
        priority: 0 interactive, 1 normal, 2 background.
        depends_on: the tasks that must have landed before it.
        reason: why its newest attempt failed, or None.
        conversation: that it belongs to, or None.
        seq: of its message; None: it is planned.
        since_ms: when it was published, in epoch milliseconds; of one that ended, when that was.
    """

    task: str
    state: str
    attempt: int
    worker: str | None
    requester: str
    priority: int
    depends_on: tuple[str, ...]
    reason: str | None
    conversation: str | None
    seq: int | None
    since_ms: int

    @property
    def note(self) -> str:
        """Return what a line about it says beside its state."""
        if self.state == "PLANNED":
            return f"waits until {', '.join(self.depends_on)} has landed"
        if self.state in STUCK:
            return f"seq {self.seq}: {self.reason or 'no worker could begin'}; see 'bus dead list'"
        return self.reason or f"{PRIORITIES[self.priority]} job of {self.requester}"

    @property
    def next_step(self) -> str:
        """Return why no step of its task goes yet, and what can be done, for errors."""
        if self.state in STUCK:
            return f"task {self.task!r} never began: its job is {self.state}, {self.note}"
        waits = {
            "PLANNED": self.note,
            "QUEUED": "waits for a worker, as 'bus task work' is",
            "RUNNING": f"is {self.worker}'s, who makes its work tree",
        }
        return (
            f"task {self.task!r} has not begun: its job {waits[self.state]};"
            f" 'bus task cancel {self.task}' takes it back"
        )

    def record(self) -> dict[str, Any]:
        """Return its JSON object: the fields of a task, those without a value as null."""
        return {
            "task": self.task,
            "attempt": self.attempt,
            "worker": self.worker,
            "branch": None,
            "path": None,
            "base": None,
            "state": self.state,
            "token": None,
            "requester": self.requester,
            "priority": self.priority,
            "depends_on": list(self.depends_on),
            "reason": self.reason,
            "conversation": self.conversation,
            "seq": self.seq,
            "changed": format_ts(self.since_ms),
        }


class TaskJobs:
    """The jobs of the queue `jobs`, and those that are planned, as they are when this is made.

    Of those that ended badly the first thousand of each state are looked at.

    Args:
        bus: an open bus.

    Attributes:
        live: the tasks of jobs that wait or run.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        of_queue = sorted(_of_queue(bus), key=lambda job: job.seq or 0)
        self._newest = {job.task: job for job in of_queue}
        self._newest |= {job.task: _planned(job) for job in PlannedJobs.of(bus).list()}
        self.live = {job.task for job in of_queue if job.state in ("QUEUED", "RUNNING")}

    def without_task(self) -> list[TaskJob]:
        """Return the jobs whose task is not made, the oldest first; of each name the newest."""
        made = set(TaskTable.of(self._bus).names())
        without = [job for job in self._newest.values() if job.task not in made]
        return sorted(without, key=lambda job: (job.since_ms, job.task))

    def of(self, name: str) -> TaskJob | None:
        """Return the newest job for a task, or None."""
        return self._newest.get(name)


def _of_queue(bus: Bus) -> Iterator[TaskJob]:
    try:
        queue = Queue.open(bus, JOBS)
    except QueueNotFound:
        return
    groups = {claim.seq: claim.group for claim in Views.of(bus).active_claims(queue.info)}
    jobs = Jobs.of(bus)
    seqs = [*jobs.queued_seqs(queue.info), *groups]
    ended = (
        job
        for state in ENDED_BADLY
        for job in islice(DeadLetters(queue).find((state,)), _MAX_ENDED)
    )
    for job in (*jobs.named((JOBS, seq) for seq in seqs), *ended):
        message = bus.log.readable(job.seq)
        if message is not None and job.state in _STATES:
            yield _of_job(job, message, groups.get(job.seq))


def _of_job(job: Job, message: Message, worker: str | None) -> TaskJob:
    payload = message.payload if isinstance(message.payload, dict) else {}
    after = payload.get("depends_on")
    names = after if isinstance(after, list) else []
    return TaskJob(
        task=task_of_job(message),
        state=_STATES[job.state],
        attempt=job.attempt,
        worker=worker,
        requester=message.from_agent,
        priority=message.priority,
        depends_on=tuple(name for name in names if isinstance(name, str)),
        reason=job.error,
        conversation=message.conversation,
        seq=job.seq,
        since_ms=message.ts_ms if job.ended_at_ms is None else job.ended_at_ms,
    )


def _planned(job: PlannedJob) -> TaskJob:
    return TaskJob(
        task=job.task,
        state="PLANNED",
        attempt=0,
        worker=None,
        requester=job.planned_by,
        priority=job.priority,
        depends_on=job.depends_on,
        reason=None,
        conversation=job.correlation_id,
        seq=None,
        since_ms=job.planned_at_ms,
    )
