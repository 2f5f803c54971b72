"""A limit of rates: the token bucket."""

from __future__ import annotations

import time
from threading import Lock


class Bucket:
    """A token bucket: allows `rate` requests a second, and bursts. Any thread may use it.

    Args:
        rate: requests a second.
        burst: how many may come at once; None: those of a second.
    """

    def __init__(self, rate: float, burst: float | None = None) -> None:
        self._rate = rate
        self._most = max(rate if burst is None else burst, 1.0)
        self._left = self._most
        self._at = time.monotonic()
        self._lock = Lock()

    def take(self) -> float:
        """Take one request; return 0 if it is allowed, or the seconds until the next one is."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._most, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left < 1:
                return (1 - self._left) / self._rate
            self._left -= 1
            return 0.0
