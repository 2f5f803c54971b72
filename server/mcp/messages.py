"""Tools that send and read messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import dropwhile
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ...bus import Bus
from ...schema import (
    ABSENT,
    Draft,
    InvalidInput,
    Message,
    NotFound,
    TypePattern,
    parse_priority,
)
from ...subscribers import Inbox, Pace, find_message
from .frames import NOTICE, FramedMessage, shown
from .pages import MAX_PAGE, PAGE, Cursor, next_line, page
from .session import Session
from .tool import Arguments, Reply, Tool

#: The longest that a tool waits, in seconds: clients give a call up after 30.
MAX_WAIT_S = 25

#: How many unread messages are counted: more tell an agent nothing more.
MAX_COUNTED = 100

#: How many messages are read at a time.
_READ = PAGE + 1

Limit = Annotated[int, Field(ge=1, le=MAX_PAGE)]
Next = Annotated[str | None, Field(description="A next_cursor.")]
Wait = Annotated[float, Field(ge=0, le=MAX_WAIT_S, description="Seconds to wait.")]
Type = Annotated[str, Field(description="Dotted words, like review.done.")]
Conversation = Annotated[str, Field(description="Its id, or the seq or id of any message in it.")]
Body = Annotated[Any, Field(description="Text or any JSON.")]


class Page(BaseModel):
    """Messages, and how to go on."""

    messages: list[FramedMessage]
    next_cursor: str | None = None

    def text(self, head: str) -> str:
        """Return it for reading, under a line of the bus."""
        if not self.messages:
            return head
        framed = "\n".join(each.text() for each in self.messages)
        return f"{head} {NOTICE}\n{framed}{next_line(self.next_cursor)}"


# bus_send ------------------------------------------------------------------------------------


class Send(Arguments):
    """What `bus_send` takes."""

    type: Type
    body: Body = None
    to: Annotated[
        str | None, Field(description="Agent. Default: all, or the sender of reply_to.")
    ] = None
    reply_to: Annotated[str | None, Field(description="seq or id that this answers.")] = None
    priority: Literal["interactive", "normal", "background"] = "normal"
    id: Annotated[str | None, Field(description="Sending it twice stores it once.")] = None


class Sent(BaseModel):
    """What `bus_send` gives."""

    seq: int
    id: str
    to: str | None = None
    conversation: str
    duplicate: bool = False
    warning: str | None = None


def _send(session: Session, given: Send) -> Reply:
    bus, agent = session.bus, session.agent()
    parent = None if given.reply_to is None else message_of(bus, given.reply_to)
    to = given.to or (parent.from_agent if parent else None)
    warning = stranger(bus, to)
    draft = Draft(
        given.type,
        given.body if "body" in given.model_fields_set else ABSENT,
        from_agent=agent,
        to_agent=to,
        in_reply_to=parent.id if parent else None,
        priority=parse_priority(given.priority),
        id=given.id,
    )
    receipt = bus.log.append([draft])[0]
    stored = bus.get(receipt.seq)
    sent = Sent(
        seq=receipt.seq,
        id=receipt.id,
        to=to,
        conversation=stored.conversation if stored else receipt.id,
        duplicate=receipt.duplicate,
        warning=warning,
    )
    done = "was sent before" if sent.duplicate else "sent"
    note = f" Warning: {warning}." if warning else ""
    return Reply(sent, f"{done}: seq {sent.seq}, to {shown(to) if to else 'all'}.{note}")


def stranger(bus: Bus, to: str | None) -> str | None:
    """Return a warning if the bus has never seen a recipient."""
    unknown = None if to is None else bus.agents.stranger(to, repeat=True)
    return None if unknown is None else str(unknown)


def message_of(bus: Bus, key: str) -> Message:
    """Return a message by its seq or id.

    Raises:
        NotFound: there is none.
    """
    message = find_message(bus, key)
    if message is None:
        raise NotFound(f"there is no message {key[:80]!a}: give its seq or its id")
    return message


# bus_inbox -----------------------------------------------------------------------------------


class Read(Arguments):
    """What `bus_inbox` takes."""

    type: Annotated[str | None, Field(description="Pattern, like task.*")] = None
    wait_s: Wait = 0
    limit: Limit = PAGE
    cursor: Next = None


class InboxPage(Page):
    """What `bus_inbox` gives."""

    unread: int


def _inbox(session: Session, given: Read) -> Reply:
    bus, agent = session.bus, session.agent()
    begin = Cursor.parse(given.cursor)
    pattern = None if given.type is None else TypePattern(given.type)
    inbox = Inbox(bus, agent, own_broadcasts=False)

    def look() -> tuple[list[FramedMessage], str | None]:
        return page(waiting(inbox, begin, pattern), begin, given.limit)

    found, cursor = look()
    if not found and given.wait_s:
        found, cursor = _wait(bus, look, given.wait_s)
    unread = inbox.unread(MAX_COUNTED)
    record = InboxPage(messages=found, next_cursor=cursor, unread=unread)
    if not found:
        return Reply(record, f"Nothing waits for {agent}.")
    last = found[-1].seq
    head = f"{counted(unread)} unread for {agent}. When these are handled: bus_ack(seq={last})."
    return Reply(record, record.text(head))


def _wait(
    bus: Bus, look: Callable[[], tuple[list[FramedMessage], str | None]], wait_s: float
) -> tuple[list[FramedMessage], str | None]:
    """Look again whenever the bell rings, and now and then, until there is something."""
    deadline, pace = time.monotonic() + wait_s, Pace()
    with bus.listen() as listener:  # before the look: what comes after it is heard
        while True:
            found, cursor = look()
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found, cursor
            listener.wait(min(pace.next(), left))


def counted(unread: int) -> str:
    """Return how many wait, for reading."""
    return f"{unread} or more" if unread == MAX_COUNTED else str(unread)


def waiting(inbox: Inbox, begin: Cursor, pattern: TypePattern | None) -> Iterator[Message]:
    """Yield what waits in an inbox, from a cursor on, without the agent's own broadcasts."""
    for message in dropwhile(lambda each: each.seq <= begin.after, _all_waiting(inbox, begin)):
        is_own = message.to_agent is None and message.from_agent == inbox.agent
        if not is_own and (pattern is None or pattern.matches(message.type)):
            yield message


