"""The newest messages, encoded once, and the clients of a stream that they are sent to.

Messages are stored first and sent second: a thread reads what was committed, and hands it to the
event loop, which keeps the last of it. A client is a cursor. It takes what comes after its cursor
from here, or, where it is further back, from the log, together with those who are as far. So
no client has a queue of its own, and a slow client costs only the memory of its current batch.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Protocol

import anyio
import anyio.to_thread
from starlette.requests import HTTPConnection
from starlette.websockets import WebSocketDisconnect

from ..bus.doorbell import RECHECK_S, listen
from ..bus.local_bus import LocalBus
from ..bus.log.log import Criteria
from ..schema.errors import AckbusError
from ..schema.message.message import Message
from ..schema.processes import start_thread
from ..schema.sqlite.rules.damaged_rows import damage_behind
from .access.access import is_still_authorized
from .access.table import AccessRule
from .connections import ClientTimeouts

# Batches of messages in order, encoded once for all their clients.

#: How long a batch gets, in bytes: as much as the buffer of a connection holds before it is full.
#: A client that is sent this much and reads nothing has it, and no more, in memory.
BATCH_BYTES = 64 * 1024


class FeedEvent:
    """A message as it is sent.

    Attributes:
        seq: its place in the log.
        message: the message, for filters.
        line: its line of `bus.jsonl`; a large payload stays a reference to its blob.
    """

    __slots__ = ("line", "message", "seq")

    def __init__(self, message: Message) -> None:
        self.seq = message.seq
        self.message = message
        self.line = message.to_line()


class Batch:
    """Some events, in order. It never changes, and all its clients share it.

    Attributes:
        events: the events.
        upto: the seq up to which no wanted event is missing.
    """

    def __init__(self, events: Sequence[FeedEvent], upto: int) -> None:
        self.events = events
        self.upto = upto

    @cached_property
    def size(self) -> int:
        """The length of the lines, in bytes."""
        return sum(len(event.line) for event in self.events)

    @cached_property
    def sse(self) -> bytes:
        """The batch as server-sent events; a comment when it is empty."""
        if not self.events:
            return b": nothing new\n\n"
        return b"".join(
            b"id: %d\nevent: message\ndata: %b\n\n" % (event.seq, event.line)
            for event in self.events
        )

    @cached_property
    def texts(self) -> Sequence[str]:
        """The batch as the texts of frames."""
        return [event.line.decode() for event in self.events]

    def after(self, seq: int) -> Batch:
        """Return the events after a seq: for most clients, the batch itself."""
        if not self.events or self.events[0].seq > seq:
            return self
        return Batch([event for event in self.events if event.seq > seq], self.upto)

    def fitting(self, filters: Criteria) -> Batch:
        """Return the wanted events: the batch itself, if all are wanted."""
        if filters.is_all:
            return self
        return Batch([event for event in self.events if filters.fits(event.message)], self.upto)


def cut(events: Iterable[FeedEvent], kind: type[Batch] = Batch) -> Iterator[Batch]:
    """Yield batches of a kind, each of the length that is sent at once."""
    part: list[FeedEvent] = []
    size = 0
    for event in events:
        if part and size + len(event.line) > BATCH_BYTES:
            yield kind(part, part[-1].seq)
            part, size = [], 0
        part.append(event)
        size += len(event.line)
    if part:
        yield kind(part, part[-1].seq)


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the beginning of some batches as one: the first alone, if it is long enough."""
    size, count = batches[0].size, 1
    while count < len(batches) and size + batches[count].size <= BATCH_BYTES:
        size += batches[count].size
        count += 1
    if count == 1:
        return batches[0]
    parts = batches[:count]
    batch = Batch([event for part in parts for event in part.events], parts[-1].upto)
    batch.sse = b"".join(part.sse for part in parts)  # each is there already
    return batch


# The log for clients that are far behind, read once for those at about the same place.

#: How many messages are read at once. All read from multiples of it, so that clients at about the
#: same place soon ask for the same block.
_BLOCK = 200
#: How many messages one search looks at: some 0.1 s where they are archived. A thread
#: that reads can't be stopped, neither when the client goes nor when the server ends.
_LOOK = 20_000
#: How many blocks are kept for further clients.
_KEPT_BLOCKS = 16
#: How many clients read the log at a time.
_READERS = 4


