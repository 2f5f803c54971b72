"""The work on one job: its task and tree, the program, and one transaction that ends them all.

The claim on the job is the right to its task: who had it before has ended, or gets an error. All
that a kill leaves is found again by the next worker of the job.
"""

from __future__ import annotations

import logging
import time

from ...git.limited import ProgramStopped
from ...git.repository import GitFailed
from ...git.trees.tree_list import NameTaken, TreeBusy, occupants_of
from ...schema.errors import BusBusy, InvalidInput, LeaseLost, Refused
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.jobs.policy import WorkHeaders
from ...workers.processes.own_child import DYING_S, GRACE_S, StopSwitch
from ..records.task_table import TaskTable
from ..steps.planning import NewJob
from .job_run import LOOK_S, AlreadyEnded, Interrupted, JobRun, pause, read_job
from .job_tree import commit_leftovers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from ...bus.leases import Lease
    from ...subscribers.jobs.claims import Claim
    from ..agent_program import ProgramEnd
    from ..records.task import OnLost, Task
    from .job_run import JobContext, JobForm

# Waiting for processes that a lost worker has left at work in a folder.

#: Seconds between two looks.
_NAP_S = 0.05


def wait_until_alone(
    folder: str, timeout_s: float, is_over: Callable[[], bool] = lambda: False
) -> list[int]:
    """Wait until no process works in a folder; return the ids of processes that still do.

    A program whose worker was killed gets some seconds to end: two must not work in one tree.

    Args:
        folder: the folder.
        timeout_s: for how long at most, in seconds.
        is_over: whether to wait no longer.
    """
    deadline = time.monotonic() + timeout_s
    while (occupants := occupants_of(folder)) and time.monotonic() < deadline and not is_over():
        time.sleep(_NAP_S)
    return occupants


_log = logging.getLogger("ackbus.tasks.worker")


