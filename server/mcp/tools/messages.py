"""Tools that send messages, and find them again."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ....bus import tracing
from ....bus.bus import Bus
from ....schema.errors import InvalidInput
from ....schema.message.draft import ABSENT, Draft
from ....schema.message.priority import parse_priority
from ...access.principals import Scope
from ..session import Session
from .common import (
    Body,
    Conversation,
    Limit,
    Next,
    Page,
    Type,
    conversation_of,
    message_of,
    stranger,
)
from .pages import PAGE, Cursor, page
from .quoted_messages import FramedMessage, named
from .tool import Arguments, Reply, Tool

# bus_send ------------------------------------------------------------------------------------


class Send(Arguments):
    """The arguments of `bus_send`."""

    type: Type
    body: Body = None
    to: Annotated[
        str | None, Field(description="Agent. Left out: everyone, or the sender of reply_to.")
    ] = None
    reply_to: Annotated[str | None, Field(description="seq or id that this answers.")] = None
    priority: Literal["interactive", "normal", "background"] = "normal"
    id: Annotated[str | None, Field(description="Sending it twice stores it once.")] = None


class Sent(BaseModel):
    """The result of `bus_send`."""

    seq: int
    id: str
    to: str | None = None
    conversation: str
    duplicate: bool = False
    warning: str | None = None


def _send(session: Session, given: Send) -> Reply:
    bus, agent = session.bus, session.agent()
    session.principal.check_may_send(given.type)
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
        headers=tracing.child_trace(parent.headers) if parent else None,
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
    return Reply(sent, f"{done}: seq {sent.seq}, to {named(to) if to else 'all'}.{note}")


# bus_thread ----------------------------------------------------------------------------------


class Thread(Arguments):
    """The arguments of `bus_thread`."""

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
    return page(bus.read(conversation=conversation, after_seq=begin.after), begin, limit)


# bus_search ----------------------------------------------------------------------------------


class Search(Arguments):
    """The arguments of `bus_search`."""

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
    """Split a search text into words and quoted phrases."""
    parts = text.split('"')
    if len(parts) % 2 == 0:
        raise InvalidInput("a phrase has no closing quote")
    words = [part.split() if index % 2 == 0 else [part] for index, part in enumerate(parts)]
    return [word for group in words for word in group]


TOOLS = (
    Tool("bus_send", "Send a message to an agent or to all.", Send, Sent, _send),
    Tool(
        "bus_thread",
        "Read a conversation.",
        Thread,
        Page,
        _thread,
        scope=Scope.MESSAGES_RO,
        only_reads=True,
    ),
    Tool(
        "bus_search",
        "Search all messages by words.",
        Search,
        Page,
        _search,
        scope=Scope.MESSAGES_RO,
        only_reads=True,
    ),
)
