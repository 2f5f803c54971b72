"""Awaiting what blocks, in a thread of its own."""

from __future__ import annotations

import asyncio

from ..schema.processes import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


async def in_thread(call: Callable[[], int], name: str, stop: Callable[[], None]) -> int:
    """Call something in a thread, and return what it returns, or raise what it raises.

    Args:
        call: what blocks.
        name: the thread's.
        stop: makes `call` return soon: when this is cancelled, it still waits for that.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def settle(how: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None if ended.done() else how())

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # the awaiting coroutine is to have it
            failure = error
            settle(lambda: ended.set_exception(failure))
        else:
            settle(lambda: ended.set_result(value))

    thread = start_thread(run, name)
    try:
        return await ended
    except asyncio.CancelledError:
        stop()
        raise
    finally:
        await loop.run_in_executor(None, thread.join)
