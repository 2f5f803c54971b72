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
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ...bus.bus import Bus
    from ..records.task import Task
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

    def gave_up(self, task: Task) -> None:
        """Cancel the jobs that depend on a task which will not land, and those that need them."""
        lost = {task.task}
        waiting = self._planned.list()
        while dropped := [job for job in waiting if lost.intersection(job.depends_on)]:
            for job in dropped:
                self._drop(job, sorted(lost.intersection(job.depends_on)))
            lost = {job.task for job in dropped}
            waiting = [job for job in waiting if job not in dropped]

    def _drop(self, job: PlannedJob, why: list[str]) -> None:
        self._planned.remove(job.task)
        reason = f"{', '.join(why)} will not land"
        told = Draft(
            "task_cancelled",
            {"task": job.task, "attempt": 0, "reason": reason},
            from_agent=TASKS,
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
        for job in jobs:
            check_task_name(job.task)
            if job.task in planned or names.count(job.task) > 1 or self._tasks.get(job.task):
                raise TaskExists(f"task {job.task!r} exists; choose another name")
        before = planned | self._of_jobs(
            claim.seq for claim in Views.of(self._bus).active_claims(queue.info)
        )
        for job in jobs:
            for name in job.depends_on:
                if name not in before:
                    self._check_dependency(job, name, is_later=name in names)
            before.add(job.task)

    def _check_dependency(self, job: NewJob, name: str, *, is_later: bool) -> None:
        if is_later:
            raise InvalidInput(
                f"job {job.task!r} depends on {name!r}, which comes later: give the jobs in an"
                " order in which they can be done"
            )
        task = self._tasks.get(name)
        if task is None:
            raise InvalidInput(f"job {job.task!r} depends on {name!r}, which is no task")
        if task.state in ("CANCELLED", "FAILED"):
            raise InvalidInput(f"job {job.task!r} depends on {name!r}, which is {task.state}")

    def _of_jobs(self, seqs: Iterable[int]) -> set[str]:
        """Return the tasks of jobs, which may not be there yet."""
        messages = (self._bus.log.readable(seq) for seq in seqs)
        payloads = (message.payload for message in messages if message is not None)
        return {str(each.get("task")) for each in payloads if isinstance(each, dict)}


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
