"""The job that a worker of tasks is given: its fields, checked."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from ...schema.errors import InvalidInput, shown
from ..control.job_schema import check_job
from ..steps.names import check_task_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...git.trees.tree_state import TreeState
    from ...schema.message.message import Message
    from ..options import Review
    from ..records.task import Task

#: The kind of a job that says none, and the kinds whose work is committed.
EXECUTE = "task.execute"
COMMITTING = (EXECUTE,)

REVIEWS: tuple[Review, ...] = ("none", "required", "other")


@dataclass(frozen=True, slots=True)
class JobForm:
    """A job, read from its message.

    Attributes:
        id: of its message.
        task: the name of its task: what it says, else its id.
        kind: what kind of work it is.
        prompt: for the program, as text.
        payload: all of it.
        base, target: the ref that its branch starts from, and the branch that it is for; None
            leaves it to the worker.
        review: whose approval it needs; None leaves it to the worker.
        depends_on: tasks that must have landed before it.
        timeout_s: how long the program may take, in seconds; None leaves it to the worker.
    """

    id: str
    task: str
    kind: str
    prompt: str
    payload: dict[str, Any]
    base: str | None
    target: str | None
    review: Review | None
    depends_on: tuple[str, ...]
    timeout_s: float | None

    @property
    def commits(self) -> bool:
        """Whether its work is committed."""
        return self.kind in COMMITTING


def read_job(message: Message) -> JobForm:
    """Return the job of a message.

    Raises:
        InvalidInput: its payload can't be had, or a field is wrong; the error names it.
    """
    if message.payload_error is not None:
        raise InvalidInput(f"the payload can't be had: {message.payload_error}")
    payload = message.payload
    if isinstance(payload, str):
        payload = {"prompt": payload}
    if not isinstance(payload, dict):
        raise InvalidInput("the payload must be an object, or a text, which is the prompt")
    task = _text(payload, "task") or message.id
    check_task_name(task)
    kind, params = _text(payload, "kind") or EXECUTE, payload.get("params")
    check_job(kind, params if isinstance(params, dict) else {})
    review = _text(payload, "review")
    if review is not None and review not in REVIEWS:
        raise InvalidInput(f"review must be {', '.join(REVIEWS)}, not {shown(review)}")
    depends_on = payload.get("depends_on") or []
    if not isinstance(depends_on, list) or not all(isinstance(each, str) for each in depends_on):
        raise InvalidInput("depends_on must be a list of tasks")
    return JobForm(
        id=message.id,
        task=task,
        kind=kind,
        prompt=_prompt(payload),
        payload=payload,
        base=_text(payload, "base"),
        target=_text(payload, "target"),
        review=next((each for each in REVIEWS if each == review), None),
        depends_on=tuple(depends_on),
        timeout_s=_budget_s(payload),
    )


def prompt_of_attempt(
    form: JobForm, task: Task, there: TreeState, answers: list[tuple[str, str]]
) -> str:
    """Return the prompt of a run: with all that the program must know of the runs before it.

    Args:
        form: the job.
        task: its task, which says why the attempt before this one ended.
        there: the state of its tree, in which a run before may have left work.
        answers: the questions of the program, each with its answer.
    """
    parts = [form.prompt]
    if task.attempt > 1 and task.reason:
        parts.append(f"This is attempt {task.attempt}. The one before it ended: {task.reason}")
    if there.ahead:
        commits = "1 commit" if there.ahead == 1 else f"{there.ahead} commits"
        parts.append(
            f"The branch has {commits} of an earlier run; see git log {task.base[:12]}..HEAD"
        )
    if not there.is_clean:
        parts.append(f"An earlier run has left this in the work tree: {there.dirt()}")
    parts += [f"You asked: {question}\nThe answer: {words}" for question, words in answers]
    return "\n\n".join(parts)


def _prompt(payload: Mapping[str, Any]) -> str:
    """Return the words of a prompt, wherever a planner has put them; else the whole as JSON."""
    params = payload.get("params")
    for source in (payload, params if isinstance(params, dict) else {}):
        for name in ("prompt", "instruction"):
            value = source.get(name)
            if isinstance(value, str) and value.strip():
                return value
            if value is not None and not isinstance(value, str):
                return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return orjson.dumps(payload, option=orjson.OPT_INDENT_2).decode()


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be text, not {shown(value)}")
    return value


def _budget_s(payload: Mapping[str, Any]) -> float | None:
    value = payload.get("executionBudgetMs")
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
        return None
    return value / 1000
