"""Housekeeping: what a service does from time to time beside its jobs."""

from __future__ import annotations

import time

from ..schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ..bus.bus import Bus
    from .config.snapshot import ServiceConfig

    class Records(Protocol):
        """A table whose rows go when they are old."""

        def prune(self, before: str, limit: int) -> int:
            """Delete rows of before a time, at most so many; return how many went."""


#: Seconds between two notes that the service is there.
_BEAT_S = 60.0

#: How many rows of old records one statement deletes.
_PRUNED_AT_ONCE = 500


class Housekeeping:
    """Notes that the service is there, and deletes old records.

    Args:
        bus: the bus; its clock counts.
        records: the tables that are pruned.
        beat: notes that the service is there.
    """

    def __init__(self, bus: Bus, records: Sequence[Records], beat: Callable[[], None]) -> None:
        self._bus = bus
        self._records = records
        self._beat = beat
        self._next_prune = self._next_beat = 0.0

    def step(self, service: ServiceConfig) -> None:
        """Do what is due."""
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + _BEAT_S
            self._beat()
        if now >= self._next_prune:
            self._next_prune = now + service.tick_interval_s
            self._prune(service.job_log_retention_s)

    def _prune(self, kept_s: float) -> None:
        before = format_ts(max(0, self._bus.now_ms() - round(kept_s * 1000)))
        for records in self._records:
            while records.prune(before, _PRUNED_AT_ONCE) == _PRUNED_AT_ONCE:
                pass
