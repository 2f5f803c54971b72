"""Arguments, results and look-ups that several tools share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self, TypeVar

from anyio.from_thread import check_cancelled
from pydantic import Field

from ....bus.bus import Bus
from ....bus.doorbell import listen
from ....bus.log.finding import find_message
from ....bus.presence.heartbeats import Liveness
from ....schema.errors import NotFound
from ....schema.message.message import Message
from ....subscribers.inboxes.polling_pace import Pace
from ....subscribers.inboxes.seen_mail import Shown
from ....subscribers.inboxes.session_inbox import inbox_of
from ..session import Session
from .pages import MAX_PAGE, Paged, Span, next_page
from .quoted_messages import NOTICE, FramedMessage, named, shown
from .tool import Reply, Result

#: The longest that a tool waits, in seconds: clients give a call up after 30.
MAX_WAIT_S = 25

#: How long a call may go on that was cancelled, in seconds.
_NOTICE_S = 0.5

#: How many unread messages are counted: more tell an agent nothing more.
MAX_COUNTED = 100

#: The advice to an agent for whom something waits.
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


class Page(Result):
    """Messages, and how to go on."""

    messages: list[FramedMessage]
    next_cursor: str | None = None

    @classmethod
    def of(cls, page: Paged, *, advice: str | None = None, **facts: Any) -> Self:
        """Return a page, with the advice for what is on it, and what leads to the next one."""
        steps = " ".join(each for each in (advice, next_page(page.cursor)) if each)
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
        return Reply(self, self.lines(head, *(each.text() for each in self.messages)))


def wait_for(
    session: Session, look: Callable[[], T], is_there: Callable[[T], object], wait_s: float
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
    deadline, pace = time.monotonic() + wait_s, Pace(idle_s=_NOTICE_S)
    with listen(session.bus) as listener:  # before the look: what comes after it is heard
        while True:
            found = look()
            left = deadline - time.monotonic()
            if is_there(found) or left <= 0 or session.home.is_ending:
                return found
            listener.wait(min(pace.next(), left))
            check_cancelled()  # else its thread would wait on, and those of others beside it


def note_shown(
    session: Session, spans: Sequence[Span], *, upto: int = 0, older: int | None = None
) -> None:
    """Note parts of messages as shown to the agent of a call that is still wanted.

    Args:
        session: of the call.
        spans: the parts.
        upto: up to where hooks after a tool announce no more mail.
        older: below which seq broadcasts were only counted, as `Shown.note` has it.
    """
    check_cancelled()
    reader = session.reader()
    if reader is not None and spans:
        Shown(session.bus, reader).note(spans, upto=upto, older=older)


def stranger(bus: Bus, *recipients: str | None, me: str) -> str | None:
    """Return a warning if the bus has never seen a recipient, with the agents that are there.

    Raises:
        InvalidInput: one is no name.
        UnknownRecipient: one means several, such as "all", or nobody, such as "null".
    """
    named_ones = [each for each in recipients if each is not None]
    unknown = [each for each in map(bus.agents.check_recipient, named_ones) if each is not None]
    if not unknown:
        return None
    for each in unknown:
        if each.agent.casefold() in _NOBODY:
            raise each
    beats = bus.heartbeats.list()
    there = [each.agent for each in beats if each.liveness is Liveness.ALIVE and each.agent != me]
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    alive = f"alive now: {', '.join(map(named, there[:_NAMED]))}{more}"
    others = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    told = "; ".join(map(str, unknown[:_NAMED])) + others
    return shown(f"{told}; {alive if there else 'no other agent is alive'}")


def message_of(bus: Bus, key: str) -> Message:
    """Return a message by its seq or id.

    Raises:
        NotFound: there is none.
    """
    message = find_message(bus, key)
    if message is None:
        raise NotFound(f"there is no message {key[:80]!a}: give its seq or its id")
    return message


def conversation_of(bus: Bus, key: str) -> str:
    """Return the conversation that a key names.

    Raises:
        NotFound: there is none.
    """
    if next(bus.read(conversation=key), None) is not None:
        return key
    return message_of(bus, key).conversation


def unread_of(bus: Bus, agent: str) -> int:
    """Return the number of unread messages of an agent, up to `MAX_COUNTED`."""
    return inbox_of(bus, agent).unread(MAX_COUNTED)


def counted(unread: int) -> str:
    """Return a number of unread messages as text."""
    return f"{unread} or more" if unread == MAX_COUNTED else str(unread)
