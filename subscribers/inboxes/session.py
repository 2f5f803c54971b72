"""A session: everything that an agent has while it is there."""

from __future__ import annotations

import os
from functools import partial

from ...bus import tracing
from ...bus.bus import Bus
from ...bus.in_thread import in_thread
from ...schema.arguments import with_checked_arguments
from ...schema.callbacks import (
    call_plain,
    check_coroutine_function,
    check_plain,
    refuse_unrun,
)
from ...schema.message.draft import ABSENT
from .inbox import Inbox
from .loop_drivers import OF_COROUTINES
from .statements import STARTED, STOPPED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Unpack

    from ...bus.presence.heartbeat_thread import Heart
    from ...schema.message.fields import MessageFields
    from ...schema.message.message import Message, Receipt
    from ..options import InboxOptions


@with_checked_arguments
class Session:
    """An agent that is there: its inbox, its heart, and messages that say when it came and went.

        with Session(bus, "worker-1") as me:
            me.run(handle)

    On entry it joins, so that what comes waits for it, publishes `agent_started`, and its heart
    begins to beat; on exit, after an error too, the heart stops and `agent_stopped` is published.
    An agent that is killed says nothing, and its heartbeat tells.

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
        bus: Bus,
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
        given = fields.get("headers") or {}
        headers = tracing.child_trace(message.headers) | given if isinstance(given, dict) else given
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
        """Deliver messages as `Inbox.run_async` does, with the current one in the heartbeat.

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
