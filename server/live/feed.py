"""The newest messages, read and encoded once for all the clients that are close to the end.

Messages are stored first and sent second: a thread reads what was committed, and hands it to the
event loop, which keeps the last of it. A client is a cursor. It takes what comes after its cursor
from here, or, where it is further back, from the log. So nobody has a queue of their own, and a
slow client costs no memory.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable
from functools import partial
from itertools import islice
from typing import NamedTuple

import anyio
import anyio.to_thread

from ...bus import RECHECK_S, Bus, Wanted
from ...schema import AckbusError, Message, start_thread

#: How many messages are kept, and how many bytes of them.
_KEPT, _KEPT_BYTES = 20_000, 8 * 1024 * 1024
#: How many messages a client gets at once.
_AT_ONCE = 1000
#: How many clients read the log at a time.
_READERS = 4
#: How long the feed waits before it asks a bus again that it couldn't read, in seconds.
_PAUSE_S = 1.0

_log = logging.getLogger("ackbus.server")


class Event(NamedTuple):
    """A message as it is sent.

    Attributes:
        seq: its place in the log.
        message: what filters look at.
        line: its line of `bus.jsonl`; a large payload stays a reference to its blob.
        sse: the same as a server-sent event.
    """

    seq: int
    message: Message
    line: bytes
    sse: bytes

    @classmethod
    def of(cls, message: Message) -> Event:
        """Return a message, ready to be sent."""
        line = message.to_line()
        sse = b"id: %d\nevent: message\ndata: %b\n\n" % (message.seq, line)
        return cls(message.seq, message, line, sse)


class Feed:
    """What comes after a cursor, live. All but the thread is used from the event loop alone.

    Args:
        bus: whose messages.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._events: list[Event] = []
        self._bytes = 0
        #: The events that are kept are all that come after this seq, up to the next.
        self._begins_after = self.newest_seq = bus.log.newest_seq()
        self._news = asyncio.Event()
        self._readers = anyio.CapacityLimiter(_READERS)
        self._loop = asyncio.get_running_loop()
        self._listener = bus.listen()
        self._taken = threading.Event()
        self.is_over = False
        self._thread = start_thread(self._follow, "live feed")

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
        self.is_over = True
        self._taken.set()
        self._listener.wake()
        self._wake()

    async def stream(
        self, after_seq: int, wanted: Wanted, *, keep_alive_s: float
    ) -> AsyncGenerator[list[Event], None]:
        """Yield what comes after a seq, in order, each message once, until the feed is stopped.

        What is yielded is empty when nothing came for `keep_alive_s` seconds.
        """
        while not self.is_over:
            if after_seq < self._begins_after:
                events, after_seq = await self._read(after_seq, wanted)
            else:
                events, after_seq = self._kept_after(after_seq, wanted)
            if events:
                yield events
            elif after_seq >= self.newest_seq and not await self._wait(after_seq, keep_alive_s):
                yield []

    def _kept_after(self, after_seq: int, wanted: Wanted) -> tuple[list[Event], int]:
        start = _index_after(self._events, after_seq)
        events = self._events[start : start + _AT_ONCE]
        upto = events[-1].seq if events else max(after_seq, self.newest_seq)
        return [event for event in events if wanted.fits(event.message)], upto

    async def _read(self, after_seq: int, wanted: Wanted) -> tuple[list[Event], int]:
        read = partial(self._read_log, after_seq, wanted)
        return await anyio.to_thread.run_sync(read, limiter=self._readers)

    def _read_log(self, after_seq: int, wanted: Wanted) -> tuple[list[Event], int]:
        """Return the next events for a client, and how far the log was read for it."""
        newest = self._bus.log.newest_seq()
        found = self._bus.log.find(wanted, after_seq=after_seq, upto_seq=newest)
        events = list(_events(islice(found, _AT_ONCE)))
        return events, events[-1].seq if len(events) == _AT_ONCE else max(after_seq, newest)

    async def _wait(self, after_seq: int, timeout_s: float) -> bool:
        """Wait until there is more than a client has; return False when the time is over."""
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

    def _take(self, events: list[Event]) -> None:
        """Keep what came, and wake the clients. Runs in the event loop."""
        self._events += events
        self._bytes += sum(len(event.line) for event in events)
        self.newest_seq = events[-1].seq
        self._forget()
        self._taken.set()
        self._wake()

    def _forget(self) -> None:
        """Let go of the oldest events that are too many, or too long together."""
        if len(self._events) <= _KEPT and self._bytes <= _KEPT_BYTES:
            return
        first = 0
        while len(self._events) - first > _KEPT // 2 or self._bytes > _KEPT_BYTES // 2:
            self._bytes -= len(self._events[first].line)
            first += 1
        self._begins_after = self._events[first - 1].seq
        del self._events[:first]

    def _follow(self) -> None:
        """Read what is committed, and hand it over. Runs in a thread of its own."""
        after = self.newest_seq
        while not self.is_over:
            try:
                for batch in _batches(_events(self._bus.log.read(after_seq=after))):
                    after = batch[-1].seq
                    if not self._hand_over(batch):
                        return
            except AckbusError as error:
                _log.warning("the live feed can't read the bus: %s", error)
                self._listener.wait(_PAUSE_S)
            else:
                self._listener.wait(RECHECK_S)

    def _hand_over(self, events: list[Event]) -> bool:
        """Give events to the event loop, and wait until it has them; False when all is over."""
        self._taken.clear()
        self._loop.call_soon_threadsafe(self._take, events)
        self._taken.wait()
        return not self.is_over


def _events(messages: Iterable[Message]) -> Iterable[Event]:
    return map(Event.of, messages)


def _batches(events: Iterable[Event]) -> Iterable[list[Event]]:
    rest = iter(events)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch


def _index_after(events: list[Event], seq: int) -> int:
    """Return where the events after a seq begin."""
    return bisect_right(events, seq, key=lambda event: event.seq)