class FeedHistory:
    """The log from a cursor on. Used from the event loop alone.

    Args:
        bus: whose log.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._blocks: OrderedDict[tuple[int, int], asyncio.Task[list[Batch]]] = OrderedDict()
        self._readers = anyio.CapacityLimiter(_READERS)

    async def after(self, after_seq: int, upto_seq: int) -> Batch:
        """Return the next messages after a seq, up to another."""
        start = after_seq // _BLOCK * _BLOCK
        key = start, min(upto_seq, start + _BLOCK)
        task = self._blocks.get(key)
        if task is None:
            task = self._blocks[key] = asyncio.create_task(self._read(*key))
            # The waiting clients get the error of the block; without waiting clients it is dropped.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            if len(self._blocks) > _KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        try:
            batches = await asyncio.shield(task)  # others wait for it too
        except Exception:  # what can't be read may lie before this client: it needs less
            self._blocks.pop(key, None)
            batches = await self._read(after_seq, key[1])
        for batch in batches:
            if batch.upto > after_seq:
                return batch.after(after_seq)
        return Batch((), upto=key[1])

    async def find(self, after_seq: int, filters: Criteria) -> Batch:
        """Return the next wanted messages after a seq, at most one batch.

        It may be empty, and not reach the end of the log.
        """
        find = partial(self._find, after_seq, filters)
        return await anyio.to_thread.run_sync(find, limiter=self._readers)

    async def _read(self, after_seq: int, upto_seq: int) -> list[Batch]:
        read = partial(self._read_log, after_seq, upto_seq)
        return await anyio.to_thread.run_sync(read, limiter=self._readers)

    def _read_log(self, after_seq: int, upto_seq: int) -> list[Batch]:
        messages = self._bus.log.read(after_seq=after_seq, upto_seq=upto_seq)
        return list(cut(map(FeedEvent, messages)))

    def _find(self, after_seq: int, filters: Criteria) -> Batch:
        upto = min(self._bus.log.newest_seq(), after_seq + _LOOK)
        messages = self._bus.log.find(filters, after_seq=after_seq, upto_seq=upto)
        nothing = Batch((), upto=max(after_seq, upto))
        return next(cut(map(FeedEvent, messages)), nothing)


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


class LiveFeed:
    """The live messages after a cursor. All but the thread is used from the event loop alone.

    Args:
        bus: whose messages.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._history = FeedHistory(bus)
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
        self, after_seq: int, filters: Criteria, *, keep_alive_s: float
    ) -> AsyncGenerator[Batch, None]:
        """Yield the messages after a seq, in order, each once, until the feed is stopped.

        Yields an empty batch when nothing came for `keep_alive_s` seconds.
        """
        spoke = self._loop.time()
        while not self.is_over:
            batch = await self._next(after_seq, filters)
            after_seq = max(after_seq, batch.upto)
            if not batch.events:
                # Messages that the client doesn't want wake this task too: it goes on waiting.
                left_s = spoke + keep_alive_s - self._loop.time()
                if left_s > 0 and await self._wait(after_seq, left_s):
                    continue
            spoke = self._loop.time()
            yield batch

    async def _next(self, after_seq: int, filters: Criteria) -> Batch:
        """Return the next messages after a seq; empty when there are none yet."""
        if after_seq >= self._begins_after:
            return self._kept_after(after_seq).fitting(filters)
        if filters.is_all:
            return await self._history.after(after_seq, self._begins_after)
        return await self._history.find(after_seq, filters)

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
                while events := [FeedEvent(message) for message in islice(messages, _AT_ONCE)]:
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


# Clients of a stream: sending to them, their timeouts, and the end of their stream.

#: How often a client's token is checked again, in seconds.
_ASK_EVERY_S = 1.0

#: How long a client that is dropped may take to read the reason, at most, in seconds.
_LAST_WORDS_S = 5.0