class JobWork:
    """The work on the job of one claim, from its start to its end.

    Args:
        context: what it needs.
        claim: the claim.
    """

    def __init__(self, context: JobContext, claim: Claim) -> None:
        self._context = context
        self._table = TaskTable.of(context.bus)
        self._claim = claim
        self._switch = StopSwitch()
        self._program = JobRun(context, claim, self._switch)
        self._lost: str | None = None
        self._task: Task | None = None  # as soon as it is known

    # Called from other threads -----------------------------------------------------------------

    def lose(self, why: str) -> None:
        """End the program, since the job is no longer this worker's."""
        self._lost = why
        self.stop(GRACE_S)

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End the program, and hand the job back. Safe in a signal handler."""
        self._switch.stop(grace_s)

    # The work ----------------------------------------------------------------------------------

    def do(self) -> None:
        """Do the work of the job, and record its end."""
        try:
            form = read_job(self._claim.message)
            if form.commits:
                self._work(form, self._take_up(form))
            else:
                self._do_uncommitted(form)
        except AlreadyEnded:
            pass
        except (Interrupted, ProgramStopped, TreeBusy):
            self._hand_back()
        except (ClaimLost, LeaseLost) as error:  # a late holder changes nothing
            _log.warning("message %s: %s", self._claim.message.seq, error)
            self._hand_back()
        except InvalidInput as error:
            self._end_badly(self._task, str(error), retry=False)
        except (Refused, GitFailed) as error:
            self._end_badly(self._task, str(error), retry=not isinstance(error, NameTaken))

    def _work(self, form: JobForm, task: Task) -> None:
        """Run the program, again after each answer, and record how the attempt ended."""
        port = self._take_port(task)
        self._context.keeper.hold_task(task, *([port[1]] if port else []))
        try:
            while True:
                end = self._program.on_task(form, task, None if port is None else port[0])
                current = self._context.tasks.get(task.task)
                if self._lost is not None or current.blocked is None:
                    break
                self._context.keeper.hold_task(None)  # the answer brings another token
                task = self._wait_for_answer(current)
                self._context.keeper.hold_task(task, *([port[1]] if port else []))
            self._settle(form, task, end)
        finally:
            if port is not None:
                self._release(port[1])

    def _take_up(self, form: JobForm) -> Task:
        """Return the task of the job, WORKING under a lease of this worker.

        Raises:
            AlreadyEnded: nothing is left to do; the end of the job is recorded.
        """
        context, waited = self._context, False
        while True:
            context.tasks.settle_lost()
            task = self._task = self._find(form)
            lease = None if task is None else context.tasks.holder(task)
            if task is None:
                pause(self._switch, LOOK_S)
            elif task.unproven:
                raise Refused(f"task {task.task!r} is unproven; 'bus task confirm {task.task}'")
            elif task.blocked is not None:
                self._wait_for_answer(task)
                waited = True
            elif task.state not in ("ASSIGNED", "WORKING"):
                self._end_with(task)
            elif lease is None or lease.holder == context.worker:
                if task.state == "ASSIGNED" or lease is not None:
                    return self._begin(task, None if lease is None else lease.token)
            elif waited:  # it was blocked, so nobody works on it: the job's holder goes on
                self._release(lease)
                waited = False
            else:
                self._say("waiting", f"{task.task}: {lease.holder} has it")
                pause(self._switch, LOOK_S)

    def _find(self, form: JobForm) -> Task | None:
        """Return the task of the job, made if need be; None while a lost worker has its lease."""
        context = self._context
        if (task := self._table.get(form.task)) is not None:
            return task
        if not all(map(self._has_landed, form.depends_on)):
            self._plan(form)
        headers = WorkHeaders.of(self._claim.message)
        on_lost = getattr(headers, "on_lost", None)
        self._say("working", f"{form.task}: making its work tree")
        rule: OnLost = "fail" if on_lost == "fail" else "requeue"
        try:
            return context.trees.spawn(self._claim, form, context.lease_s, rule, self._switch)
        except (LeaseLost, TreeBusy) as error:
            self._say("waiting", str(error))
            return None

    def _has_landed(self, name: str) -> bool:
        task = self._table.get(name)
        return task is not None and task.state == "COMPLETED" and not task.unproven

    def _plan(self, form: JobForm) -> NoReturn:
        """Put off a job until the tasks that it depends on have landed: then it comes again."""
        message = self._claim.message
        job = NewJob(
            task=form.task,
            payload=form.payload,
            depends_on=form.depends_on,
            priority=message.priority,
        )
        with self._context.bus.transaction():
            self._complete({"task": form.task, "state": "PLANNED"})  # this frees its name
            self._context.tasks.plan(
                [job],
                agent=message.from_agent,
                in_reply_to=message.id,
                correlation_id=message.conversation,
            )
        raise AlreadyEnded

    def _begin(self, task: Task, token: int | None) -> Task:
        """Make sure that the tree is there and that no process is in it, and begin."""
        context = self._context
        context.trees.make(task, self._switch)
        patience_s = GRACE_S + 2 * DYING_S
        occupants = wait_until_alone(task.path, patience_s, lambda: self._switch.is_set)
        if self._switch.is_set:
            raise Interrupted
        if occupants:
            pids = ", ".join(map(str, occupants[:5]))
            raise Refused(f"processes are at work in {task.path} already: {pids}; end them")
        return context.tasks.start(
            task.task, agent=context.worker, token=token, lease_s=context.lease_s
        )

    def _do_uncommitted(self, form: JobForm) -> None:
        end = self._program.on_files(form)
        if self._lost is not None or end.kind == "stopped":
            raise Interrupted
        if end.kind == "ended":
            self._complete({"kind": form.kind, "summary": end.tail})
        else:
            self._end_badly(None, end.reason, retry=end.kind == "transient")

    # Ends --------------------------------------------------------------------------------------

    def _settle(self, form: JobForm, task: Task, end: ProgramEnd) -> None:
        """Record how an attempt ended, with its job, in one transaction."""
        current = self._context.tasks.get(task.task)
        if current.attempt != task.attempt:
            raise Interrupted  # the next attempt has begun, as another job
        if current.state != "WORKING":  # the program itself, or a person, has changed it
            self._end_with(current)
        if self._lost is not None or end.kind == "stopped" or current.token != task.token:
            raise Interrupted
        if end.kind == "ended":
            self._finish(form, task, end)
        else:
            self._end_badly(task, end.reason, retry=end.kind != "permanent", kind=end.kind)

    def _end_with(self, task: Task) -> NoReturn:
        """End the job of a task that needs no work, or none any more."""
        self._complete({"task": task.task, "attempt": task.attempt, "state": task.state})
        self._context.trees.remove(task, keeps_files=not task.is_live)
        raise AlreadyEnded

    def _finish(self, form: JobForm, task: Task, end: ProgramEnd) -> None:
        context = self._context
        state = commit_leftovers(context.trees.tree_of(task), task, form.prompt, context.author)
        if not state.is_clean:
            raise Refused(f"its work tree can't be committed whole: {state.dirt()}")
        result: dict[str, object] = {"task": task.task, "attempt": task.attempt}
        result |= {"branch": task.branch, "commit": state.head, "summary": end.tail}
        if state.head is None or state.ahead == 0:
            reason = "no change: the program has left nothing to commit"
            with context.bus.transaction():
                context.tasks.cancel(task.task, agent=context.worker, reason=reason)
                self._complete(result | {"commit": None, "state": "CANCELLED"})
        else:
            earlier = context.trees.heads.keep(task.task, state.head)
            with context.bus.transaction():
                done = context.tasks.done(
                    task.task, agent=context.worker, token=task.token, head=state.head
                )
                self._complete(result | {"state": done.state})
            context.trees.heads.drop(earlier)
        context.trees.remove(task)

    def _complete(self, result: dict[str, object]) -> None:
        self._written(lambda: self._context.queue.complete(self._claim, result=result))

    def _end_badly(
        self, task: Task | None, reason: str, *, retry: bool, kind: str = "failed"
    ) -> None:
        """End the attempt at a task, and the job; the next attempt is another job.

        Where there is no task, the queue's policy decides about the job.
        """
        context = self._context
        outcome = Outcome(
            status="timed_out" if kind == "timed_out" else "failed",
            error=reason,
            retry=retry if task is None else None,
            is_reply=task is not None or not retry,
        )

        def end() -> None:
            with context.bus.transaction():
                if task is not None:
                    lease = context.tasks.holder(task)
                    token = lease.token if lease and lease.holder == context.worker else None
                    context.tasks.fail(
                        task.task, agent=context.worker, token=token, reason=reason, retry=retry
                    )
                context.queue.end(self._claim, outcome)

        try:
            self._written(end)
        except (ClaimLost, LeaseLost) as error:
            _log.warning("message %s: %s", self._claim.message.seq, error)
            return
        if task is not None and not (ended := context.tasks.get(task.task)).is_live:
            context.trees.remove(ended, keeps_files=True)

    def _hand_back(self) -> None:
        """Release the job, uncounted, unless another worker has it by now; its task stays."""
        try:
            self._context.queue.release(self._claim)
        except ClaimLost as error:
            _log.info("message %s: %s", self._claim.message.seq, error)

    def _written(self, write: Callable[[], object]) -> None:
        """Write, as often as the bus is busy and the job is still this worker's."""
        while True:
            try:
                write()
                return
            except BusBusy as error:  # after half a minute
                if self._lost is not None:
                    raise
                _log.warning("the end of message %s waits: %s", self._claim.message.seq, error)

    # Waiting -----------------------------------------------------------------------------------

    def _wait_for_answer(self, task: Task) -> Task:
        """Wait until the question of a task is answered, or its time is over; return the task."""
        context = self._context
        while task.blocked is not None:
            self._say("blocked", f"{task.task}: {task.blocked.question}"[:500])
            pause(self._switch, LOOK_S)
            context.tasks.settle_deadlines()
            task = context.tasks.get(task.task)
        if task.state != "WORKING":
            self._end_with(task)
        return task

    def _say(self, status: str, what: str) -> None:
        self._context.report(status, what)

    def _take_port(self, task: Task) -> tuple[int, Lease] | None:
        context = self._context
        if context.ports is None:
            return None
        return context.ports.take(context.bus, task.task, context.worker, context.lease_s)

    def _release(self, lease: Lease) -> None:
        try:
            self._context.bus.leases.release(lease)
        except LeaseLost as error:
            _log.info("%s", error)
