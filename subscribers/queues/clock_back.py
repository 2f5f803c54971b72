"""A clock that was ahead and was set back: times that it stored are moved to the present time.

Retries, claims, leases, reservations and dedupe windows would stand still until the date at which
they were stored. The hot paths do not check for that: the loops of workers do, when they begin and
when they see the clock go back.
"""

from __future__ import annotations

from time import monotonic

from ...schema.errors import BusBusy
from ..inboxes.session_names import SessionNames
from ..jobs.claims import Claims
from ..jobs.jobs import Jobs
from .queues import Queues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus

#: From which jump on a clock was set back, and not slewed, in milliseconds.
_STEP_MS = 1_000.0


class ClockBack:
    """Notices, for a loop, that the clock of a bus has gone back.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._offset_ms: float | None = None

    def look(self) -> bool:
        """Move times that a clock ahead has stored to the present, if there may be any.

        The first look compares the newest claim or lease with the clock; later looks compare the
        clock with a clock that never goes back, and run no statement unless it has.

        Returns:
            Whether times were moved; False also where the bus was busy: the next look tries again.
        """
        offset_ms = self._bus.now_ms() - monotonic() * 1000
        try:
            if self._offset_ms is None:
                is_back = newest_ms(self._bus) > self._bus.now_ms()
            else:
                is_back = offset_ms < self._offset_ms - _STEP_MS
            if is_back:
                follow_clock_back(self._bus)
        except BusBusy:
            return False
        self._offset_ms = offset_ms
        return is_back


def newest_ms(bus: LocalBus) -> int:
    """Return the time of the newest claim or lease, in epoch milliseconds; 0 if there is none."""
    return max(Claims.of(bus).newest_ms(), bus.leases.newest_ms())


def follow_clock_back(bus: LocalBus) -> None:
    """Bring what was stored by a clock that was ahead to the present time; safe to repeat."""
    bus.reservations.follow_clock_back()
    SessionNames.of(bus).follow_clock_back(bus.now_ms())
    jobs, claims = Jobs.of(bus), Claims.of(bus)
    for info in Queues(bus).list():
        with bus.transaction():
            claims.follow_clock_back(info, bus.now_ms())
            jobs.follow_clock_back(info, bus.now_ms())
