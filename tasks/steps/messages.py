"""The messages of tasks: their types, and the draft of each.

All are addressed: to `tasks`, or to the agent that must act. Nothing here is a broadcast.
"""

from __future__ import annotations

from ...schema.message.draft import Draft
from ...subscribers.jobs.work_headers import work_headers
from .titles import merge_title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..options import TaskState
    from ..records.task import Task

#: The agent to which the records of tasks are addressed, and the group that works on their queues.
TASKS = "tasks"

#: The queues from a request to a merge, each with the type of its messages.
REQUESTS, JOBS, COMPLETIONS = "requests", "jobs", "completions"
QUEUES = {REQUESTS: "task.request", JOBS: "task.job", COMPLETIONS: "task.completion"}

#: The types of which the state of a task is the sum.
STATE_CHANGE, BLOCKED, ANSWER = "state_change", "task_blocked", "task_answer"
FOLDED = (STATE_CHANGE, BLOCKED, ANSWER)

#: The fields of a task that its first message tells for good.
RECORDED = (
    *("task", "worker", "branch", "path", "repository", "base_ref", "base", "target", "prompt"),
    *("review", "reviewer", "requester", "priority", "max_attempts", "on_lost", "depends_on"),
    "from_queue",
)


def state_change(
    task: Task,
    before: TaskState | None,
    agent: str,
    *,
    in_reply_to: str | None = None,
    is_new: bool = False,
) -> Draft:
    """Return the message of a change of state.

    Args:
        task: the task as it is after the change.
        before: the state before; None for a new attempt.
        agent: the agent that changes it.
        in_reply_to: what caused it, or None.
        is_new: whether it tells of the whole task, from which its row can be made again.
    """
    payload = {
        "task": task.task,
        "attempt": task.attempt,
        "token": task.token,
        "from": before,
        "to": task.state,
        "worker": task.worker,
        "branch": task.branch,
        "reason": task.reason,
        "head": task.head,
        "commit": task.commit_id,
    }
    if is_new:
        payload["record"] = {name: getattr(task, name) for name in RECORDED}
    return Draft(
        STATE_CHANGE,
        payload,
        from_agent=agent,
        to_agent=TASKS,
        correlation_id=task.correlation_id,
        in_reply_to=in_reply_to,
        priority=task.priority,
        ts_ms=task.changed_at_ms,
    )


def told(task: Task, type: str, agent: str, to_agent: str, **more: object) -> Draft:
    """Return mail about a task to the agent that must act, or wants to know."""
    payload = {"task": task.task, "attempt": task.attempt, "branch": task.branch, **more}
    return Draft(
        type,
        payload,
        from_agent=agent,
        to_agent=to_agent,
        correlation_id=task.correlation_id,
        priority=task.priority,
    )


def assigned(task: Task, agent: str) -> Draft:
    """Return the mail that gives an attempt to the worker, with the reason of the one before."""
    return told(
        task,
        "task_assign",
        agent,
        task.worker,
        path=task.path,
        base=task.base,
        target=task.target,
        prompt=task.prompt,
        reason=task.reason,
    )


def job_of(task: Task, agent: str) -> Draft:
    """Return the job by which the next attempt of a task from the queue waits for a worker."""
    asked = task.prompt if isinstance(task.prompt, dict) else {"prompt": task.prompt}
    return Draft(
        QUEUES[JOBS],
        {**asked, "task": task.task, "attempt": task.attempt, "reason": task.reason},
        from_agent=agent,
        to_agent=TASKS,
        correlation_id=task.correlation_id,
        priority=task.priority,
    )


def completion_of(task: Task, agent: str) -> Draft:
    """Return the entry of an approved task in the queue of the integrator."""
    return completion(
        {
            "task": task.task,
            "attempt": task.attempt,
            "repository": task.repository,
            "branch": task.branch,
            "head": task.head,
            "base": task.base,
            "target": task.target,
            "message": merge_title(task),
            **({} if (session := session_of(task)) is None else {"sessionId": session}),
        },
        agent,
        correlation_id=task.correlation_id,
        priority=task.priority,
    )


def session_of(task: Task) -> str | None:
    """Return the session of people's clients that asked for a task, as its job says; or None."""
    asked = task.prompt.get("sessionId") if isinstance(task.prompt, dict) else None
    return asked if isinstance(asked, str) and asked else None


def completion(
    entry: Mapping[str, object],
    agent: str,
    *,
    correlation_id: str | None = None,
    priority: int = 1,
) -> Draft:
    """Return an entry of the integrator's queue; the same head for the same target enters once."""
    repository, target = str(entry["repository"]), str(entry["target"])
    key = _digest(repository, target, str(entry["branch"]), str(entry["head"]))
    return Draft(
        QUEUES[COMPLETIONS],
        entry,
        from_agent=agent,
        to_agent=TASKS,
        correlation_id=correlation_id,
        priority=priority,
        headers=work_headers(
            dedupe_key=key, dedupe_window_s=0, for_worker=integrators_of(repository, target)
        ),
    )


def integrators_of(repository: str, target: str) -> str:
    """Return the worker group of the integrators of a target: its completions are for it alone."""
    return f"integrators-{_digest(repository, target)[:16]}"


def _digest(*texts: str) -> str:
    import hashlib

    return hashlib.sha256("\0".join(texts).encode(errors="surrogateescape")).hexdigest()


def reviewed(task: Task, agent: str, *, is_approved: bool, words: str | None) -> Draft:
    """Return the result of a review, to the worker."""
    verdict = "approved" if is_approved else "rejected"
    return told(task, "review_result", agent, task.worker, result=verdict, words=words)


def done(task: Task, agent: str) -> Sequence[Draft]:
    """Return the mail that a worker is done, and the request of a review where one is needed."""
    commit = {"commit": task.head, "base": task.base, "target": task.target}
    mails = [told(task, "task_done", agent, task.requester, **commit)]
    if task.review != "none":
        to = task.reviewer or task.requester
        mails.append(told(task, "review_request", agent, to, **commit))
    return mails
