"""Plans: jobs that depend on each other, and jobs that have no task yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from ...schema.errors import InvalidInput
from ...schema.message.draft import Draft
from ...schema.message.times import format_ts
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import ENDED_BADLY, Jobs
from ...subscribers.jobs.policy import work_headers
from ...subscribers.queues.job_control import DeadLetters
from ...subscribers.queues.queue import Queue
from ...subscribers.views import Views
from ..records.task import PRIORITIES
from ..records.task_table import PlannedJob, PlannedJobs, TaskTable
from .messages import JOBS, QUEUES, TASKS, TaskExists, check_task_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.jobs import Job

# The queues from a request to a merge.

#: The names of the queues by their types.
_NAMES = {type: name for name, type in QUEUES.items()}


def open_queue(bus: LocalBus, name: str) -> Queue:
    """Open one of the queues, or create it; its policy may be a person's.

    Raises:
        QueueMismatch: another queue has its name.
    """
    try:
        queue = Queue.open(bus, name)
    except QueueNotFound:
        queue = None
    if queue is not None and _takes_tasks(queue):
        return queue
    return Queue.create(bus, name, QUEUES[name], ordering="priority", addressed=TASKS)


def take_in(bus: LocalBus, types_and_seqs: Iterable[tuple[str, int]]) -> None:
    """Take messages of a step into the queues that act on them, in the step's transaction.

    Args:
        bus: the bus.
        types_and_seqs: of what the step has just published.
    """
    for type, seq in types_and_seqs:
        name = _NAMES.get(type)
        if name is not None:
            open_queue(bus, name).take_in([seq])


def _takes_tasks(queue: Queue) -> bool:
    info = queue.info
    return info.pattern == QUEUES[queue.name] and info.policy.takes(TASKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job of a plan.

    Attributes:
        task: the name of its task, as for `NewTask`.
        payload: of the job, an object; its task and what it depends on are added.
        depends_on: tasks, of this plan or earlier ones, that must have landed first.
        priority: 0 interactive, 1 normal, 2 background.
        for_worker: the worker that alone may claim it; None: any.
    """

    task: str
    payload: dict[str, Any] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    priority: int = 1
    for_worker: str | None = None


