"""Tools that send messages, and find them again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ....bus import tracing
from ....bus.bus import Bus
from ....bus.own_answers import first_answered_before
from ....bus.search.search import Found
from ....schema.errors import InvalidInput, Refused
from ....schema.message.acted_types import not_acted_upon
from ....schema.message.draft import ABSENT, Draft
from ....schema.message.message import Message
from ....schema.message.patterns import check_pattern
from ....schema.message.priority import parse_priority
from ....subscribers.overview.read_receipts import read_receipts
from ...records import Recipients
from ..session import Session
from .common import (
    Conversation,
    Limit,
    Next,
    Page,
    Payload,
    Type,
    conversation_of,
    message_of,
    note_shown,
    stranger,
)
from .pages import MAX_PAGE, PAGE, Cursor, Paged, Pager, by_the_same_call, fitted
from .quoted_messages import FramedMessage, body_of, exact, named, text_of
from .tool import Arguments, Reply, Result, Tool

# bus_send ------------------------------------------------------------------------------------


#: How many recipients of a message are named with their seqs.
MAX_SENT = 20


class Send(Arguments):
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


class Sent(Result):
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


def _send(session: Session, given: Send) -> Reply:
    bus, agent = session.bus, session.agent()
    session.principal.check_may_send(given.type)
    parent = None if given.in_reply_to is None else message_of(bus, given.in_reply_to)
    draft = Draft(
        given.type,
        given.payload if "payload" in given.model_fields_set else ABSENT,
        from_agent=agent,
        in_reply_to=parent.id if parent else None,
        priority=parse_priority(given.priority),
        id=given.id,
        headers=tracing.child_trace(parent.headers) if parent else None,
    )
    to = parent.from_agent if given.to is None and parent else given.to
    drafts = [draft] if to is None else draft.to_each([to] if isinstance(to, str) else to)
    warning = stranger(bus, *(each.to_agent for each in drafts), me=agent)
    warning = not_acted_upon(given.type) or warning
    with bus.transaction():  # so that no other answer comes between the look and this one
        if not given.again:
            _refuse_second_answer(bus, drafts, parent)
        receipts = bus.log.append(drafts)
    stored = bus.get(receipts[0].seq)
    pairs = zip(drafts, receipts, strict=True)
    seqs = {str(each.to_agent): receipt.seq for each, receipt in pairs}
    within = stored.conversation if stored and stored.conversation != stored.id else None

    def reply(number: int) -> Reply:
        left = len(seqs) - number
        not_named = f"it went to {left} more, who are not named here" if left else None
        sent = Sent(
            seq=receipts[0].seq,
            id=receipts[0].id,
            to=drafts[0].to_agent if len(drafts) == 1 else None,
            seqs=dict(islice(seqs.items(), number)) if len(drafts) > 1 else None,
            conversation=within,
            duplicate=all(receipt.duplicate for receipt in receipts),
            warning="; ".join(each for each in (warning, not_named) if each) or None,
        )
        return Reply(sent, sent.text())

    return fitted(min(len(seqs), MAX_SENT), reply, session.room)[0]


def _refuse_second_answer(bus: Bus, drafts: Sequence[Draft], parent: Message | None) -> None:
    again = first_answered_before(bus, drafts)
    if again is not None and parent is not None:
        raise Refused(
            f"nothing was sent: {again}. If all of it is done, bus_ack(seq={parent.seq});"
            " another part of the answer is sent with again=true"
        )


# bus_thread ----------------------------------------------------------------------------------


class Thread(Arguments):
    """The arguments of `bus_thread`."""

    conversation: Conversation
    limit: Limit = PAGE
    cursor: Next = None


class ThreadPage(Page):
    """The result of `bus_thread`."""

    conversation: str


def _thread(session: Session, given: Thread) -> Reply:
    reply, page = thread(session, given.conversation, given.limit, given.cursor)
    note_shown(session, page.spans)
    return reply


def thread(session: Session, key: str, limit: int, cursor: str | None) -> tuple[Reply, Paged]:
    """Return a page of a conversation, as a result and by itself.

    Raises:
        NotFound: there is no such conversation.
    """
    bus, begin = session.bus, Cursor.parse(cursor)
    conversation = conversation_of(bus, key)

    def reply(page: Paged) -> Reply:
        head = f"{len(page.messages)} messages of {exact(conversation)}, oldest first."
        return ThreadPage.of(page, conversation=conversation).reply(head)

    pager = Pager(session.room, reply, by_the_same_call, FramedMessage.within)
    found = bus.read(conversation=conversation, after_seq=begin.after)
    return pager.page(found, begin, limit)


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
    if given.type is not None:
        check_pattern(given.type)
    hits = session.bus.search(
        *_words(given.words), type=given.type, agent=given.agent, limit=wanted + 1
    )
    found = [FramedMessage.of(hit.message, hit.snippet, "snippet") for hit in hits[start:wanted]]

    def reply(number: int) -> Reply:
        end = start + number
        more = end < len(hits) and end < _MAX_HITS
        head = f"{number} found, the best first." if number else "Nothing found."
        return Page.of(Paged(found[:number], str(end) if more else None)).reply(head)

    made, number = fitted(len(found), reply, session.room)
    whole = [(hit.message.seq, 0, None) for hit in hits[start : start + number] if _is_whole(hit)]
    note_shown(session, whole)
    return made


# bus_receipts --------------------------------------------------------------------------------


class Which(Arguments):
    """The arguments of `bus_receipts`."""

    seq: Annotated[int, Field(ge=1)]


class ReadBy(BaseModel):
    """The state of a message at one reader."""

    kind: str
    name: str
    state: str


class Receipts(Result):
    """The result of `bus_receipts`."""

    receipts: list[ReadBy]


def _receipts(session: Session, given: Which) -> Reply:
    found = read_receipts(session.bus, str(given.seq))
    readers = [ReadBy(**each.record()) for each in found[:MAX_PAGE]]

    def reply(number: int) -> Reply:
        left = len(found) - number
        record = Receipts(
            receipts=readers[:number], warning=f"{left} more are left out" if left else None
        )
        states = "; ".join(
            f"{each.kind} {named(each.name)}: {each.state}" for each in record.receipts
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


TOOLS = (
    Tool(
        "bus_receipts",
        "See who acknowledged a message.",
        Which,
        Receipts,
        _receipts,
        only_reads=True,
    ),
    Tool("bus_send", "Send a message to an agent or to all.", Send, Sent, _send),
    Tool(
        "bus_thread",
        "Read a conversation.",
        Thread,
        ThreadPage,
        _thread,
        only_reads=True,
    ),
    Tool(
        "bus_search",
        "Search all messages by words.",
        Search,
        Page,
        _search,
        only_reads=True,
    ),
)
