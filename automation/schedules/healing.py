"""Schedules and jobs come back to the right time when a clock that was ahead is set back."""

from __future__ import annotations

from itertools import groupby

from ...schema.paging import NoProgress
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.jobs import Jobs
from ..jobs.plugin_queues import queues_of_plugins
from .firing import with_due
from .recurrence import NoNextTime, due_time, first_nominal, next_nominal, nominals_after
from .tables import Decisions, Schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...bus.bus import Bus
    from ..config.snapshot import ScheduleEntry
    from .tables import Schedule

#: The errors of one schedule whose times can't be computed: by its rule, or by what is stored.
NO_TIMES = (NoNextTime, NoProgress, OverflowError, ValueError)

#: How much later a next time may be than the rule has it, in milliseconds: clocks are slewed.
_TOLERANCE_MS = 1_000

#: How long a preferred window holds a time back at the most, in milliseconds.
_LONGEST_WAIT_MS = 2 * 24 * 3_600_000


class Healing:
    """Brings schedules back to the times of a clock that was ahead and was set back.

    What fired while it was ahead does not fire again. What was skipped or missed is reopened. Jobs
    of plugins that failed meanwhile are tried again after their pause, and not at its far end.

    Args:
        bus: an open bus.
        chance: returns a random number, 0 to 1.
    """

    def __init__(self, bus: Bus, chance: Callable[[], float]) -> None:
        self._schedules = Schedules.of(bus)
        self._decisions = Decisions.of(bus)
        self._bus, self._jobs, self._claims = bus, Jobs.of(bus), Claims.of(bus)
        self._chance = chance

    def heal(self, entries: Mapping[tuple[str, str], ScheduleEntry], now_ms: int) -> None:
        """Reopen and bring nearer what is to be, in the open transaction; twice is as good as once.

        Args:
            entries: the schedules of the configuration.
            now_ms: the present time.
        """
        was_ahead = self._decisions.newest_ms() > now_ms
        self._decisions.reopen(now_ms, now_ms)
        for known in self._schedules.all():
            entry = entries.get((known.plugin, known.id))
            if entry is not None and entry.hash == known.config_hash:
                try:
                    self._bring_nearer(entry, known, now_ms, was_ahead)
                except NO_TIMES:  # of this schedule alone; who decides about it says why
                    continue
        self._schedules.correct(now_ms)
        for info in queues_of_plugins(self._bus):
            self._claims.follow_clock_back(info, now_ms)
            self._jobs.follow_clock_back(info, now_ms)

    def _bring_nearer(
        self, entry: ScheduleEntry, known: Schedule, now_ms: int, was_ahead: bool
    ) -> None:
        next_ms = known.next_nominal_ms
        if self._is_over(entry, known, now_ms) if next_ms is None else next_ms <= now_ms:
            return
        latest_ms = self._latest(entry, known, now_ms, was_ahead)
        if latest_ms is not None and (next_ms is None or next_ms > latest_ms + _TOLERANCE_MS):
            nominal_ms = self._after_its_last(entry, known, now_ms) or latest_ms
            self._schedules.advance(entry, *with_due(entry, nominal_ms, self._chance()))

    def _is_over(self, entry: ScheduleEntry, known: Schedule, now_ms: int) -> bool:
        """Whether a schedule without a next time has none by its rule."""
        is_single = entry.at_ms is not None or entry.after_s is not None
        is_waiting = known.waiting_ms is not None and known.waiting_ms <= now_ms
        return is_single and (is_waiting or self._decisions.has_any(entry))

    def _latest(
        self, entry: ScheduleEntry, known: Schedule, now_ms: int, was_ahead: bool
    ) -> int | None:
        """Return the latest nominal time that may stand next by a clock that shows `now_ms`."""
        if entry.at_ms is not None or entry.after_s is not None:
            return first_nominal(entry, now_ms)
        if entry.cron is not None and entry.preferred_window is not None and was_ahead:
            return self._held_back(entry, known, now_ms)
        return next_nominal(entry, now_ms)

    def _held_back(self, entry: ScheduleEntry, known: Schedule, now_ms: int) -> int | None:
        """Return the first time of a rule that its window lets come after now.

        All that a window holds back until its start come once: one that is decided decides them.
        """
        after_ms = max(now_ms - _LONGEST_WAIT_MS, min(known.begun_at_ms, now_ms))
        times = nominals_after(entry, after_ms)
        for due_ms, together in groupby(times, lambda at_ms: due_time(entry, at_ms, 0.5)):
            if due_ms > now_ms:
                held = list(together)
                self._decisions.reopen(now_ms, held[0] - 1, entry)
                if held[0] > now_ms or not self._decisions.within(entry, held[0], held[-1]):
                    return held[0]
        return None

    def _after_its_last(self, entry: ScheduleEntry, known: Schedule, now_ms: int) -> int | None:
        """Return the next time of an interval that last ran before the clock was ahead, or None."""
        fired_ms = known.last_fired_ms
        if entry.every_s is None or fired_ms is None or fired_ms > now_ms:
            return None
        nominal_ms = next_nominal(entry, fired_ms)
        return None if nominal_ms is None else max(now_ms, nominal_ms)
