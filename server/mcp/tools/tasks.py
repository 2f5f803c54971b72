"""The tool for tasks: an agent's own ones, and those that wait for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ....bus.local_bus import LocalBus
from ....schema.errors import InvalidInput
from ....schema.message.times import format_ts
from ....subscribers.overview.agents import holder_of
from ....tasks.board.comments import Comment, comment, comments, place_in
from ....tasks.board.forecast import reserved_by_others
from ....tasks.finish import finish_task
from ....tasks.records.task import Blocked, Task
from ....tasks.steps.tasks import Tasks
from ...access.tokens import Scope
from ..session import McpSession
from .common import HEAD_CHARS, MAX_PAGE, fitted
from .tool import NOTICE, Arguments, Reply, Tool, ToolResult, barred, exact, named, shown, text_of

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


#: The actions that decide for a person: they lead to a landing, or to another attempt.
_DECISIONS: tuple[Action, ...] = ("answer", "approve", "reject")


#: How much of a prompt is shown, in characters, and how many reserved files are warned of.
MAX_PROMPT_CHARS, MAX_WARNINGS = 2_000, 10


class TaskArguments(Arguments):
    """The arguments of `bus_task`."""

    action: Action = "list"
    task: str | None = None
    text: Annotated[str | None, Field(description="Question, answer, comment, or why.")] = None
    line: Annotated[str | None, Field(description="FILE:LINE of a comment.")] = None
    token: Annotated[int | None, Field(ge=1)] = None


class TasksResult(ToolResult):
    """The result of `bus_task`: tasks, with the words of others in them."""

    tasks: list[dict[str, Any]]
    seq: int | None = None


def _act(session: McpSession, arguments: TaskArguments) -> Reply:
    bus, agent = session.bus, session.principal.work_as(session.agent())
    if arguments.action == "list":
        return _listed(session, _of(bus, agent), agent)
    if arguments.task is None:
        raise InvalidInput("name the task")
    tasks = Tasks(bus)
    if arguments.action == "show":
        return _shown(session, tasks.get(arguments.task), agent)
    if arguments.action == "comment":
        if arguments.line is None:
            raise InvalidInput("give the line, like src/app.py:12")
        new_comment = comment(
            bus, arguments.task, place_in(arguments.line), _text(arguments), agent=agent
        )
        reply = TasksResult(tasks=[], seq=new_comment.seq)
        return Reply(
            reply,
            reply.lines(
                f"Seq {new_comment.seq} tells the worker, about {exact(new_comment.text)}."
            ),
        )
    if arguments.action == "done":
        task = finish_task(bus, arguments.task, agent=agent, token=_token(arguments))
        return _done(session, task, agent)
    if arguments.action in _DECISIONS:
        session.principal.require(Scope.TASKS_RW, why=f"to {arguments.action} a task: ")
    return _listed(session, [_step(tasks, arguments, arguments.task, agent)], agent)


def _step(tasks: Tasks, arguments: TaskArguments, name: str, agent: str) -> Task:
    if arguments.action == "start":
        return tasks.start(name, agent=agent, token=arguments.token)
    if arguments.action == "answer":
        return tasks.answer(name, agent=agent, words=_text(arguments))
    if arguments.action == "approve":
        return tasks.approve(name, agent=agent, words=arguments.text)
    if arguments.action == "reject":
        return tasks.reject(name, agent=agent, words=_text(arguments))
    token = _token(arguments)
    if arguments.action == "heartbeat":
        return tasks.heartbeat(name, agent=agent, token=token)
    if arguments.action == "block":
        return tasks.block(name, agent=agent, token=token, question=_text(arguments))
    return tasks.fail(name, agent=agent, token=token, reason=_text(arguments))


def _done(session: McpSession, task: Task, agent: str) -> Reply:
    """Return a task that is done, with the changed files that others have reserved."""
    lines = []
    for file in reserved_by_others(session.bus, [task])[:MAX_WARNINGS]:
        reservation = file.conflict.held
        holder = f"{named(reservation.agent)} ({holder_of(session.bus, reservation)})"
        lines.append(f"{exact(file.conflict.path)} is reserved by {holder}: tell it")
    return _listed(session, [task], agent, warning="; ".join(lines) or None)


def _token(arguments: TaskArguments) -> int:
    if arguments.token is None:
        raise InvalidInput("give the token that start gave")
    return arguments.token


def _text(arguments: TaskArguments) -> str:
    if not arguments.text:
        raise InvalidInput(f"{arguments.action} needs a text")
    return arguments.text


def _of(bus: LocalBus, agent: str) -> list[Task]:
    """Return the live tasks of an agent, and those that wait for it."""
    return [
        task
        for task in Tasks(bus).list(is_live=True)
        if agent == task.worker
        or (task.blocked is not None and agent == task.requester)
        or (task.state == "IN_REVIEW" and agent == (task.reviewer or task.requester))
    ]


def _listed(
    session: McpSession, tasks: list[Task], agent: str, *, warning: str | None = None
) -> Reply:
    if not tasks:
        none = TasksResult(tasks=[], next="No live task is yours, or waits for you.")
        return Reply(none, none.lines(""))

    def reply(number: int) -> Reply:
        omitted = len(tasks) - number
        record = TasksResult(
            tasks=[_record(task, agent) for task in tasks[:number]],
            warning=f"{omitted} more are not shown" if omitted else warning,
            notice=NOTICE,
        )
        return Reply(record, record.lines("", *(_lines(task, agent) for task in tasks[:number])))

    return fitted(min(len(tasks), MAX_PAGE), reply, session.room)[0]


def _shown(session: McpSession, task: Task, agent: str) -> Reply:
    """Return a task with its prompt and its comments: of many the last, of long ones the heads."""
    task_comments = comments(session.bus, task.task)[-MAX_PAGE:]

    def reply(number: int) -> Reply:
        earlier = len(task_comments) - number
        shown = task_comments[earlier:]
        words = [_said(shown_comment) for shown_comment in shown]
        facts: dict[str, Any] = {"base": task.base, "comments": words}
        lines = [_lines(task, agent), f"base {task.base}"]
        if task.prompt is not None:
            facts["prompt"] = head_of(text_of(task.prompt), MAX_PROMPT_CHARS)
            lines.append(f"Its prompt:\n{barred(facts['prompt'])}")
        lines += [_comment(shown_comment) for shown_comment in shown]
        record = TasksResult(
            tasks=[_record(task, agent) | facts],
            warning=f"{earlier} earlier comments are not shown" if earlier else None,
            notice=NOTICE,
        )
        return Reply(record, record.lines("", *lines))

    return fitted(len(task_comments), reply, session.room)[0]


def _comment(entry: Comment) -> str:
    now = "changed since" if entry.now is None else f"now {entry.now.file}:{entry.now.line}"
    where = f"{exact(f'{entry.place.file}:{entry.place.line}')} ({exact(now)})"
    head = f"{named(entry.by)} on {where}, {exact(entry.text)}, {format_ts(entry.at_ms)}:"
    return f"{head}\n{barred(head_of(entry.words))}"


def head_of(text: str, chars: int = HEAD_CHARS) -> str:
    """Return a text, or its beginning and how long it is."""
    return text if len(text) <= chars else f"{text[:chars]}… ({len(text)} characters in all)"


#: The fields of a task that a result has, before the words of others and the next step.
_FACTS = ("task", "attempt", "max_attempts", "state", "worker", "branch", "path", "target", "token")


def _said(comment: Comment) -> dict[str, Any]:
    whole = comment.record()
    fields = ("by", "at", "file", "line", "text", "comment", "now")
    words = {"comment": head_of(whole["comment"])}
    return _present({name: whole[name] for name in fields} | words)


def _record(task: Task, agent: str) -> dict[str, Any]:
    whole = task.record()
    blocked = whole["blocked"] and _present(_heads(whole["blocked"]))
    words = {**_heads({"reason": whole["reason"]}), "blocked": blocked, "untrusted": True}
    facts = {name: whole[name] for name in _FACTS}
    return facts | _present(words | {"next": _next(task, agent)})


def _heads(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: head_of(content) if isinstance(content, str) else content
        for name, content in fields.items()
    }


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
    sentences = [task.reason]
    if task.blocked is not None:
        sentences += [f"Asks: {head_of(task.blocked.question)}", task.blocked.reason]
    return "\n".join([head, *(barred(head_of(sentence)) for sentence in sentences if sentence)])


def _blocked(blocked: Blocked | None) -> str:
    if blocked is None:
        return ""
    until = blocked.deadline_ms and f" until {format_ts(blocked.deadline_ms)}"
    return f", blocked since {format_ts(blocked.since_ms)}{until or ''}"


TOOLS = (
    Tool(
        "bus_task",
        "Your tasks on git branches, and those that wait for you.",
        TaskArguments,
        TasksResult,
        _act,
    ),
)
