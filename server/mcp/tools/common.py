"""Arguments, results and look-ups that several tools share."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeVar

import orjson
from anyio.from_thread import check_cancelled
from pydantic import Field

from ....bus import doorbell
from ....bus.heartbeats import Liveness
from ....bus.local_bus import LocalBus
from ....bus.log.log import find_message
from ....schema.errors import InvalidInput, NotFound
from ....schema.message.message import Message
from ....subscribers.inboxes.seen_mail import SeenMailNotes
from ....subscribers.inboxes.session import inbox_of
from ..session import McpSession, ResultRoom, as_sent
from .tool import NOTICE, FramedMessage, Reply, ToolResult, body_of, named, shown, text_of

# Results of a bounded size: pages of messages, and the cursor that leads to the next one.

#: How many messages a page has unless the agent says so, and at most.
PAGE, MAX_PAGE = 20, 100

#: How much of a message that is too long for a page is shown at first, in characters.
HEAD_CHARS = 1_000

#: The room for the words of the bus on a page, in bytes; where they are more, bodies get less.
_FRAME_BYTES = 1_000

#: How many characters of bodies are read for a page: a bound of its time, for long messages.
_READ_CHARS = 4_000_000

_CURSOR = re.compile(r"(\d{1,18})(?:\+(\d{1,9}))?")

#: A displayed part of a message: its seq, and from which character to which; None: to the end.
Span = tuple[int, int, int | None]


@dataclass(frozen=True)
class Cursor:
    """The beginning of a page: after a message, or within one that was too long for a page.

    Attributes:
        after: the seq after which it begins.
        skip: how many characters of the body of the message that comes right after that seq were
            handed over already.
    """

    after: int = 0
    skip: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Cursor:
        """Parse the text of a cursor; None is the beginning.

        Raises:
            InvalidInput: it is something else.
        """
        if text is None:
            return cls()
        match = _CURSOR.fullmatch(text)
        if match is None:
            raise InvalidInput(f"cursor {text[:40]!a} is invalid: pass next_cursor back unchanged")
        return cls(int(match[1]), int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.after}+{self.skip}" if self.skip else str(self.after)


@dataclass(frozen=True)
class PageContent:
    """The messages of a page.

    Attributes:
        messages: framed.
        cursor: the cursor to what follows, or None at the end.
        spans: the parts of their bodies that are on it.
    """

    messages: list[FramedMessage] = field(default_factory=list)
    cursor: str | None = None
    spans: list[Span] = field(default_factory=list)

    @property
    def first_cut(self) -> int | None:
        """The seq of the first message that is not on it to its end, or None."""
        return next((seq for seq, _, end in self.spans if end is not None), None)


@dataclass(frozen=True)
class Pager:
    """Makes pages that fit into the room of a result.

    Attributes:
        room: the room.
        make: makes the result of a page.
        read_on: returns what reads on in a message that is cut, given its seq and the cursor.
        frame: adds to a framed message.
    """

    room: ResultRoom
    make: Callable[[PageContent], Reply]
    read_on: Callable[[int, str], str]
    frame: Callable[[FramedMessage], FramedMessage] = lambda message: message

    def page(
        self, messages: Iterable[Message], begin: Cursor, limit: int
    ) -> tuple[Reply, PageContent]:
        """Return the result with the first messages, and the page that is in it.

        A message that fits is never cut. Of one that is longer than a page its head is shown, and
        the page goes on behind it; a cursor into it shows as much of the rest as there is room.

        Args:
            messages: those after the cursor, in order; one more than `limit` is read.
            begin: the cursor.
            limit: how many at most.
        """
        read, has_more = _read(messages, limit)
        bytes_left = self.room.bytes - _FRAME_BYTES
        while True:
            page = self._filled(read, has_more, begin, bytes_left)
            reply = self.make(page)
            excess = self.room.size(reply.text, reply.record) - self.room.bytes
            if excess <= 0 or bytes_left <= 0:
                return reply, page
            bytes_left -= max(excess, 100)

    def _filled(
        self, read: Sequence[_LoadedMessage], has_more: bool, begin: Cursor, room: int
    ) -> PageContent:
        framed: list[FramedMessage] = []
        spans: list[Span] = []
        after, bytes_left = begin.after, room
        for entry in read:
            seq = entry.message.seq
            skip = begin.skip if seq == begin.after + 1 else 0
            shown, end, cost = self._shown(entry, skip, bytes_left, room)
            if framed and cost > bytes_left:
                break
            framed.append(shown)
            spans.append((seq, skip, end))
            if skip and end is not None:
                return PageContent(framed, str(Cursor(seq - 1, end)), spans)
            after, bytes_left = seq, bytes_left - cost
        goes_on = has_more or len(read) > len(framed)
        return PageContent(framed, str(Cursor(after)) if goes_on else None, spans)

    def _shown(
        self, entry: _LoadedMessage, skip: int, bytes_left: int, room: int
    ) -> tuple[FramedMessage, int | None, int]:
        """Return a message, up to which character (None: all of it), and the bytes that it takes.

        It is cut only if a page of its own would not hold it.
        """
        if len(entry.text) - skip <= room:
            whole = self._whole(entry, skip)
            cost = self._cost(whole)
            if cost <= room:
                return whole, None, cost
        most = min(len(entry.text) - skip - 1, room, room if skip else HEAD_CHARS)
        number = largest_fitting(
            lambda n: (
                self._cost(self._part(entry, skip, skip + n)) <= (bytes_left if skip else room)
            ),
            most,
        )
        cut = self._part(entry, skip, skip + number)
        return cut, skip + number, self._cost(cut)

    def _whole(self, entry: _LoadedMessage, skip: int) -> FramedMessage:
        if skip:
            return self._part(entry, skip, len(entry.text))
        return self.frame(FramedMessage.of(entry.message, entry.body))

    def _part(self, entry: _LoadedMessage, begin: int, end: int) -> FramedMessage:
        part = f"characters {begin + 1} to {end} of {len(entry.text)}"
        shown = FramedMessage.of(entry.message, entry.text[begin:end], part)
        if end < len(entry.text):
            seq = entry.message.seq
            shown.more = self.read_on(seq, str(Cursor(seq - 1, end)))
        return self.frame(shown)

    def _cost(self, shown: FramedMessage) -> int:
        """Return the bytes that a message adds to a result."""
        text = "" if self.room.reads_both else shown.text()
        return len(orjson.dumps(text)) + len(orjson.dumps(as_sent(shown)))


@dataclass(frozen=True)
class _LoadedMessage:
    """A message that was read, its body, and that as text."""

    message: Message
    body: object
    text: str


def _read(messages: Iterable[Message], limit: int) -> tuple[list[_LoadedMessage], bool]:
    """Return the first messages, and whether there are others behind them."""
    read: list[_LoadedMessage] = []
    chars = 0
    for message in messages:
        if len(read) == limit or chars > _READ_CHARS:
            return read, True
        body = body_of(message)
        read.append(_LoadedMessage(message, body, text_of(body)))
        chars += len(read[-1].text)
    return read, False


def largest_fitting(fits: Callable[[int], bool], count: int) -> int:
    """Return the largest number up to `count` that fits; at least 1. All smaller ones must fit."""
    return max(1, bisect_left(range(1, count + 1), True, key=lambda number: not fits(number)))


def fitted(count: int, make: Callable[[int], Reply], room: ResultRoom) -> tuple[Reply, int]:
    """Return the longest result that fits, and the number of entries in it."""

    def fits(number: int) -> bool:
        reply = make(number)
        return room.size(reply.text, reply.record) <= room.bytes

    number = count if count == 0 or fits(count) else largest_fitting(fits, count)
    return make(number), number


def next_page(cursor: str | None) -> str | None:
    """Return the hint that leads to the next page, or None at the end."""
    return None if cursor is None else f"There is more: call again with cursor {cursor!r}."


def by_the_same_call(seq: int, cursor: str) -> str:
    """Return the hint how to read on in a message, for tools with a cursor."""
    return f"[{seq}] goes on: call again with cursor {cursor!r}."


def by_thread(seq: int, cursor: str) -> str:
    """Return the hint how to read on in a message, for other tools."""
    return f"The rest: bus_thread(conversation={str(seq)!r}, cursor={cursor!r})."


#: The longest that a tool waits, in seconds: clients give a call up after 30.
MAX_WAIT_S = 25

#: How long a call may go on that was cancelled, in seconds.
_NOTICE_S = 0.5

#: How many unread messages are counted: the exact number of more is of no use.
MAX_COUNTED = 100

#: The advice to an agent with unread mail.
READ_IT = "bus_inbox shows what waits."

#: Names of nothing: a client that writes one for an absent recipient means no agent of that name.
_NOBODY = frozenset({"null", "none", "nil", "undefined"})

#: How many agents a warning names: of those that are there, and of those that were never seen.
_NAMED = 5

Limit = Annotated[int, Field(ge=1, le=MAX_PAGE)]
Next = str | None
Wait = Annotated[float, Field(ge=0, le=MAX_WAIT_S, description="Seconds to wait.")]
Type = Annotated[str, Field(description="Dotted words, like review.done.")]
Conversation = Annotated[str, Field(description="Its id, or the seq or id of any message in it.")]
Payload = Annotated[Any, Field(description="Text or any JSON.")]

T = TypeVar("T")


class MessagesResult(ToolResult):
    """Messages, and how to go on."""

    messages: list[FramedMessage]
    next_cursor: str | None = None

    @classmethod
    def of(cls, page: PageContent, *, advice: str | None = None, **facts: Any) -> Self:
        """Return a page, with the advice for what is on it, and what leads to the next one."""
        steps = " ".join(step for step in (advice, next_page(page.cursor)) if step)
        notice = NOTICE if page.messages else None
        return cls(
            messages=page.messages,
            next_cursor=page.cursor,
            next=steps or None,
            notice=notice,
            **facts,
        )

    def reply(self, head: str) -> Reply:
        """Return the result, with a text under a head line of the bus."""
        return Reply(self, self.lines(head, *(message.text() for message in self.messages)))


def wait_for(
    session: McpSession, look: Callable[[], T], is_there: Callable[[T], object], wait_s: float
) -> T:
    """Repeat a look until it finds something or the time is over; a cancelled call ends.

    Args:
        session: the session of the call.
        look: looks.
        is_there: whether the result of a look ends the wait.
        wait_s: how long to wait, in seconds; 0 looks once.

    Returns:
        What was seen last.
    """
    if not wait_s:
        return look()

    def look_if_wanted() -> T:
        check_cancelled()  # else its thread would stay occupied until the time is over
        return look()

    return doorbell.wait_for(
        session.bus,
        look_if_wanted,
        lambda outcome: is_there(outcome) or session.home.is_ending,
        timeout_s=wait_s,
        recheck_s=doorbell.Pace(idle_s=_NOTICE_S).next,
    )


def note_shown(
    session: McpSession, spans: Sequence[Span], *, upto: int = 0, older: int | None = None
) -> None:
    """Note parts of messages as shown to the agent of a call that is still wanted.

    Args:
        session: of the call.
        spans: the parts.
        upto: up to where hooks after a tool announce no more mail.
        older: below which seq broadcasts were only counted, as `SeenMailNotes.note` has it.
    """
    check_cancelled()
    reader = session.reader()
    if reader is not None and spans:
        SeenMailNotes(session.bus, reader).note(spans, upto=upto, older=older)


def stranger(bus: LocalBus, *recipients: str | None, me: str) -> str | None:
    """Return a warning if the bus has never seen a recipient, with the agents that are there.

    Raises:
        InvalidInput: a recipient is no valid name.
        UnknownRecipient: a recipient means several, such as "all", or nobody, such as "null".
    """
    named_ones = [name for name in recipients if name is not None]
    unknown = [error for error in map(bus.agents.check_recipient, named_ones) if error is not None]
    if not unknown:
        return None
    for error in unknown:
        if error.agent.casefold() in _NOBODY:
            raise error
    beats = bus.heartbeats.list()
    there = [beat.agent for beat in beats if beat.liveness is Liveness.ALIVE and beat.agent != me]
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    alive = f"alive now: {', '.join(map(named, there[:_NAMED]))}{more}"
    others = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    problems = "; ".join(map(str, unknown[:_NAMED])) + others
    return shown(f"{problems}; {alive if there else 'no other agent is alive'}")


def message_of(bus: LocalBus, key: str) -> Message:
    """Return a message by its seq or id.

    Raises:
        NotFound: there is none.
    """
    message = find_message(bus, key)
    if message is None:
        raise NotFound(f"there is no message {key[:80]!a}: give its seq or its id")
    return message


def conversation_of(bus: LocalBus, key: str) -> str:
    """Return the conversation that a key names.

    Raises:
        NotFound: there is none.
    """
    if next(bus.read(conversation=key), None) is not None:
        return key
    return message_of(bus, key).conversation


def unread_of(bus: LocalBus, agent: str) -> int:
    """Return the number of unread messages of an agent, up to `MAX_COUNTED`."""
    return inbox_of(bus, agent).unread(MAX_COUNTED)


def counted(unread: int) -> str:
    """Return a number of unread messages as text."""
    return f"{unread} or more" if unread == MAX_COUNTED else str(unread)
