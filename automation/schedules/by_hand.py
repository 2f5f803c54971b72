"""Acts of people on schedules: pause, resume, run now, backfill. The service need not run."""

from __future__ import annotations

import random
from itertools import islice

from ...bus.doorbell import ring
from ...schema.errors import NotFound
from ..jobs.job_request import Submitted
from .firing import submit, times_until, with_due
from .recurrence import next_nominal
from .tables import Decisions, Schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus
    from ..config.snapshot import Config, ScheduleEntry
    from ..jobs.submission import Submission
    from .tables import Decision, Schedule

#: How many passed times are counted when a schedule is resumed.
_MAX_COUNTED = 10_000

#: Why a time was skipped that came while its schedule was paused.
_PAUSED = "it was paused"


class SchedulesByHand:
    """The schedules of a configuration, for people.

    Args:
        bus: an open bus.
        submission: takes jobs in.
        config: the configuration that the service goes by.
    """

    def __init__(self, bus: Bus, submission: Submission, config: Config) -> None:
        self._bus = bus
        self._submission = submission
        self._schedules = Schedules.of(bus)
        self._decisions = Decisions.of(bus)
        self._entries = config.schedules()

    def check(self, plugin: str, id: str) -> None:
        """Make sure that there is such a schedule.

        Raises:
            NotFound: there is none, or the service has not begun with it.
        """
        self._named(plugin, id)

    def pause(self, plugin: str, id: str) -> None:
        """Decide about no time of a schedule until it is resumed. Safe to repeat.

        Raises:
            NotFound: there is no such schedule, or the service has not begun with it.
        """
        with self._bus.transaction():
            entry, known = self._named(plugin, id)
            if known.paused_at_ms is None:
                times = (known.next_nominal_ms, known.due_ms)
                if known.waiting_ms is not None:
                    self._schedules.wait(entry, None)
                    if not self._decisions.has(entry, known.waiting_ms):
                        self._decisions.add(entry, known.waiting_ms, "skipped", _PAUSED)
                self._schedules.set_paused(entry, self._bus.now_ms(), *times)

    def resume(self, plugin: str, id: str) -> None:
        """Go on with the next time of a paused schedule; what lay between is not run.

        Raises:
            NotFound: as for `pause`.
        """
        with self._bus.transaction():
            entry, known = self._named(plugin, id)
            if known.paused_at_ms is None:
                return
            now_ms, nominal_ms = self._bus.now_ms(), known.next_nominal_ms
            passed = list(islice(times_until(entry, nominal_ms, now_ms), _MAX_COUNTED))
            if passed:
                span = (passed[0], passed[-1], len(passed))
                self._decisions.add_run(entry, span, "skipped", _PAUSED)
                nominal_ms = next_nominal(entry, now_ms)
            times = with_due(entry, nominal_ms, random.random())
            self._schedules.set_paused(entry, None, *times)
        ring(self._bus)

    def run_now(self, plugin: str, id: str) -> Decision:
        """Begin a job of a schedule at once, besides its times, paused or not.

        Raises:
            NotFound: as for `pause`.
        """
        with self._bus.transaction():
            entry, _ = self._named(plugin, id)
            at_ms = self._bus.now_ms()
            while self._decisions.has(entry, at_ms):
                at_ms += 1
            job = submit(self._submission, entry, at_ms)
            decision = self._decisions.add(entry, at_ms, "fired", "by hand", job_id=job.job_id)
        ring(self._bus)
        return decision

    def backfill(
        self, plugin: str, id: str, from_ms: int, to_ms: int, *, dry_run: bool = False
    ) -> list[tuple[int, str | None]]:
        """Begin the jobs of past times, as many at most as the schedule catches up (100).

        Safe to repeat: a time that has a job gets no other.

        Args:
            plugin, id: the schedule.
            from_ms, to_ms: the range of nominal times, both ends included.
            dry_run: whether to begin nothing.

        Returns:
            Each nominal time with the id of its new job; None where it had one, or in a dry run.

        Raises:
            NotFound: as for `pause`.
        """
        done: list[tuple[int, str | None]] = []
        with self._bus.transaction():
            entry, known = self._named(plugin, id)
            for at_ms in _past(entry, known, from_ms, min(to_ms, self._bus.now_ms())):
                job = None if dry_run else submit(self._submission, entry, at_ms)
                done.append((at_ms, job.job_id if isinstance(job, Submitted) else None))
        ring(self._bus)
        return done

    def _named(self, plugin: str, id: str) -> tuple[ScheduleEntry, Schedule]:
        entry, known = self._entries.get((plugin, id)), self._schedules.get(plugin, id)
        if entry is None or known is None:
            raise NotFound(f"plugin {plugin!r} has no schedule {id!r}; see 'bus schedule list'")
        return entry, known


def _past(entry: ScheduleEntry, known: Schedule, from_ms: int, to_ms: int) -> Iterator[int]:
    """Yield the nominal times of a range, on the grid on which the schedule began."""
    begin_ms: int | None
    if entry.every_s is not None:
        every_ms = max(1, round(entry.every_s * 1000))
        begin_ms = from_ms + (known.begun_at_ms - from_ms) % every_ms
    elif entry.cron is not None:
        begin_ms = next_nominal(entry, from_ms - 1)
    else:
        begin_ms = entry.at_ms
    found = (at_ms for at_ms in times_until(entry, begin_ms, to_ms) if at_ms >= from_ms)
    return islice(found, entry.catch_up_max)
