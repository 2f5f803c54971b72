"""The steps of a task after its start: work, questions, review, integration, cancelling."""

from __future__ import annotations

from dataclasses import replace

from ...git.repository import GitFailed, is_whole_id
from ...git.sealed import TrustedRepositories
from ...git.trees.rescue import DoneHeads
from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput, Refused
from ...schema.message.names import check_agent
from ...schema.queries import engine_of
from ...subscribers.queues.job_control import JobControl
from ..records.task import LEASE_S, Blocked, NewTask, Task
from .changes import Steps
from .messages import (
    ANSWER,
    BLOCKED,
    JOBS,
    TaskExists,
    check_task_name,
    completion_of,
    done,
    reviewed,
    state_change,
    task_mail,
)
from .planning import TaskJobs, open_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...bus.local_bus import LocalBus
    from ...git.trees.rescue import KeptCommit
    from ...schema.message.draft import Draft
    from .planning import TaskJob

# Keeping heads: each commit that enters a review or the completions gets a ref of its own.
#
# All callers come through this code before their transaction: `done` and `approve` in Python, on
# the command line and over MCP, and PushPals' API. Git runs in no repository that only a row names.
# The user of the integrator names its repository: there it keeps the heads that have no ref yet.


class KeptHeads:
    """The refs that keep the heads of tasks until they have landed.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._trusted = TrustedRepositories(bus.layout.directory)

    def keep(self, task: Task, head: str) -> EarlierHeads:
        """Keep the head of a task, and return what was kept for it before. Safe to repeat.

        Nothing is kept within a transaction, in which git may not run, in a repository that only
        the row names, or of a commit that is not there.

        Raises:
            GitFailed: git, or a hook of the repository, refuses the ref.
        """
        heads = self._heads(task.repository)
        if heads is None or not heads.has(head):
            return EarlierHeads(None, [])
        return EarlierHeads(heads, heads.keep(task.task, head))

    def keep_asked(self, head: str | None) -> None:
        """Keep a commit without a task or a target in each trusted repository that has it.

        Raises:
            GitFailed: as for `keep`.
        """
        for heads in self._with(head):
            heads.keep_asked(None, head or "")

    def drop_asked(self, head: str | None) -> None:
        """Drop the ref of a commit without a task that is in its target now."""
        for heads in self._with(head):
            heads.landed(None, None, head or "")

    def _heads(self, repository: str) -> DoneHeads | None:
        if engine_of(self._bus).writing or not self._trusted.has(repository):
            return None
        try:
            return DoneHeads(self._trusted.place(repository))
        except GitFailed:  # the repository is gone, with all of its commits
            return None

    def _with(self, head: str | None) -> Iterator[DoneHeads]:
        """Yield the heads of each repository around the bus, or this program, that has a commit."""
        if head is None or not is_whole_id(head):  # the API for other systems takes no name of one
            return
        for repository in self._trusted.around():
            heads = self._heads(repository)
            if heads is not None and heads.has(head):
                yield heads


class EarlierHeads:
    """The refs of the earlier heads of a task, to drop once the next one is on record.

    Args:
        heads: of the repository; None: nothing was kept there.
        kept_commits: the commits, each with its ref.
    """

    def __init__(self, heads: DoneHeads | None, kept_commits: list[KeptCommit]) -> None:
        self._heads, self._kept = heads, kept_commits

    def drop(self) -> None:
        """Delete the refs."""
        if self._heads is not None and self._kept:
            self._heads.drop(self._kept)


@with_checked_arguments
class WorkerSteps(Steps):
    """The steps of a worker, which has the task under a lease and passes its token to each.

    A holder whose lease is lost changes nothing, and gets `LeaseLost`.
    """

    def assign(self, new: NewTask, *, agent: str, lease_s: float = LEASE_S) -> Task:
        """Record a new task, and give it to its worker under a lease.

        Repeated for the same worker, branch and repository, it returns the task as it is. While the
        task is ASSIGNED, it is returned with the token of its lease, a new one if need be.

        Args:
            new: the task.
            agent: the agent that asks for it.
            lease_s: how long the worker's lease lasts unless it is renewed, in seconds.

        Raises:
            TaskExists: there is a task of this name, of another worker, branch or repository.
            InvalidInput: a field breaks a rule, or a task that it depends on is unknown or will not
                land.
        """
        self._check_names(new, agent)
        self._changes.create_queues()
        with self.bus.transaction():
            existing = self._table.get(new.task)
            if existing is not None:
                return self._assigned_before(existing, new, lease_s)
            self._changes.plans.check_dependencies(new.task, new.depends_on)
            lease = self._take(new.task, new.worker, lease_s)
            return self._changes.begin(
                _first(new, agent, lease.token, self.bus.now_ms()), agent, new.in_reply_to
            )

    def check_new(self, new: NewTask, *, agent: str) -> None:
        """Check a new task as `assign` does, before its tree is made. Changes no task.

        Raises:
            InvalidInput: as for `assign`.
            TaskExists: it is not from the queue, and there is a job for a task of its name.
        """
        self._check_names(new, agent)
        if not new.from_queue:
            self._changes.plans.check_free(new.task)
        first = _first(new, agent, 1, self.bus.now_ms())
        state_change(first, None, agent, in_reply_to=new.in_reply_to, is_new=True).prepare(0)
        self._changes.plans.check_dependencies(new.task, new.depends_on)

    def _check_names(self, new: NewTask, agent: str) -> None:
        check_task_name(new.task)
        check_agent(new.worker, "worker")
        check_agent(agent)
        if new.reviewer is not None:
            check_agent(new.reviewer, "reviewer")
        self.bus.agents.refuse_several(new.worker, new.reviewer)

    def _assigned_before(self, task: Task, new: NewTask, lease_s: float) -> Task:
        if (task.worker, task.branch, task.repository) != (
            *(new.worker, new.branch, new.repository),
        ):
            raise TaskExists(
                f"task {task.task!r} exists: {task.worker} has it on branch {task.branch};"
                " choose another name"
            )
        self._changes.proven(task.task)
        if task.state != "ASSIGNED":
            return task
        lease = self.holder(task) or self._take(task.task, task.worker, lease_s)
        return replace(task, token=lease.token)  # the next step stores and publishes the token

    def start(
        self, name: str, *, agent: str, token: int | None = None, lease_s: float = LEASE_S
    ) -> Task:
        """Begin the work on a task: ASSIGNED becomes WORKING.

        Args:
            name: of the task.
            agent: its worker; a task from the queue is started by whatever agent has its job.
            token: of the lease that the worker has; None: the lease is acquired, if it is free.
            lease_s: how long the lease lasts from now unless it is renewed, in seconds.

        Raises:
            LeaseLost: it is held with another token.
            Refused: it is another worker's, or a task that it depends on has not landed.
            WrongTaskState: it is neither ASSIGNED, nor WORKING under this token.
        """
        with self.bus.transaction():
            task = self._changes.proven(name)
            if token is not None and task.state == "WORKING" and task.token == token:
                self._changes.check_lease(task, agent, token)
                return task
            self._changes.expect(task, "ASSIGNED")
            self._check_worker(task, agent)
            if token is None:
                token = self._take(name, agent, lease_s).token
            else:
                lease = self._changes.check_lease(task, agent, token)
                self.bus.leases.renew(lease, lease_s=lease_s)
            return self._changes.step(task, "WORKING", agent, worker=agent, token=token)

    def heartbeat(self, name: str, *, agent: str, token: int, lease_s: float = LEASE_S) -> Task:
        """Extend the lease on a task to `lease_s` from now.

        Raises:
            LeaseLost: the task is not held with this token any more.
        """
        with self.bus.transaction():
            task = self._changes.proven(name)
            lease = self._changes.check_lease(task, agent, token)
            self.bus.leases.renew(lease, lease_s=lease_s)
            return task

    def done(self, name: str, *, agent: str, token: int, head: str) -> Task:
        """Pin the commit that is done: WORKING becomes IN_REVIEW, and the lease ends.

        A task that needs no review is APPROVED, and waits for the integrator, at once. The
        caller checks that the work tree is clean, and that the commit is beyond the base. The
        commit gets a ref of its own if the repository is trusted, unless a transaction is open.

        Raises:
            LeaseLost: the task is not held with this token any more.
            WrongTaskState: it is not WORKING.
            GitFailed: git, or a hook of the repository, refuses the ref that keeps the commit.
        """
        task = self._changes.proven(name)
        if task.state == "WORKING" and task.blocked is None:
            self._changes.check_lease(task, agent, token)
            earlier = KeptHeads(self.bus).keep(task, head)
        else:
            earlier = EarlierHeads(None, [])
        ended = self._done(name, agent, token, head)
        earlier.drop()
        return ended

    def _done(self, name: str, agent: str, token: int, head: str) -> Task:
        with self.bus.transaction():
            task = self._changes.proven(name)
            if task.state in ("IN_REVIEW", "APPROVED") and (task.token, task.head) == (token, head):
                return task
            self._changes.expect(task, "WORKING")
            self._changes.check_lease(task, agent, token)
            pinned = replace(task, head=head)
            reviewing = self._changes.step(
                pinned, "IN_REVIEW", agent, *done(pinned, agent), reason=None
            )
            if task.review != "none":
                return reviewing
            entry = completion_of(reviewing, agent)
            return self._changes.step(reviewing, "APPROVED", agent, entry)

    def block(
        self,
        name: str,
        *,
        agent: str,
        token: int,
        question: str,
        reason: str | None = None,
        deadline_s: float | None = None,
    ) -> Task:
        """Ask the requester a question, and hand back the lease until it is answered.

        Args:
            name, agent, token: of a task that is WORKING.
            question: for people.
            reason: why the work can't go on.
            deadline_s: after how many seconds the task fails for want of an answer; None: never.

        Raises:
            InvalidInput: the question is empty, or the deadline not positive.
            LeaseLost, WrongTaskState: as for `done`.
        """
        if not question.strip():
            raise InvalidInput("the question is empty")
        if deadline_s is not None and deadline_s <= 0:
            raise InvalidInput(f"deadline_s must be more than 0 s, not {deadline_s:g} s")
        with self.bus.transaction():
            task = self._changes.proven(name)
            self._changes.expect(task, "WORKING")
            self._changes.check_lease(task, agent, token)
            now_ms = self.bus.now_ms()
            deadline_ms = None if deadline_s is None else now_ms + round(deadline_s * 1000)
            blocked = Blocked(question, reason, now_ms, deadline_ms)
            self._changes.release(task)
            mail = task_mail(
                *(task, BLOCKED, agent, task.requester),
                token=token,
                question=question,
                reason=reason,
                deadline_ms=deadline_ms,
            )
            return self._note(replace(task, blocked=blocked), mail)

    def answer(self, name: str, *, agent: str, words: str, lease_s: float = LEASE_S) -> Task:
        """Answer the question of a blocked task; its worker has the lease again.

        Raises:
            Refused: the task waits for no answer.
        """
        with self.bus.transaction():
            task = self._changes.proven(name)
            if task.blocked is None:
                raise Refused(f"task {name!r} asks nothing; see 'bus task show {name}'")
            token = self._take(name, task.worker, lease_s).token
            mail = task_mail(
                *(task, ANSWER, agent, task.worker),
                token=token,
                question=task.blocked.question,
                words=words,
            )
            return self._note(replace(task, blocked=None, token=token), mail)

    def fail(
        self, name: str, *, agent: str, reason: str, token: int | None = None, retry: bool = False
    ) -> Task:
        """End a task as FAILED.

        Args:
            name: of the task.
            agent: the agent that fails it.
            reason: why, for people.
            token: of the worker's lease; required while it is held.
            retry: whether only the attempt ends, and the next one begins if there is one left.

        Raises:
            LeaseLost: it is held, and not with this token.
            WrongTaskState: its state is final.
        """
        check_agent(agent)
        with self.bus.transaction():
            task = self._changes.proven(name)
            self._refuse_final(task)
            lease = self.holder(task)
            if lease is not None or token is not None:
                self._changes.check_lease(task, agent, 0 if token is None else token)
            return self._changes.end_attempt(task, agent, reason, is_final=not retry)

    def _check_worker(self, task: Task, agent: str) -> None:
        check_agent(agent)
        if agent != task.worker and not task.from_queue:
            raise Refused(f"task {task.task!r} is {task.worker}'s, not {agent}'s")
        unlanded = self._table.unlanded(task.depends_on)
        if unlanded:
            raise Refused(f"task {task.task!r} waits until {', '.join(unlanded)} has landed")

    def _note(self, task: Task, mail: Draft) -> Task:
        """Store a change beside the state, with a message about it."""
        after = replace(task, changed_at_ms=self.bus.now_ms())
        mail.ts_ms = after.changed_at_ms
        self._changes.publish(after, [mail])
        self._table.change(after)
        return after


def _first(new: NewTask, agent: str, token: int, now_ms: int) -> Task:
    return Task(
        task=new.task,
        attempt=1,
        state="ASSIGNED",
        worker=new.worker,
        branch=new.branch,
        path=new.path,
        repository=new.repository,
        base_ref=new.base_ref,
        base=new.base,
        target=new.target,
        head=None,
        token=token,
        review=new.review,
        reviewer=new.reviewer,
        requester=agent,
        priority=new.priority,
        max_attempts=new.max_attempts,
        on_lost=new.on_lost,
        depends_on=new.depends_on,
        from_queue=new.from_queue,
        prompt=new.prompt,
        reason=None,
        blocked=None,
        commit_id=None,
        correlation_id=new.correlation_id or new.task,
        last_seq=0,
        created_at_ms=now_ms,
        changed_at_ms=now_ms,
        cleaned_at_ms=None,
    )


# The steps after the work: review and integration; and cancelling.


@with_checked_arguments
class ReviewSteps(Steps):
    """The steps of reviewers and of the integrator. None needs a lease on the task."""

    def approve(self, name: str, *, agent: str, words: str | None = None) -> Task:
        """Approve what is done: IN_REVIEW becomes APPROVED, and the task enters the completions.

        Raises:
            Refused: the agent is the worker, and the task needs the review of another agent.
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
                raise Refused(f"task {name!r} needs the review of an agent other than {agent}")
            return self._approve(task, agent, words)

    def merge(self, name: str, *, agent: str) -> Task:
        """Have a task wait for the integrator: approve it, unless it is approved.

        A task that has landed is returned as it is.

        Raises:
            Refused: as for `approve`.
            WrongTaskState: it is not done yet, or is over without having landed.
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
            files: the files that conflict.

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
            mails = [
                task_mail(task, "task_landed", agent, to, commit=commit, target=task.target)
                for to in sorted({task.requester, task.worker})
            ]
            landed = self._changes.step(task, "COMPLETED", agent, *mails, commit_id=commit)
            self._changes.plans.landed()
            return landed

    def cancel(self, name: str, *, agent: str, reason: str | None = None) -> Task | TaskJob:
        """End a task as CANCELLED, whoever has it.

        Returns:
            The task; or, if it has not begun, its job, which is cancelled instead.

        Raises:
            TaskNotFound: there is neither a task of this name, nor a job for it.
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
                task_mail(task, "task_cancelled", agent, to, reason=reason)
                for to in sorted({task.requester, task.worker})
            ]
            cancelled = self._changes.step(task, "CANCELLED", agent, *mails, reason=reason)
            self._changes.plans.gave_up(name)
            return cancelled

    def _cancel_job(self, job: TaskJob, agent: str, reason: str | None) -> TaskJob:
        """Cancel the job of a task that has not begun, and the jobs that wait for the task.

        A worker that has claimed it learns that the claim is lost, and rescues what it has made.
        """
        check_agent(agent)
        if not self._changes.plans.take_back(job.task, agent, reason) and job.seq is not None:
            control = JobControl(open_queue(self.bus, JOBS), by=agent)
            control.cancel(job.seq, reason or "cancelled by hand")
        self._changes.plans.gave_up(job.task)
        return replace(job, state="CANCELLED", reason=reason)

    def _approved(self, name: str, attempt: int) -> Task:
        """Return a task that is APPROVED in an attempt, or raise `WrongTaskState`."""
        task = self._changes.proven(name)
        if task.attempt != attempt:  # the error says that the earlier attempt failed
            self._changes.expect(replace(task, state="FAILED", attempt=attempt), "APPROVED")
        self._changes.expect(task, "APPROVED")
        return task
