"""The threads in which operations use the library: as many as the bus may have connections.

Each thread that touches the bus has a connection, with its files and its memory, so their number
is bounded. What waits (for room, for an answer, for a slow client) waits in the event loop, and
takes a thread only to look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

#: How many operations run at a time; those that come meanwhile wait for a thread.
THREADS = 16

#: How long a write waits for other writers, in seconds; the client is then told to try again. While
#: it waits it holds a thread, and those who only read need one too.
WRITE_TIMEOUT_S = 5.0

T = TypeVar("T")


def bound_threads() -> None:
    """Bound the threads of the event loop that runs; FastAPI runs plain functions in them too."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS


async def in_thread(act: Callable[[], T]) -> T:
    """Run what uses the library in one of the threads."""
    return await anyio.to_thread.run_sync(act)
