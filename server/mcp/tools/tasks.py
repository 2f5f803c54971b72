"""The tool for tasks: an agent's own ones, and those that wait for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ....bus.bus import Bus
from ....schema.errors import InvalidInput
from ....schema.message.times import format_ts
from ....subscribers.overview.agents import holder_of
from ....tasks.board.comments import Comment, comment, comments, place_in
from ....tasks.board.forecast import reserved_by_others
from ....tasks.finish import finish_task
from ....tasks.records.task import Blocked, Task
from ....tasks.steps.tasks import Tasks
from ...access.tokens import Scope
from ..session import Session
from .common import HEAD_CHARS, MAX_PAGE, fitted
from .tool import NOTICE, Arguments, Reply, Result, Tool, barred, exact, named, shown, text_of

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


#: The actions that are a person's word: what comes of them is landed, or done again.
_DECISIONS: tuple[Action, ...] = ("answer", "approve", "reject")


#: How much of a prompt is shown, in characters, and how many reserved files are warned of.
MAX_PROMPT_CHARS, MAX_WARNINGS = 2_000, 10


class Act(Arguments):
    """The arguments of `bus_task`."""

    action: Action = "list"
    task: str | None = None
    text: Annotated[str | None, Field(description="Question, answer, comment, or why.")] = None
    line: Annotated[str | None, Field(description="FILE:LINE of a comment.")] = None
    token: Annotated[int | None, Field(ge=1)] = None


class Shown(Result):
    """The result of `bus_task`: tasks, with the words of others in them."""

    tasks: list[dict[str, Any]]
    seq: int | None = None


def _act(session: Session, given: Act) -> Reply:
    bus, agent = session.bus, session.principal.work_as(session.agent())
    if given.action == "list":
        return _listed(session, _of(bus, agent), agent)
    if given.task is None:
        raise InvalidInput("name the task")
    tasks = Tasks(bus)
    if given.action == "show":
        return _shown(session, tasks.get(given.task), agent)
    if given.action == "comment":
        if given.line is None:
            raise InvalidInput("give the line, like src/app.py:12")
        made = comment(bus, given.task, place_in(given.line), _text(given), agent=agent)
        told = Shown(tasks=[], seq=made.seq)
        return Reply(
            told, told.lines(f"Seq {made.seq} tells the worker, about {exact(made.text)}.")
        )
    if given.action == "done":
        task = finish_task(bus, given.task, agent=agent, token=_token(given))
        return _done(session, task, agent)
    if given.action in _DECISIONS:
        session.principal.require(Scope.TASKS_RW, why=f"to {given.action} a task: ")
    return _listed(session, [_step(tasks, given, given.task, agent)], agent)


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


def _done(session: Session, task: Task, agent: str) -> Reply:
    """Return a task that is done, with the changed files that others have reserved."""
    lines = []
    for file in reserved_by_others(session.bus, [task])[:MAX_WARNINGS]:
        held = file.conflict.held
        holder = f"{named(held.agent)} ({holder_of(session.bus, held)})"
        lines.append(f"{exact(file.conflict.path)} is reserved by {holder}: tell it")
    return _listed(session, [task], agent, warning="; ".join(lines) or None)


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


def _listed(
    session: Session, tasks: list[Task], agent: str, *, warning: str | None = None
) -> Reply:
    if not tasks:
        none = Shown(tasks=[], next="No live task is yours, or waits for you.")
        return Reply(none, none.lines(""))

    def reply(number: int) -> Reply:
        left = len(tasks) - number
        record = Shown(
            tasks=[_record(task, agent) for task in tasks[:number]],
            warning=f"{left} more are not shown" if left else warning,
            notice=NOTICE,
        )
        return Reply(record, record.lines("", *(_lines(task, agent) for task in tasks[:number])))

    return fitted(min(len(tasks), MAX_PAGE), reply, session.room)[0]


def _shown(session: Session, task: Task, agent: str) -> Reply:
    """Return a task with its prompt and its comments: of many the last, of long ones the heads."""
    said = comments(session.bus, task.task)[-MAX_PAGE:]

    def reply(number: int) -> Reply:
        left = len(said) - number
        shown = said[left:]
        words = [_said(each) for each in shown]
        facts: dict[str, Any] = {"base": task.base, "comments": words}
        lines = [_lines(task, agent), f"base {task.base}"]
        if task.prompt is not None:
            facts["prompt"] = head_of(text_of(task.prompt), MAX_PROMPT_CHARS)
            lines.append(f"Its prompt:\n{barred(facts['prompt'])}")
        lines += [_comment(each) for each in shown]
        record = Shown(
            tasks=[_record(task, agent) | facts],
            warning=f"{left} earlier comments are not shown" if left else None,
            notice=NOTICE,
        )
        return Reply(record, record.lines("", *lines))

    return fitted(len(said), reply, session.room)[0]


def _comment(each: Comment) -> str:
    now = "changed since" if each.now is None else f"now {each.now.file}:{each.now.line}"
    where = f"{exact(f'{each.place.file}:{each.place.line}')} ({exact(now)})"
    head = f"{named(each.by)} on {where}, {exact(each.text)}, {format_ts(each.at_ms)}:"
    return f"{head}\n{barred(head_of(each.words))}"


def head_of(text: str, chars: int = HEAD_CHARS) -> str:
    """Return a text, or its beginning and how long it is."""
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text)} characters in all)"


#: The fields of a task that a result has, before the words of others and the next step.
_FACTS = ("task", "attempt", "max_attempts", "state", "worker", "branch", "path", "target", "token")


def _said(comment: Comment) -> dict[str, Any]:
    whole = comment.record()
    wanted = ("by", "at", "file", "line", "text", "comment", "now")
    words = {"comment": head_of(whole["comment"])}
    return _present({name: whole[name] for name in wanted} | words)


def _record(task: Task, agent: str) -> dict[str, Any]:
    whole = task.record()
    blocked = whole["blocked"] and _present(_heads(whole["blocked"]))
    words = {**_heads({"reason": whole["reason"]}), "blocked": blocked, "untrusted": True}
    facts = {name: whole[name] for name in _FACTS}
    return facts | _present(words | {"next": _next(task, agent)})


def _heads(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: head_of(each) if isinstance(each, str) else each for name, each in fields.items()}


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _next(task: Task, agent: str) -> str | None:
    """Return the step that the agent is to take, or None."""
    call = f"bus_task(task={shown(task.task)!r}"
    if task.blocked is not None:
        return f"{call}, action='answer', text=...)" if agent == task.requester else None
    if task.state == "IN_REVIEW" and agent == (task.reviewer or task.requester):
        return f"{call}, action='approve'), or action='reject' with a text"
    steps = {"ASSIGNED": "start", "WORKING": "done"}
    if agent != task.worker or task.state not in steps:
        return None
    return f"{call}, action={steps[task.state]!r}, token={task.token})"


def _lines(task: Task, agent: str) -> str:
    state = f"{task.state}{_blocked(task.blocked)}"
    step = _next(task, agent)
    head = (
        f"{exact(task.task)}: {state}, attempt {task.attempt} of {task.max_attempts},"
        f" {named(task.worker)} on {exact(task.branch)} for {exact(task.target)},"
        f" in {exact(task.path)}, token {task.token}{f'. Next: {step}' if step else ''}"
    )
    said = [task.reason]
    if task.blocked is not None:
        said += [f"Asks: {head_of(task.blocked.question)}", task.blocked.reason]
    return "\n".join([head, *(barred(head_of(each)) for each in said if each)])


def _blocked(blocked: Blocked | None) -> str:
    if blocked is None:
        return ""
    until = blocked.deadline_ms and f" until {format_ts(blocked.deadline_ms)}"
    return f", blocked since {format_ts(blocked.since_ms)}{until or ''}"


TOOLS = (
    Tool(
        "bus_task",
        "Your tasks on git branches, and those that wait for you.",
        Act,
        Shown,
        _act,
    ),
)
