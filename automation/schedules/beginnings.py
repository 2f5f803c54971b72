"""The jobs of schedules begin, or something keeps them back: policies, turns, guards, breakers."""

from __future__ import annotations

from ...schema.errors import InvalidInput, NotFound, Refused
from ...subscribers.jobs.jobs import Jobs
from ..jobs.job_request import Submitted
from .firing import submit
from .overlap import cancel_outstanding
from .tables import Decisions, Schedules
from .windows import why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...bus.bus import Bus
    from ..config.snapshot import Config, ScheduleEntry
    from ..jobs.submission import Submission
    from ..records.breakers import Breakers
    from .tables import Decision, Schedule

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


class Beginnings:
    """Begins the jobs of schedules, in transactions of the caller.

    Policies and the poll guard count the jobs of a command. So one schedule can meet the jobs of
    another one each time: it waits then for its turn, and the one that ran the longest ago has it.

    Args:
        bus: an open bus.
        submission: takes jobs in.
        breakers: say whether a scheduled command may run.
    """

    def __init__(self, bus: Bus, submission: Submission, breakers: Breakers) -> None:
        self._bus = bus
        self._submission = submission
        self._breakers = breakers
        self._jobs = Jobs.of(bus)
        self._schedules = Schedules.of(bus)
        self._decisions = Decisions.of(bus)
        self._entries: Mapping[tuple[str, str], ScheduleEntry] = {}
        self._max_polls: dict[str, int] = {}

    def go_by(self, config: Config, entries: Mapping[tuple[str, str], ScheduleEntry]) -> None:
        """Go by a configuration and its schedules from now on."""
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
            is_catch_up: whether nobody saw the time when it came.
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

    def pass_over(self, entry: ScheduleEntry, known: Schedule, why: str = TURN_PASSED) -> None:
        """Skip the time of a schedule that waits for its turn, where one does."""
        if known.waiting_ms is None:
            return
        self._schedules.wait(entry, None)
        if not self._decisions.has(entry, known.waiting_ms):
            self._skip(entry, known.waiting_ms, _KeptBack(why))

    def give_turn(self, entry: ScheduleEntry, known: Schedule) -> bool:
        """Begin the job of the time that waits, if it may; return whether it did."""
        now_ms, nominal_ms = self._bus.now_ms(), known.waiting_ms
        if nominal_ms is None:
            return False
        try:
            with self._bus.transaction():
                job_id = self._submit(entry, nominal_ms, now_ms, is_catch_up=False)
        except _Busy:
            return False
        except REFUSALS as error:
            self.pass_over(entry, known, str(error))
            return False
        self._decisions.add(entry, nominal_ms, "fired", TURN_CAME, job_id=job_id)
        self._schedules.wait(entry, None)
        times = (known.next_nominal_ms, known.due_ms)
        self._schedules.advance(entry, *times, fired_ms=now_ms, job_id=job_id)
        return True

    def _skip(self, entry: ScheduleEntry, nominal_ms: int, error: Exception) -> None:
        there = error.job_id if isinstance(error, _KeptBack) else None
        self._decisions.add(entry, nominal_ms, "skipped", str(error), job_id=there)
        if not isinstance(error, _Outside):
            self._schedules.count_kept_back(entry)

    def _submit(self, entry: ScheduleEntry, nominal_ms: int, due_ms: int, is_catch_up: bool) -> str:
        """Begin the job of a time and return its id; raise one of `REFUSALS` where none begins."""
        why = why_not(entry, due_ms)
        if why is not None:
            raise _Outside(why)
        runs_all = is_catch_up and entry.catch_up == "run_all"  # whatever runs
        if not runs_all:
            self._check_room(entry)
        if not self._breakers.may_poll(entry.plugin, entry.command, self._submission):
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
        if sum((each.plugin, each.command) == name for each in self._entries.values()) < 2:
            return False
        known = self._schedules.get(entry.plugin, entry.id)
        last_id = None if known is None else known.last_job_id
        last = None if last_id is None else self._bus.get(last_id)
        jobs = () if last is None else self._jobs.of_message(last.seq)
        return all(job.ended_at_ms is not None for job in jobs)
