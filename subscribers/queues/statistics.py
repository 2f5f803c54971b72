"""The statistics of a queue: waiting jobs, durations, rates and failures.

Everything is computed from the times that jobs and claims store; nothing is counted on the side.
The statements are in `Views`, which only reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.arguments import with_checked_arguments
from ...schema.errors import InvalidInput
from ..jobs import jobs as states
from ..jobs.claims import ACTIVE, COMPLETED, LOST
from ..jobs.jobs import FAILED, TIMED_OUT, Jobs
from ..views import Views
from .queues import QueueInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..views import Attempt
    from .queue import Queue


#: How far statistics look back by default, and at most, in seconds: a day, 30 days.
DEFAULT_WINDOW_S, MAX_WINDOW_S = 86_400.0, 2_592_000.0

#: How many attempts statistics are made of at most: the newest.
MAX_SAMPLE = 10_000

#: Among how many claims, on the newest messages, these attempts are looked for. So the cost has a
#: bound, however much the queue has done; a new attempt at a job before so many others is not seen.
_MAX_WALKED = 100_000

#: A queue whose work waits longer than this for busy workers needs more of them, in seconds.
SATURATED_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of durations, in milliseconds; each None when there is no sample.

    Attributes:
        p50_ms, p95_ms: the time within which half, and 95 of 100, were through: the nearest rank.
        avg_ms: the mean.
        sample_size: the number of durations.
    """

    p50_ms: int | None
    p95_ms: int | None
    avg_ms: float | None
    sample_size: int

    @classmethod
    def of(cls, times_ms: Sequence[int]) -> Spread:
        """Return the spread of some times."""
        if not times_ms:
            return cls(None, None, None, 0)
        ordered = sorted(times_ms)
        count = len(ordered)
        p50, p95 = (ordered[-(-count * percent // 100) - 1] for percent in (50, 95))
        return cls(p50, p95, round(sum(ordered) / count, 1), count)


@with_checked_arguments
@dataclass(frozen=True, slots=True)
class QueueStats:
    """The state of a queue, and how its attempts ended within a window. Make one with `of`.

    An attempt belongs to the window when it ended in it. At most the newest 10,000 attempts of
    the queue count; `covered_s` says how far back they reach.

    Attributes:
        info: the queue.
        stuck: why it can't take in more of the log, or None; the counts are of what it has.
        at_ms: the time of these statistics, in epoch milliseconds.
        waiting: jobs that a worker could claim now.
        delayed: jobs that wait for their time.
        held: jobs that wait for others with their dedupe key.
        running: jobs that are claimed.
        failed, timed_out, dead: jobs that ended so, ever, and were not requeued or dropped.
        oldest_wait_ms: how long the oldest job waits that a worker could take; None: there is none.
        longest_run_ms: how long the job runs that has run for longest; None: no job runs.
        window_s: how far back the following fields look.
        covered_s: the part of the window that the rate is over: since the queue was made, or since
            the oldest attempt that counts.
        ended: the attempts that ended.
        completed, failures, timeouts, lost: how many attempts ended so; those that were handed back
            count as lost.
        rate_per_s: how many attempts ended each second.
        success_rate: completed among the attempts that were not lost, 0 to 1 with four digits;
            None: there are none.
        timeout_rate: the same for timeouts.
        wait: from when a job could be claimed until it was.
        run: from the claim to its end, of attempts that were not lost.
    """

    info: QueueInfo
    stuck: str | None
    at_ms: int
    waiting: int
    delayed: int
    held: int
    running: int
    failed: int
    timed_out: int
    dead: int
    oldest_wait_ms: int | None
    longest_run_ms: int | None
    window_s: float
    covered_s: float
    ended: int
    completed: int
    failures: int
    timeouts: int
    lost: int
    rate_per_s: float
    success_rate: float | None
    timeout_rate: float | None
    wait: Spread
    run: Spread

    @property
    def is_saturated(self) -> bool:
        """Whether work has waited for over 60 s while all workers are busy.

        A worker that is not busy would have taken it. Where nothing runs, there is no worker.
        """
        has_waited = (self.oldest_wait_ms or 0) > SATURATED_AFTER_S * 1000
        return has_waited and self.running > 0 and self.info.paused_at_ms is None

    @classmethod
    def of(cls, queue: Queue, *, window_s: float = DEFAULT_WINDOW_S) -> QueueStats:
        """Return the statistics of a queue. It is filled first, so that the counts are complete.

        Args:
            queue: the queue.
            window_s: how far back to look at attempts, in seconds, up to 30 days.

        Raises:
            InvalidInput: the window is not between 0 and 30 days.
        """
        if not 0 < window_s <= MAX_WINDOW_S:
            raise InvalidInput(
                f"a window is more than 0 and at most {MAX_WINDOW_S / 86_400:g} days, not"
                f" {window_s:g} s"
            )
        queue.fill()
        info, now_ms = queue.info, queue.bus.now_ms()
        jobs, views = Jobs.of(queue.bus), Views.of(queue.bus)
        counts = jobs.counts(info)
        waits_since_ms = jobs.oldest_available_ms(info, now_ms)
        runs_since_ms = views.oldest_active_claim_ms(info)
        newest = views.newest_attempts(info, _MAX_WALKED, MAX_SAMPLE)
        begin_ms = now_ms - round(window_s * 1000)
        ended = [row for row in newest if row[0] != ACTIVE and row[3] >= begin_ms]
        covered_ms = now_ms - max(begin_ms, _reaches_back_to(info, newest))
        return cls(
            info=info,
            stuck=None if queue.stuck is None else str(queue.stuck),
            at_ms=now_ms,
            waiting=counts[states.OPEN],
            delayed=counts[states.TIME],
            held=counts[states.KEY],
            running=counts[states.RUNNING],
            failed=counts[states.FAILED],
            timed_out=counts[states.TIMED_OUT],
            dead=counts[states.DEAD],
            oldest_wait_ms=_age_ms(waits_since_ms, now_ms),
            longest_run_ms=_age_ms(runs_since_ms, now_ms),
            window_s=window_s,
            **_of_attempts(ended, covered_ms / 1000),
        )


def _age_ms(since_ms: int | None, now_ms: int) -> int | None:
    return None if since_ms is None else max(0, now_ms - since_ms)


def _reaches_back_to(info: QueueInfo, newest: list[Attempt]) -> int:
    """Return since when the attempts are complete: all that a queue has had."""
    oldest_ms = min(
        (claimed_at_ms for _, _, claimed_at_ms, _ in newest), default=info.created_at_ms
    )
    return oldest_ms if len(newest) == MAX_SAMPLE else min(oldest_ms, info.created_at_ms)


def _of_attempts(ended: list[Attempt], covered_s: float) -> dict[str, Any]:
    """Return the fields of `QueueStats` that are about attempts."""
    by_status = dict.fromkeys((COMPLETED, FAILED, TIMED_OUT, LOST), 0)
    for status, *_ in ended:
        by_status[status] += 1
    reported = len(ended) - by_status[LOST]
    return {
        "covered_s": covered_s,
        "ended": len(ended),
        "completed": by_status[COMPLETED],
        "failures": by_status[FAILED],
        "timeouts": by_status[TIMED_OUT],
        "lost": by_status[LOST],
        "rate_per_s": len(ended) / covered_s if covered_s > 0 else 0.0,
        "success_rate": round(by_status[COMPLETED] / reported, 4) if reported else None,
        "timeout_rate": round(by_status[TIMED_OUT] / reported, 4) if reported else None,
        "wait": Spread.of([max(0, claimed - available) for _, available, claimed, _ in ended]),
        "run": Spread.of([max(0, end - begun) for how, _, begun, end in ended if how != LOST]),
    }
