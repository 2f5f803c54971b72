"""Tools that publish a request, and check its answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from anyio.from_thread import check_cancelled
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ....schema.errors import InvalidInput, NotFound
from ....schema.message.draft import ABSENT
from ....schema.message.priority import parse_priority
from ....schema.message.reply_types import ReplyTypes
from ....subscribers.conversations.answers import Answer, check, double_answers, receive
from ....subscribers.conversations.answers import named as conversation_named
from ....subscribers.inboxes.seen_mail import Shown
from ....subscribers.requests import Request
from ..session import Session
from .common import Conversation, Payload, Wait, note_shown, stranger, wait_for
from .pages import MAX_PAGE, Cursor, Paged, Pager, by_thread
from .quoted_messages import NOTICE, FramedMessage, exact, shown
from .tool import Arguments, Reply, Result, Tool

#: How long `bus_request` waits unless the agent says so, in seconds.
WAIT_S = 20


def _one(to: Any) -> Any:
    """Refuse several agents, with the tools that are for that, and what is no name."""
    if isinstance(to, list):
        raise PydanticCustomError(
            "one", "a request waits for one answer: bus_send asks several, bus_check(seq) each"
        )
    if to is not None and not isinstance(to, str):  # else a number would be taken for a name
        raise PydanticCustomError("name", "it must be a name")
    return to


class Ask(Arguments):
    """The arguments of `bus_request`."""

    meant = frozenset({"payload", "to"})

    type: Annotated[str, Field(description="Ends in .request")]
    payload: Payload = None
    to: Annotated[
        str | None, BeforeValidator(_one), Field(description="Agent. Default: any worker.")
    ] = None
    priority: Literal["interactive", "normal", "background"] = "normal"
    wait_s: Wait = WAIT_S


class Check(Arguments):
    """The arguments of `bus_check`."""

    conversation: Conversation


class State(Result):
    """The state of a request."""

    state: str
    conversation: str
    reply: FramedMessage | None = None


def _request(session: Session, given: Ask) -> Reply:
    bus, agent = session.bus, session.agent()
    session.principal.check_may_send(given.type)
    reply_types = ReplyTypes.of(given.type)
    if not reply_types.all():
        raise InvalidInput(f"type {given.type[:80]!a} asks for nothing: end it in .request")
    warning = stranger(bus, given.to, me=agent)
    payload = given.payload if "payload" in given.model_fields_set else ABSENT
    priority = parse_priority(given.priority)
    receipt = bus.publish(
        given.type, payload, from_agent=agent, to_agent=given.to, priority=priority
    )
    sent = Request.published(bus, receipt.seq, reply_types, is_new=not receipt.duplicate)
    answer = wait_for(session, sent.check, lambda seen: seen.reply, given.wait_s)
    return _handed_over(session, answer, sent.asker, warning or sent.unserved)


def _check(session: Session, given: Check) -> Reply:
    bus = session.bus
    conversation = conversation_named(bus, given.conversation)
    if conversation is None:
        raise NotFound(f"there is no message {given.conversation[:80]!a}: give its seq or its id")
    try:
        answer = check(bus, conversation)
    except InvalidInput as error:  # its advice is for callers that can give types
        raise InvalidInput(
            "this conversation began with no request; bus_thread shows what came of it"
        ) from error
    several = [each.reply.seq for each in double_answers(bus, conversation) if each.reply]
    warning = f"it was answered twice: all answers are {several[:MAX_PAGE]}" if several else None
    return _handed_over(session, answer, session.reader(), warning)


def _handed_over(
    session: Session, answer: Answer, reader: str | None, warning: str | None = None
) -> Reply:
    """Return the reply to a call that is still wanted, whose reader has the answer by that."""
    notes = None if reader is None else Shown(session.bus, reader).read()
    was_shown = bool(notes and answer.reply and answer.reply.seq in notes)
    reply, page = _reply(session, answer, warning, was_shown=was_shown)
    check_cancelled()
    receive(session.bus, answer, reader)
    note_shown(session, page.spans)
    return reply


def _reply(
    session: Session, answer: Answer, warning: str | None, *, was_shown: bool
) -> tuple[Reply, Paged]:
    """Return the result of a wait for an answer, which names one that was shown before."""
    conversation = answer.conversation
    if answer.reply is None:
        later = f"Later: bus_check(conversation={shown(conversation)!r})."
        record = State(state=answer.state, conversation=conversation, warning=warning, next=later)
        return Reply(record, record.lines(f"{answer.state}: no answer yet.")), Paged()

    def reply(page: Paged) -> Reply:
        (message,) = page.messages
        record = State(
            state=answer.state,
            conversation=conversation,
            reply=message,
            warning=warning,
            notice=NOTICE,
        )
        head = f"{answer.state}, conversation {exact(conversation)}."
        return Reply(record, record.lines(head, message.text()))

    if was_shown:
        known = FramedMessage.of(answer.reply, ABSENT).within()
        known.more = f"You were shown it: bus_thread(conversation={str(known.seq)!r}) has it."
        return reply(Paged([known])), Paged()
    pager = Pager(session.room, reply, by_thread, FramedMessage.within)
    return pager.page([answer.reply], Cursor(answer.reply.seq - 1), 1)


TOOLS = (
    Tool(
        "bus_check",
        "See whether a request was answered.",
        Check,
        State,
        _check,
        only_reads=True,
    ),
    Tool(
        "bus_request",
        "Ask, and wait for the answer.",
        Ask,
        State,
        _request,
        gives_as="bus_check",
    ),
)
