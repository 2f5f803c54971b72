"""A session: everything that an agent has while it is there."""

from __future__ import annotations

import os
from functools import partial

from ...bus import tracing
from ...bus.in_thread import in_thread
from ...bus.local_bus import LocalBus
from ...schema.arguments import with_checked_arguments
from ...schema.callbacks import (
    call_plain,
    check_coroutine_function,
    check_plain,
    refuse_unrun,
)
from ...schema.message.draft import ABSENT
from ...schema.message.names import MAX_SEQ
from .delivery import OF_COROUTINES
from .failed_deliveries import Cursors
from .inbox import Inbox
from .mail import NO_LIMIT, InboxView, MailReader
from .seen_mail import SeenMailNotes
from .session_names import SessionNames
from .statements import STARTED, STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Any, Unpack

    from ...bus.heartbeat_thread import Heart
    from ...schema.message.draft import Draft
    from ...schema.message.fields import MessageFields
    from ...schema.message.message import Message, Receipt
    from ...schema.message.patterns import TypePattern
    from ..options import InboxOptions

# The inbox of a session that claims its base name: its own mail, and mail to the base name.


def inbox_of(bus: LocalBus, agent: str, *, with_work: bool = False) -> Inbox:
    """Return the inbox of an agent; if a session claims its base name, with the base name's mail.

    Args:
        bus: an open bus.
        agent: the name of an agent or a session.
        with_work: as for `Inbox`.
    """
    base = SessionNames.of(bus).base_claimed_by(agent)
    if base is None:
        return Inbox(bus, agent, with_work=with_work)
    return SessionInbox(bus, agent, base, with_work=with_work)


def passing(inbox: Inbox, seq: int) -> tuple[int, int]:
    """Return the cursor of an agent, and how many messages acknowledging a seq would pass."""
    cursors = Cursors.of(inbox.bus)
    position, count = cursors.passing(inbox.agent, seq)
    if isinstance(inbox, SessionInbox):
        addressed = cursors.covered(inbox.base, min(seq, MAX_SEQ), 0, NO_LIMIT, broadcasts=False)
        count += len(addressed)
    return position, count


class SessionInbox(Inbox):
    """The mail of a session, and the mail that is addressed to its base name, in one order.

    Broadcasts come from its own inbox alone, so each comes once. An acknowledgement moves both
    cursors: a later session begins at the cursor of the base name.

    Attributes:
        base: the base name.
    """

    def __init__(self, bus: LocalBus, agent: str, base: str, *, with_work: bool = False) -> None:
        super().__init__(bus, agent, with_work=with_work)
        self._base = _Addressed(bus, base)
        self.base = base
        self._mail = _BothMails(self._mail, self._base._mail)

    @property
    def position(self) -> int:
        """The seq up to which both inboxes are acknowledged."""
        return min(super().position, self._base.position)

    def unread(self, limit: int = 1000) -> int:
        """Return how many messages wait, counted up to `limit`."""
        if self._shows_more:  # `poll` looks at both names
            return super().unread(limit)
        addressed = self._cursors.count_addressed(self._base.agent, limit)
        return min(limit, super().unread(limit) + addressed)

    def ack(self, message: Message | int) -> int:
        """Acknowledge a message and all before it, of both names, as `Inbox.ack` does."""
        with self.bus.transaction():
            return min(super().ack(message), self._base.ack(message))

    def complete(self, message: Message, *replies: Draft) -> list[Receipt] | None:
        """Complete a message to either name, as `Inbox.complete` does."""
        if message.to_agent != self.base:
            return super().complete(message, *replies)
        with self.bus.transaction():
            receipts = self._base.complete(message, *replies)
            self.ack(message)
        return receipts

    def _refuse_what_is_for_others(self, message: Message) -> None:
        if message.to_agent != self.base:
            super()._refuse_what_is_for_others(message)

    def _put_aside(self, message: Message, why: str) -> None:
        is_own = message.to_agent != self.base
        super()._put_aside(message, why) if is_own else self._base._put_aside(message, why)

    def fail(self, message: Message, error: str) -> bool:
        """Record a failed delivery of a message to either name, as `Inbox.fail` does."""
        is_own = message.to_agent != self.base
        return super().fail(message, error) if is_own else self._base.fail(message, error)

    def attempts(self, message: Message) -> int:
        """Return how many deliveries of a message to either name have failed."""
        is_own = message.to_agent != self.base
        return super().attempts(message) if is_own else self._base.attempts(message)


