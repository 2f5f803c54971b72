"""The sweep: jobs whose workers have shown no sign of life are taken from them.

It looks after claims by PushPals' door alone, whose clients renew none; all others have leases.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.message.times import format_ts
from ...subscribers.jobs.jobs import RUNNING
from ...subscribers.queues.clock_back import ClockBack
from ...subscribers.queues.job_control import JobControl
from ...subscribers.views import Views
from ..records.entry import Entry
from ..records.estimates import Budgets
from ..records.job_output import KEPT_MS
from .entries import is_by_door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...bus.presence.heartbeats import Heartbeat
    from ...subscribers.views import ActiveClaim
    from .jobs import JobQueue

#: How long a claimed job may show no activity, in milliseconds.
STALE_AFTER_MS = 120_000

#: By how much more than that a busy worker's budget counts at most.
_GRACE = 5

#: How often a sweep looks at most, in milliseconds.
EVERY_MS = 5_000

#: How many jobs one sweep recovers unless asked otherwise, and at most.
RECOVERED, MAX_RECOVERED = 100, 500

#: Why a job failed that was taken from its worker.
STALE = "Job auto-failed after stale worker claim"


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job that was taken from its worker.

    Attributes:
        job: its id.
        worker: who had it.
        status: what became of it: `failed`, or `pending` where it did not come by the door.
        detail: what the sweep went by.
    """

    job: str
    worker: str
    status: str
    detail: str


class Sweep:
    """Looks for jobs that are claimed and show no activity.

    Args:
        bus: an open bus.
        jobs: the queue.
        stale_after_ms: how long a job may show none.
    """

    def __init__(self, bus: Bus, jobs: JobQueue, *, stale_after_ms: int = STALE_AFTER_MS) -> None:
        self._bus = bus
        self._jobs = jobs
        self._stale_after_ms = stale_after_ms
        self._looked_at_ms: int | None = None
        self._clock = ClockBack(bus)

    def when_due(self) -> list[Recovered]:
        """Run, unless this has within the last 5,000 ms; old output of jobs goes as well."""
        now_ms = self._bus.now_ms()
        if self._looked_at_ms is not None and 0 <= now_ms - self._looked_at_ms < EVERY_MS:
            return []
        self._looked_at_ms = now_ms
        self._clock.look()
        found = self.run()
        self._jobs.output.prune(now_ms - KEPT_MS)
        return found

    def run(self, limit: int = RECOVERED) -> list[Recovered]:
        """Take the jobs that are stale from their workers, and tell their sessions of failures.

        One transaction for each; none when nothing is stale.

        Args:
            limit: how many at most, 1 to 500.
        """
        most = min(max(1, limit), MAX_RECOVERED)
        found: list[Recovered] = []
        for claim in Views.of(self._bus).active_claims(self._jobs.entries.queue.info):
            if len(found) == most:
                break
            if is_by_door(claim.instance) and self._why(claim) is not None:
                with self._bus.transaction():
                    recovered = self._recover(claim)
                found += [] if recovered is None else [recovered]
        return found

    def _recover(self, claim: ActiveClaim) -> Recovered | None:
        detail = self._why(claim)  # it may have shown activity since
        entry = self._jobs.entries.at(claim.seq)
        if detail is None or entry.job.state != RUNNING:
            return None
        control = JobControl(self._jobs.entries.queue)
        control.lose(claim.seq, f"{STALE}: {detail}")
        ended = self._jobs.entries.at(claim.seq)
        self._bus.heartbeats.mark(claim.group, "error")
        if ended.is_over_badly:
            self._jobs.tell_failure(ended)
        return Recovered(ended.id, claim.group, ended.status, detail)

    def _why(self, claim: ActiveClaim) -> str | None:
        """Return what shows that a claimed job is stale, for people; None where it is not."""
        now_ms, stale_ms = self._bus.now_ms(), self._stale_after_ms
        progress = self._jobs.output.progress(claim.seq)
        active_at_ms = max(claim.claimed_at_ms, progress.active_at_ms if progress else 0)
        if now_ms - active_at_ms < stale_ms:
            return None
        entry = self._jobs.entries.at(claim.seq)
        beat = self._bus.heartbeats.get(claim.group)
        seen_at_ms = active_at_ms
        if beat is not None and beat.status == "working" and beat.task == entry.id:
            stale_ms = _with_grace(entry, stale_ms)
            seen_at_ms = max(active_at_ms, beat.ts_ms)
        if now_ms - seen_at_ms < stale_ms:
            return None
        return _detail(claim, beat, active_at_ms, now_ms, stale_ms)


def _with_grace(entry: Entry, stale_ms: int) -> int:
    """Return how long a job whose worker says that it is at it may show no sign of life."""
    budgets = Budgets.of(entry.payload(), entry.job.priority)
    whole_ms = budgets.execution_ms + budgets.finalization_ms
    return max(stale_ms, min(whole_ms, _GRACE * stale_ms))


def _detail(
    claim: ActiveClaim, beat: Heartbeat | None, active_at_ms: int, now_ms: int, stale_ms: int
) -> str:
    last = "none" if beat is None else format_ts(beat.ts_ms)
    return "; ".join(
        (
            f"worker={claim.group}",
            f"workerStatus={'missing' if beat is None else beat.status}",
            f"lastHeartbeat={last}",
            f"activityAt={format_ts(active_at_ms)}",
            f"activityAgeMs={now_ms - active_at_ms}",
            f"staleAfterMs={stale_ms}",
        )
    )
