"""The steps after the work: review and integration; and cancelling."""

from __future__ import annotations

from dataclasses import replace

from ...schema.arguments import with_checked_arguments
from ...schema.errors import Refused
from ...schema.message.names import check_agent
from ...subscribers.queues.job_control import JobControl
from .kept_heads import KeptHeads
from .messages import JOBS, completion_of, reviewed, told
from .queues import open_queue
from .steps import Steps
from .task_jobs import TaskJobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...schema.message.draft import Draft
    from ..records.task import Task
    from .task_jobs import TaskJob


@with_checked_arguments
class ReviewSteps(Steps):
    """The steps of reviewers and of the integrator. None needs a lease on the task."""

    def approve(self, name: str, *, agent: str, words: str | None = None) -> Task:
        """Approve what is done: IN_REVIEW becomes APPROVED, and it enters the completions.

        Raises:
            Refused: the review must be another agent's than the worker's.
            WrongTaskState: it is not IN_REVIEW.
            GitFailed: git, or a hook of the repository, refuses the ref that keeps the commit.
        """
        check_agent(agent)
        self._keep_head(name)
        with self.bus.transaction():
            task = self._changes.proven(name)
            if task.state == "APPROVED":
                return task
            self._changes.expect(task, "IN_REVIEW")
            if task.review == "other" and agent == task.worker:
                raise Refused(f"task {name!r} wants the review of another agent than {agent}")
            return self._approve(task, agent, words)

    def merge(self, name: str, *, agent: str) -> Task:
        """Have a task wait for the integrator: approve it, unless that was done.

        One that has landed is returned as it is.

        Raises:
            Refused: as for `approve`.
            WrongTaskState: there is nothing to approve, or it is over without having landed.
            GitFailed: as for `approve`.
        """
        self._keep_head(name)
        with self.bus.transaction():
            task = self._changes.proven(name)
            return task if task.state == "COMPLETED" else self.approve(name, agent=agent)

    def _keep_head(self, name: str) -> None:
        """Keep the head of a task that could not be kept when it was done."""
        task = self._changes.proven(name)
        if task.state in ("IN_REVIEW", "APPROVED") and task.head is not None:
            KeptHeads(self.bus).keep(task, task.head)

    def _approve(self, task: Task, agent: str, words: str | None = None) -> Task:
        mails: Sequence[Draft] = [completion_of(replace(task, state="APPROVED"), agent)]
        if task.review != "none":
            mails = [*mails, reviewed(task, agent, is_approved=True, words=words)]
        return self._changes.step(task, "APPROVED", agent, *mails)

    def reject(self, name: str, *, agent: str, words: str) -> Task:
        """Reject what is done: the attempt ends, and the next one begins with these words.

        Raises:
            WrongTaskState: it is not IN_REVIEW.
        """
        with self.bus.transaction():
            task = self._changes.proven(name)
            self._changes.expect(task, "IN_REVIEW")
            self._changes.publish(task, [reviewed(task, agent, is_approved=False, words=words)])
            return self._changes.end_attempt(task, agent, words)

    def send_back(
        self, name: str, *, attempt: int, agent: str, reason: str, files: Sequence[str] = ()
    ) -> Task:
        """End an approved attempt that could not be integrated, and begin the next one.

        Args:
            name, attempt: of the task.
            agent: the integrator.
            reason: why, for the worker: it is in the first message of the next attempt.
            files: those that conflict.

        Raises:
            WrongTaskState: it is not APPROVED in this attempt.
        """
        with self.bus.transaction():
            task = self._approved(name, attempt)
            words = f"{reason}: {', '.join(files)}" if files else reason
            return self._changes.end_attempt(task, agent, words)

    def land(self, name: str, *, attempt: int, agent: str, commit: str) -> Task:
        """Record that an approved attempt has landed: APPROVED becomes COMPLETED.

        Raises:
            WrongTaskState: it is not APPROVED in this attempt.
        """
        with self.bus.transaction():
            task = self._changes.proven(name)
            if (task.state, task.attempt, task.commit_id) == ("COMPLETED", attempt, commit):
                return task
            task = self._approved(name, attempt)
            wants_to_know = sorted({task.requester, task.worker})
            mails = [
                told(task, "task_landed", agent, to, commit=commit, target=task.target)
                for to in wants_to_know
            ]
            landed = self._changes.step(task, "COMPLETED", agent, *mails, commit_id=commit)
            self._changes.plans.landed()
            return landed

    def cancel(self, name: str, *, agent: str, reason: str | None = None) -> Task | TaskJob:
        """End a task as CANCELLED, whoever has it.

        Returns:
            The task; of one that has not begun, its job, which is cancelled.

        Raises:
            TaskNotFound: there is neither.
            WrongTaskState: its state is final.
        """
        with self.bus.transaction():
            if self._table.get(name) is None and (job := TaskJobs(self.bus).of(name)) is not None:
                return self._cancel_job(job, agent, reason)
            task = self.get(name)
            if task.state == "CANCELLED":
                return task
            self._refuse_final(task)
            mails = [
                told(task, "task_cancelled", agent, to, reason=reason)
                for to in sorted({task.requester, task.worker})
            ]
            cancelled = self._changes.step(task, "CANCELLED", agent, *mails, reason=reason)
            self._changes.plans.gave_up(name)
            return cancelled

    def _cancel_job(self, job: TaskJob, agent: str, reason: str | None) -> TaskJob:
        """Cancel the job of a task that has not begun, and those that wait for it to land.

        A worker that has claimed it learns that the claim is lost, and rescues what it has made.
        """
        check_agent(agent)
        if not self._changes.plans.take_back(job.task, agent, reason) and job.seq is not None:
            control = JobControl(open_queue(self.bus, JOBS), by=agent)
            control.cancel(job.seq, reason or "cancelled by hand")
        self._changes.plans.gave_up(job.task)
        return replace(job, state="CANCELLED", reason=reason)

    def _approved(self, name: str, attempt: int) -> Task:
        task = self._changes.proven(name)
        if task.attempt != attempt:
            self._changes.expect(replace(task, state="FAILED", attempt=attempt), "APPROVED")
        self._changes.expect(task, "APPROVED")
        return task