class Planning:
    """The plans of a bus. Its methods are called within a transaction."""

    def __init__(self, bus: LocalBus, tasks: TaskTable) -> None:
        self._bus = bus
        self._tasks = tasks
        self._planned = PlannedJobs.of(bus)

    def waiting(self) -> list[PlannedJob]:
        """Return the jobs that wait for others, the oldest first."""
        return self._planned.list()

    def add(
        self, jobs: Sequence[NewJob], agent: str, in_reply_to: str | None, conversation: str | None
    ) -> None:
        """Publish the jobs of a plan that can begin, and keep the others until they can.

        Raises:
            InvalidInput: a name breaks its rule; or a dependency is unknown, will not land, or
                comes later in the plan.
            TaskExists: a task or another job has the name of a job of the plan.
        """
        self._check(jobs)
        for job in jobs:
            waits = self._tasks.unlanded(job.depends_on)
            draft = _draft(job, agent, in_reply_to, conversation, waits=bool(waits))
            (receipt,) = self._bus.log.append([draft])
            take_in(self._bus, [(draft.type, receipt.seq)])
            if waits:
                self._planned.add(
                    PlannedJob(
                        *(job.task, job.payload, job.depends_on, job.priority, agent),
                        *(conversation, receipt.id, job.for_worker, self._bus.now_ms()),
                    )
                )

    def has_job(self, task: str) -> bool:
        """Whether a job for a task waits or runs."""
        queue = open_queue(self._bus, JOBS)
        seqs = Jobs.of(self._bus).queued_seqs(queue.info)
        active = (claim.seq for claim in Views.of(self._bus).active_claims(queue.info))
        return task in self._of_jobs([*seqs, *active])

    def check_free(self, task: str) -> None:
        """Check that no job for a task is planned, waits or runs: its prompt would be dropped.

        Raises:
            TaskExists: there is such a job.
        """
        if self.has_job(task) or any(job.task == task for job in self._planned.list()):
            raise TaskExists(
                f"task {task!r} has a job that has not begun: 'bus task show {task}' shows it, and"
                f" 'bus task cancel {task}' takes it back; or choose another name"
            )

    def landed(self) -> None:
        """Publish the jobs whose dependencies have all landed."""
        for job in self._planned.list():
            if not self._tasks.unlanded(job.depends_on):
                self._planned.remove(job.task)
                ready = NewJob(
                    task=job.task,
                    payload=job.payload,
                    depends_on=job.depends_on,
                    priority=job.priority,
                    for_worker=job.for_worker,
                )
                draft = _draft(ready, job.planned_by, job.message_id, job.correlation_id)
                (receipt,) = self._bus.log.append([draft])
                take_in(self._bus, [(draft.type, receipt.seq)])

    def gave_up(self, task: str) -> None:
        """Cancel the jobs that depend on a task which will not land, and what depends on them."""
        lost = {task}
        waiting = self._planned.list()
        while dropped := [job for job in waiting if lost.intersection(job.depends_on)]:
            for job in dropped:
                names = ", ".join(sorted(lost.intersection(job.depends_on)))
                self._drop(job, TASKS, f"{names} will not land")
            lost = {job.task for job in dropped}
            waiting = [job for job in waiting if job not in dropped]

    def take_back(self, task: str, agent: str, reason: str | None) -> bool:
        """Cancel the planned job of a task, which has not begun; return whether there was one."""
        job = next((job for job in self._planned.list() if job.task == task), None)
        if job is not None:
            self._drop(job, agent, reason)
        return job is not None

    def _drop(self, job: PlannedJob, agent: str, reason: str | None) -> None:
        self._planned.remove(job.task)
        draft = Draft(
            "task_cancelled",
            {"task": job.task, "attempt": 0, "reason": reason},
            from_agent=agent,
            to_agent=job.planned_by,
            in_reply_to=job.message_id,
            correlation_id=job.correlation_id,
            priority=job.priority,
        )
        self._bus.log.append([draft])

    def _check(self, jobs: Sequence[NewJob]) -> None:
        names = [job.task for job in jobs]
        queue = open_queue(self._bus, JOBS)
        queue.fill()
        planned = {job.task for job in self._planned.list()}
        planned |= self._of_jobs(Jobs.of(self._bus).queued_seqs(queue.info))
        planned |= self._running(queue)
        for job in jobs:
            check_task_name(job.task)
            if job.task in planned or names.count(job.task) > 1 or self._tasks.get(job.task):
                raise TaskExists(f"task {job.task!r} exists; choose another name")
        earlier = set(planned)
        for job in jobs:
            for name in job.depends_on:
                if name in earlier:
                    continue
                if name in names:
                    raise InvalidInput(
                        f"job {job.task!r} depends on {name!r}, which comes later: give the jobs in"
                        " an order in which they can be done"
                    )
                self._check_dependency(f"job {job.task!r}", name)
            earlier.add(job.task)

    def check_dependencies(self, task: str, names: Collection[str]) -> None:
        """Check what a new task depends on: tasks, and jobs that wait or run.

        Raises:
            InvalidInput: a name is the task's own, or of a task that is unknown or will not land.
        """
        if not names:
            return
        queue = open_queue(self._bus, JOBS)
        known_tasks = {job.task for job in self._planned.list()} | self._running(queue)
        known_tasks |= self._of_jobs(Jobs.of(self._bus).queued_seqs(queue.info))
        for name in names:
            if name == task or name not in known_tasks:
                self._check_dependency(f"task {task!r}", name)

    def _check_dependency(self, what: str, name: str) -> None:
        task = self._tasks.get(name)
        if task is None:
            raise InvalidInput(
                f"{what} depends on {name!r}, which is no task; see 'bus task list --all'"
            )
        if task.state in ("CANCELLED", "FAILED"):
            raise InvalidInput(f"{what} depends on {name!r}, which is {task.state}")

    def _running(self, queue: Queue) -> set[str]:
        claims = Views.of(self._bus).active_claims(queue.info)
        return self._of_jobs(claim.seq for claim in claims)

    def _of_jobs(self, seqs: Iterable[int]) -> set[str]:
        """Return the names of the tasks of jobs; a task may not be made yet."""
        messages = (self._bus.log.readable(seq) for seq in seqs)
        return {task_of_job(message) for message in messages if message is not None}


