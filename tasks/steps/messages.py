"""The messages of tasks: their types, drafts, and the state that is their sum.

All are addressed: to `tasks`, or to the agent that must act. Nothing here is a broadcast.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace

from ...schema.errors import InvalidInput, NotFound, Refused, shown
from ...schema.message.draft import Draft
from ...subscribers.jobs.policy import work_headers
from ..records.task import FINAL, Blocked, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ...schema.message.message import Message
    from ..records.task import TaskState

# Titles of tasks, as first lines of commits: one line of printable characters.

#: How long the first line of a commit's message is at most, in characters.
SUBJECT_CHARS = 72

#: The fields in which a planner may have put the words of a prompt.
PROMPTS = ("prompt", "instruction")


def subject_of(text: str, limit: int = SUBJECT_CHARS) -> str:
    """Return the first line of a text that says something, cut at a word; "" without one."""
    lines = (" ".join(line.split()).lstrip("#-* ") for line in text.splitlines())
    words = "".join(char for char in next(filter(None, lines), "") if char.isprintable())
    if len(words) <= limit:
        return words
    cut = words[: limit - 1].rpartition(" ")[0]
    return f"{cut or words[: limit - 1]}…"


def merge_title(task: Task) -> str:
    """Return the first line of the commit that merges a task: its name, and what was to be done."""
    name = f"Merge {task.task}"
    title_chars = SUBJECT_CHARS - len(name) - 2
    title = subject_of(_words(task.prompt), title_chars) if title_chars > 1 else ""
    return f"{name}: {title}" if title else name


def _words(prompt: object) -> str:
    if isinstance(prompt, dict):
        params = prompt.get("params")
        parts = [prompt, *([params] if isinstance(params, dict) else [])]
        texts = (part.get(name) for part in parts for name in PROMPTS)
        prompt = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    return prompt if isinstance(prompt, str) else ""


# The rule of the names of tasks.

#: The form of a task's name: it is a part of a branch, of a path, and of a ref.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def check_task_name(name: str) -> None:
    """Refuse what can't be the name of a task: it is a part of a branch and of a path."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise InvalidInput(
            f"task name {shown(name)} must be 1 to 200 letters, digits, '.', '_' or '-', begin with"
            " a letter or a digit, and have no '..', nor end in '.' or '.lock'"
        )


# The errors of tasks.


class TaskNotFound(NotFound):
    """There is no task of this name."""


class WrongTaskState(Refused):
    """The task is in a state in which this step can't be taken; nothing was changed.

    Attributes:
        task: its name.
        state: its state.
    """

    def __init__(self, task: str, state: str, text: str) -> None:
        self.task, self.state = task, state
        super().__init__(text)


class TaskExists(Refused):
    """A task of this name exists, and is not the one that was asked for."""


class TaskUnproven(Refused):
    """The row of the task was made of messages, and nobody has confirmed it: it takes no step."""


class TaskBlocked(Refused):
    """The task waits for the answer to a question."""


#: The agent to which the records of tasks are addressed, and the group that works on their queues.
TASKS = "tasks"

#: The queues from a request to a merge, each with the type of its messages.
REQUESTS, JOBS, COMPLETIONS = "requests", "jobs", "completions"
QUEUES = {REQUESTS: "task.request", JOBS: "task.job", COMPLETIONS: "task.completion"}

#: The types of which the state of a task is the sum.
STATE_CHANGE, BLOCKED, ANSWER = "state_change", "task_blocked", "task_answer"
FOLDED = (STATE_CHANGE, BLOCKED, ANSWER)

#: The fields of a task that its first message has, for a row that is made again of messages.
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
        in_reply_to: the id of the message that caused the change, or None.
        is_new: whether the message has the whole task, of which its row can be made again.
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


