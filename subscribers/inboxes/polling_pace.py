"""The pace of polling: how much at a time, and how long a waiter sleeps without a ring."""

from __future__ import annotations

from ...schema.errors import InvalidInput

#: The sleep after a message, in seconds.
ACTIVE_S = 0.2

#: The longest sleep, in seconds: how late a message of a program that never rings may be seen.
IDLE_S = 2.0

#: By how much each look that finds nothing lengthens the next sleep.
BACKOFF = 1.5

#: How many messages a poll returns unless it is told otherwise.
POLL_LIMIT = 100


class Pace:
    """A growing sleep: 0.2, 0.3, 0.45 … 2.0 s; back to 0.2 as soon as there is a message.

    Equal `active_s` and `idle_s` give a fixed pace.

    Args:
        active_s: the first sleep, in seconds.
        idle_s: the longest.
        backoff: the factor between them.
    """

    def __init__(
        self, active_s: float = ACTIVE_S, idle_s: float = IDLE_S, backoff: float = BACKOFF
    ) -> None:
        if not 0 < active_s <= idle_s or backoff < 1:
            raise InvalidInput("a pace needs 0 < active_s <= idle_s and backoff >= 1")
        self._active_s, self._idle_s, self._backoff = active_s, idle_s, backoff
        self._next_s = active_s

    def next(self) -> float:
        """Return the sleep that is due, in seconds, and lengthen the one after it."""
        due = self._next_s
        self._next_s = min(due * self._backoff, self._idle_s)
        return due

    def reset(self) -> None:
        """Begin again with the shortest sleep: there was a message."""
        self._next_s = self._active_s