def task_of_job(message: Message) -> str:
    """Return the name of a job's task: the one in its payload, else the id of its message."""
    payload = message.payload
    name = payload.get("task") if isinstance(payload, dict) else None
    return name if isinstance(name, str) and name else message.id


def _draft(
    job: NewJob,
    agent: str,
    in_reply_to: str | None,
    conversation: str | None,
    *,
    waits: bool = False,
) -> Draft:
    return Draft(
        "task_planned" if waits else QUEUES[JOBS],
        {**job.payload, "task": job.task, "depends_on": list(job.depends_on)},
        from_agent=agent,
        to_agent=TASKS,
        in_reply_to=in_reply_to,
        correlation_id=conversation,
        priority=job.priority,
        headers=None if waits else work_headers(for_worker=job.for_worker) or None,
    )


# Jobs that have no task yet: planned, queued, being made, or ended before their task was made.

#: The states of a job without a task, by its state in the queue; a `PLANNED` job is in none yet.
_STATES = {
    "queued": "QUEUED",
    "running": "RUNNING",
    "dead": "DEAD",
    "failed": "FAILED",
    "timed_out": "FAILED",
}
STATES = ("PLANNED", "QUEUED", "RUNNING", "DEAD", "FAILED")

#: The states that only a person can change.
STUCK = ("DEAD", "FAILED")

#: How many of the jobs that ended badly are looked at, of each state.
_MAX_ENDED = 1000


@dataclass(frozen=True, slots=True)
class TaskJob:
    """A job whose task is not made.

    Attributes:
        task: the name that its task has, or would have.
        state: `PLANNED` until what it depends on has landed; `QUEUED` until a worker has it;
            `RUNNING` while the worker makes the work tree; `DEAD` or `FAILED` when no worker could.
        attempt: the number of the job's attempt that is next, runs, or was the last; 0 while it is
            planned.
        worker: the worker that has it, or None.
        requester: the agent that published it.
        priority: 0 interactive, 1 normal, 2 background.
        depends_on: the tasks that must have landed before it.
        reason: why its newest attempt failed, or None.
        conversation: the conversation that it belongs to, or None.
        seq: the seq of its message; None: it is planned.
        since_ms: when it was published or, if it has ended, when it ended, in epoch milliseconds.
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
        """Return why no step of its task can be taken yet, and what can be done, for errors."""
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
    """The jobs of the queue `jobs`, and the planned ones, as they are when the object is made.

    Of the jobs that ended badly, the first thousand of each state are looked at.

    Args:
        bus: an open bus.

    Attributes:
        live: the tasks of jobs that wait or run.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        of_queue = sorted(_of_queue(bus), key=lambda job: job.seq or 0)
        self._newest = {job.task: job for job in of_queue}
        self._newest |= {job.task: _planned(job) for job in PlannedJobs.of(bus).list()}
        self.live = {job.task for job in of_queue if job.state in ("QUEUED", "RUNNING")}

    def without_task(self) -> list[TaskJob]:
        """Return the newest job for each task that is not made, the oldest first."""
        tasks = set(TaskTable.of(self._bus).names())
        jobs = [job for job in self._newest.values() if job.task not in tasks]
        return sorted(jobs, key=lambda job: (job.since_ms, job.task))

    def of(self, name: str) -> TaskJob | None:
        """Return the newest job for a task, or None."""
        return self._newest.get(name)


def _of_queue(bus: LocalBus) -> Iterator[TaskJob]:
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
    depends_on = payload.get("depends_on")
    names = depends_on if isinstance(depends_on, list) else []
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
