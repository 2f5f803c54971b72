"""Results of a bounded size: pages of messages, and the cursor that leads to the next one."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from ....schema.errors import InvalidInput
from ....schema.message.message import Message
from ..room import Room, as_sent
from .quoted_messages import FramedMessage, body_of, text_of
from .tool import Reply

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
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise InvalidInput(f"cursor {text[:40]!a} is invalid: pass next_cursor back unchanged")
        return cls(int(found[1]), int(found[2] or 0))

    def __str__(self) -> str:
        return f"{self.after}+{self.skip}" if self.skip else str(self.after)


@dataclass(frozen=True)
class Paged:
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

    room: Room
    make: Callable[[Paged], Reply]
    read_on: Callable[[int, str], str]
    frame: Callable[[FramedMessage], FramedMessage] = lambda message: message

    def page(self, messages: Iterable[Message], begin: Cursor, limit: int) -> tuple[Reply, Paged]:
        """Return the result with the first messages, and the page that is in it.

        A message that fits is never cut. Of one that is longer than a page its head is shown, and
        the page goes on behind it; a cursor into it shows as much of the rest as there is room.

        Args:
            messages: those after the cursor, in order; one more than `limit` is read.
            begin: the cursor.
            limit: how many at most.
        """
        read, has_more = _read(messages, limit)
        left = self.room.bytes - _FRAME_BYTES
        while True:
            page = self._filled(read, has_more, begin, left)
            reply = self.make(page)
            excess = self.room.size(reply.text, reply.record) - self.room.bytes
            if excess <= 0 or left <= 0:
                return reply, page
            left -= max(excess, 100)

    def _filled(self, read: Sequence[_Text], has_more: bool, begin: Cursor, room: int) -> Paged:
        framed: list[FramedMessage] = []
        spans: list[Span] = []
        after, left = begin.after, room
        for each in read:
            seq = each.message.seq
            skip = begin.skip if seq == begin.after + 1 else 0
            shown, end, cost = self._shown(each, skip, left, room)
            if framed and cost > left:
                break
            framed.append(shown)
            spans.append((seq, skip, end))
            if skip and end is not None:
                return Paged(framed, str(Cursor(seq - 1, end)), spans)
            after, left = seq, left - cost
        goes_on = has_more or len(read) > len(framed)
        return Paged(framed, str(Cursor(after)) if goes_on else None, spans)

    def _shown(
        self, each: _Text, skip: int, left: int, room: int
    ) -> tuple[FramedMessage, int | None, int]:
        """Return a message, up to which character (None: all of it), and the bytes that it takes.

        It is cut only if a page of its own would not hold it.
        """
        if len(each.text) - skip <= room:
            whole = self._whole(each, skip)
            cost = self._cost(whole)
            if cost <= room:
                return whole, None, cost
        most = min(len(each.text) - skip - 1, room, room if skip else HEAD_CHARS)
        number = most_that(
            lambda n: self._cost(self._part(each, skip, skip + n)) <= (left if skip else room), most
        )
        cut = self._part(each, skip, skip + number)
        return cut, skip + number, self._cost(cut)

    def _whole(self, each: _Text, skip: int) -> FramedMessage:
        if skip:
            return self._part(each, skip, len(each.text))
        return self.frame(FramedMessage.of(each.message, each.body))

    def _part(self, each: _Text, begin: int, end: int) -> FramedMessage:
        part = f"characters {begin + 1} to {end} of {len(each.text)}"
        shown = FramedMessage.of(each.message, each.text[begin:end], part)
        if end < len(each.text):
            seq = each.message.seq
            shown.more = self.read_on(seq, str(Cursor(seq - 1, end)))
        return self.frame(shown)

    def _cost(self, shown: FramedMessage) -> int:
        """Return the bytes that a message adds to a result."""
        text = "" if self.room.reads_both else shown.text()
        return len(orjson.dumps(text)) + len(orjson.dumps(as_sent(shown)))


@dataclass(frozen=True)
class _Text:
    """A message that was read, its body, and that as text."""

    message: Message
    body: object
    text: str


def _read(messages: Iterable[Message], limit: int) -> tuple[list[_Text], bool]:
    """Return the first messages, and whether there are others behind them."""
    read: list[_Text] = []
    chars = 0
    for message in messages:
        if len(read) == limit or chars > _READ_CHARS:
            return read, True
        body = body_of(message)
        read.append(_Text(message, body, text_of(body)))
        chars += len(read[-1].text)
    return read, False


def most_that(fits: Callable[[int], bool], count: int) -> int:
    """Return the largest number up to `count` that fits, where all below it do; at least 1."""
    return max(1, bisect_left(range(1, count + 1), True, key=lambda number: not fits(number)))


def fitted(count: int, make: Callable[[int], Reply], room: Room) -> tuple[Reply, int]:
    """Return the result of as many things as there is room for, and how many these are."""

    def fits(number: int) -> bool:
        reply = make(number)
        return room.size(reply.text, reply.record) <= room.bytes

    number = count if count == 0 or fits(count) else most_that(fits, count)
    return make(number), number


def next_page(cursor: str | None) -> str | None:
    """Return what leads to the next page, or None where there is none."""
    return None if cursor is None else f"There is more: call again with cursor {cursor!r}."


def by_the_same_call(seq: int, cursor: str) -> str:
    """Return what reads on in a message, for tools with a cursor."""
    return f"[{seq}] goes on: call again with cursor {cursor!r}."


def by_thread(seq: int, cursor: str) -> str:
    """Return what reads on in a message, for other tools."""
    return f"The rest: bus_thread(conversation={str(seq)!r}, cursor={cursor!r})."
