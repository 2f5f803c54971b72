"""Results of a bounded size: pages of messages, and the cursor that leads to the next one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ....schema.errors import InvalidInput
from ....schema.message.message import Message
from .quoted_messages import FramedMessage, body_of, text_of

#: How many messages a page has unless the agent says so, and at most.
PAGE, MAX_PAGE = 20, 100

#: The most characters that the bodies of a page have: some 3,000 tokens.
MAX_CHARS = 12_000

_CURSOR = re.compile(r"(\d{1,18})(?:\+(\d{1,9}))?")


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


def page(
    messages: Iterable[Message], begin: Cursor, limit: int
) -> tuple[list[FramedMessage], str | None]:
    """Return the first messages, framed, and the cursor to what follows, or None at the end.

    Args:
        messages: those after the cursor, in order; one more than `limit` is read.
        begin: the cursor.
        limit: how many at most.
    """
    framed: list[FramedMessage] = []
    room, after = MAX_CHARS, begin.after
    for message in messages:
        body = body_of(message)
        text = text_of(body)
        skip = begin.skip if message.seq == begin.after + 1 else 0
        if len(framed) == limit or (framed and len(text) > room):
            return framed, str(Cursor(after))
        if len(text) - skip > room:
            end = skip + room
            cut = FramedMessage.of(message, text[skip:end], _part(skip, end, text))
            return [cut], str(Cursor(message.seq - 1, end))
        part = _part(skip, len(text), text) if skip else None
        framed.append(FramedMessage.of(message, text[skip:] if skip else body, part))
        room, after = room - (len(text) - skip), message.seq
    return framed, None


def beginning(message: Message) -> tuple[FramedMessage, str | None]:
    """Return a message, framed, and the cursor that leads on in it by `bus_thread`, or None."""
    (framed,), cursor = page([message], Cursor(message.seq - 1), 1)
    return framed, cursor


def _part(begin: int, end: int, text: str) -> str:
    return f"characters {begin + 1} to {end} of {len(text)}"


def next_page(cursor: str | None) -> str | None:
    """Return what leads to the next page, or None where there is none."""
    return None if cursor is None else f"There is more: call again with cursor {cursor!r}."


def rest_of(message: Message, cursor: str | None) -> str | None:
    """Return what leads on in a message of which the beginning is shown, or None at its end."""
    if cursor is None:
        return None
    return f"The rest: bus_thread(conversation={str(message.seq)!r}, cursor={cursor!r})."