def only_addressed(inbox: Inbox) -> MailReader:
    """Return the mail of an inbox that is addressed to its agent, or to the base name."""
    own = _Addressed(inbox.bus, inbox.agent)._mail
    return _BothMails(own, inbox._base._mail) if isinstance(inbox, SessionInbox) else own


class _Addressed(Inbox):
    """The inbox of a base name without broadcasts."""

    def __init__(self, bus: LocalBus, base: str) -> None:
        super().__init__(bus, base)
        self._mail = MailReader(
            bus,
            base,
            self._cursors,
            self._deliveries,
            own_broadcasts=False,
            with_work=False,
            broadcasts=False,
        )


class _BothMails(MailReader):
    """The mail of a session, and what is addressed to its base name."""

    def __init__(self, own: MailReader, base: MailReader) -> None:
        self._own, self._base = own, base

    def look(self, limit: int, pattern: TypePattern | None) -> InboxView:
        own, base = self._own.look(limit, pattern), self._base.look(limit, pattern)
        return InboxView(
            _in_order(own.messages + base.messages)[:limit],
            min(own.cursor, base.cursor),
            own.has_failures or base.has_failures,
        )

    def after(self, seq: int, limit: int) -> list[Message]:
        return _in_order(self._own.after(seq, limit) + self._base.after(seq, limit))[:limit]


def _in_order(messages: list[Message]) -> list[Message]:
    return sorted(messages, key=lambda message: message.seq)


@with_checked_arguments
class Session:
    """An agent that is there: its inbox, its heart, and messages that say when it came and went.

        with Session(bus, "worker-1") as me:
            me.run(handle)

    On entry it joins, so that what comes waits for it, publishes `agent_started`, and its heart
    begins to beat; on exit, after an error too, the heart stops and `agent_stopped` is published.
    An agent that is killed publishes nothing; its heartbeat shows it.

    Args:
        bus: an open bus.
        agent: the agent's name.
        interval_s: how often its heart beats, in seconds.
        inbox_options: as for `Inbox`.

    Attributes:
        inbox: its inbox.
        heart: its heart.
    """

    def __init__(
        self,
        bus: LocalBus,
        agent: str,
        *,
        interval_s: float = 10.0,
        **inbox_options: Unpack[InboxOptions],
    ) -> None:
        self.bus = bus
        self.agent = agent
        self.inbox = Inbox(bus, agent, **inbox_options)
        self.heart: Heart = bus.heart(agent, interval_s=interval_s)

    def __enter__(self) -> Session:
        with self.bus.transaction():
            self.inbox.join()
            self.publish(STARTED, {"pid": os.getpid()})
        self.heart.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.heart.stop()
        self.publish(STOPPED, {"pid": os.getpid(), "error": repr(error) if error else None})

    async def __aenter__(self) -> Session:
        return await in_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await in_thread(partial(self.__exit__, kind, error, trace))

    def publish(
        self, type: str, payload: object = ABSENT, **fields: Unpack[MessageFields]
    ) -> Receipt:
        """Publish a message from this agent; see `Bus.publish`."""
        return self.bus.publish(type, payload, from_agent=self.agent, **fields)

    def reply(
        self, message: Message, type: str, payload: object = ABSENT, **fields: Unpack[MessageFields]
    ) -> Receipt:
        """Publish an answer to a message's sender, in the same conversation."""
        answer: MessageFields = {"to_agent": message.from_agent, "in_reply_to": message.id}
        headers: Any = fields.get("headers") or {}
        if isinstance(headers, dict):
            headers = tracing.child_trace(message.headers) | headers
        return self.publish(type, payload, **(answer | fields | {"headers": headers}))

    async def publish_async(
        self, type: str, payload: object = ABSENT, **fields: Unpack[MessageFields]
    ) -> Receipt:
        """Publish as `publish` does; the event loop never waits for the bus."""
        return await in_thread(partial(self.publish, type, payload, **fields))

    async def reply_async(
        self, message: Message, type: str, payload: object = ABSENT, **fields: Unpack[MessageFields]
    ) -> Receipt:
        """Reply as `reply` does; the event loop never waits for the bus."""
        return await in_thread(partial(self.reply, message, type, payload, **fields))

    def run(self, handler: Callable[[Message], None], *, drain: bool = False) -> None:
        """Deliver messages as `Inbox.run` does, with the current message in the heartbeat.

        Raises:
            InvalidInput: as for `Inbox.run`.
        """
        check_plain(handler, "run", instead=OF_COROUTINES)

        def handle(message: Message) -> None:
            self.heart.update("working", task=message.type)
            try:
                call_plain(handler, message)
            finally:
                self.heart.update("idle")

        self.inbox.run(handle, drain=drain)

    async def run_async(
        self, handler: Callable[[Message], Awaitable[object]], *, drain: bool = False
    ) -> None:
        """Deliver messages as `Inbox.run_async` does, with the current message in the heartbeat.

        Raises:
            InvalidInput: as for `Inbox.run_async`.
        """
        check_coroutine_function(handler, "run_async", instead="run takes plain functions")

        async def handle(message: Message) -> None:
            self.heart.update("working", task=message.type)
            try:
                refuse_unrun(await handler(message), handler)
            finally:
                self.heart.update("idle")

        await self.inbox.run_async(handle, drain=drain)


