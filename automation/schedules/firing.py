"""The jobs of schedules begin, are kept back, or are started by people."""

from __future__ import annotations

import random
import uuid
from collections import deque
from itertools import chain, islice, takewhile

from ...bus.doorbell import ring
from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.message.names import did_you_mean
from ...schema.message.times import format_ts
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import QUEUED, RUNNING, Jobs
from ...subscribers.queues.job_control import JobControl
from ...subscribers.queues.queue import Queue
from ..jobs.submission import PREFIX, JobRequest, Submitted
from .recurrence import due_time, next_nominal, nominals_after, reason_to_skip
from .tables import Decisions, Schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...bus.local_bus import LocalBus
    from ..config.models import Config, ScheduleEntry
    from ..jobs.submission import Duplicate, Submission
    from ..records.breakers import Breakers
    from .tables import Decision, Schedule

# The job of a time of a schedule, and the times that follow one another.

#: How many times of a rule are counted one by one: those of two weeks of minutes, in a second.
_MOST_COUNTED = 20_000

_WEEK_MS = 7 * 24 * 3_600_000

#: The namespace of the ids of scheduled jobs: a repetition makes the same one.
_JOBS = uuid.UUID("6f1b2b7e-6f0c-5d58-9f5e-0a8c1d2e7b11")


def submit(submission: Submission, entry: ScheduleEntry, nominal_ms: int) -> Submitted | Duplicate:
    """Submit the job of a nominal time; a second one of the same time is a duplicate."""
    name = f"{entry.plugin}\n{entry.id}\n{entry.hash}\n{nominal_ms}"
    return submission.submit(
        JobRequest(
            plugin=entry.plugin,
            command=entry.command,
            payload=dict(entry.payload),
            submitted_by="scheduler",
            origin={"schedule": entry.id, "nominal": format_ts(nominal_ms)},
            id=str(uuid.uuid5(_JOBS, name)),
        )
    )


def with_due(
    entry: ScheduleEntry, nominal_ms: int | None, chance: float, *, not_before_ms: int = 0
) -> tuple[int | None, int | None]:
    """Return a nominal time and when it is due, both None where there is none.

    Args:
        entry: the schedule.
        nominal_ms: the nominal time, or None.
        chance: a random number, 0 to 1, drawn once for this time.
        not_before_ms: the least due time: a later time is never due before an earlier one.
    """
    if nominal_ms is None:
        return None, None
    return nominal_ms, max(not_before_ms, due_time(entry, nominal_ms, chance))


