"""Plans: jobs that depend on each other. Each enters its queue when all before it has landed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...schema.errors import InvalidInput
from ...schema.message.draft import Draft
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.work_headers import work_headers
from ...subscribers.views import Views
from ..records.planned_jobs import PlannedJob, PlannedJobs
from .errors import TaskExists
from .messages import JOBS, QUEUES, TASKS
from .names import check_task_name
from .queues import open_queue, take_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...subscribers.queues.queue import Queue
    from ..records.task_table import TaskTable


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job of a plan.

    Attributes:
        task: the name of its task, as for `NewTask`.
        payload: of the job, an object; its task and what it depends on are added.
        depends_on: tasks, of this plan or of before, that must have landed first.
        priority: 0 interactive, 1 normal, 2 background.
        for_worker: the worker that alone may claim it, unless it has to wait for others first;
            None: any.
    """

    task: str
    payload: dict[str, Any] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    priority: int = 1
    for_worker: str | None = None


class Planning:
    """The plans of a bus. All methods want a transaction around them."""

    def __init__(self, bus: Bus, tasks: TaskTable) -> None:
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
            InvalidInput: a name breaks its rule, or a dependency is unknown, over, or a circle.
            TaskExists: a task has the name of one.
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
                        *(conversation, receipt.id, self._bus.now_ms()),
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
            TaskExists: there is one.
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
                )
                draft = _draft(ready, job.planned_by, job.message_id, job.correlation_id)
                (receipt,) = self._bus.log.append([draft])
                take_in(self._bus, [(draft.type, receipt.seq)])

    def gave_up(self, task: str) -> None:
        """Cancel the jobs that depend on a task which will not land, and those that need them."""
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
        told = Draft(
            "task_cancelled",
            {"task": job.task, "attempt": 0, "reason": reason},
            from_agent=agent,
            to_agent=job.planned_by,
            in_reply_to=job.message_id,
            correlation_id=job.correlation_id,
            priority=job.priority,
        )
        self._bus.log.append([told])

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
        before = set(planned)
        for job in jobs:
            for name in job.depends_on:
                if name in before:
                    continue
                if name in names:
                    raise InvalidInput(
                        f"job {job.task!r} depends on {name!r}, which comes later: give the jobs in"
                        " an order in which they can be done"
                    )
                self._check_dependency(f"job {job.task!r}", name)
            before.add(job.task)

    def check_dependencies(self, task: str, names: Collection[str]) -> None:
        """Check what a new task depends on: tasks, and jobs that wait or run.

        Raises:
            InvalidInput: one is itself, is unknown, or will not land.
        """
        if not names:
            return
        queue = open_queue(self._bus, JOBS)
        known = {job.task for job in self._planned.list()} | self._running(queue)
        known |= self._of_jobs(Jobs.of(self._bus).queued_seqs(queue.info))
        for name in names:
            if name == task or name not in known:
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
        """Return the tasks of jobs, which may not be there yet."""
        messages = (self._bus.log.readable(seq) for seq in seqs)
        return {task_of_job(message) for message in messages if message is not None}


def task_of_job(message: Message) -> str:
    """Return the name of the task of a job: what it says, else its id."""
    payload = message.payload
    said = payload.get("task") if isinstance(payload, dict) else None
    return said if isinstance(said, str) and said else message.id


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
