"""Tools that send messages, and find them again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from anyio.from_thread import check_cancelled
from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ....bus import tracing
from ....bus.local_bus import LocalBus
from ....bus.own_answers import first_answered_before
from ....bus.search.search import Found
from ....schema.errors import InvalidInput, NotFound, Refused
from ....schema.message.draft import ABSENT, Draft, parse_priority
from ....schema.message.message import Message
from ....schema.message.patterns import check_pattern, not_acted_upon
from ....schema.message.reply_types import ReplyTypes
from ....subscribers.answers import Answer, answer_in, double_answers, receive
from ....subscribers.answers import named as conversation_named
from ....subscribers.inboxes.seen_mail import SeenMailNotes
from ....subscribers.overview.trace import read_receipts
from ....subscribers.requests import Request
from ...records import Recipients
from ..session import McpSession
from .common import (
    MAX_PAGE,
    PAGE,
    Conversation,
    Cursor,
    Limit,
    MessagesResult,
    Next,
    PageContent,
    Pager,
    Payload,
    Type,
    Wait,
    by_the_same_call,
    by_thread,
    conversation_of,
    fitted,
    message_of,
    note_shown,
    stranger,
    wait_for,
)
from .tool import (
    NOTICE,
    Arguments,
    FramedMessage,
    Reply,
    Tool,
    ToolResult,
    body_of,
    exact,
    named,
    shown,
    text_of,
)

# bus_send ------------------------------------------------------------------------------------


#: How many recipients of a message are named with their seqs.
MAX_SENT = 20


class SendArguments(Arguments):
    """The arguments of `bus_send`."""

    meant = frozenset({"payload", "to"})

    type: Type
    payload: Payload = None
    to: Annotated[
        Recipients,
        Field(description="Agent, or several. Left out: everyone, or the sender of in_reply_to."),
    ] = None
    in_reply_to: Annotated[str | None, Field(description="seq or id that this answers.")] = None
    priority: Literal["interactive", "normal", "background"] = "normal"
    id: Annotated[str | None, Field(description="Sending it twice stores it once.")] = None
    again: Annotated[bool, Field(description="Answer once more.")] = False


class SendResult(ToolResult):
    """The result of `bus_send`."""

    seq: int
    id: str
    to: str | None = None
    seqs: dict[str, int] | None = None
    conversation: str | None = None
    duplicate: bool = False

    def text(self) -> str:
        """Return it for reading."""
        done = "was sent before" if self.duplicate else "sent"
        within = f", conversation {exact(self.conversation)}" if self.conversation else ""
        seqs = self.seqs or {self.to or "all": self.seq}
        where = "; ".join(f"seq {seq}, to {named(name)}" for name, seq in seqs.items())
        return self.lines(f"{done}: {where}, id {exact(self.id)}{within}.")


def _send(session: McpSession, arguments: SendArguments) -> Reply:
    bus, agent = session.bus, session.agent()
    session.principal.check_may_send(arguments.type)
    parent = None if arguments.in_reply_to is None else message_of(bus, arguments.in_reply_to)
    draft = Draft(
        arguments.type,
        arguments.payload if "payload" in arguments.model_fields_set else ABSENT,
        from_agent=agent,
        in_reply_to=parent.id if parent else None,
        priority=parse_priority(arguments.priority),
        id=arguments.id,
        headers=tracing.child_trace(parent.headers) if parent else None,
    )
    to = parent.from_agent if arguments.to is None and parent else arguments.to
    drafts = [draft] if to is None else draft.to_each([to] if isinstance(to, str) else to)
    warning = stranger(bus, *(addressed.to_agent for addressed in drafts), me=agent)
    warning = not_acted_upon(arguments.type) or warning
    with bus.transaction():  # so that no other answer comes between the look and this one
        if not arguments.again:
            _refuse_second_answer(bus, drafts, parent)
        receipts = bus.log.append(drafts)
    stored = bus.get(receipts[0].seq)
    pairs = zip(drafts, receipts, strict=True)
    seqs = {str(addressed.to_agent): receipt.seq for addressed, receipt in pairs}
    within = stored.conversation if stored and stored.conversation != stored.id else None

    def reply(number: int) -> Reply:
        unnamed = len(seqs) - number
        not_named = f"it went to {unnamed} more, who are not named here" if unnamed else None
        sent = SendResult(
            seq=receipts[0].seq,
            id=receipts[0].id,
            to=drafts[0].to_agent if len(drafts) == 1 else None,
            seqs=dict(islice(seqs.items(), number)) if len(drafts) > 1 else None,
            conversation=within,
            duplicate=all(receipt.duplicate for receipt in receipts),
            warning="; ".join(sentence for sentence in (warning, not_named) if sentence) or None,
        )
        return Reply(sent, sent.text())

    return fitted(min(len(seqs), MAX_SENT), reply, session.room)[0]


def _refuse_second_answer(bus: LocalBus, drafts: Sequence[Draft], parent: Message | None) -> None:
    again = first_answered_before(bus, drafts)
    if again is not None and parent is not None:
        raise Refused(
            f"nothing was sent: {again}. If all of it is done, bus_ack(seq={parent.seq});"
            " another part of the answer is sent with again=true"
        )


# bus_thread ----------------------------------------------------------------------------------


class ThreadArguments(Arguments):
    """The arguments of `bus_thread`."""

    conversation: Conversation
    limit: Limit = PAGE
    cursor: Next = None


class ThreadResult(MessagesResult):
    """The result of `bus_thread`."""

    conversation: str


def _thread(session: McpSession, arguments: ThreadArguments) -> Reply:
    reply, page = thread(session, arguments.conversation, arguments.limit, arguments.cursor)
    note_shown(session, page.spans)
    return reply


def thread(
    session: McpSession, key: str, limit: int, cursor: str | None
) -> tuple[Reply, PageContent]:
    """Return a page of a conversation, as a result and by itself.

    Raises:
        NotFound: there is no such conversation.
    """
    bus, begin = session.bus, Cursor.parse(cursor)
    conversation = conversation_of(bus, key)

    def reply(page: PageContent) -> Reply:
        head = f"{len(page.messages)} messages of {exact(conversation)}, oldest first."
        return ThreadResult.of(page, conversation=conversation).reply(head)

    pager = Pager(session.room, reply, by_the_same_call, FramedMessage.without_conversation)
    messages = bus.read(conversation=conversation, after_seq=begin.after)
    return pager.page(messages, begin, limit)


# bus_search ----------------------------------------------------------------------------------


class SearchArguments(Arguments):
    """The arguments of `bus_search`."""

    words: Annotated[str, Field(description='All must be there; "a phrase", begin*')]
    type: Annotated[str | None, Field(description="Pattern, like task.*")] = None
    agent: Annotated[str | None, Field(description="From or to it.")] = None
    limit: Limit = PAGE
    cursor: Next = None


#: How many hits can be paged through: each page asks for those before it, too.
_MAX_HITS = 1000


def _search(session: McpSession, arguments: SearchArguments) -> Reply:
    start = Cursor.parse(arguments.cursor).after
    upto = min(start + arguments.limit, _MAX_HITS)
    if arguments.type is not None:
        check_pattern(arguments.type)
    hits = session.bus.search(
        *_words(arguments.words), type=arguments.type, agent=arguments.agent, limit=upto + 1
    )
    snippets = [FramedMessage.of(hit.message, hit.snippet, "snippet") for hit in hits[start:upto]]

    def reply(number: int) -> Reply:
        end = start + number
        more = end < len(hits) and end < _MAX_HITS
        head = f"{number} found, the best first." if number else "Nothing found."
        return MessagesResult.of(PageContent(snippets[:number], str(end) if more else None)).reply(
            head
        )

    page_of_hits, number = fitted(len(snippets), reply, session.room)
    whole = [(hit.message.seq, 0, None) for hit in hits[start : start + number] if _is_whole(hit)]
    note_shown(session, whole)
    return page_of_hits


# bus_receipts --------------------------------------------------------------------------------


class ReceiptsArguments(Arguments):
    """The arguments of `bus_receipts`."""

    seq: Annotated[int, Field(ge=1)]


class ReaderState(BaseModel):
    """The state of a message at one reader."""

    kind: str
    name: str
    state: str


class ReceiptsResult(ToolResult):
    """The result of `bus_receipts`."""

    receipts: list[ReaderState]


def _receipts(session: McpSession, arguments: ReceiptsArguments) -> Reply:
    receipts = read_receipts(session.bus, str(arguments.seq))
    readers = [ReaderState(**receipt.record()) for receipt in receipts[:MAX_PAGE]]

    def reply(number: int) -> Reply:
        omitted = len(receipts) - number
        record = ReceiptsResult(
            receipts=readers[:number], warning=f"{omitted} more are left out" if omitted else None
        )
        states = "; ".join(
            f"{reader.kind} {named(reader.name)}: {reader.state}" for reader in record.receipts
        )
        return Reply(record, record.lines(f"{states or 'It is in no inbox, and in no queue'}."))

    return fitted(len(readers), reply, session.room)[0]


def _is_whole(hit: Found) -> bool:
    """Whether the passage of a message that was found is all of its body."""
    return hit.snippet == text_of(body_of(hit.message))


def _words(text: str) -> list[str]:
    """Split a search text into words and quoted phrases."""
    parts = text.split('"')
    if len(parts) % 2 == 0:
        raise InvalidInput("a phrase has no closing quote")
    words = [part.split() if index % 2 == 0 else [part] for index, part in enumerate(parts)]
    return [word for group in words for word in group]


_MESSAGE_TOOLS = (
    Tool(
        "bus_receipts",
        "See who acknowledged a message.",
        ReceiptsArguments,
        ReceiptsResult,
        _receipts,
        only_reads=True,
    ),
    Tool("bus_send", "Send a message to an agent or to all.", SendArguments, SendResult, _send),
    Tool(
        "bus_thread",
        "Read a conversation.",
        ThreadArguments,
        ThreadResult,
        _thread,
        only_reads=True,
    ),
    Tool(
        "bus_search",
        "Search all messages by words.",
        SearchArguments,
        MessagesResult,
        _search,
        only_reads=True,
    ),
)

# Tools that publish a request, and check its answer.

#: How long `bus_request` waits unless the agent says so, in seconds.
WAIT_S = 20


def _one(to: Any) -> Any:
    """Refuse several recipients, naming the tools for these, and anything that is no name."""
    if isinstance(to, list):
        raise PydanticCustomError(
            "one", "a request waits for one answer: bus_send asks several, bus_check(seq) each"
        )
    if to is not None and not isinstance(to, str):  # else a number would be taken for a name
        raise PydanticCustomError("name", "it must be a name")
    return to


class RequestArguments(Arguments):
    """The arguments of `bus_request`."""

    meant = frozenset({"payload", "to"})

    type: Annotated[str, Field(description="Ends in .request")]
    payload: Payload = None
    to: Annotated[
        str | None, BeforeValidator(_one), Field(description="Agent. Default: any worker.")
    ] = None
    priority: Literal["interactive", "normal", "background"] = "normal"
    wait_s: Wait = WAIT_S


class CheckArguments(Arguments):
    """The arguments of `bus_check`."""

    conversation: Conversation


class AnswerResult(ToolResult):
    """The state of a request."""

    state: str
    conversation: str
    reply: FramedMessage | None = None


def _request(session: McpSession, arguments: RequestArguments) -> Reply:
    bus, agent = session.bus, session.agent()
    session.principal.check_may_send(arguments.type)
    reply_types = ReplyTypes.of(arguments.type)
    if not reply_types.all():
        raise InvalidInput(f"type {arguments.type[:80]!a} asks for nothing: end it in .request")
    warning = stranger(bus, arguments.to, me=agent)
    payload = arguments.payload if "payload" in arguments.model_fields_set else ABSENT
    priority = parse_priority(arguments.priority)
    receipt = bus.publish(
        arguments.type, payload, from_agent=agent, to_agent=arguments.to, priority=priority
    )
    sent = Request.published(bus, receipt.seq, reply_types, is_new=not receipt.duplicate)
    answer = wait_for(session, sent.check, lambda latest: latest.reply, arguments.wait_s)
    return _answer_reply(session, answer, sent.asker, warning or sent.unserved)


def _check(session: McpSession, arguments: CheckArguments) -> Reply:
    bus = session.bus
    conversation = conversation_named(bus, arguments.conversation)
    if conversation is None:
        raise NotFound(
            f"there is no message {arguments.conversation[:80]!a}: give its seq or its id"
        )
    try:
        answer = answer_in(bus, conversation)
    except InvalidInput as error:  # its advice is for callers that can give types
        raise InvalidInput(
            "this conversation began with no request; bus_thread shows what came of it"
        ) from error
    several = [double.reply.seq for double in double_answers(bus, conversation) if double.reply]
    warning = f"it was answered twice: all answers are {several[:MAX_PAGE]}" if several else None
    return _answer_reply(session, answer, session.reader(), warning)


def _answer_reply(
    session: McpSession, answer: Answer, reader: str | None, warning: str | None = None
) -> Reply:
    """Return the reply of a call, unless it was cancelled; note that the reader has the answer."""
    notes = None if reader is None else SeenMailNotes(session.bus, reader).read()
    was_shown = bool(notes and answer.reply and answer.reply.seq in notes)
    reply, page = _reply(session, answer, warning, was_shown=was_shown)
    check_cancelled()
    receive(session.bus, answer, reader)
    note_shown(session, page.spans)
    return reply


def _reply(
    session: McpSession, answer: Answer, warning: str | None, *, was_shown: bool
) -> tuple[Reply, PageContent]:
    """Return the result of a wait for an answer, which names one that was shown before."""
    conversation = answer.conversation
    if answer.reply is None:
        later = f"Later: bus_check(conversation={shown(conversation)!r})."
        record = AnswerResult(
            state=answer.state, conversation=conversation, warning=warning, next=later
        )
        return Reply(record, record.lines(f"{answer.state}: no answer yet.")), PageContent()

    def reply(page: PageContent) -> Reply:
        (message,) = page.messages
        record = AnswerResult(
            state=answer.state,
            conversation=conversation,
            reply=message,
            warning=warning,
            notice=NOTICE,
        )
        head = f"{answer.state}, conversation {exact(conversation)}."
        return Reply(record, record.lines(head, message.text()))

    if was_shown:
        shown_before = FramedMessage.of(answer.reply, ABSENT).without_conversation()
        shown_before.more = (
            f"You were shown it: bus_thread(conversation={str(shown_before.seq)!r}) has it."
        )
        return reply(PageContent([shown_before])), PageContent()
    pager = Pager(session.room, reply, by_thread, FramedMessage.without_conversation)
    return pager.page([answer.reply], Cursor(answer.reply.seq - 1), 1)


_REQUEST_TOOLS = (
    Tool(
        "bus_check",
        "See whether a request was answered.",
        CheckArguments,
        AnswerResult,
        _check,
        only_reads=True,
    ),
    Tool(
        "bus_request",
        "Ask, and wait for the answer.",
        RequestArguments,
        AnswerResult,
        _request,
        gives_as="bus_check",
    ),
)

TOOLS = (*_MESSAGE_TOOLS, *_REQUEST_TOOLS)
