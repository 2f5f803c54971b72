"""Tools for work: jobs of queues, and tasks on git branches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ....bus.local_bus import LocalBus
from ....bus.own_answers import first_answered_before
from ....schema.errors import InvalidInput
from ....schema.message.draft import ABSENT, Draft
from ....schema.message.message import Message
from ....schema.message.reply_types import ReplyTypes
from ....schema.message.times import format_ts
from ....subscribers.jobs.claims import Claim, Claims, Outcome
from ....subscribers.jobs.errors import ClaimLost, QueueNotFound
from ....subscribers.jobs.jobs import Jobs
from ....subscribers.jobs.json_records import result_to_store
from ....subscribers.jobs.outcomes import answer_to
from ....subscribers.overview.agents import holder_of
from ....subscribers.queues.queue import Queue, claim_of
from ....subscribers.queues.queues import Queues
from ....tasks.board.comments import Comment, comment, comments, place_in
from ....tasks.board.forecast import reserved_by_others
from ....tasks.finish import finish_task
from ....tasks.records.task import Blocked, Task
from ....tasks.steps.tasks import Tasks
from ...access.tokens import Scope
from ..session import McpSession
from .common import HEAD_CHARS, MAX_PAGE, Cursor, PageContent, Pager, by_thread, fitted, note_shown
from .tool import (
    NOTICE,
    Arguments,
    FramedMessage,
    Reply,
    Tool,
    ToolResult,
    barred,
    exact,
    named,
    shown,
    text_of,
)

# Tools that take work from queues, and end it.

#: How long a claim lasts unless the agent says so, in minutes: agents think long.
LEASE_MIN = 15

Token = Annotated[int, Field(ge=1, description="Of the claim.")]


class ClaimArguments(Arguments):
    """The arguments of `bus_claim`."""

    queue: Annotated[str, Field(description="Often a type, like build.request.")]
    minutes: Annotated[float, Field(gt=0, le=1440)] = LEASE_MIN
    renew: Annotated[int | None, Field(description="Token of a claim to extend.")] = None


class ClaimResult(ToolResult):
    """The result of `bus_claim`: a claim, or nothing."""

    token: int | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    until: str | None = None
    message: FramedMessage | None = None


def _claim(session: McpSession, arguments: ClaimArguments) -> Reply:
    bus, agent = session.bus, session.principal.work_as(session.agent())
    queue = _queue(bus, arguments.queue)
    session.principal.check_may_take(queue.name, queue.info.pattern)
    if arguments.renew is not None:
        _, claim = _own_claim(session, arguments.renew, agent)
        if claim.queue != queue.name:
            raise InvalidInput(f"claim {claim.token} is one of queue {claim.queue!a}")
        queue.renew(claim, lease_s=arguments.minutes * 60)
        until = format_ts(bus.now_ms() + round(arguments.minutes * 60_000))
        renewed = ClaimResult(token=claim.token, until=until, next=_end_of(claim))
        return Reply(renewed, renewed.lines(f"Claim {claim.token} until {until}."))
    claims = queue.claim(agent, lease_s=arguments.minutes * 60)
    if not claims:
        nothing = ClaimResult(
            next=f"Queue {exact(queue.name)} has nothing to do now: claim again later."
        )
        return Reply(nothing, nothing.lines(""))
    return _taken(session, claims[0])


def _queue(bus: LocalBus, name: str) -> Queue:
    """Return an existing queue: a mistyped name must not create one.

    Raises:
        QueueNotFound: there is none; the error names the existing ones.
    """
    try:
        return Queue.open(bus, name)
    except QueueNotFound as error:
        names = ", ".join(exact(info.name) for info in Queues(bus).list()[:MAX_PAGE])
        there = f"there are {names}" if names else "there are none yet"
        raise QueueNotFound(f"there is no queue {name[:80]!a}: {there}") from error


def _taken(session: McpSession, claim: Claim) -> Reply:
    def reply(page: PageContent) -> Reply:
        (message,) = page.messages
        record = ClaimResult(
            token=claim.token,
            attempt=claim.attempt,
            max_attempts=claim.max_attempts,
            until=format_ts(claim.lease_until_ms),
            message=message,
            next=_end_of(claim),
            notice=NOTICE,
        )
        head = (
            f"Claim {claim.token} is yours until {record.until} (attempt {claim.attempt} of"
            f" {claim.max_attempts})."
        )
        return Reply(record, record.lines(head, message.text()))

    pager = Pager(session.room, reply, by_thread)
    page_reply, page = pager.page([claim.message], Cursor(claim.message.seq - 1), 1)
    note_shown(session, page.spans)
    return page_reply


def _end_of(claim: Claim) -> str:
    return f"End it with bus_finish(token={claim.token})."


class FinishArguments(Arguments):
    """The arguments of `bus_finish`."""

    meant = frozenset({"result"})

    token: Token
    outcome: Annotated[
        Literal["done", "failed", "released"], Field(description="released hands the job back.")
    ] = "done"
    result: Annotated[Any, Field(description="For the asker. Text or any JSON.")] = None
    error: Annotated[str | None, Field(description="Why it failed.")] = None


class FinishResult(ToolResult):
    """The result of `bus_finish`."""

    job: str
    answer_seq: int | None = None


def _finish(session: McpSession, arguments: FinishArguments) -> Reply:
    bus, agent = session.bus, session.principal.work_as(session.agent())
    queue, claim = _own_claim(session, arguments.token, agent)
    if arguments.outcome == "failed" and not arguments.error:
        raise InvalidInput("say in error why it failed")
    answer = again = None
    is_new = False
    if arguments.outcome == "released":
        _released(queue, claim, arguments.error or f"handed back by {agent}")
    else:
        outcome, replies = _end(claim.message, agent, arguments)
        for reply in replies:
            session.principal.check_may_send(reply.type)
        again = first_answered_before(bus, replies)
        answer, is_new = _ended(queue, claim, outcome, replies)
    state = Jobs.of(bus).get(queue.info, claim.message.seq).state
    sentence = f" The answer is seq {answer}." if answer else ""
    record = FinishResult(job=state, answer_seq=answer, warning=again if is_new else None)
    return Reply(record, record.lines(f"The job is {state} now.{sentence}"))


def _released(queue: Queue, claim: Claim, why: str) -> None:
    """Release a claim; repeating it changes nothing, since the first response may be lost."""
    try:
        queue.release(claim, why)
    except ClaimLost as error:
        record = Claims.of(queue.bus).get(claim.token)
        if error.ended_as is None or record is None or record.error != why:
            raise


def _ended(
    queue: Queue, claim: Claim, outcome: Outcome, replies: list[Draft]
) -> tuple[int | None, bool]:
    """End a claim; return the seq of its answer, and whether it is new: a repeat gives the same."""
    try:
        receipts = queue.end(claim, outcome, replies)
    except ClaimLost as error:
        if error.ended_as != outcome.status:
            raise
        return _answer_before(queue.bus, claim.message, replies), False
    return (receipts[0].seq, True) if receipts else (None, False)


def _answer_before(bus: LocalBus, message: Message, replies: list[Draft]) -> int | None:
    """Return the seq of the answer that an earlier call published, or None."""
    seqs = [
        earlier.seq
        for reply in replies
        for earlier in bus.read(
            conversation=message.conversation,
            after_seq=message.seq,
            type=reply.type,
            from_agent=reply.from_agent,
        )
        if earlier.in_reply_to == message.id
    ]
    return max(seqs, default=None)  # it may have answered by mail before


def _end(message: Message, agent: str, arguments: FinishArguments) -> tuple[Outcome, list[Draft]]:
    """Return an attempt's outcome, and the conventional answer to the message's sender."""
    types = ReplyTypes.of(message.type)
    if arguments.outcome == "done":
        result = None if arguments.result is None else result_to_store(arguments.result)
        outcome, type = Outcome(result=result), types.success
        body: object = arguments.result if "result" in arguments.model_fields_set else ABSENT
    else:
        outcome, type = Outcome(status="failed", error=arguments.error), types.failure
        body = arguments.error
    if type is None:
        return outcome, []
    headers: dict[str, object] = {"status": outcome.status}
    answer = answer_to(message, type, body, sender=agent, headers=headers)
    return outcome, [] if answer is None else [answer]


def _own_claim(session: McpSession, token: int, agent: str) -> tuple[Queue, Claim]:
    """Return a claim of an agent, and its queue; claims of before a restart count too.

    Raises:
        ClaimNotFound: there is none.
        InvalidInput: it is another agent's.
        Forbidden: the client may not end jobs of that queue.
    """
    queue, claim = claim_of(session.bus, token)
    session.principal.check_may_take(queue.name, queue.info.pattern)
    if claim.group != agent:
        raise InvalidInput(f"claim {token} is {claim.group!r}'s, not yours")
    return queue, claim


# The tool for tasks: an agent's own ones, and those that wait for it.

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
    Tool("bus_claim", "Take a job from a queue.", ClaimArguments, ClaimResult, _claim),
    Tool("bus_finish", "End a claim.", FinishArguments, FinishResult, _finish),
    Tool(
        "bus_task",
        "Your tasks on git branches, and those that wait for you.",
        TaskArguments,
        TasksResult,
        _act,
    ),
)
