"""The scheduler: decides about each nominal time once, also when a clock was set back."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from itertools import groupby

from ...schema.message.times import MAX_TS_MS, format_ts
from ...schema.paging import NoProgress
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.jobs import Jobs
from ..jobs.submission import queues_of_plugins
from .firing import REFUSALS, ScheduledStarts, last_times, with_due
from .recurrence import NoNextTime, due_time, first_nominal, next_nominal, nominals_after, phases_ms
from .tables import Decision, Decisions, Schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...bus.local_bus import LocalBus
    from ..config.models import Config, ScheduleEntry
    from ..jobs.submission import Submission
    from ..plugins.discovery import Registry
    from ..records.breakers import Breakers
    from .tables import Schedule

# Schedules and jobs come back to the right time when a clock that was ahead is set back.

#: The errors of one schedule whose times can't be computed: by its rule, or by what is stored.
NO_TIMES = (NoNextTime, NoProgress, OverflowError, ValueError)

#: How much later a next time may be than the rule has it, in milliseconds: clocks are slewed.
_TOLERANCE_MS = 1_000

#: The longest delay by a preferred window, in milliseconds.
_LONGEST_WAIT_MS = 2 * 24 * 3_600_000


class ClockCorrection:
    """Corrects schedules after a clock that was ahead has been set back.

    What fired while it was ahead does not fire again. What was skipped or missed is reopened. Jobs
    of plugins that failed meanwhile are tried again after their pause, and not at its far end.

    Args:
        bus: an open bus.
        chance: returns a random number, 0 to 1.
    """

    def __init__(self, bus: LocalBus, chance: Callable[[], float]) -> None:
        self._schedules = Schedules.of(bus)
        self._decisions = Decisions.of(bus)
        self._bus, self._jobs, self._claims = bus, Jobs.of(bus), Claims.of(bus)
        self._chance = chance

    def correct_all(self, entries: Mapping[tuple[str, str], ScheduleEntry], now_ms: int) -> None:
        """Reopen and bring nearer the affected times, in the open transaction. Safe to repeat.

        Args:
            entries: the schedules of the configuration.
            now_ms: the present time.
        """
        was_ahead = self._decisions.newest_ms() > now_ms
        self._decisions.reopen(now_ms, now_ms)
        for schedule in self._schedules.all():
            entry = entries.get((schedule.plugin, schedule.id))
            if entry is not None and entry.hash == schedule.config_hash:
                try:
                    self._bring_nearer(entry, schedule, now_ms, was_ahead)
                except NO_TIMES:  # of this schedule alone; its own decision reports why
                    continue
        self._schedules.correct(now_ms)
        for info in queues_of_plugins(self._bus):
            self._claims.follow_clock_back(info, now_ms)
            self._jobs.follow_clock_back(info, now_ms)

    def _bring_nearer(
        self, entry: ScheduleEntry, schedule: Schedule, now_ms: int, was_ahead: bool
    ) -> None:
        next_ms = schedule.next_nominal_ms
        if self._is_over(entry, schedule, now_ms) if next_ms is None else next_ms <= now_ms:
            return
        latest_ms = self._latest(entry, schedule, now_ms, was_ahead)
        if latest_ms is not None and (next_ms is None or next_ms > latest_ms + _TOLERANCE_MS):
            nominal_ms = self._after_its_last(entry, schedule, now_ms) or latest_ms
            self._schedules.advance(entry, *with_due(entry, nominal_ms, self._chance()))

    def _is_over(self, entry: ScheduleEntry, schedule: Schedule, now_ms: int) -> bool:
        """Whether a schedule without a next time has none by its rule."""
        is_single = entry.at_ms is not None or entry.after_s is not None
        is_waiting = schedule.waiting_ms is not None and schedule.waiting_ms <= now_ms
        return is_single and (is_waiting or self._decisions.has_any(entry))

    def _latest(
        self, entry: ScheduleEntry, schedule: Schedule, now_ms: int, was_ahead: bool
    ) -> int | None:
        """Return the latest nominal time that may stand next by a clock that shows `now_ms`."""
        if entry.at_ms is not None or entry.after_s is not None:
            return first_nominal(entry, now_ms)
        if entry.cron is not None and entry.preferred_window is not None and was_ahead:
            return self._held_back(entry, schedule, now_ms)
        return next_nominal(entry, now_ms)

    def _held_back(self, entry: ScheduleEntry, schedule: Schedule, now_ms: int) -> int | None:
        """Return the first time of a rule that its window lets come after now.

        Times that a window delays to one start run once together: one decision is for all of them.
        """
        after_ms = max(now_ms - _LONGEST_WAIT_MS, min(schedule.begun_at_ms, now_ms))
        times = nominals_after(entry, after_ms)
        for due_ms, together in groupby(times, lambda at_ms: due_time(entry, at_ms, 0.5)):
            if due_ms > now_ms:
                group = list(together)
                self._decisions.reopen(now_ms, group[0] - 1, entry)
                if group[0] > now_ms or not self._decisions.within(entry, group[0], group[-1]):
                    return group[0]
        return None

    def _after_its_last(self, entry: ScheduleEntry, schedule: Schedule, now_ms: int) -> int | None:
        """Return the next time of an interval that last ran before the clock was ahead, or None."""
        fired_ms = schedule.last_fired_ms
        if entry.every_s is None or fired_ms is None or fired_ms > now_ms:
            return None
        nominal_ms = next_nominal(entry, fired_ms)
        return None if nominal_ms is None else max(now_ms, nominal_ms)


#: How many schedules are decided about in one transaction: some milliseconds.
BATCH = 50

#: How many missed times are kept; of a longer run the last ones are.
MAX_LOOKED_AT = 10_000

#: The least lateness, in milliseconds, from which on a time counts as missed.
_LEAST_GRACE_MS = 1_000

_log = logging.getLogger("ackbus.automation.scheduler")


@dataclass(frozen=True, slots=True)
class _Times:
    """The nominal times of a schedule that have come.

    Attributes:
        first: the first of them.
        missed: the last of the missed ones, in order.
        count: how many were missed, which may be more.
        current: the one that is due now, or None.
        following: the one after all of them, or None.
    """

    first: int
    missed: list[int]
    count: int
    current: int | None
    following: int | None


class Scheduler:
    """Decides what is due, in transactions of its own.

    A time that is decided later than the longest sleep of the service was missed: no service ran,
    the machine slept, or its clock jumped. `catch_up` says what becomes of it.

    Args:
        bus: an open bus; its clock counts.
        submission: takes jobs in.
        breakers: say whether a scheduled command may run.
        on_missed: called for each run of missed times, in its transaction.
        check: called in each transaction of a tick; it raises where another service has begun.
    """

    def __init__(
        self,
        bus: LocalBus,
        submission: Submission,
        breakers: Breakers,
        *,
        on_missed: Callable[[ScheduleEntry, Decision], object] | None = None,
        check: Callable[[], object] | None = None,
    ) -> None:
        self._bus = bus
        self._starts = ScheduledStarts(bus, submission, breakers)
        self._on_missed = on_missed
        self._check = check
        self._schedules = Schedules.of(bus)
        self._decisions = Decisions.of(bus)
        self._entries: dict[tuple[str, str], ScheduleEntry] = {}
        self._grace_ms = _LEAST_GRACE_MS
        self._chance = random.random
        self._correction = ClockCorrection(bus, lambda: self._chance())
        self._seen_ms = 0  # the newest time that a tick has seen

    def store(self, config: Config, registry: Registry | None = None) -> None:
        """Store the schedules of a configuration, in one transaction or as a part of one.

        An unchanged schedule goes on; one with changed times begins with its next time; a removed
        one is deleted, and the decisions about it stay. `use_config` lets ticks decide about them.

        Args:
            config: the configuration.
            registry: the plugins that can run; None: all that are enabled.
        """
        entries = _entries(config, registry)
        with self._bus.transaction():
            now_ms = self._bus.now_ms()
            self._correction.correct_all(entries, now_ms)  # the clock may have been set back
            self._seen_ms = now_ms
            there = {(schedule.plugin, schedule.id): schedule for schedule in self._schedules.all()}
            for key in there.keys() - entries.keys():
                self._schedules.remove(*key)
            phases = phases_ms(entries.values())
            for key, entry in entries.items():
                self._take(entry, there.get(key), now_ms, phases.get(key, 0))

    def use_config(self, config: Config, registry: Registry | None = None) -> None:
        """Use the stored schedules of a configuration from the next tick on."""
        self._entries = _entries(config, registry)
        self._starts.use_config(config, self._entries)
        self._grace_ms = max(_LEAST_GRACE_MS, round(config.service.tick_interval_s * 1000))

    def _take(
        self, entry: ScheduleEntry, schedule: Schedule | None, now_ms: int, phase_ms: int
    ) -> None:
        if schedule is not None and schedule.config_hash == entry.hash:
            return
        try:
            times = with_due(entry, self._first(entry, schedule, now_ms, phase_ms), self._chance())
        except NO_TIMES as error:  # of this schedule alone
            _log_no_time(entry, str(error))
            times = None, None
        if schedule is None:
            self._schedules.add(entry, *times, now_ms)
        else:
            self._schedules.change(entry, *times)

    def _first(
        self, entry: ScheduleEntry, schedule: Schedule | None, now_ms: int, phase_ms: int
    ) -> int | None:
        if schedule is None:
            is_single = entry.at_ms is not None or entry.after_s is not None
            if is_single and self._decisions.has_any(entry):
                return None  # it was known before, and has run
            return first_nominal(entry, now_ms + phase_ms)
        if entry.every_s is not None and schedule.last_fired_ms is not None:
            begun_ms = next_nominal(entry, schedule.last_fired_ms) or now_ms
            nominal_ms: int | None = max(now_ms, begun_ms)
        else:
            nominal_ms = first_nominal(entry, now_ms + phase_ms)
        if nominal_ms is not None and self._decisions.has(entry, nominal_ms):
            return next_nominal(entry, max(now_ms, nominal_ms))
        return nominal_ms

    def tick(self) -> int | None:
        """Decide about all that is due; return when something is due next, in epoch milliseconds.

        One index lookup when nothing is due. A crash leaves each time decided, with its job, or
        not at all.
        """
        self._follow_clock()
        self.give_turns()
        before: list[Schedule] = []
        while due := self._schedules.due(self._bus.now_ms(), BATCH):
            # A long run of missed times takes its time, in which others write.
            come = [self._looked_at(schedule) for schedule in due]
            with self._bus.transaction():
                if self._check is not None:
                    self._check()
                if due == before:  # a program stored rows that no name leads to
                    self._schedules.remove_all_but(self._entries)
                for schedule, times in zip(due, come, strict=True):
                    if schedule == self._schedules.get(schedule.plugin, schedule.id):
                        self._decide(schedule, times)
            before = due
        return self._schedules.next_due()

    def give_turns(self) -> bool:
        """Begin schedules that waited for the job of another one of their command, if that is over.

        Returns:
            Whether a job has begun.
        """
        waiting = self._schedules.waiting(self._bus.now_ms())
        if not waiting:
            return False
        begun, busy = False, set[tuple[str, str]]()
        with self._bus.transaction():
            if self._check is not None:
                self._check()
            for schedule in waiting:
                entry = self._entry(schedule)
                if entry is None or (entry.plugin, entry.command) in busy:
                    continue
                busy.add((entry.plugin, entry.command))  # the next one waits for this one now
                if schedule == self._schedules.get(schedule.plugin, schedule.id):
                    begun |= self._starts.give_turn(entry, schedule)
        return begun

    def _looked_at(self, schedule: Schedule) -> _Times | str | None:
        """Return what `_times` does, or why no times can be computed: of this schedule alone."""
        try:
            times = self._times(schedule, self._bus.now_ms())
            if times is not None:
                with_due(self._entries[schedule.plugin, schedule.id], times.following, 0.5)
            return times
        except NO_TIMES as error:
            return str(error)

    def _follow_clock(self) -> None:
        """Correct the schedules if the clock was set back since the last tick."""
        now_ms = self._bus.now_ms()
        if now_ms >= self._seen_ms - _LEAST_GRACE_MS:
            self._seen_ms = max(self._seen_ms, now_ms)
            return
        with self._bus.transaction():
            if self._check is not None:
                self._check()
            self._correction.correct_all(self._entries, now_ms)
        self._seen_ms = now_ms

    def _decide(self, schedule: Schedule, times: _Times | str | None) -> None:
        """Decide about the times of one schedule that have come, in the open transaction."""
        entry = self._entry(schedule)
        if entry is None or times is None or schedule.due_ms is None:
            self._schedules.remove(
                schedule.plugin, schedule.id
            )  # another configuration's, now gone
            return
        if isinstance(times, str):
            self._give_up(entry, schedule.due_ms, times)
            return
        self._starts.pass_over(entry, schedule)
        now_ms = self._bus.now_ms()
        fired = [self._catch_up(entry, times, now_ms)] if times.missed else []
        if times.current is not None:
            fired.append(self._starts.begin(entry, times.current, schedule.due_ms))
        done = [decision for decision in fired if decision is not None]
        last_ms = max(schedule.due_ms, times.current or 0, *times.missed[-1:])
        self._schedules.advance(
            entry,
            *with_due(entry, times.following, self._chance(), not_before_ms=last_ms + 1),
            fired_ms=schedule.due_ms if done and not times.missed else (now_ms if done else None),
            job_id=done[-1].job_id if done else None,
        )

    def _give_up(self, entry: ScheduleEntry, due_ms: int, why: str) -> None:
        """Leave a schedule without a next time, until it is configured otherwise; say why."""
        _log_no_time(entry, why)
        at_ms = min(max(0, due_ms), MAX_TS_MS)
        if not self._decisions.has(entry, at_ms):
            self._decisions.add(entry, at_ms, "skipped", why)
        self._schedules.advance(entry, None, None)

    def _entry(self, schedule: Schedule) -> ScheduleEntry | None:
        """Return the configuration of a schedule; None where it is configured otherwise now."""
        entry = self._entries.get((schedule.plugin, schedule.id))
        return entry if entry is not None and entry.hash == schedule.config_hash else None

    def _times(self, schedule: Schedule, now_ms: int) -> _Times | None:
        """Return the nominal times up to now: the missed ones, and the one that is due.

        Returns:
            None where the schedule is not configured so, or has no more times.
        """
        entry, nominal_ms, due_ms = self._entry(schedule), schedule.next_nominal_ms, schedule.due_ms
        if entry is None or nominal_ms is None or due_ms is None:
            return None
        while entry.every_s is not None and self._decisions.has(entry, nominal_ms):
            nominal_ms += 1  # the clock was set back: this time was there before
        if due_ms + self._grace_ms >= now_ms or nominal_ms > now_ms:
            # An interval counts from when it ran; what a window holds back comes once for all.
            is_moved = entry.every_s is not None or entry.preferred_window is not None
            from_ms = max(due_ms, 0) if is_moved else nominal_ms
            return _Times(nominal_ms, [], 0, nominal_ms, next_nominal(entry, from_ms))
        come, count = last_times(entry, nominal_ms, now_ms, MAX_LOOKED_AT)
        # An interval counts from its last time; a rule may have more of them than were looked at.
        following = next_nominal(entry, now_ms if entry.every_s is None else come[-1])
        current = None
        if count > 1 and come[-1] + self._grace_ms >= now_ms:
            current = come.pop()
            count -= 1
        decided = self._decisions.within(entry, nominal_ms, now_ms)
        missed = [at_ms for at_ms in come if at_ms not in decided]
        count -= len(come) - len(missed)
        first = missed[0] if missed and nominal_ms in decided else nominal_ms
        return _Times(first, missed, count, current, following)

    def _catch_up(self, entry: ScheduleEntry, times: _Times, now_ms: int) -> Decision | None:
        """Decide about a run of missed times by the policy; return the last that runs, or None."""
        missed = times.missed
        max_runs = {"skip": 0, "run_once": 1, "run_all": entry.catch_up_max}[entry.catch_up]
        if entry.catch_up == "run_once" and times.current is not None:
            max_runs = 0  # the time that is due now is the one that runs
        oldest_ms = 0
        if entry.catch_up_age_s is not None:
            oldest_ms = now_ms - round(entry.catch_up_age_s * 1000)
        running = [at_ms for at_ms in missed[-max_runs:] if at_ms >= oldest_ms] if max_runs else []
        lost = missed[: len(missed) - len(running)]
        if lost:
            why = (
                "too old"
                if max_runs and not running
                else f"no service ran in time; catch_up {entry.catch_up}"
            )
            span = (times.first, lost[-1], times.count - len(running))
            decision = self._decisions.add_run(entry, span, "missed", why)
            self._tell_missed(entry, decision)
        last = None
        for at_ms in running:
            last = self._starts.begin(entry, at_ms, at_ms, is_catch_up=True) or last
        return last

    def _tell_missed(self, entry: ScheduleEntry, decision: Decision) -> None:
        _log.warning(
            "schedule %s of %s missed %s times from %s to %s",
            *(entry.id, entry.plugin, decision.count),
            *(format_ts(decision.nominal_ms), format_ts(decision.until_ms)),
            extra={"plugin": entry.plugin},
        )
        if self._on_missed is None:
            return
        try:
            with self._bus.transaction():
                self._on_missed(entry, decision)
        except REFUSALS as error:
            _log.error("nobody hears of it: %s", error, extra={"plugin": entry.plugin})


def _log_no_time(entry: ScheduleEntry, why: str) -> None:
    arguments = (entry.id, entry.plugin, why)
    _log.error("schedule %s of %s has no next time: %s", *arguments, extra={"plugin": entry.plugin})


def _entries(config: Config, registry: Registry | None) -> dict[tuple[str, str], ScheduleEntry]:
    """Return the schedules of the plugins that can run."""
    return {
        key: entry
        for key, entry in config.schedules().items()
        if registry is None or entry.plugin in registry.plugins
    }
