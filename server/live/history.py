"""The log for clients that are far behind, read once for those at about the same place."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial

import anyio
import anyio.to_thread

from ...bus.bus import Bus
from ...bus.log.filters import Wanted
from .batches import Batch, Event, cut

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


class History:
    """The log from a cursor on. Used from the event loop alone.

    Args:
        bus: whose log.
    """

    def __init__(self, bus: Bus) -> None:
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
            # Those who wait for the block get its error; when all have left, it is dropped.
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

    async def find(self, after_seq: int, wanted: Wanted) -> Batch:
        """Return the next wanted messages after a seq, at most one batch.

        It may be empty, and not reach the end of the log.
        """
        find = partial(self._find, after_seq, wanted)
        return await anyio.to_thread.run_sync(find, limiter=self._readers)

    async def _read(self, after_seq: int, upto_seq: int) -> list[Batch]:
        read = partial(self._read_log, after_seq, upto_seq)
        return await anyio.to_thread.run_sync(read, limiter=self._readers)

    def _read_log(self, after_seq: int, upto_seq: int) -> list[Batch]:
        messages = self._bus.log.read(after_seq=after_seq, upto_seq=upto_seq)
        return list(cut(map(Event, messages)))

    def _find(self, after_seq: int, wanted: Wanted) -> Batch:
        upto = min(self._bus.log.newest_seq(), after_seq + _LOOK)
        found = self._bus.log.find(wanted, after_seq=after_seq, upto_seq=upto)
        nothing = Batch((), upto=max(after_seq, upto))
        return next(cut(map(Event, found)), nothing)
