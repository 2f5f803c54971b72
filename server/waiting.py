"""Clients that wait for something, without a thread for each, until they have it or go away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TypeVar

import anyio
from starlette.requests import Request

from ..bus import Wanted
from ..schema import BusBusy, Message
from .disconnects import until_gone
from .threads import in_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .live import Feed

#: How many clients may wait at a time.
MAX_WAITING = 500

#: How often a waiter looks for itself, in seconds: not all that can be waited for is a message.
_RECHECK_S = 2.0

#: How often who waits for room tries again, in seconds: what makes room rings no bell. Each try is
#: work, so the more do, the more rarely each: this far are the tries of all apart.
_TRY_EVERY_S, _TRIES_APART_S = 0.05, 0.004

T = TypeVar("T")


class Waiting:
    """Those who wait at a server. Each is told of new messages, and looks for itself in a thread.

    Args:
        feed: tells of new messages.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._count = 0
        #: How many of them try again and again.
        self.trying = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Be one of those who wait.

        Raises:
            BusBusy: too many do already.
        """
        if self._count >= MAX_WAITING:
            raise BusBusy(f"{MAX_WAITING} clients wait already; try again, or ask without waiting")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1


class Waiter:
    """One client that is ready to wait.

    Args:
        waiting: those who wait.
        request: what the client sent, and by which it is known that it has gone away.
        wait_s: how long it waits, in seconds; 0: not at all.
    """

    def __init__(self, waiting: Waiting, request: Request, wait_s: float) -> None:
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
            is_there: whether that is what was waited for.
            concerns: whether a new message is a reason to look.

        Returns:
            What was seen last.

        Raises:
            BusBusy: too many wait already.
        """
        feed = self._waiting.feed
        begin = feed.newest_seq  # before the look: what comes after it is heard
        looked_at = anyio.current_time()
        found = await in_thread(look)
        if is_there(found) or not self.wait_s:
            return found
        async with (
            self.patience(),
            aclosing(feed.stream(begin, Wanted(), keep_alive_s=_RECHECK_S)) as batches,
        ):
            async for batch in batches:
                is_due = anyio.current_time() - looked_at >= _RECHECK_S  # however busy the bus is
                news = (event.message for event in batch.events)
                if batch.events and not is_due and not any(map(concerns, news)):
                    continue
                looked_at = anyio.current_time()
                found = await in_thread(look)
                if is_there(found):
                    break
        return found

    @asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        """Leave the block when the time is over, or the client is gone.

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
        """Whether the server stops, so that nobody is to wait on."""
        return self._waiting.feed.is_over

    async def is_gone(self) -> bool:
        """Whether the client has gone away, and will not get what was found."""
        return await self._request.is_disconnected()