class StreamEnd(Exception):
    """The end of a stream: its reason, and the close code of RFC 6455."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code

    @classmethod
    def stopped(cls) -> StreamEnd:
        """Return the end of a stream whose server stops."""
        return cls(1001, "the server stops; go on from your cursor")

    @classmethod
    def refused(cls, why: str) -> StreamEnd:
        """Return the end of a stream that its client has no right to: retrying is useless."""
        return cls(1008, why)

    @classmethod
    def failed(cls, why: str) -> StreamEnd:
        """Return the end of a stream because the bus can't be read."""
        return cls(1011, why)

    @classmethod
    def for_now(cls, why: str) -> StreamEnd:
        """Return the end of a stream that its client may ask for again in a moment."""
        return cls(1013, why)


class ClientTransport(Protocol):
    """The transport to one client."""

    async def send(self, batch: Batch) -> None:
        """Send a batch; return when the system has taken it."""

    async def close(self, end: StreamEnd) -> None:
        """Send the end of the stream, with its reason."""

    async def gone(self) -> None:
        """Return when the client has disconnected."""


class StreamClient:
    """One client of a stream.

    Args:
        connection: the client's connection.
        kind: the kind of the stream: `sse` or `websocket`.
        wire: the transport to the client.
        row: what its token needs, as long as the stream lasts.
    """

    def __init__(
        self,
        connection: HTTPConnection,
        kind: str,
        wire: ClientTransport,
        row: AccessRule,
    ) -> None:
        self._connection = connection
        self._wire = wire
        self._row = row
        self._asked_at = time.monotonic()
        self._address = connection.client
        self._hang_up = connection.app.state.hang_up
        self._patience: ClientTimeouts = connection.app.state.patience
        self._counts = connection.app.state.metrics.streams(kind)

    async def follow(self, batches: AsyncIterator[Batch]) -> None:
        """Send batches until the client leaves, stalls or loses its right, or the server stops."""
        self._counts.came()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_when_gone, tasks.cancel_scope)
                try:
                    await self._send_all(batches)
                except StreamEnd as end:
                    await self._drop(end)
                except WebSocketDisconnect:
                    pass  # the client disconnected during the write
                tasks.cancel_scope.cancel()
        finally:
            self._counts.went()

    async def _cancel_when_gone(self, scope: anyio.CancelScope) -> None:
        await self._wire.gone()
        scope.cancel()

    async def _send_all(self, batches: AsyncIterator[Batch]) -> None:
        try:
            async for batch in batches:
                if not self._is_let_in():
                    raise StreamEnd.refused("the token is no longer valid")
                await self._send(batch)
        except AckbusError as error:
            raise StreamEnd.failed(str(error)) from error
        except Exception as error:
            damaged = await anyio.to_thread.run_sync(damage_behind, error)
            if damaged is None:
                raise
            raise StreamEnd.failed(str(damaged)) from error
        await self._wire.close(StreamEnd.stopped())

    async def _send(self, batch: Batch) -> None:
        with anyio.move_on_after(self._patience.stalled_s) as waiting:
            await self._wire.send(batch)
        if waiting.cancelled_caught:
            took = f"what was sent was not read within {self._patience.stalled_s:g} s"
            raise StreamEnd.for_now(f"{took}; go on from your cursor")
        self._counts.delivered(len(batch.events))

    def _is_let_in(self) -> bool:
        """Whether its token is valid, as of the last check."""
        now = time.monotonic()
        if now - self._asked_at > _ASK_EVERY_S:
            self._asked_at = now
            return is_still_authorized(self._connection, self._row)
        return True

    async def _drop(self, end: StreamEnd) -> None:
        """Send the client the reason if it reads again soon; else end its connection."""
        self._counts.dropped()
        host, port = self._address or ("?", 0)
        _log.warning("dropped %s port %s: %s", host, port, end)
        last_words_s = min(self._patience.stalled_s, _LAST_WORDS_S)
        with anyio.move_on_after(last_words_s) as waiting:
            await self._wire.close(end)
        if waiting.cancelled_caught:
            self._hang_up(self._address)
            await anyio.sleep(last_words_s)  # the end of the connection ends this