# The first mail of an agent that has acknowledged nothing yet: no years of broadcasts.
#
# Tools and hooks show it its own mail, and the last broadcasts of the last day; they count the
# older ones. `bus poll`, HTTP and Python begin at the first message, as plain SQL does.
#
# Hooks load this module after every tool for which mail waits.

#: How many broadcasts are shown at most, and how old the oldest may be, in milliseconds: a day.
_LAST, _DAY_MS = 20, 86_400_000

#: Up to how many older broadcasts are counted.
COUNTED = 1000


class FirstMail:
    """The mail that is shown to an agent that has acknowledged nothing.

    Args:
        bus, agent, with_work: as for `Inbox`.
        cursor: where its page begins: None for the first page, "0" to ask for older broadcasts;
            with any other cursor a page leaves out what the first page left out.

    Attributes:
        inbox: its inbox, without older broadcasts.
        older: how many older broadcasts there are, up to `COUNTED`; 0 for an agent with a cursor.
        first_seq: broadcasts below it are older; 0 where there are none.
    """

    __slots__ = ("first_seq", "inbox", "older")

    def __init__(
        self, bus: LocalBus, agent: str, *, with_work: bool = False, cursor: str | None = None
    ) -> None:
        self.inbox: Inbox = inbox_of(bus, agent, with_work=with_work)
        self.first_seq = self.older = 0
        hides_older = cursor is None or (cursor != "0" and SeenMailNotes(bus, agent).read().older)
        if self.inbox.position or not hides_older:
            return
        since_ms = bus.now_ms() - _DAY_MS
        last = Cursors.of(bus).last_broadcasts(agent, _LAST)
        recent = [seq for seq, at_ms in last if at_ms >= since_ms]
        first = min(recent, default=bus.log.newest_seq() + 1)
        self.older = Cursors.of(bus).count_broadcasts(agent, first, COUNTED)
        if self.older:
            self.first_seq = first
            self.inbox._mail = _RecentMail(self.inbox._mail, only_addressed(self.inbox), first)

    def told(self) -> str | None:
        """Return the sentence about broadcasts that are not shown; None if all are shown."""
        if not self.older:
            return None
        count = f"{self.older}{'+' if self.older == COUNTED else ''}"
        how = "bus_inbox(cursor='0') or 'bus poll' begins with them"
        return f"{count} older broadcasts are not shown: {how}."


class _RecentMail(MailReader):
    """Mail without the broadcasts below a seq, for an agent without parked or requeued mail."""

    def __init__(self, all_mail: MailReader, addressed: MailReader, first_seq: int) -> None:
        self._all, self._addressed, self._first_seq = all_mail, addressed, first_seq

    def look(self, limit: int, pattern: TypePattern | None) -> InboxView:
        if pattern is None:
            return InboxView(self.after(0, limit), 0, False)
        return self._all.look(limit, pattern)

    def after(self, seq: int, limit: int) -> list[Message]:
        before = self._first_seq - 1
        addressed = [m for m in self._addressed.after(seq, limit) if m.seq <= before]
        return (addressed + self._all.after(max(seq, before), limit))[:limit]