def _all_waiting(inbox: Inbox, begin: Cursor) -> Iterator[Message]:
    position = inbox.position
    if begin.after <= position:  # requeued messages stand before it
        looked = Inbox(inbox.bus, inbox.agent).poll(_READ)
        yield from looked
        position = max(position, looked[-1].seq) if looked else position
    after = max(begin.after, position)
    while found := inbox.bus.log.addressed_to(inbox.agent, after, _READ):
        after = found[-1].seq
        yield from found


# bus_ack -------------------------------------------------------------------------------------


class Ack(Arguments):
    """What `bus_ack` takes."""

    seq: Annotated[int, Field(ge=1, description="The last that is handled.")]


class Acked(BaseModel):
    """What `bus_ack` gives."""

    acknowledged: int
    unread: int


def _ack(session: Session, given: Ack) -> Reply:
    inbox = Inbox(session.bus, session.agent(), own_broadcasts=False)
    position = inbox.ack(given.seq)
    record = Acked(acknowledged=position, unread=inbox.unread(MAX_COUNTED))
    return Reply(record, f"Acknowledged up to {position}; {counted(record.unread)} unread.")


# bus_thread ----------------------------------------------------------------------------------


class Thread(Arguments):
    """What `bus_thread` takes."""

    conversation: Conversation
    limit: Limit = PAGE
    cursor: Next = None


def _thread(session: Session, given: Thread) -> Reply:
    found, cursor = thread(session.bus, given.conversation, given.limit, given.cursor)
    record = Page(messages=found, next_cursor=cursor)
    return Reply(record, record.text(f"{len(found)} messages, oldest first."))


def thread(
    bus: Bus, key: str, limit: int, cursor: str | None
) -> tuple[list[FramedMessage], str | None]:
    """Return a page of a conversation.

    Raises:
        NotFound: there is no such conversation.
    """
    begin = Cursor.parse(cursor)
    conversation = conversation_of(bus, key)
    return page(bus.read(conversation=conversation, from_seq=begin.after + 1), begin, limit)


def conversation_of(bus: Bus, key: str) -> str:
    """Return the conversation that an agent means.

    Raises:
        NotFound: there is none.
    """
    if next(bus.read(conversation=key), None) is not None:
        return key
    return message_of(bus, key).conversation


# bus_search ----------------------------------------------------------------------------------


class Search(Arguments):
    """What `bus_search` takes."""

    words: Annotated[str, Field(description='All must be there; "a phrase", begin*')]
    type: Annotated[str | None, Field(description="Pattern, like task.*")] = None
    agent: Annotated[str | None, Field(description="From or to it.")] = None
    limit: Limit = PAGE
    cursor: Next = None


#: How many hits can be paged through: each page asks for those before it, too.
_MAX_HITS = 1000


def _search(session: Session, given: Search) -> Reply:
    start = Cursor.parse(given.cursor).after
    wanted = min(start + given.limit, _MAX_HITS)
    hits = session.bus.search(
        *_words(given.words), type=given.type, agent=given.agent, limit=wanted + 1
    )
    found = [FramedMessage.of(hit.message, hit.snippet, "snippet") for hit in hits[start:wanted]]
    more = len(hits) > wanted and wanted < _MAX_HITS
    record = Page(messages=found, next_cursor=str(wanted) if more else None)
    head = f"{len(found)} found, the best first." if found else "Nothing found."
    return Reply(record, record.text(head))


def _words(text: str) -> list[str]:
    """Split what is searched for into words and phrases in quotes."""
    parts = text.split('"')
    if len(parts) % 2 == 0:
        raise InvalidInput("a phrase has no closing quote")
    words = [part.split() if index % 2 == 0 else [part] for index, part in enumerate(parts)]
    return [word for group in words for word in group]


TOOLS = (
    Tool("bus_send", "Send a message to an agent or to all.", Send, Sent, _send),
    Tool(
        "bus_inbox",
        "Read what waits for you. Changes nothing: bus_ack does.",
        Read,
        InboxPage,
        _inbox,
        only_reads=True,
        waits=True,
    ),
    Tool("bus_ack", "Acknowledge a message and all before it.", Ack, Acked, _ack),
    Tool(
        "bus_thread",
        "Read a conversation.",
        Thread,
        Page,
        _thread,
        scope="messages:ro",
        only_reads=True,
    ),
    Tool(
        "bus_search",
        "Search all messages by words.",
        Search,
        Page,
        _search,
        scope="messages:ro",
        only_reads=True,
    ),
)
