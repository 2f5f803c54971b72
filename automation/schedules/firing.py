"""The job of a time of a schedule, and the times that follow one another."""

from __future__ import annotations

import uuid
from collections import deque
from itertools import chain, islice, takewhile

from ...schema.message.times import format_ts
from ..jobs.job_request import JobRequest
from .recurrence import due_time, next_nominal, nominals_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..config.snapshot import ScheduleEntry
    from ..jobs.job_request import Duplicate, Submitted
    from ..jobs.submission import Submission

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