def last_times(
    entry: ScheduleEntry, nominal_ms: int, now_ms: int, most: int
) -> tuple[deque[int], int]:
    """Return the last nominal times from one on, up to now, and how many there were.

    Of a rule that has come some ten thousand times since, those of the last week are looked at,
    and counted besides the first ones.

    Args:
        entry: the schedule.
        nominal_ms: the first of them, which has come.
        now_ms: the present time.
        most: how many are returned.
    """
    begin_ms = nominal_ms
    if entry.every_s is not None:
        every_ms = max(1, round(entry.every_s * 1000))
        begin_ms += max(0, (now_ms - nominal_ms) // every_ms - most) * every_ms
        over = (begin_ms - nominal_ms) // every_ms
    else:
        over = 0
    count, come = 0, deque[int](maxlen=most)
    for at_ms in islice(times_until(entry, begin_ms, now_ms), _MOST_COUNTED):
        come.append(at_ms)
        count += 1
    if count == _MOST_COUNTED and come[-1] < now_ms - _WEEK_MS:
        for at_ms in times_until(entry, next_nominal(entry, now_ms - _WEEK_MS), now_ms):
            come.append(at_ms)
            count += 1
    return come, over + count


def times_until(entry: ScheduleEntry, nominal_ms: int | None, last_ms: int) -> Iterator[int]:
    """Yield the nominal times from one on, up to a time."""
    if nominal_ms is not None:
        times = chain((nominal_ms,), nominals_after(entry, nominal_ms))
        yield from takewhile(lambda at_ms: at_ms <= last_ms, times)


# Making room for a scheduled job: its predecessors are cancelled where the policy says so.

#: How many jobs of a plugin are looked at: more never wait under a poll guard.
_MAX_JOBS = 1000


def cancel_outstanding(bus: LocalBus, plugin: str, command: str, why: str) -> int:
    """Cancel the jobs of a command that wait or run, in the open transaction; return how many.

    A process that runs is ended by its host, which learns that its claim is lost.
    """
    try:
        queue = Queue.open(bus, PREFIX + plugin)
    except QueueNotFound:
        return 0
    control = JobControl(queue, by="scheduler")
    count = 0
    for job in control.list(QUEUED, RUNNING, limit=_MAX_JOBS):
        message = bus.log.at(job.seq)
        if message is not None and message.type == f"{PREFIX}{plugin}.{command}":
            control.cancel(job.seq, why)
            count += 1
    return count


#: The errors that are of one job and not of the bus: its queue is full, or not there.
REFUSALS = (InvalidInput, NotFound, Refused)

#: Why the job of a time that waited has begun, and why the time was given up.
TURN_CAME, TURN_PASSED = "its turn has come", "its turn did not come before its next time"


class _KeptBack(Refused):
    """No job begins at a time of a schedule.

    Attributes:
        job_id: the job in its place, or None.
    """

    def __init__(self, why: str, job_id: str | None = None) -> None:
        self.job_id = job_id
        super().__init__(why)


class _Outside(_KeptBack):
    """A time is outside of the days and windows of its schedule."""


class _Busy(_KeptBack):
    """Jobs of the command are there already."""


class ScheduledStarts:
    """Begins the jobs of schedules, in transactions of the caller.

    Policies and the poll guard count all jobs of a command, so a schedule may find a job of another
    schedule in its way each time. It then waits for its turn; the one that ran longest ago is
    first.

    Args:
        bus: an open bus.
        submission: takes jobs in.
        breakers: say whether a scheduled command may run.
    """

    def __init__(self, bus: LocalBus, submission: Submission, breakers: Breakers) -> None:
        self._bus = bus
        self._submission = submission
        self._breakers = breakers
        self._jobs = Jobs.of(bus)
        self._schedules = Schedules.of(bus)
        self._decisions = Decisions.of(bus)
        self._entries: Mapping[tuple[str, str], ScheduleEntry] = {}
        self._max_polls: dict[str, int] = {}

    def use_config(self, config: Config, entries: Mapping[tuple[str, str], ScheduleEntry]) -> None:
        """Use a configuration and its schedules from now on."""
        self._entries = entries
        plugins = config.plugins.values()
        self._max_polls = {plugin.name: plugin.max_outstanding_polls for plugin in plugins}

    def begin(
        self, entry: ScheduleEntry, nominal_ms: int, due_ms: int, *, is_catch_up: bool = False
    ) -> Decision | None:
        """Begin the job of a time, unless something keeps it back; return what fired, or None.

        A time that is decided already stays as it is. One that meets jobs of another schedule
        waits for its turn, undecided.

        Args:
            entry, nominal_ms: the schedule and its time.
            due_ms: when that is due.
            is_catch_up: whether the time was missed.
        """
        if self._decisions.has(entry, nominal_ms):
            return None
        try:
            with self._bus.transaction():  # a part: a refusal undoes it, and no other decision
                job_id = self._submit(entry, nominal_ms, due_ms, is_catch_up)
        except _Busy as error:
            if self._is_of_others(entry):
                self._schedules.wait(entry, nominal_ms)
            else:
                self._skip(entry, nominal_ms, error)
            return None
        except REFUSALS as error:
            self._skip(entry, nominal_ms, error)
            return None
        reason = "catch-up" if is_catch_up else ""
        return self._decisions.add(entry, nominal_ms, "fired", reason, job_id=job_id)

    def pass_over(self, entry: ScheduleEntry, schedule: Schedule, why: str = TURN_PASSED) -> None:
        """Skip the time of a schedule that waits for its turn, where one does."""
        if schedule.waiting_ms is None:
            return
        self._schedules.wait(entry, None)
        if not self._decisions.has(entry, schedule.waiting_ms):
            self._skip(entry, schedule.waiting_ms, _KeptBack(why))

    def give_turn(self, entry: ScheduleEntry, schedule: Schedule) -> bool:
        """Begin the job of a waiting time if nothing blocks it; return whether it began."""
        now_ms, nominal_ms = self._bus.now_ms(), schedule.waiting_ms
        if nominal_ms is None:
            return False
        try:
            with self._bus.transaction():
                job_id = self._submit(entry, nominal_ms, now_ms, is_catch_up=False)
        except _Busy:
            return False
        except REFUSALS as error:
            self.pass_over(entry, schedule, str(error))
            return False
        self._decisions.add(entry, nominal_ms, "fired", TURN_CAME, job_id=job_id)
        self._schedules.wait(entry, None)
        times = (schedule.next_nominal_ms, schedule.due_ms)
        self._schedules.advance(entry, *times, fired_ms=now_ms, job_id=job_id)
        return True

    def _skip(self, entry: ScheduleEntry, nominal_ms: int, error: Exception) -> None:
        there = error.job_id if isinstance(error, _KeptBack) else None
        self._decisions.add(entry, nominal_ms, "skipped", str(error), job_id=there)
        if not isinstance(error, _Outside):
            self._schedules.count_kept_back(entry)

    def _submit(self, entry: ScheduleEntry, nominal_ms: int, due_ms: int, is_catch_up: bool) -> str:
        """Begin the job of a time and return its id; raise one of `REFUSALS` where none begins."""
        why = reason_to_skip(entry, due_ms)
        if why is not None:
            raise _Outside(why)
        runs_all = is_catch_up and entry.catch_up == "run_all"  # whatever runs
        if not runs_all:
            self._check_room(entry)
        if not self._breakers.may_begin(entry.plugin, entry.command, self._submission):
            raise _KeptBack("the circuit breaker is open")
        if entry.if_running == "cancel" and not runs_all:
            cancel_outstanding(self._bus, entry.plugin, entry.command, "the next one began")
        submitted = submit(self._submission, entry, nominal_ms)
        if not isinstance(submitted, Submitted):
            raise _KeptBack(f"job {submitted.job_id} is there already", submitted.job_id)
        return submitted.job_id

    def _check_room(self, entry: ScheduleEntry) -> None:
        """Raise where jobs of the command are there that keep another one back."""
        if entry.if_running == "cancel":
            return  # they go as soon as the next one begins
        there = self._submission.outstanding(entry.plugin, entry.command)
        if there and entry.if_running == "skip":
            raise _Busy(f"{there} of its jobs wait or run; if_running skip")
        most = self._max_polls.get(entry.plugin, 1)
        if entry.command == "poll" and there >= most:
            raise _Busy(f"{there} polls wait or run; max_outstanding_polls {most}")

    def _is_of_others(self, entry: ScheduleEntry) -> bool:
        """Whether the last job of a schedule is over, and others are of its command."""
        name = (entry.plugin, entry.command)
        if sum((other.plugin, other.command) == name for other in self._entries.values()) < 2:
            return False
        schedule = self._schedules.get(entry.plugin, entry.id)
        last_id = None if schedule is None else schedule.last_job_id
        last = None if last_id is None else self._bus.get(last_id)
        jobs = () if last is None else self._jobs.of_message(last.seq)
        return all(job.ended_at_ms is not None for job in jobs)


# Acts of people on schedules: pause, resume, run now, backfill. The service need not run.

#: How many passed times are counted when a schedule is resumed.
_MAX_COUNTED = 10_000

#: Why a time was skipped that came while its schedule was paused.
_PAUSED = "it was paused"


class ScheduleControl:
    """Pauses, resumes, runs and backfills schedules of a configuration for people.

    Args:
        bus: an open bus.
        submission: takes jobs in.
        config: the active configuration of the service.
    """

    def __init__(self, bus: LocalBus, submission: Submission, config: Config) -> None:
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
            entry, schedule = self._named(plugin, id)
            if schedule.paused_at_ms is None:
                times = (schedule.next_nominal_ms, schedule.due_ms)
                if schedule.waiting_ms is not None:
                    self._schedules.wait(entry, None)
                    if not self._decisions.has(entry, schedule.waiting_ms):
                        self._decisions.add(entry, schedule.waiting_ms, "skipped", _PAUSED)
                self._schedules.set_paused(entry, self._bus.now_ms(), *times)

    def resume(self, plugin: str, id: str) -> None:
        """Go on with the next time of a paused schedule; what lay between is not run.

        Raises:
            NotFound: as for `pause`.
        """
        with self._bus.transaction():
            entry, schedule = self._named(plugin, id)
            if schedule.paused_at_ms is None:
                return
            now_ms, nominal_ms = self._bus.now_ms(), schedule.next_nominal_ms
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
            entry, schedule = self._named(plugin, id)
            for at_ms in _past(entry, schedule, from_ms, min(to_ms, self._bus.now_ms())):
                job = None if dry_run else submit(self._submission, entry, at_ms)
                done.append((at_ms, job.job_id if isinstance(job, Submitted) else None))
        ring(self._bus)
        return done

    def _named(self, plugin: str, id: str) -> tuple[ScheduleEntry, Schedule]:
        entry, schedule = self._entries.get((plugin, id)), self._schedules.get(plugin, id)
        if entry is None or schedule is None:
            hint = did_you_mean(f"{plugin}.{id}", map(".".join, self._entries))
            raise NotFound(
                f"plugin {plugin!r} has no schedule {id!r}{hint}; see 'bus schedule list'"
            )
        return entry, schedule


def _past(entry: ScheduleEntry, schedule: Schedule, from_ms: int, to_ms: int) -> Iterator[int]:
    """Yield the nominal times of a range, on the grid on which the schedule began."""
    begin_ms: int | None
    if entry.every_s is not None:
        every_ms = max(1, round(entry.every_s * 1000))
        begin_ms = from_ms + (schedule.begun_at_ms - from_ms) % every_ms
    elif entry.cron is not None:
        begin_ms = next_nominal(entry, from_ms - 1)
    else:
        begin_ms = entry.at_ms
    times = (at_ms for at_ms in times_until(entry, begin_ms, to_ms) if at_ms >= from_ms)
    return islice(times, entry.catch_up_max)
