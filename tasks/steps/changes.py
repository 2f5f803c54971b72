"""The changes of tasks: a row and its messages, in one transaction."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ...bus import tracing
from ...bus.leases import Lease
from ...schema.arguments import with_checked_arguments
from ...schema.errors import LeaseLost
from ...schema.message.names import did_you_mean
from ...schema.message.patterns import UNPROVEN
from ...schema.message.times import format_ts
from ...subscribers.jobs.jobs import Jobs
from ..records.task import FINAL, HELD, lease_of
from ..records.task_table import TaskTable
from .messages import (
    COMPLETIONS,
    QUEUES,
    TASKS,
    TaskBlocked,
    TaskNotFound,
    TaskUnproven,
    WrongTaskState,
    assigned,
    completion_of,
    job_of,
    state_change,
    task_mail,
)
from .planning import Planning, TaskJobs, open_queue, take_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.draft import Draft
    from ...schema.message.message import Receipt
    from ..records.task import Task, TaskState

#: Which step leads out of each state, for errors.
_STEPS = {
    "ASSIGNED": "start",
    "WORKING": "done",
    "IN_REVIEW": "approve or reject",
    "APPROVED": "merge",
}


class Changes:
    """Changes of the tasks of a bus. Its methods are called within a transaction."""

    def __init__(self, bus: LocalBus) -> None:
        self.bus = bus
        self.table = TaskTable.of(bus)
        self.plans = Planning(bus, self.table)
        self._has_queues = False

    def get(self, name: str) -> Task:
        """Return a task, or raise `TaskNotFound`."""
        task = self.table.get(name)
        if task is None:
            job = TaskJobs(self.bus).of(name)
            hint = did_you_mean(name, self.table.names())
            no_task = f"there is no task {name!r}{hint}; see 'bus task list'"
            raise TaskNotFound(no_task if job is None else job.next_step)
        return task

    def proven(self, name: str) -> Task:
        """Return a task whose row a step can rely on.

        Raises:
            TaskNotFound: there is none of this name.
            TaskUnproven: its row was made of messages, which no person has confirmed.
        """
        task = self.get(name)
        if task.unproven:
            raise TaskUnproven(
                f"task {name!r} is unproven: its row was lost, and made again of messages that"
                f" anybody could write; 'bus task confirm {name}' shows them, and asks"
            )
        return task

    def has_completion_job(self, task: Task) -> bool:
        """Whether a step has put the attempt's completion into its queue, however the job ended."""
        jobs, type = Jobs.of(self.bus), QUEUES[COMPLETIONS]
        return any(
            job.queue == COMPLETIONS and job.error != UNPROVEN
            for message in self.bus.read(conversation=task.correlation_id, type=type)
            if isinstance(message.payload, dict)
            and (message.payload.get("task"), message.payload.get("attempt"))
            == (task.task, task.attempt)
            for job in jobs.of_message(message.seq)
        )

    def create_queues(self) -> None:
        """Make the queues from a request to a merge, where they are missing."""
        if self._has_queues:
            return
        for name in QUEUES:
            open_queue(self.bus, name)
        self._has_queues = True

    def expect(self, task: Task, *states: TaskState) -> None:
        """Refuse a step that does not lead out of the state of a task."""
        if task.state in states:
            return
        next_step = "answer" if task.blocked is not None else _STEPS.get(task.state)
        hint = f"the next step is {next_step}" if next_step else "that is final"
        why = f" ({task.reason})" if task.reason else ""
        raise WrongTaskState(
            task.task,
            task.state,
            f"task {task.task!r} is {task.state} in attempt {task.attempt}, not"
            f" {' or '.join(states)}; {hint}{why}",
        )

    def check_lease(self, task: Task, agent: str, token: int) -> Lease:
        """Return the lease of a task's holder.

        Raises:
            TaskBlocked: the task waits for an answer.
            LeaseLost: the lease is not held any more.
        """
        lease = Lease(task.lease_name, agent, token, 0, 0)
        if task.blocked is not None:
            raise TaskBlocked(
                f"task {task.task!r} waits for an answer, by 'bus task answer {task.task}':"
                f" {task.blocked.question}"
            )
        if task.state not in HELD:
            step = _STEPS.get(task.state)
            hint = f"the next step is {step}" if step else "that is final"
            raise LeaseLost(f"task {task.task!r} is {task.state}, and nobody holds it; {hint}")
        self.bus.leases.check(lease)
        return lease

    def release(self, task: Task) -> None:
        """Release the lease on a task, also one that has run out, if there is any."""
        lease = self.bus.leases.get(lease_of(task.task))
        if lease is not None:
            with suppress(LeaseLost):
                self.bus.leases.release(lease)

    def step(self, task: Task, to: TaskState, agent: str, *mails: Draft, **changed: Any) -> Task:
        """Store the next state of a task, and publish it with the mail about it.

        Args:
            task: the task as it is.
            to: its next state.
            agent: the agent that changes it.
            mails: what is published beside it.
            changed: further fields of the task that change.
        """
        if to not in HELD:
            self.release(task)
        changed.setdefault("blocked", None)
        after = replace(task, state=to, changed_at_ms=self.bus.now_ms(), **changed)
        return self._store(after, task.state, agent, mails)

    def begin(self, task: Task, agent: str, in_reply_to: str | None) -> Task:
        """Store a new task, and publish its first message and the mail to its worker."""
        change = state_change(task, None, agent, in_reply_to=in_reply_to, is_new=True)
        (receipt, *_) = self.publish(task, [change, assigned(task, agent)])
        begun = replace(task, last_seq=receipt.seq)
        self.table.add(begun)
        return begun

    def confirmed(self, task: Task, agent: str) -> None:
        """Publish that a person has confirmed the row of a task, and continue from there."""
        fields = {"state": task.state, "head": task.head}
        mails = [task_mail(task, "task_confirmed", agent, TASKS, **fields)]
        if task.state == "APPROVED":
            mails.append(completion_of(task, agent))
        if task.state == "ASSIGNED" and task.from_queue and not self.plans.has_job(task.task):
            mails.append(job_of(task, agent))
        self.publish(task, mails)

    def end_attempt(
        self, task: Task, agent: str, reason: str, *, is_final: bool = False, is_lost: bool = False
    ) -> Task:
        """End the attempt of a task as failed, and begin the next one while there is one left.

        A task from the queue goes back to the queue, as a new job. If its holder is lost, no job is
        made: the job that the holder had comes back by itself.
        """
        is_last = is_final or task.attempt >= task.max_attempts
        failed = self.step(task, "FAILED", agent, reason=reason)
        if is_last:
            self.plans.gave_up(failed.task)
            return self._tell(failed, agent, "task_failed", reason=reason)
        now_ms = self.bus.now_ms()
        following = replace(
            failed, attempt=task.attempt + 1, state="ASSIGNED", head=None, changed_at_ms=now_ms
        )
        if not task.from_queue:
            return self._store(following, None, agent, [assigned(following, agent)])
        mails = [] if is_lost else [job_of(following, agent)]
        return self._store(following, None, agent, mails)

    def publish(self, task: Task, drafts: Iterable[Draft]) -> list[Receipt]:
        """Publish messages about a task, in the trace of the first message of its conversation.

        Its jobs and completions enter their queues: only messages of a task with a row do so.
        """
        first = self.bus.get(task.correlation_id)  # None: the id may be the task's name
        trace = {} if first is None else tracing.child_trace(first.headers)
        drafts = list(drafts)
        receipts = self.bus.log.append(tracing.traced(drafts, trace))
        take_in(self.bus, [(d.type, r.seq) for d, r in zip(drafts, receipts, strict=True)])
        return receipts

    def _tell(self, task: Task, agent: str, type: str, **fields: object) -> Task:
        self.publish(task, [task_mail(task, type, agent, task.requester, **fields)])
        return task

    def _store(
        self, task: Task, before: TaskState | None, agent: str, mails: Iterable[Draft]
    ) -> Task:
        (receipt, *_) = self.publish(task, [state_change(task, before, agent), *mails])
        stored = replace(task, last_seq=receipt.seq)
        self.table.change(stored)
        return stored


# The base of all steps of tasks.


@with_checked_arguments
class Steps:
    """Steps of the tasks of a bus. Each method is one transaction, and safe to repeat.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self.bus = bus
        self._changes = Changes(bus)
        self._table = self._changes.table

    def get(self, name: str) -> Task:
        """Return a task.

        Raises:
            TaskNotFound: there is none of this name.
        """
        return self._changes.get(name)

    def holder(self, task: Task) -> Lease | None:
        """Return the lease under which a task is held now, or None."""
        lease = self.bus.leases.get(task.lease_name)
        return lease if lease is not None and lease.until_ms > self.bus.now_ms() else None

    def _take(self, task: str, worker: str, lease_s: float) -> Lease:
        lease = self.bus.leases.acquire(lease_of(task), worker, lease_s=lease_s)
        if lease is None:
            current = self.bus.leases.get(lease_of(task))
            whose = (
                f"{current.holder} until {format_ts(current.until_ms)}" if current else "another"
            )
            raise LeaseLost(
                f"task {task!r} is held by {whose}; use the token of that lease, which is in the"
                " record of the task"
            )
        return lease

    def _refuse_final(self, task: Task) -> None:
        if task.state in FINAL:
            self._changes.expect(task, "ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED")
