"""Conversations: their messages, requests and answers, and traces."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import orjson
from fastapi import Path, Query, Response
from fastapi import Request as Call
from pydantic import BaseModel, ConfigDict, Field

from ...bus.local_bus import LocalBus
from ...schema.errors import InvalidInput, NotFound
from ...schema.message.names import MAX_SEQ, check_agent
from ...schema.message.reply_types import ReplyTypes
from ...subscribers.answers import Answer, answer_in, receive
from ...subscribers.jobs.json_records import claim_record, job_record
from ...subscribers.overview.trace import Trace, Work
from ...subscribers.requests import Request
from ..access.access import TheClient
from ..access.tokens import Principal, Scope
from ..records import MessageBody, MessagePage, MessageRecord, Name, ReceiptRecord, Type
from ..waiting import in_thread
from .common import (
    MAX_PAGE,
    PAGE,
    ActRecord,
    After,
    AttemptRecord,
    JobRecord,
    Limit,
    TheBus,
    TheKey,
    TheTrace,
    TheWaiter,
    json_of,
    new_router,
    problems,
    published,
)
from .messages import Strict, page_of, publish_all

router = new_router("conversations")

Conversation = Annotated[str, Path(min_length=1, description="The id of its first message.")]
SuccessType = Annotated[
    str | None,
    Query(min_length=1, max_length=255, description="Of the answer. Of `x.request`: `x.done`."),
]
FailureType = Annotated[
    str | None,
    Query(min_length=1, max_length=255, description="Of the answer. Of `x.request`: `x.failed`."),
]

ReadBy = Annotated[
    Name | None,
    Query(description="The agent that reads it. Default: the token's, if it is bound to one."),
]


class NewRequestBody(MessageBody):
    """A message that asks for an answer."""

    success_type: Type | None = Field(None, description="Of the answer. Of `x.request`: `x.done`.")
    failure_type: Type | None = Field(
        None, description="Of the answer. Of `x.request`: `x.failed`."
    )


class RequestRecord(ReceiptRecord):
    """A published request, and the types of its answers."""

    conversation: str
    reply_types: list[str] = Field(description="The types of the messages that answer it.")


class AnswerRecord(BaseModel):
    """The state of a request, or of a conversation."""

    state: Literal["pending", "success", "failure", "timed_out", "answered"]
    conversation: str
    reply: MessageRecord | None = Field(None, description="The answer.")


class WorkRecord(JobRecord):
    """A message's job in one queue, with every claim."""

    claims: list[AttemptRecord] = Field(description="Every attempt, the first first.")
    acts: list[ActRecord] = Field(description="The acts of people on it.")


class StepRecord(MessageRecord):
    """A message of a trace."""

    depth: int = Field(description="How many messages of the trace it answers.")
    jobs: list[WorkRecord] = Field(description="Its job in each queue.")


class TraceRecord(BaseModel):
    """A message's trace: its conversations, messages and jobs."""

    model_config = ConfigDict(extra="forbid")

    seq: int = Field(description="The message that was asked for.")
    conversations: list[str] = Field(description="Those on the way to it, its own first.")
    messages: list[StepRecord] = Field(description="Each after the one that it answers.")
    more: bool = Field(description="There are more: ask again, and skip those that came.")


@router.get(
    "/conversations/{conversation:path}/messages",
    response_model=MessagePage,
    responses=problems(409),
)
def read_conversation(
    conversation: Conversation,
    bus: TheBus,
    after: After = 0,
    limit: Limit = PAGE,
) -> Response:
    """Read the messages of a conversation in order, a page at a time."""
    return page_of(bus, after, limit, conversation=conversation)


@router.get(
    "/conversations/{conversation:path}/answer",
    response_model=AnswerRecord,
    responses=problems(),
)
async def check_conversation(
    conversation: Conversation,
    bus: TheBus,
    call: Call,
    principal: TheClient,
    success_type: SuccessType = None,
    failure_type: FailureType = None,
    which: Annotated[
        Literal["first", "last"], Query(description="Of several answers the one that counts.")
    ] = "last",
    agent: ReadBy = None,
) -> Response:
    """Return the state of a conversation. A conversation without messages is pending.

    An answer that its asker reads this way leaves the asker's inbox.
    """
    reader = _reader(principal, agent)
    look = partial(
        answer_in,
        bus,
        conversation,
        success_type=success_type,
        failure_type=failure_type,
        which=which,
    )
    return await _answer_response(bus, call, await in_thread(look), reader)


