"""`Tasks`: the tasks of a bus, and all their steps."""

from __future__ import annotations

from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput, shown
from ...schema.message.names import check_agent
from ..records.task import STATES
from .messages import completion_of
from .worker_steps import ReviewSteps, WorkerSteps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..records.task import Task, TaskState
    from ..records.task_table import PlannedJob
    from .planning import NewJob

#: The agent in whose name tasks with a lost holder or an overdue question are ended.
_SETTLER = "tasks"


@with_checked_arguments
class Tasks(WorkerSteps, ReviewSteps):
    """The tasks of a bus. Each method is one transaction, and safe to repeat.

    A worker has a task under a lease, and passes its token to each step: a holder whose lease is
    lost changes nothing, and gets `LeaseLost`.

    Args:
        bus: an open bus.
    """

    def plan(
        self,
        jobs: Sequence[NewJob],
        *,
        agent: str,
        in_reply_to: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        """Publish the jobs of a plan, all or none.

        A job that depends on others enters the queue in the transaction in which the last of them
        lands. When one of them fails for good or is cancelled, the job is cancelled.

        Args:
            jobs: in an order in which they can be done.
            agent: the planner.
            in_reply_to, correlation_id: as for `Draft`: the request, and its conversation.

        Raises:
            InvalidInput: a name breaks its rule; or a dependency is unknown, will not land, or
                comes later.
            TaskExists: a task or another job has the name of a job.
        """
        check_agent(agent)
        self._changes.create_queues()
        with self.bus.transaction():
            self._changes.plans.add(jobs, agent, in_reply_to, correlation_id)

    def confirm(self, name: str, *, agent: str) -> Task:
        """Confirm the row of an unproven task, for a person who has checked it.

        A task that is APPROVED enters the completions. A task from the queue that is ASSIGNED
        enters the jobs, unless it has a job there.

        Args:
            name: of the task.
            agent: the person.

        Raises:
            TaskNotFound: there is none of this name.
        """
        check_agent(agent)
        with self.bus.transaction():
            task = self.get(name)
            if task.unproven:
                self._table.confirm(name)
                self._changes.confirmed(task, agent)
            return self.get(name)

    def enter_again(self, repository: str, target: str, *, agent: str) -> Sequence[Task]:
        """Enqueue the approved tasks of a target that have no job in the completions.

        Args:
            repository, target: where the tasks are to land.
            agent: the integrator.

        Returns:
            The tasks that were enqueued.
        """
        with self.bus.transaction():
            lost = [
                task
                for task in self._table.live()
                if task.state == "APPROVED"
                and (task.repository, task.target) == (repository, target)
                and not (task.unproven or self._changes.has_completion_job(task))
            ]
            for task in lost:
                self._changes.publish(task, [completion_of(task, agent)])
        return lost

    def planned(self) -> Sequence[PlannedJob]:
        """Return the jobs that wait until others have landed, the oldest first."""
        return self._changes.plans.waiting()

    def settle_lost(self) -> Sequence[Task]:
        """End the attempts whose holder let its lease run out, and return their tasks.

        A task that is only ASSIGNED is not lost: it is free to be started.
        """
        return [settled for task in self._lost() if (settled := self._settle(task))]

    def settle_deadlines(self) -> Sequence[Task]:
        """End the tasks whose question was not answered in time, and return them."""
        now_ms = self.bus.now_ms()
        overdue = [
            task for task in self._table.live() if not task.unproven and _is_overdue(task, now_ms)
        ]
        return [settled for task in overdue if (settled := self._settle_overdue(task))]

    def _lost(self) -> list[Task]:
        working = [
            task for task in self._table.live() if task.state == "WORKING" and not task.unproven
        ]
        return [task for task in working if not task.blocked and self.holder(task) is None]

    def _settle(self, lost_task: Task) -> Task | None:
        with self.bus.transaction():
            task = self.get(lost_task.task)
            if task != lost_task or self.holder(task) is not None:
                return None
            reason = f"{task.worker} was lost: its lease ran out"
            return self._changes.end_attempt(
                task, _SETTLER, reason, is_final=task.on_lost == "fail", is_lost=True
            )

    def _settle_overdue(self, overdue_task: Task) -> Task | None:
        with self.bus.transaction():
            task = self.get(overdue_task.task)
            if task.blocked is None or not _is_overdue(task, self.bus.now_ms()):
                return None
            reason = f"no answer in time to: {task.blocked.question}"
            return self._changes.end_attempt(task, _SETTLER, reason, is_final=True)

    def mark_cleaned(self, name: str) -> None:
        """Note that the work tree of a task is removed."""
        self._table.mark_cleaned(name)

    def _is_ready(self, task: Task) -> bool:
        lease = self.holder(task)
        return (
            task.state == "ASSIGNED"
            and not task.unproven
            and (lease is None or lease.holder == task.worker)
            and not self._table.unlanded(task.depends_on)
        )

    def list(
        self,
        *,
        states: Sequence[TaskState] | None = None,
        worker: str | None = None,
        is_live: bool = False,
        is_ready: bool = False,
        since_ms: int = 0,
        limit: int | None = None,
    ) -> list[Task]:
        """Return the tasks that match every given filter, the oldest first.

        Args:
            states: the states that they may have.
            worker: the worker that has them.
            is_live: leave out tasks whose state is final.
            is_ready: only tasks that their workers could start now: ASSIGNED, held by nobody
                else, and all that they depend on has landed.
            since_ms: leave out tasks that were made before this epoch millisecond.
            limit: how many at most.

        Raises:
            InvalidInput: a word in `states` is not a state of tasks.
        """
        for state in states or ():
            if state not in STATES:
                raise InvalidInput(f"{shown(state)} is no state of tasks; use {', '.join(STATES)}")
        if not (is_live or is_ready):
            return self._table.find(states=states, worker=worker, since_ms=since_ms, limit=limit)
        matching = [
            task
            for task in self._table.live()
            if task.created_at_ms >= since_ms
            and (states is None or task.state in states)
            and (worker is None or task.worker == worker)
            and (not is_ready or self._is_ready(task))
        ]
        return matching[:limit]


def _is_overdue(task: Task, now_ms: int) -> bool:
    deadline = None if task.blocked is None else task.blocked.deadline_ms
    return deadline is not None and deadline <= now_ms
