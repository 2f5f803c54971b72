"""Service levels: how the requests and jobs of a window ended, by their stored times."""

from __future__ import annotations

import re

from ...subscribers.jobs.jobs import SUCCEEDED, TIMED_OUT
from ...subscribers.queues.statistics import Spread
from ...subscribers.views import Views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...subscribers.queues.queue import Queue
    from ...subscribers.views import EndedJob

#: The window unless asked otherwise, and at most, in hours: a day, 30 days.
WINDOW_HOURS, MAX_WINDOW_HOURS = 24, 720

#: Among how many of a queue's newest jobs those of the window are looked for.
_WALKED = 100_000

#: The words in the error of a job that ran out of time.
_TIMEOUT = re.compile(
    r"\b(timeout|timed out|deadline exceeded|stale worker claim|heartbeat stale|watchdog)\b",
    re.IGNORECASE,
)


def summary(
    queue: Queue, window_hours: int = WINDOW_HOURS, *, of_jobs: bool = False
) -> dict[str, Any]:
    """Return how a queue's entries ended within the last hours.

    Args:
        queue: the queue.
        window_hours: how far back to look, 1 to 720.
        of_jobs: whether to count those that ran out of time.
    """
    hours = min(max(1, window_hours), MAX_WINDOW_HOURS)
    queue.fill()
    since_ms = queue.bus.now_ms() - hours * 3_600_000
    ended = Views.of(queue.bus).ended_since(queue.info, _WALKED, since_ms)
    done = sum(each.state == SUCCEEDED for each in ended)
    found: dict[str, Any] = {
        "windowHours": hours,
        "terminal": len(ended),
        "completed": done,
        "failed": len(ended) - done,
    }
    late = sum(map(ran_out_of_time, ended))
    if of_jobs:
        found["timeoutFailures"] = late
    found["successRate"] = _rate(done, len(ended))
    if of_jobs:
        found["timeoutRate"] = _rate(late, len(ended))
    begun = [(each, each.started_at_ms) for each in ended if each.started_at_ms is not None]
    found["durationMs"] = _spread([each.ended_at_ms - at_ms for each, at_ms in begun])
    found["queueWaitMs"] = _spread([at_ms - each.created_at_ms for each, at_ms in begun])
    return found


def ran_out_of_time(job: EndedJob) -> bool:
    """Whether a job that is over ran out of time, by its state or the words of its error."""
    if job.state == SUCCEEDED:
        return False
    return job.state == TIMED_OUT or is_timeout(job.error)


def is_timeout(error: str | None) -> bool:
    """Whether an error says that something ran out of time."""
    return error is not None and _TIMEOUT.search(error) is not None


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _spread(times_ms: Sequence[int]) -> dict[str, int | None]:
    spread = Spread.of([max(0, each) for each in times_ms])
    return {
        "p50": spread.p50_ms,
        "p95": spread.p95_ms,
        "avg": None if spread.avg_ms is None else round(spread.avg_ms),
        "sampleSize": spread.sample_size,
    }
