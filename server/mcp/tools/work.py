"""Tools that take work from queues, and end it."""

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
from ....subscribers.jobs.json_records import kept_result
from ....subscribers.jobs.outcomes import answer_to
from ....subscribers.queues.queue import Queue, claim_of
from ....subscribers.queues.queues import Queues
from ..session import McpSession
from .common import MAX_PAGE, Cursor, PageContent, Pager, by_thread, note_shown
from .tool import NOTICE, Arguments, FramedMessage, Reply, Tool, ToolResult, exact

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
        result = None if arguments.result is None else kept_result(arguments.result)
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


TOOLS = (
    Tool("bus_claim", "Take a job from a queue.", ClaimArguments, ClaimResult, _claim),
    Tool("bus_finish", "End a claim.", FinishArguments, FinishResult, _finish),
)
