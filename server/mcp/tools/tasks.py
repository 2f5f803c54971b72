"""The tool for tasks: an agent's own ones, and those that wait for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ....bus.bus import Bus
from ....schema.errors import InvalidInput
from ....tasks.board.comments import comment, comments, place_in
from ....tasks.board.reserved import reserved_by_others
from ....tasks.records.task import Task
from ....tasks.steps.tasks import Tasks
from ....tasks.trees.finish import finish
from ...access.principals import Scope
from ..session import Session
from .pages import MAX_PAGE
from .quoted_messages import NOTICE, barred, named, text_of
from .tool import Arguments, Reply, Tool

Action = Literal[
    "list",
    "show",
    "start",
    "heartbeat",
    "done",
    "block",
    "fail",
    "answer",
    "comment",
    "approve",
    "reject",
]


class Act(Arguments):
    """The arguments of `bus_task`."""

    action: Action = "list"
    task: str | None = None
    text: Annotated[str | None, Field(description="Question, answer, comment, or why.")] = None
    line: Annotated[str | None, Field(description="FILE:LINE of a comment.")] = None
    token: Annotated[int | None, Field(ge=1)] = None


class Shown(BaseModel):
    """The result of `bus_task`: tasks, with the words of others in them."""

    tasks: list[dict[str, Any]]


def _act(session: Session, given: Act) -> Reply:
    bus, agent = session.bus, session.principal.work_as(session.agent())
    if given.action == "list":
        return _listed(_of(bus, agent))
    if given.task is None:
        raise InvalidInput("name the task")
    tasks = Tasks(bus)
    if given.action == "show":
        return _shown(bus, tasks.get(given.task))
    if given.action == "comment":
        if given.line is None:
            raise InvalidInput("give the line, like src/app.py:12")
        made = comment(bus, given.task, place_in(given.line), _text(given), agent=agent)
        return Reply(Shown(tasks=[]), f"Seq {made.seq} tells the worker, about {named(made.text)}.")
    if given.action == "done":
        return _done(bus, finish(bus, given.task, agent=agent, token=_token(given)))
    return _listed([_step(tasks, given, given.task, agent)])


def _step(tasks: Tasks, given: Act, name: str, agent: str) -> Task:
    if given.action == "start":
        return tasks.start(name, agent=agent, token=given.token)
    if given.action == "answer":
        return tasks.answer(name, agent=agent, words=_text(given))
    if given.action == "approve":
        return tasks.approve(name, agent=agent, words=given.text)
    if given.action == "reject":
        return tasks.reject(name, agent=agent, words=_text(given))
    token = _token(given)
    if given.action == "heartbeat":
        return tasks.heartbeat(name, agent=agent, token=token)
    if given.action == "block":
        return tasks.block(name, agent=agent, token=token, question=_text(given))
    return tasks.fail(name, agent=agent, token=token, reason=_text(given))


def _done(bus: Bus, task: Task) -> Reply:
    """Return a task that is done, with the changed files that others have reserved."""
    reply = _listed([task])
    lines = [
        f"{named(each.conflict.path)} is reserved by {named(each.conflict.held.agent)}: tell it."
        for each in reserved_by_others(bus, [task])[:MAX_PAGE]
    ]
    return Reply(reply.record, "\n".join([reply.text, *lines]))


def _token(given: Act) -> int:
    if given.token is None:
        raise InvalidInput("give the token that start gave")
    return given.token


def _text(given: Act) -> str:
    if not given.text:
        raise InvalidInput(f"{given.action} needs a text")
    return given.text


def _of(bus: Bus, agent: str) -> list[Task]:
    """Return the live tasks of an agent, and those that wait for it."""
    return [
        task
        for task in Tasks(bus).list(is_live=True)
        if agent == task.worker
        or (task.blocked is not None and agent == task.requester)
        or (task.state == "IN_REVIEW" and agent == (task.reviewer or task.requester))
    ]


def _listed(tasks: list[Task]) -> Reply:
    if not tasks:
        return Reply(Shown(tasks=[]), "No live task is yours, or waits for you.")
    shown = tasks[:MAX_PAGE]
    lines = "\n".join(_lines(task) for task in shown)
    more = f"\n{len(tasks) - MAX_PAGE} more." if len(tasks) > MAX_PAGE else ""
    return Reply(Shown(tasks=[_record(task) for task in shown]), f"{NOTICE}\n{lines}{more}")


def _shown(bus: Bus, task: Task) -> Reply:
    said = comments(bus, task.task)[-MAX_PAGE:]
    record = _record(task) | {"comments": [each.record() for each in said], "prompt": task.prompt}
    lines = [NOTICE, _lines(task), f"path {named(task.path)}, base {task.base[:12]}"]
    if task.prompt is not None:
        lines.append(f"Its prompt:\n{barred(text_of(task.prompt))}")
    for each in said:
        now = "changed since" if each.now is None else f"now {each.now.file}:{each.now.line}"
        where = named(f"{each.place.file}:{each.place.line}")
        lines.append(f"{named(each.by)} on {where} ({named(now)}):\n{barred(each.words)}")
    return Reply(Shown(tasks=[record]), "\n".join(lines))


def _record(task: Task) -> dict[str, Any]:
    whole = task.record()
    wanted = ("task", "attempt", "state", "worker", "branch", "path", "target", "token")
    words = {"reason": whole["reason"], "blocked": whole["blocked"], "untrusted": True}
    return {name: whole[name] for name in wanted} | {
        name: value for name, value in words.items() if value is not None
    }


def _lines(task: Task) -> str:
    state = "blocked" if task.blocked is not None else task.state
    head = (
        f"{named(task.task)}: {state}, attempt {task.attempt} of {task.max_attempts},"
        f" {named(task.worker)} on {named(task.branch)}, token {task.token}"
    )
    said = task.reason if task.blocked is None else f"Asks: {task.blocked.question}"
    return f"{head}\n{barred(said)}" if said else head


TOOLS = (
    Tool(
        "bus_task",
        "Your tasks on git branches, and those that wait for you: see them, and act.",
        Act,
        Shown,
        _act,
        scope=Scope.WORK_RW,
    ),
)