@router.get("/trace/{key:path}", response_model=TraceRecord, responses=problems())
def trace(
    key: Annotated[
        str,
        Path(
            min_length=1,
            description="The seq or id of a message, a conversation, `claim:TOKEN`, or "
            "`QUEUE:SEQ` for a job.",
        ),
    ],
    bus: TheBus,
    skip: Annotated[
        int, Query(ge=0, le=MAX_SEQ, description="How many messages to leave out, the first.")
    ] = 0,
    limit: Limit = MAX_PAGE,
) -> Response:
    """Return a message's trace: its causes, its consequences, and the jobs of each."""
    traced = Trace.of(bus, key)
    end = skip + limit
    now_ms = bus.now_ms()
    messages = [
        {"depth": step.depth}
        | orjson.loads(step.message.to_line())
        | {"jobs": [_work(job, now_ms) for job in step.work]}
        for step in traced.steps[skip:end]
    ]
    return json_of(
        {
            "seq": traced.seq,
            "conversations": traced.conversations,
            "messages": messages,
            "more": end < len(traced.steps),
        }
    )


def _work(work: Work, now_ms: int) -> dict[str, Any]:
    claims = [claim_record(claim, now_ms) for claim in work.claims]
    return job_record(work.job) | {"claims": claims, "acts": [act.record() for act in work.acts]}


@router.post(
    "/requests",
    status_code=201,
    responses=published(RequestRecord, "It was asked already."),
)
async def publish_request(
    asked: NewRequestBody,
    bus: TheBus,
    writer: TheClient,
    trace: TheTrace,
    response: Response,
    waiter: TheWaiter,
    key: TheKey,
    strict: Strict = False,
) -> RequestRecord:
    """Publish a request and return at once. `/v1/requests/{id}/answer` has the answer.

    With no recipient, the warning says if no live worker serves its type: it waits for one.
    Repeating it with the same `id`, or `Idempotency-Key`, and content is safe: it asks no second
    time, and has no such warning.
    """
    if isinstance(asked.to_agent, list):
        raise InvalidInput(
            "a request waits for one answer: name one recipient, or ask several by /v1/messages"
        )
    drafts = asked.drafts(writer, key)
    reply_types = ReplyTypes.of(asked.type, asked.success_type, asked.failure_type)
    reply_types.require(asked.type)
    (receipt,) = await publish_all(bus, drafts, trace, response, strict=strict, waiter=waiter)
    sent = await in_thread(
        partial(Request.published, bus, receipt.seq, reply_types, is_new=not receipt.duplicate)
    )
    receipt.warning = receipt.warning or sent.unserved
    return RequestRecord(
        **receipt.model_dump(),
        conversation=sent.conversation,
        reply_types=list(reply_types.all()),
    )


@router.get("/requests/{id:path}/answer", response_model=AnswerRecord, responses=problems())
async def answer_of_request(
    id: Annotated[str, Path(min_length=1, description="The id of the request.")],
    bus: TheBus,
    call: Call,
    waiter: TheWaiter,
    principal: TheClient,
    success_type: SuccessType = None,
    failure_type: FailureType = None,
    agent: ReadBy = None,
) -> Response:
    """Return the first answer to a request, or that it is pending.

    With `wait_s` it returns as soon as there is an answer, or after that time. An answer that the
    agent that asked reads so leaves its inbox. A client whose token is bound to no agent counts as
    that agent, unless it names another one.
    """
    find = partial(_request, bus, id, success_type, failure_type, principal, agent)
    request = await in_thread(find)
    answer = await waiter.until(
        request.check,
        lambda answer: answer.reply,
        lambda message: message.conversation == request.conversation,
    )
    return await _answer_response(bus, call, answer, request.asker)


def _request(
    bus: LocalBus,
    id: str,
    success_type: str | None,
    failure_type: str | None,
    principal: Principal,
    agent: str | None,
) -> Request:
    message = bus.get(id)
    if message is None:
        raise NotFound(f"no request {id[:255]!r} in the log")
    reply_types = ReplyTypes.of(message.type, success_type, failure_type)
    reply_types.require(message.type)
    asker = message.from_agent
    is_read_by_asker = _reader(principal, agent or principal.agent or asker) == asker
    return Request(
        bus,
        message.seq,
        message.id,
        message.conversation,
        reply_types,
        asker=asker if is_read_by_asker else None,
    )


def _reader(principal: Principal, agent: str | None) -> str | None:
    """Return the agent whose inbox is read; None where the token may change none."""
    if agent is not None:
        check_agent(agent)
    reader = principal.own(agent)
    return reader if principal.may(Scope.MESSAGES_RW) else None


async def _answer_response(
    bus: LocalBus, call: Call, answer: Answer, reader: str | None
) -> Response:
    """Return the response with an answer, and note that its reader has it if that is still there.

    The note comes just before the response: what the client asks next finds the inbox without it.
    """
    response = await in_thread(partial(_answer, answer))
    if reader is not None and not await call.is_disconnected():
        await in_thread(partial(receive, bus, answer, reader))
    return response


def _answer(answer: Answer) -> Response:
    record: dict[str, object] = {
        "state": answer.state,
        "conversation": answer.conversation,
    }
    if answer.reply is not None:
        record["reply"] = orjson.Fragment(answer.reply.to_json())
    return json_of(record)
