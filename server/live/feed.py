"""The newest messages, read and encoded once for all clients near the end of the log.

Messages are stored first and sent second: a thread reads what was committed, and hands it to the
event loop, which keeps the last of it. A client is a cursor. It takes what comes after its cursor
from here, or, where it is further back, from the log, together with those who are as far. So
no client has a queue of its own, and a slow client costs only the memory of its current batch.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import bisect_right
from collections.abc import AsyncGenerator
from itertools import islice

import anyio
import anyio.to_thread

from ...bus.bus import RECHECK_S, Bus
from ...bus.doorbell import listen
from ...bus.log.filters import Wanted
from ...schema.errors import AckbusError
from ...schema.processes import start_thread
from .batches import Batch, Event, cut, joined
from .history import History

#: How many messages are kept, and how many bytes of them.
_KEPT, _KEPT_BYTES = 8000, 8 * 1024 * 1024
#: How many messages are read at once, and of how many batches a client gets the beginning.
_AT_ONCE, _MOST_JOINED = 500, 500
#: The least time between two wakings of the clients, in seconds. Waking all of them is most of the
#: work: of many messages a second they get several at once.
_REST_S = 0.005
#: How long the feed waits before it asks a bus again that it couldn't read, in seconds.
_PAUSE_S = 1.0

_log = logging.getLogger("ackbus.server")


class Feed:
    """The live messages after a cursor. All but the thread is used from the event loop alone.

    Args:
        bus: whose messages.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._history = History(bus)
        self._batches: list[Batch] = []
        self._count = self._bytes = 0
        #: The batches that are kept have all that comes after this seq, up to the next.
        self._begins_after = self.newest_seq = bus.log.newest_seq()
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._listener = listen(bus)
        self._taken, self._over = threading.Event(), threading.Event()
        self._thread = start_thread(self._follow, "live feed")

    @property
    def is_over(self) -> bool:
        """Whether the feed was stopped."""
        return self._over.is_set()

    async def close(self) -> None:
        """End every stream, and stop reading."""
        self.stop()
        await anyio.to_thread.run_sync(self._thread.join)
        self._listener.close()

    def stop_soon(self) -> None:
        """End every stream, from any thread, or a signal handler."""
        self._loop.call_soon_threadsafe(self.stop)

    def stop(self) -> None:
        """End every stream at its next step; may be called twice."""
        self._over.set()
        self._taken.set()
        self._listener.wake()
        self._wake()

    async def stream(
        self, after_seq: int, wanted: Wanted, *, keep_alive_s: float
    ) -> AsyncGenerator[Batch, None]:
        """Yield the messages after a seq, in order, each once, until the feed is stopped.

        Yields an empty batch when nothing came for `keep_alive_s` seconds.
        """
        spoke = self._loop.time()
        while not self.is_over:
            batch = await self._next(after_seq, wanted)
            after_seq = max(after_seq, batch.upto)
            if not batch.events:
                # Messages that the client doesn't want wake this task too, and tell it nothing.
                left_s = spoke + keep_alive_s - self._loop.time()
                if left_s > 0 and await self._wait(after_seq, left_s):
                    continue
            spoke = self._loop.time()
            yield batch

    async def _next(self, after_seq: int, wanted: Wanted) -> Batch:
        """Return the next messages after a seq; empty when there are none yet."""
        if after_seq >= self._begins_after:
            return self._kept_after(after_seq).fitting(wanted)
        if wanted.is_all:
            return await self._history.after(after_seq, self._begins_after)
        return await self._history.find(after_seq, wanted)

    def _kept_after(self, after_seq: int) -> Batch:
        start = bisect_right(self._batches, after_seq, key=lambda batch: batch.upto)
        if start == len(self._batches):
            return Batch((), upto=self.newest_seq)
        first = self._batches[start].after(after_seq)
        return joined([first, *self._batches[start + 1 : start + _MOST_JOINED]])

    async def _wait(self, after_seq: int, timeout_s: float) -> bool:
        """Wait for a message after a seq; return False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.newest_seq <= after_seq and not self.is_over:
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _take(self, batches: list[Batch]) -> None:
        """Keep new batches, and wake the clients. Runs in the event loop."""
        self._batches += batches
        self._count += sum(len(batch.events) for batch in batches)
        self._bytes += sum(batch.size for batch in batches)
        self.newest_seq = batches[-1].upto
        self._forget()
        self._taken.set()
        self._wake()

    def _forget(self) -> None:
        """Drop the oldest batches when they are too many, or too long together."""
        if self._count <= _KEPT and self._bytes <= _KEPT_BYTES:
            return
        first = 0
        while self._count > _KEPT // 2 or self._bytes > _KEPT_BYTES // 2:
            self._count -= len(self._batches[first].events)
            self._bytes -= self._batches[first].size
            first += 1
        self._begins_after = self._batches[first - 1].upto
        del self._batches[:first]

    def _follow(self) -> None:
        """Read committed messages, and hand them to the event loop. Runs in its own thread."""
        after = self.newest_seq
        while not self.is_over:
            try:
                messages = self._bus.log.read(after_seq=after)
                while events := [Event(each) for each in islice(messages, _AT_ONCE)]:
                    self._hand_over(list(cut(events)))
                    after = events[-1].seq
                    if self._over.wait(_REST_S):
                        return
                self._listener.wait(RECHECK_S)
            # Waiting fails too, where the bus was moved. And whatever goes wrong: a feed that ended
            # would leave its clients waiting, in silence.
            except Exception as error:
                is_defect = not isinstance(error, AckbusError)
                _log.warning("the live feed can't read the bus: %s", error, exc_info=is_defect)
                self._over.wait(_PAUSE_S)

    def _hand_over(self, batches: list[Batch]) -> None:
        """Give batches to the event loop, and wait until it has them, or the feed stops."""
        self._taken.clear()
        if not self.is_over:
            self._loop.call_soon_threadsafe(self._take, batches)
            self._taken.wait()
