"""The threads in which the server uses the library.

Each thread that touches the bus has a connection, with its files and its memory, so each kind is
bounded, and has its own bound where one kind would block another: operations, blobs that come
in and that go out (each has a thread as long as its client takes), the log reads of streams
(`live.history`) and tools (`mcp.protocol`). Operations that wait (for room, for an answer) wait in
the event loop, and take a thread only to look; tools that wait keep theirs. Besides, there is one
thread for each of the live feed, the hearts of agents and the health check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

#: How many operations run at a time; those that come meanwhile wait for a thread.
THREADS = 16
#: How many blobs come in at a time, and how many go out.
UPLOADS = DOWNLOADS = 8

#: How long a write waits for other writers, in seconds; the client is then told to try again. While
#: it waits it holds a thread, and those who only read need one too.
WRITE_TIMEOUT_S = 5.0

T = TypeVar("T")


def bound_threads() -> None:
    """Bound the threads of the event loop that runs; FastAPI runs plain functions in them too."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS


async def in_thread(act: Callable[[], T]) -> T:
    """Run a function that uses the library in one of the threads."""
    return await anyio.to_thread.run_sync(act)
