"""Blocking calls of the library, awaited by coroutines: the event loop never waits for the bus."""

from __future__ import annotations

from functools import partial
from itertools import islice

from .doorbell import StopEvent, listen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TypeVar

    from ..schema.message.message import Message
    from .local_bus import LocalBus
    from .log.log import Criteria

    T = TypeVar("T")

#: How many messages a follower takes over from its thread at a time.
_PAGE = 200


async def in_thread(call: Callable[[], T], *, stop: Callable[[], object] | None = None) -> T:
    """Run a blocking call in a thread, and return its result.

    When the coroutine is cancelled, the call is stopped and its end awaited: nothing of it goes
    on afterwards. A call without `stop`, such as a write, is awaited to its end, as it may take
    effect.

    Args:
        call: the call.
        stop: ends the call soon, from another thread. A call that has it waits for something, and
            gets a thread of its own: waiting calls must not use up the threads of asyncio.
    """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    executor = None if stop is None else ThreadPoolExecutor(1, thread_name_prefix="ackbus-wait")
    running = asyncio.get_running_loop().run_in_executor(executor, call)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # retrieved: asyncio reports it otherwise
        raise
    finally:
        if executor is not None:
            executor.shutdown(wait=False)


async def follow(bus: LocalBus, after: int, criteria: Criteria) -> AsyncIterator[Message]:
    """Yield messages as `Bus.follow` does."""
    log, stop = bus.log, StopEvent()
    with listen(bus, stop) as listener:
        while True:
            newest = await in_thread(
                partial(listener.wait_for, log.newest_seq, after.__lt__), stop=stop.set
            )
            matching = log.find(criteria, after_seq=after, upto_seq=newest)
            while page := await in_thread(lambda messages=matching: [*islice(messages, _PAGE)]):  # type: ignore[misc]
                for message in page:
                    yield message
            after = newest
