"""Clients that wait for something, without a thread for each, until they have it or go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.types import Receive

from ..bus.local_bus import LocalBus
from ..bus.log.log import Criteria
from ..schema.errors import BusBusy, InvalidInput
from ..schema.message.message import Message
from .access.tokens import AfterTheEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .feed import LiveFeed

# The threads in which the server uses the library.
#
# Each thread that touches the bus has a connection, with its files and its memory, so each kind
# is bounded, and has its own bound where one kind would block another: operations, blobs that
# come in and that go out (each has a thread as long as its client takes), the log reads of
# streams (`live.history`) and tools (`mcp.sdk_server`). Operations that wait (for room, for an
# answer) wait in the event loop, and take a thread only to look; tools that wait keep theirs.
# Besides, there is one thread for each of the live feed, the hearts of agents and the health
# check.

#: How many operations run at a time; those that come meanwhile wait for a thread.
THREADS = 16
#: How many blobs come in at a time, and how many go out.
UPLOADS = DOWNLOADS = 8

#: How long a write waits for other writers, in seconds; the client is then told to try again. While
#: it waits it holds a thread, and those who only read need one too.
WRITE_TIMEOUT_S = 5.0

T = TypeVar("T")


def bound_threads() -> None:
    """Bound the threads of the event loop that runs; FastAPI runs plain functions in them too."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS


async def in_thread(act: Callable[[], T]) -> T:
    """Run a function that uses the library in one of the threads."""
    return await anyio.to_thread.run_sync(act)


# Clients that disconnect before their response.


async def until_gone(receive: Receive) -> None:
    """Return when a client has disconnected. Data that it still sends is discarded."""
    while (await receive())["type"] != "http.disconnect":
        pass


# The seq at which a stream begins.


def begin_after(bus: LocalBus, after: int | None, last_event_id: str | None) -> int:
    """Return the seq after which a stream begins.

    Args:
        bus: the bus.
        after: the seq that the client asked for; None: new messages only.
        last_event_id: the last event of a client that reconnects; it wins over `after`.

    Raises:
        InvalidInput: the last event's id is not a seq.
        AfterTheEnd: the seq is beyond the end of the log.
    """
    newest = bus.log.newest_seq()
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 19):
            raise InvalidInput(f"Last-Event-ID must be a seq, not {last_event_id[:40]!r}")
        after = int(last_event_id)
    if after is None:
        return newest
    if after > newest:
        raise AfterTheEnd(after, newest)
    return after


#: How many clients may wait at a time.
MAX_WAITING = 500

#: Re-check interval without new messages, in seconds: not every awaited change is a message.
_RECHECK_S = 2.0

#: The time between two tries of clients that wait for room, in seconds: room is not announced.
#: A try is work, so the clients share this interval: the more of them, the rarer each one's tries.
_TRY_EVERY_S, _TRIES_APART_S = 0.05, 0.004


class WaitingClients:
    """The waiting clients of a server. New messages wake each, and it looks in a thread.

    Args:
        feed: tells of new messages.
    """

    def __init__(self, feed: LiveFeed) -> None:
        self.feed = feed
        self._count = 0
        #: How many of them try again and again.
        self.trying = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Count as a waiting client inside the block.

        Raises:
            BusBusy: too many wait already.
        """
        if self._count >= MAX_WAITING:
            raise BusBusy(f"{MAX_WAITING} clients wait already; try again, or ask without waiting")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class Waiter:
    """One client that waits for something.

    Args:
        waiting: the waiting clients of the server.
        request: the request, by which a disconnected client is noticed.
        wait_s: how long it waits, in seconds; 0: not at all.
    """

    def __init__(self, waiting: WaitingClients, request: Request, wait_s: float) -> None:
        self._waiting = waiting
        self._request = request
        self.wait_s = wait_s

    async def until(
        self,
        look: Callable[[], T],
        is_there: Callable[[T], object],
        concerns: Callable[[Message], bool],
    ) -> T:
        """Look again and again until something is there, or `patience` is over.

        Args:
            look: looks; runs in a thread.
            is_there: whether the result of a look ends the wait.
            concerns: whether a new message is a reason to look.

        Returns:
            What was seen last.

        Raises:
            BusBusy: too many wait already.
        """
        feed = self._waiting.feed
        begin = feed.newest_seq  # before the look: what comes after it is heard
        looked_at = anyio.current_time()
        outcome = await in_thread(look)
        if is_there(outcome) or not self.wait_s:
            return outcome
        async with (
            self.patience(),
            aclosing(feed.stream(begin, Criteria(), keep_alive_s=_RECHECK_S)) as batches,
        ):
            async for batch in batches:
                is_due = anyio.current_time() - looked_at >= _RECHECK_S  # however busy the bus is
                news = (event.message for event in batch.events)
                if batch.events and not is_due and not any(map(concerns, news)):
                    continue
                looked_at = anyio.current_time()
                outcome = await in_thread(look)
                if is_there(outcome):
                    break
        return outcome

    @asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        """Leave the block when the time is over, or the client has disconnected.

        A look that is in its thread then is finished first, and what it found is kept.

        Raises:
            BusBusy: too many wait already.
        """
        with self._waiting.place(), anyio.move_on_after(self.wait_s) as scope:
            watch = asyncio.create_task(self._leave_with_client(scope))
            try:
                yield
            finally:
                watch.cancel()

    async def tries(self) -> AsyncGenerator[None, None]:
        """Yield whenever it is time to try again, until the server stops."""
        self._waiting.trying += 1
        try:
            while not self.is_over:
                await anyio.sleep(max(_TRY_EVERY_S, self._waiting.trying * _TRIES_APART_S))
                yield
        finally:
            self._waiting.trying -= 1

    async def _leave_with_client(self, scope: anyio.CancelScope) -> None:
        await until_gone(self._request.receive)
        scope.cancel()

    @property
    def is_over(self) -> bool:
        """Whether the server stops, which ends all waiting."""
        return self._waiting.feed.is_over

    async def is_gone(self) -> bool:
        """Whether the client has disconnected, and will not get the result."""
        return await self._request.is_disconnected()
