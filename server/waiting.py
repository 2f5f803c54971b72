"""Clients that wait for something, without a thread for each: they are told by the live feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TypeVar

import anyio

from ..bus import Wanted
from ..schema import BusBusy, Message
from .threads import in_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .live import Feed

#: How many clients may wait at a time.
MAX_WAITING = 500

#: How often a waiter looks for itself, in seconds: not all that can be waited for is a message.
_RECHECK_S = 2.0

T = TypeVar("T")


class Waiting:
    """Lets clients wait in the event loop. What they look for is looked for in a thread.

    Args:
        feed: tells of new messages.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._count = 0

    async def until(
        self,
        look: Callable[[], T],
        is_there: Callable[[T], object],
        concerns: Callable[[Message], bool],
        wait_s: float,
    ) -> T:
        """Look again and again until something is there, or the time is over, or the server stops.

        Args:
            look: looks; runs in a thread.
            is_there: whether that is what was waited for.
            concerns: whether a new message is a reason to look.
            wait_s: how long to wait, in seconds; 0 looks once.

        Returns:
            What was seen last.

        Raises:
            BusBusy: too many wait already.
        """
        begin = self._feed.newest_seq  # before the look: what comes after it is heard
        found = await in_thread(look)
        if is_there(found) or not wait_s:
            return found
        with self._place(), anyio.move_on_after(wait_s):
            stream = self._feed.stream(begin, Wanted(), keep_alive_s=_RECHECK_S)
            async with aclosing(stream) as batches:
                async for batch in batches:
                    if batch.events and not any(concerns(each.message) for each in batch.events):
                        continue
                    found = await in_thread(look)
                    if is_there(found):
                        break
        return found

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._count >= MAX_WAITING:
            raise BusBusy(f"{MAX_WAITING} clients wait already; try again, or ask without waiting")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
