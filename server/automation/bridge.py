"""The guarded bridge: callers that wait for a run, a bounded number of them, each for a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import anyio.to_thread
from fastapi import Request

from ...automation.routes.tree import Tree, wait
from ...bus.bus import Bus
from ...schema.errors import AckbusError
from ..access.errors import TooManyRequests
from ..disconnects import until_gone

#: When a caller that finds no place may try again, in seconds.
_RETRY_S = 1.0


class Bridge:
    """The callers that wait. Used from the event loop alone, but for `close`.

    Args:
        bus: whose runs they wait for.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._count = 0
        self._is_closed = threading.Event()

    @contextmanager
    def place(self, places: int) -> Iterator[None]:
        """Count as a waiting caller inside the block.

        Raises:
            TooManyRequests: so many wait already.
        """
        if self._count >= places:
            why = f"{places} callers wait for pipelines already; ask with ?async=true, or again"
            raise TooManyRequests(why, _RETRY_S)
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    async def wait(self, request: Request, root: str, timeout_s: float) -> Tree:
        """Wait for a run, as long as the client does, and return its tree as it is then.

        Each waits in a thread of its own, as there is a place for each.

        Raises:
            AckbusError: the bus can't be read.
        """
        is_gone = threading.Event()

        def is_wanted() -> bool:
            return not (is_gone.is_set() or self._is_closed.is_set())

        async def leave_with_client() -> None:
            await until_gone(request.receive)
            is_gone.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave_with_client)
            waiting = partial(wait, self._bus, root, timeout_s, is_wanted)
            found: Tree | AckbusError
            try:
                found = await anyio.to_thread.run_sync(waiting, limiter=anyio.CapacityLimiter(1))
            except AckbusError as error:  # out of the group it would come as a group of errors
                found = error
            tasks.cancel_scope.cancel()
        if isinstance(found, AckbusError):
            raise found
        return found

    def close(self) -> None:
        """End all waiting, from any thread: what they wait for runs on."""
        self._is_closed.set()
