"""Tools that read an agent's inbox, and acknowledge messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import dropwhile
from typing import Annotated

from pydantic import Field

from ....bus.local_bus import LocalBus
from ....bus.own_answers import own_answer
from ....schema.errors import LimitReached, Refused
from ....schema.message.message import Message
from ....schema.message.patterns import TypePattern, check_pattern
from ....schema.message.reply_types import REQUEST
from ....schema.paging import pages, seq_of
from ....subscribers.inboxes.inbox import Inbox
from ....subscribers.inboxes.seen_mail import SeenMailNotes, UnseenMail
from ....subscribers.inboxes.session import FirstMail, inbox_of
from ..session import McpSession
from .common import (
    PAGE,
    READ_IT,
    Cursor,
    Limit,
    MessagesResult,
    Next,
    PageContent,
    Pager,
    Wait,
    by_the_same_call,
    counted,
    note_shown,
    unread_of,
    wait_for,
)
from .tool import Arguments, FramedMessage, Reply, Tool, ToolResult, named

#: How many messages are read at a time.
_READ = PAGE + 1

#: The type of the message that tells a sender that its message was put aside.
SKIPPED = "message.skipped"

#: How many messages a refusal names.
_NAMED = 3

# bus_inbox -----------------------------------------------------------------------------------


class InboxArguments(Arguments):
    """The arguments of `bus_inbox`."""

    type: Annotated[str | None, Field(description="Pattern, like task.*; hides others.")] = None
    wait_s: Wait = 0
    limit: Limit = PAGE
    with_work: Annotated[bool, Field(description="Queued jobs too.")] = False
    cursor: Next = None


class InboxResult(MessagesResult):
    """The result of `bus_inbox`."""

    unread: int


def _inbox(session: McpSession, arguments: InboxArguments) -> Reply:
    begin = Cursor.parse(arguments.cursor)
    pattern = None if arguments.type is None else _pattern(arguments.type)

    def look() -> tuple[FirstMail, Reply, PageContent]:
        # At each look, because the look claims a base name that has become free.
        first = FirstMail(
            session.bus, session.agent(), with_work=arguments.with_work, cursor=arguments.cursor
        )
        reply = partial(_page, first, begin, pattern, unread_of(session.bus, first.inbox.agent))
        pager = Pager(session.room, reply, by_the_same_call, _with_answers(first.inbox))
        return first, *pager.page(waiting(first.inbox, begin, pattern), begin, arguments.limit)

    first, reply, page = wait_for(
        session, look, lambda outcome: outcome[2].messages, arguments.wait_s
    )
    if page.messages:
        # Where a type hides mail, the hook after this tool may still have to announce that.
        upto = 0 if pattern else page.messages[-1].seq
        older = first.first_seq if arguments.cursor in (None, "0") else None
        note_shown(session, page.spans, upto=upto, older=older)
    return reply


def _page(
    first: FirstMail, begin: Cursor, pattern: TypePattern | None, unread: int, page: PageContent
) -> Reply:
    """Return the result of a page."""
    inbox = first.inbox
    if page.messages:
        steps = (_acknowledgements_for(inbox, begin, page, pattern), first.told())
        advice = " ".join(step for step in steps if step)
        head = f"{counted(unread)} unread for {named(inbox.agent)}."
        return InboxResult.of(page, advice=advice, unread=unread).reply(head)
    more = f", but {counted(unread)} of other types" if pattern and unread else ""
    head = f"Nothing waits for {named(inbox.agent)}{more}."
    return InboxResult.of(page, advice=first.told(), unread=unread).reply(head)


def _with_answers(inbox: Inbox) -> Callable[[FramedMessage], FramedMessage]:
    """Return a function that adds to a message how to answer it, or the answer that was given."""

    @cache  # a page that must be cut is framed again and again
    def answered_as(seq: int) -> int | None:
        request = inbox.bus.log.readable(seq)
        answer = None if request is None else own_answer(inbox.bus, request, inbox.agent)
        return None if answer is None else answer.seq

    def add(shown: FramedMessage) -> FramedMessage:
        is_request = shown.type.endswith(REQUEST)
        return shown.to_be_answered(answered_as(shown.seq) if is_request else None)

    return add


def _pattern(text: str) -> TypePattern:
    check_pattern(text)
    return TypePattern(text)


def _acknowledgements_for(
    inbox: Inbox, begin: Cursor, page: PageContent, pattern: TypePattern | None
) -> str:
    """Return the acknowledgements that cover the shown messages, and no others."""
    seqs = [message.seq for message in page.messages]
    if pattern is not None:
        hidden = (
            message for message in waiting(inbox, begin, None) if not pattern.matches(message.type)
        )
        first = next(hidden, None)
        if first is not None and first.seq < seqs[-1]:
            return (
                f"Messages of other types wait between these, from seq {first.seq} on, and an"
                " acknowledgement would cover them: read without type before bus_ack."
            )
    cut = page.first_cut
    whole = [seq for seq in seqs if cut is None or seq < cut]
    # A message that was requeued after parking is acknowledged by itself.
    ends = [*(seq for seq in whole if seq <= inbox.position), *whole[-1:]]
    acks = ", ".join(f"bus_ack(seq={seq})" for seq in dict.fromkeys(ends))
    advice = [f"When these are handled: {acks}."] if acks else []
    if cut is not None:
        advice.append(
            f"[{cut}] is long: read it to its end, or bus_ack(seq={cut}, skip=true) puts it aside"
            " unread and tells its sender."
        )
    return " ".join(advice)


def waiting(inbox: Inbox, begin: Cursor, pattern: TypePattern | None) -> Iterator[Message]:
    """Yield the unread messages of an inbox, from a cursor on."""
    for message in dropwhile(lambda unread: unread.seq <= begin.after, _all_waiting(inbox, begin)):
        if pattern is None or pattern.matches(message.type):
            yield message


def _all_waiting(inbox: Inbox, begin: Cursor) -> Iterator[Message]:
    position = inbox.position
    if begin.after <= position:  # requeued messages stand before it
        looked = inbox.poll(_READ)
        yield from looked
        position = max(position, looked[-1].seq) if looked else position
    after = max(begin.after, position)
    for page in pages(lambda seq: inbox.poll_after(seq, _READ), after, place=seq_of, what="mail"):
        yield from page


# bus_ack -------------------------------------------------------------------------------------


class AckArguments(Arguments):
    """The arguments of `bus_ack`."""

    seq: Annotated[int, Field(ge=1, description="The last that is handled.")]
    skip: Annotated[bool, Field(description="Put a long one aside.")] = False


class AckResult(ToolResult):
    """The result of `bus_ack`."""

    acknowledged: int
    unread: int


def _ack(session: McpSession, arguments: AckArguments) -> Reply:
    bus, agent = session.bus, session.agent()
    if arguments.skip:
        return _skip(session, agent, arguments.seq)
    with bus.transaction():  # so that nothing comes between the look and the step
        if arguments.seq <= bus.log.newest_seq():
            _refuse_what_was_not_shown(bus, agent, arguments.seq)
        position = inbox_of(bus, agent).ack(arguments.seq)
    return _acknowledged(bus, agent, position)


def _acknowledged(
    bus: LocalBus, agent: str, position: int, *, skipped: str = "", warning: str | None = None
) -> Reply:
    unread = unread_of(bus, agent)
    steps = " ".join(step for step in (skipped, READ_IT if unread else "") if step)
    record = AckResult(acknowledged=position, unread=unread, next=steps or None, warning=warning)
    return Reply(record, record.lines(f"Acknowledged up to {position}; {counted(unread)} unread."))


def _skip(session: McpSession, agent: str, seq: int) -> Reply:
    """Park a message of which the agent was shown the beginning, and tell its sender."""
    bus = session.bus
    with bus.transaction():
        inbox = inbox_of(bus, agent)
        message = next(waiting(inbox, Cursor(seq - 1), None), None)
        if message is None or message.seq != seq:
            raise Refused(f"nothing was put aside: [{seq}] does not wait for you")
        if not SeenMailNotes(bus, agent).read().has_begun(seq):
            raise Refused(
                f"nothing was put aside: you were not shown the beginning of [{seq}];"
                " bus_inbox shows what waits"
            )
        _refuse_what_was_not_shown(bus, agent, seq, besides=seq)
        position = inbox.park(message, f"{agent} read its beginning, and skipped it")
        warning = _notify_sender(session, message, agent)
    outcome = "its sender was told" if warning is None else "its sender was not told"
    skipped = f"[{seq}] is put aside, and {outcome}; a person can have it delivered again."
    return _acknowledged(bus, agent, position, skipped=skipped, warning=warning)


def _notify_sender(session: McpSession, message: Message, agent: str) -> str | None:
    """Tell the sender of a message that it was put aside; return why not, or None."""
    fact = f"{agent} read the beginning of your message {message.seq}, and put it aside unread: it"
    text = f"{fact} is too long. Send a short one, or the path of a file."
    try:
        with session.bus.transaction():
            session.bus.publish(
                SKIPPED,
                {"seq": message.seq, "id": message.id, "text": text},
                from_agent=agent,
                to_agent=message.from_agent,
                correlation_id=message.conversation,
            )
    except LimitReached as error:  # else a sender with a full inbox could not be skipped
        return str(error)
    return None


def _refuse_what_was_not_shown(bus: LocalBus, agent: str, seq: int, besides: int = 0) -> None:
    unseen = UnseenMail(bus, agent, seq, _NAMED + 1, besides=besides)
    if not unseen.first:
        return
    named_ones = [f"[{n}] {named(type)} from {named(by)}" for n, type, by in unseen.first]
    listed = ", ".join(named_ones[:_NAMED]) + (", …" if len(named_ones) > _NAMED else "")
    or_else = "" if unseen.seen is None else f"; bus_ack(seq={unseen.seen}) covers what was shown"
    raise Refused(
        f"nothing was acknowledged: you were not shown all of {listed};"
        f" bus_inbox shows what waits{or_else}"
    )


TOOLS = (
    Tool(
        "bus_inbox",
        "Read what waits for you. Changes nothing: bus_ack does.",
        InboxArguments,
        InboxResult,
        _inbox,
        only_reads=True,
        spells=(FramedMessage,),
    ),
    Tool("bus_ack", "Acknowledge a message and all before it.", AckArguments, AckResult, _ack),
)
