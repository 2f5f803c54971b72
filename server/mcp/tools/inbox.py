"""Tools that read an agent's inbox, and acknowledge messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile
from typing import Annotated

from pydantic import Field

from ....bus.bus import Bus
from ....schema.errors import Refused
from ....schema.message.message import Message
from ....schema.message.patterns import TypePattern, check_pattern
from ....schema.paging import pages, seq_of
from ....subscribers.conversations.own_answers import own_answer
from ....subscribers.conversations.reply_types import REQUEST
from ....subscribers.inboxes.inbox import Inbox
from ....subscribers.inboxes.seen_mail import Unseen
from ....subscribers.inboxes.session_inbox import inbox_of
from ....subscribers.overview.first_look import FirstLook
from ..session import Session
from .common import READ_IT, Limit, Next, Page, Wait, counted, note_shown, unread_of, wait_for
from .pages import PAGE, Cursor, page
from .quoted_messages import FramedMessage, named
from .tool import Arguments, Reply, Result, Tool

#: How many messages are read at a time.
_READ = PAGE + 1

#: How many messages a refusal names.
_NAMED = 3

# bus_inbox -----------------------------------------------------------------------------------


class Read(Arguments):
    """The arguments of `bus_inbox`."""

    type: Annotated[str | None, Field(description="Pattern, like task.*; hides others.")] = None
    wait_s: Wait = 0
    limit: Limit = PAGE
    with_work: Annotated[bool, Field(description="Queued jobs too.")] = False
    cursor: Next = None


class InboxPage(Page):
    """The result of `bus_inbox`."""

    unread: int


def _inbox(session: Session, given: Read) -> Reply:
    begin = Cursor.parse(given.cursor)
    pattern = None if given.type is None else _pattern(given.type)

    def look() -> tuple[FirstLook, list[FramedMessage], str | None]:
        # At each look, since a base name that has become free is claimed by that.
        first = FirstLook(
            session.bus, session.agent(), with_work=given.with_work, cursor=given.cursor
        )
        found, cursor = page(waiting(first.inbox, begin, pattern), begin, given.limit)
        return first, [_with_answer(first.inbox, each) for each in found], cursor

    first, found, cursor = wait_for(session, look, lambda seen: seen[1], given.wait_s)
    inbox = first.inbox
    unread = unread_of(session.bus, inbox.agent)
    if not found:
        more = f", but {counted(unread)} of other types" if pattern and unread else ""
        head = f"Nothing waits for {inbox.agent}{more}."
        nothing = InboxPage.of(found, cursor, advice=first.told(), unread=unread)
        return Reply(nothing, nothing.lines(head))
    # Where a type hides mail, the hook after this tool may still have to show that.
    upto = 0 if pattern else found[-1].seq
    older = first.first_seq if given.cursor in (None, "0") else None
    note_shown(session, found, begin, cursor, upto=upto, older=older)
    acks = _what_to_acknowledge(inbox, begin, found, cursor, pattern)
    advice = " ".join(each for each in (acks, first.told()) if each)
    record = InboxPage.of(found, cursor, advice=advice, unread=unread)
    return Reply(record, record.text(f"{counted(unread)} unread for {inbox.agent}."))


def _with_answer(inbox: Inbox, shown: FramedMessage) -> FramedMessage:
    """Return a message with how it is answered, or as what its reader has answered it."""
    request = inbox.bus.log.readable(shown.seq) if shown.type.endswith(REQUEST) else None
    answer = None if request is None else own_answer(inbox.bus, request, inbox.agent)
    return shown.to_be_answered(None if answer is None else answer.seq)


def _pattern(text: str) -> TypePattern:
    check_pattern(text)
    return TypePattern(text)


def _what_to_acknowledge(
    inbox: Inbox,
    begin: Cursor,
    found: list[FramedMessage],
    cursor: str | None,
    pattern: TypePattern | None,
) -> str:
    """Return the acknowledgements that cover the shown messages, and no others."""
    if pattern is not None:
        hidden = (each for each in waiting(inbox, begin, None) if not pattern.matches(each.type))
        first = next(hidden, None)
        if first is not None and first.seq < found[-1].seq:
            return (
                f"Messages of other types wait between these, from seq {first.seq} on, and an"
                " acknowledgement would cover them: read without type before bus_ack."
            )
    # A message that was requeued after parking is acknowledged by itself.
    ends = [*(each.seq for each in found if each.seq <= inbox.position), found[-1].seq]
    acks = ", ".join(f"bus_ack(seq={seq})" for seq in dict.fromkeys(ends))
    rest = Cursor.parse(cursor).skip
    when = "When the rest of it is handled, too" if rest else "When these are handled"
    return f"{when}: {acks}."


def waiting(inbox: Inbox, begin: Cursor, pattern: TypePattern | None) -> Iterator[Message]:
    """Yield the unread messages of an inbox, from a cursor on."""
    for message in dropwhile(lambda each: each.seq <= begin.after, _all_waiting(inbox, begin)):
        if pattern is None or pattern.matches(message.type):
            yield message


def _all_waiting(inbox: Inbox, begin: Cursor) -> Iterator[Message]:
    position = inbox.position
    if begin.after <= position:  # requeued messages stand before it
        looked = inbox.poll(_READ)
        yield from looked
        position = max(position, looked[-1].seq) if looked else position
    after = max(begin.after, position)
    for found in pages(lambda seq: inbox.poll_after(seq, _READ), after, place=seq_of, what="mail"):
        yield from found


# bus_ack -------------------------------------------------------------------------------------


class Ack(Arguments):
    """The arguments of `bus_ack`."""

    seq: Annotated[int, Field(ge=1, description="The last that is handled.")]


class Acked(Result):
    """The result of `bus_ack`."""

    acknowledged: int
    unread: int


def _ack(session: Session, given: Ack) -> Reply:
    bus, agent = session.bus, session.agent()
    with bus.transaction():  # so that nothing comes between the look and the step
        if given.seq <= bus.log.newest_seq():
            _refuse_what_was_not_shown(bus, agent, given.seq)
        position = inbox_of(bus, agent).ack(given.seq)
    unread = unread_of(bus, agent)
    record = Acked(acknowledged=position, unread=unread, next=READ_IT if unread else None)
    return Reply(record, record.lines(f"Acknowledged up to {position}; {counted(unread)} unread."))


def _refuse_what_was_not_shown(bus: Bus, agent: str, seq: int) -> None:
    unseen = Unseen(bus, agent, seq, _NAMED + 1)
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
        Read,
        InboxPage,
        _inbox,
        only_reads=True,
        spells=(FramedMessage,),
    ),
    Tool("bus_ack", "Acknowledge a message and all before it.", Ack, Acked, _ack),
)