def task_mail(task: Task, type: str, agent: str, to_agent: str, **fields: object) -> Draft:
    """Return a message about a task to the agent that must act, or that follows it."""
    payload = {"task": task.task, "attempt": task.attempt, "branch": task.branch, **fields}
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
    return task_mail(
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
    payload = task.prompt if isinstance(task.prompt, dict) else {"prompt": task.prompt}
    return Draft(
        QUEUES[JOBS],
        {**payload, "task": task.task, "attempt": task.attempt, "reason": task.reason},
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
    session = task.prompt.get("sessionId") if isinstance(task.prompt, dict) else None
    return session if isinstance(session, str) and session else None


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
    """Return the group of a target's integrators: no other worker may claim its completions."""
    return f"integrators-{_digest(repository, target)[:16]}"


def _digest(*texts: str) -> str:
    import hashlib

    return hashlib.sha256("\0".join(texts).encode(errors="surrogateescape")).hexdigest()


def reviewed(task: Task, agent: str, *, is_approved: bool, words: str | None) -> Draft:
    """Return the result of a review, to the worker."""
    verdict = "approved" if is_approved else "rejected"
    return task_mail(task, "review_result", agent, task.worker, result=verdict, words=words)


def done(task: Task, agent: str) -> Sequence[Draft]:
    """Return the mail that a worker is done, and the request for a review if the task needs it."""
    commit = {"commit": task.head, "base": task.base, "target": task.target}
    mails = [task_mail(task, "task_done", agent, task.requester, **commit)]
    if task.review != "none":
        to = task.reviewer or task.requester
        mails.append(task_mail(task, "review_request", agent, to, **commit))
    return mails


# The state of tasks as the sum of their messages: what the log shows, which proves nothing.
#
# A message counts when its attempt and its token go on from those of the messages before it. Other
# messages are returned for people to look at. Anybody can write a message that counts; so a row of
# the table is never made equal to this sum (`difference`).

#: The next state of each state; CANCELLED and FAILED can follow every state that is not final.
NEXT = {
    "ASSIGNED": "WORKING",
    "WORKING": "IN_REVIEW",
    "IN_REVIEW": "APPROVED",
    "APPROVED": "COMPLETED",
}


class Fold:
    """The tasks as the messages that were added make them.

    Attributes:
        tasks: by name.
        foreign: the messages that did not count.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.foreign: list[Message] = []

    def add(self, message: Message) -> None:
        """Take in the next message, in the log's order; messages of other types are left out."""
        if message.type not in (STATE_CHANGE, BLOCKED, ANSWER):
            return
        payload = message.payload
        after = self._after(message, payload) if isinstance(payload, dict) else None
        if after is None:
            self.foreign.append(message)
        else:
            self.tasks[after.task] = after

    def add_all(self, messages: Iterable[Message]) -> Fold:
        """Take in messages, and return this fold."""
        for message in messages:
            self.add(message)
        return self

    def _after(self, message: Message, payload: dict[str, Any]) -> Task | None:
        name = payload.get("task")
        before = self.tasks.get(name) if isinstance(name, str) else None
        try:
            if message.type == STATE_CHANGE:
                return _changed(before, message, payload)
            if before is None or not _goes_on(before, payload):
                return None
            if message.type == BLOCKED:
                return _blocked(before, message, payload)
            return _answered(before, message, payload)
        except (KeyError, TypeError, ValueError):
            return None


def fold(messages: Iterable[Message]) -> Fold:
    """Return the tasks that messages make; they are in the order of the log."""
    return Fold().add_all(messages)


def is_step(before: str, after: str) -> bool:
    """Whether a state follows another within an attempt."""
    return NEXT.get(before) == after or (before not in FINAL and after in ("CANCELLED", "FAILED"))


def _changed(before: Task | None, message: Message, payload: dict[str, Any]) -> Task | None:
    if message.to_agent != TASKS:
        return None
    if payload["from"] is None:
        return _begun(before, message, payload)
    if before is None or not _goes_on(before, payload):
        return None
    if payload["from"] != before.state or not is_step(before.state, payload["to"]):
        return None
    return replace(
        before,
        state=payload["to"],
        worker=payload["worker"],
        token=payload["token"],
        reason=payload["reason"],
        head=payload["head"],
        commit_id=payload["commit"],
        blocked=None,
        last_seq=message.seq,
        changed_at_ms=message.ts_ms,
    )


def _begun(before: Task | None, message: Message, payload: dict[str, Any]) -> Task | None:
    """Return the task of a first message, or its next attempt."""
    if payload["to"] != "ASSIGNED":
        return None
    if before is None:
        return _from_record(message, payload) if payload["attempt"] == 1 else None
    if before.state != "FAILED" or payload["attempt"] != before.attempt + 1:
        return None
    return replace(
        before,
        attempt=payload["attempt"],
        state="ASSIGNED",
        reason=payload["reason"],
        head=None,
        last_seq=message.seq,
        changed_at_ms=message.ts_ms,
    )


def _from_record(message: Message, payload: dict[str, Any]) -> Task:
    record = payload["record"]
    values = {field.name: record[field.name] for field in fields(Task) if field.name in record}
    values["depends_on"] = tuple(values["depends_on"])
    return Task(
        **values,
        attempt=1,
        state="ASSIGNED",
        token=payload["token"],
        head=None,
        reason=None,
        blocked=None,
        commit_id=None,
        correlation_id=message.conversation,
        last_seq=message.seq,
        created_at_ms=message.ts_ms,
        changed_at_ms=message.ts_ms,
        cleaned_at_ms=None,
    )


def _blocked(before: Task, message: Message, payload: dict[str, Any]) -> Task | None:
    if before.state != "WORKING":
        return None
    question = Blocked(
        payload["question"], payload["reason"], message.ts_ms, payload["deadline_ms"]
    )
    return replace(before, blocked=question, changed_at_ms=message.ts_ms)


def _answered(before: Task, message: Message, payload: dict[str, Any]) -> Task | None:
    if before.blocked is None:
        return None
    return replace(before, blocked=None, token=payload["token"], changed_at_ms=message.ts_ms)


def _goes_on(before: Task, payload: dict[str, Any]) -> bool:
    return bool(payload["attempt"] == before.attempt and payload["token"] >= before.token)
