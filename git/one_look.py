"""The limit of a look: how long one command that looks may wait for git, over all its calls.

What lies at the place of a file of git's may be a pipe, to which nobody writes, or a device, which
has no end; and a repository may be too large to look into. Whoever asked is told, in time.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long a look may wait for git in all, in seconds. A command that looks ends within 20.
LOOK_S = 15.0


class Look:
    """A look that is under way; its time begins with the first call of git."""

    def __init__(self) -> None:
        self._end_s: float | None = None

    def seconds_left(self) -> float:
        """Return how long git may still take; 0 when the time is over."""
        now_s = time.monotonic()
        if self._end_s is None:
            self._end_s = now_s + LOOK_S
        return max(0.0, self._end_s - now_s)


_look: ContextVar[Look | None] = ContextVar("look", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Within the block git has one limit for all its calls; it is also a decorator.

    A look within a look is a part of it. Threads that are started within the block take part by
    `take_part`. A generator can't hold the block open: whoever runs through it does.
    """
    if _look.get() is not None:
        yield
        return
    token = _look.set(Look())
    try:
        yield
    finally:
        _look.reset(token)


def seconds_left() -> float | None:
    """Return how long git may still take, 0 when the time is over; None: nobody looks."""
    look = _look.get()
    return None if look is None else look.seconds_left()


def look_here() -> Look | None:
    """Return the look that is under way in this thread, or None."""
    return _look.get()


def take_part(look: Look | None) -> None:
    """Have this thread take part in the look of the thread that started it."""
    _look.set(look)
