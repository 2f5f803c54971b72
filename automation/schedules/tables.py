"""The tables of schedules: when each is due next, and the decision about each nominal time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import orjson

from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts, parse_ts
from ...schema.queries import Queries, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..config.models import ScheduleEntry

_COLUMNS = {
    "{schedule}": (
        "plugin, schedule_id, config_hash, next_nominal_ms, due_ms, paused_at_ms, begun_at_ms,"
        " last_fired_ms, last_job_id, waiting_ms, kept_back"
    ),
    "{decision}": (
        "plugin, schedule_id, nominal_ms, until_ms, count, decision, reason, job_id, decided_at_ms"
    ),
}

SQL = Queries(beside=__file__, parts=_COLUMNS)

#: The decision about a nominal time.
Verdict = Literal["fired", "skipped", "missed", "reopened"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it stands.

    Attributes:
        plugin, id: its name.
        config_hash: of the configuration that decides its times.
        next_nominal_ms: the nominal time that is decided next; None when it is exhausted.
        due_ms: when it is: with its jitter, moved into its window.
        paused_at_ms: since when it is paused, or None.
        begun_at_ms: since when it is known.
        last_fired_ms: the due time of its last job, or None.
        last_job_id: that job, or None.
        waiting_ms: a nominal time that waits until another schedule's job is over, or None.
        kept_back: how many times in a row it was kept from firing since it last fired.
    """

    plugin: str
    id: str
    config_hash: str
    next_nominal_ms: int | None
    due_ms: int | None
    paused_at_ms: int | None
    begun_at_ms: int
    last_fired_ms: int | None
    last_job_id: str | None
    waiting_ms: int | None = None
    kept_back: int = 0

    def record(self) -> dict[str, object]:
        """Return its JSON object; times are RFC 3339."""
        times = {
            "waiting": self.waiting_ms,
            "next": self.next_nominal_ms,
            "due": self.due_ms,
            "paused_at": self.paused_at_ms,
            "last_fired": self.last_fired_ms,
        }
        timestamps = {name: None if at is None else format_ts(at) for name, at in times.items()}
        return {
            "plugin": self.plugin,
            "id": self.id,
            **timestamps,
            "last_job_id": self.last_job_id,
            "kept_back": self.kept_back,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a nominal time, or about a run of missed ones.

    Attributes:
        plugin, id: the schedule.
        nominal_ms, until_ms: the first and the last nominal time.
        count: how many times these are.
        verdict: `fired`, `skipped` or `missed`; `reopened` where it was undone, to be made again.
        reason: why; "" for a job that began as it should.
        job_id: the job, or None.
        decided_at_ms: when it was decided.
    """

    plugin: str
    id: str
    nominal_ms: int
    until_ms: int
    count: int
    verdict: Verdict
    reason: str
    job_id: str | None
    decided_at_ms: int

    def record(self) -> dict[str, object]:
        """Return its JSON object; times are RFC 3339."""
        return {
            "plugin": self.plugin,
            "id": self.id,
            "nominal": format_ts(self.nominal_ms),
            "until": format_ts(self.until_ms),
            "count": self.count,
            "decision": self.verdict,
            "reason": self.reason,
            "job_id": self.job_id,
            "decided_at": format_ts(self.decided_at_ms),
        }


class Schedules(Table):
    """The table `schedules`. What changes it belongs into a transaction of the caller."""

    def add(
        self, entry: ScheduleEntry, nominal_ms: int | None, due_ms: int | None, begun_at_ms: int
    ) -> None:
        """Store a schedule that is not known yet."""
        values = (entry.plugin, entry.id, entry.hash, nominal_ms, due_ms, begun_at_ms)
        self._engine.change(SQL["add_schedule"], values)

    def change(self, entry: ScheduleEntry, nominal_ms: int | None, due_ms: int | None) -> None:
        """Store another configuration of a schedule's times."""
        values = (entry.hash, nominal_ms, due_ms, entry.plugin, entry.id)
        self._engine.change(SQL["change_schedule"], values)

    def advance(
        self,
        entry: ScheduleEntry,
        nominal_ms: int | None,
        due_ms: int | None,
        *,
        fired_ms: int | None = None,
        job_id: str | None = None,
    ) -> None:
        """Store the next time of a schedule, and what was begun last where something was."""
        values = (nominal_ms, due_ms, fired_ms, job_id, entry.plugin, entry.id)
        self._engine.change(SQL["advance_schedule"], values)

    def set_paused(
        self, entry: ScheduleEntry, at_ms: int | None, nominal_ms: int | None, due_ms: int | None
    ) -> None:
        """Pause a schedule, or let it go on with a next time."""
        values = (at_ms, nominal_ms, due_ms, entry.plugin, entry.id)
        self._engine.change(SQL["set_schedule_paused"], values)

    def wait(self, entry: ScheduleEntry, nominal_ms: int | None) -> None:
        """Store the time of a schedule that waits for its turn; None: none waits."""
        self._engine.change(SQL["set_schedule_waiting"], (nominal_ms, entry.plugin, entry.id))

    def count_kept_back(self, entry: ScheduleEntry) -> None:
        """Count one more time at which a schedule was kept from firing."""
        self._engine.change(SQL["count_kept_back"], (entry.plugin, entry.id))

    def waiting(self, now_ms: int) -> list[Schedule]:
        """Return the schedules with a time that waits, whose next one is not due yet.

        The one that fired the longest ago is the first.
        """
        schedules = [
            Schedule(*row) for row in self._engine.rows(SQL["waiting_schedules"], (now_ms,))
        ]
        return sorted(
            schedules, key=lambda schedule: (schedule.last_fired_ms or 0, schedule.waiting_ms)
        )

    def starving(self, least: int, limit: int) -> list[tuple[Schedule, str]]:
        """Return schedules that were kept back at least so many times in a row, and why at last.

        The one that was kept back the most times is the first.
        """
        rows = self._engine.rows(SQL["starving_schedules"], (least,))
        schedules = [(Schedule(*row[:-1]), row[-1] or "") for row in rows]
        return sorted(schedules, key=lambda pair: -pair[0].kept_back)[:limit]

    def correct(self, now_ms: int) -> None:
        """Take what began or ran later than now as of now: the clock was set back."""
        self._engine.change(SQL["correct_schedules"], (now_ms,))

    def remove(self, plugin: str, id: str) -> None:
        """Delete a schedule; the decisions about its times stay."""
        self._engine.change(SQL["remove_schedule"], (plugin, id))

    def remove_all_but(self, names: Iterable[tuple[str, str]]) -> None:
        """Delete the schedules that have none of these plugins and ids, however they are stored."""
        self._engine.change(SQL["remove_other_schedules"], (orjson.dumps([*names]).decode(),))

    def get(self, plugin: str, id: str) -> Schedule | None:
        """Return a schedule, or None."""
        row = self._engine.row(SQL["schedule"], (plugin, id))
        return None if row is None else Schedule(*row)

    def all(self) -> list[Schedule]:
        """Return all schedules, by plugin and id."""
        return [Schedule(*row) for row in self._engine.rows(SQL["schedules"])]

    def due(self, now_ms: int, limit: int) -> list[Schedule]:
        """Return up to `limit` schedules that are due, the longest due first."""
        return [Schedule(*row) for row in self._engine.rows(SQL["due_schedules"], (now_ms, limit))]

    def next_due(self) -> int | None:
        """Return when a schedule is due next, in epoch milliseconds, or None."""
        at_ms: int | None = self._engine.value(SQL["next_due"])
        return at_ms


class Decisions(Table):
    """The table `schedule_decisions`: each nominal time once, and never changed.

    What did not fire while the clock was ahead is reopened when that is set back: a row of its own.
    """

    def add(
        self,
        entry: ScheduleEntry,
        nominal_ms: int,
        verdict: Verdict,
        reason: str = "",
        *,
        job_id: str | None = None,
    ) -> Decision:
        """Store a decision, in the transaction of the caller, and return it."""
        return self.add_run(entry, (nominal_ms, nominal_ms, 1), verdict, reason, job_id=job_id)

    def add_run(
        self,
        entry: ScheduleEntry,
        span: tuple[int, int, int],
        verdict: Verdict,
        reason: str,
        *,
        job_id: str | None = None,
    ) -> Decision:
        """Store one decision about a run of times: the first, the last, and how many."""
        now_ms = self._engine.now_ms()
        values = (entry.plugin, entry.id, entry.hash, *span, verdict, reason, job_id, now_ms)
        self._engine.change(SQL["add_decision"], values)
        return Decision(entry.plugin, entry.id, *span, verdict, reason, job_id, now_ms)

    def reopen(self, now_ms: int, after_ms: int, entry: ScheduleEntry | None = None) -> None:
        """Open times again that were decided while the clock was ahead, and did not fire.

        Args:
            now_ms: the present time: a decision from after it was made while the clock was ahead.
            after_ms: only times after this one.
            entry: only those of this schedule; None: of all.
        """
        name = (None, None) if entry is None else (entry.plugin, entry.id)
        self._engine.change(SQL["reopen_decisions"], (now_ms, after_ms, *name))

    def prune(self, before: str, limit: int) -> int:
        """Delete decisions of before a time, at most so many; the last of each schedule stays.

        Returns:
            How many went.
        """
        return self._engine.count_changes(SQL["prune_decisions"], (parse_ts(before), limit))

    def newest_ms(self) -> int:
        """Return when the newest decision was made, by the clock of then; 0 where there is none."""
        return int(self._engine.value(SQL["newest_decision"]) or 0)

    def has(self, entry: ScheduleEntry, nominal_ms: int) -> bool:
        """Whether a nominal time of a schedule is decided, and not reopened."""
        values = (entry.plugin, entry.id, entry.hash, nominal_ms)
        return bool(self._engine.value(SQL["is_decided"], values))

    def within(self, entry: ScheduleEntry, first_ms: int, last_ms: int) -> set[int]:
        """Return the decided nominal times of a schedule in a span, both ends included."""
        values = (entry.plugin, entry.id, entry.hash, first_ms, last_ms)
        return {at_ms for (at_ms,) in self._engine.rows(SQL["decided_within"], values)}

    def has_any(self, entry: ScheduleEntry) -> bool:
        """Whether any time of a schedule is decided."""
        values = (entry.plugin, entry.id, entry.hash)
        return bool(self._engine.value(SQL["is_any_decided"], values))

    def missed_since(self, since_ms: int, limit: int) -> dict[str, int]:
        """Return how many times of each schedule, as PLUGIN.ID, were recorded as missed.

        Args:
            since_ms: from when on.
            limit: how many of the newest decisions are looked at.
        """
        rows = self._engine.rows(SQL["missed_since"], (since_ms, limit))
        counts: dict[str, int] = {}
        for plugin, id, count in rows:
            name = f"{plugin}.{id}"
            counts[name] = counts.get(name, 0) + count
        return counts

    def about(
        self, plugin: str, id: str, *, limit: int, before_id: int = MAX_SEQ
    ) -> list[Decision]:
        """Return the newest decisions about a schedule, the newest first."""
        rows = self._engine.rows(SQL["decisions_of"], (plugin, id, before_id, limit))
        return [Decision(*row) for row in rows]
