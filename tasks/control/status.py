"""The state of the whole: workers, queues and service levels, each number from its table."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ...schema.errors import InvalidInput
from ...schema.message.names import check_agent
from ...schema.message.times import format_ts
from ...subscribers.jobs.jobs import SUCCEEDED, TIMED_OUT
from ...subscribers.queues.queue_set import QueueWorkers
from ...subscribers.queues.statistics import Spread
from ...subscribers.views import Views
from ..records.worker_details import Workers
from .entries import WORKER_STATUSES, worker_status
from .jobs import JobQueue
from .requests import Completions, Requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ...bus.heartbeats import Heartbeat
    from ...bus.local_bus import LocalBus
    from ...subscribers.queues.queue import Queue
    from ...subscribers.views import EndedJob
    from ..records.worker_details import WorkerDetails
    from .entries import Entries

# Service levels: how the requests and jobs of a window ended, by their stored times.

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
    done = sum(job.state == SUCCEEDED for job in ended)
    record: dict[str, Any] = {
        "windowHours": hours,
        "terminal": len(ended),
        "completed": done,
        "failed": len(ended) - done,
    }
    late = sum(map(ran_out_of_time, ended))
    if of_jobs:
        record["timeoutFailures"] = late
    record["successRate"] = _rate(done, len(ended))
    if of_jobs:
        record["timeoutRate"] = _rate(late, len(ended))
    begun = [(job, job.started_at_ms) for job in ended if job.started_at_ms is not None]
    record["durationMs"] = _spread([job.ended_at_ms - at_ms for job, at_ms in begun])
    record["queueWaitMs"] = _spread([at_ms - job.created_at_ms for job, at_ms in begun])
    return record


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
    spread = Spread.of([max(0, time_ms) for time_ms in times_ms])
    return {
        "p50": spread.p50_ms,
        "p95": spread.p95_ms,
        "avg": None if spread.avg_ms is None else round(spread.avg_ms),
        "sampleSize": spread.sample_size,
    }


# The workers of jobs, as PushPals' clients see them; and which one a planner picks.

#: How old the last beat of a worker that is online is at most, unless asked otherwise.
ONLINE_MS = 15_000

#: The least age that a client may name for that.
_MIN_ONLINE_MS = 1_000

#: For how long a planner waits for a worker, in seconds, and how many it has started at most.
WAIT_S, MAX_STARTED = 15.0, 1


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker.

    Attributes:
        record: its JSON object, by the names of PushPals' columns.
        worker, status: of it.
        is_online: whether it has beaten its heart lately, and is not offline.
        active: how many jobs it has.
    """

    record: dict[str, Any]
    worker: str
    status: str
    is_online: bool
    active: int


class WorkerTable:
    """The workers of the queue of jobs, over this API and all others.

    Args:
        bus: an open bus.
        jobs: the entries of the queue of jobs.
    """

    def __init__(self, bus: LocalBus, jobs: Entries) -> None:
        self._bus = bus
        self._jobs = jobs
        self._workers = Workers.of(bus)

    def heartbeat(self, body: Mapping[str, Any]) -> None:
        """Write a beat of a worker, with its description of itself.

        Raises:
            InvalidInput: it has no name, or a field breaks a rule.
        """
        worker = body.get("workerId")
        if not isinstance(worker, str) or not worker.strip():
            raise InvalidInput("workerId is required")
        worker = worker.strip()
        check_agent(worker, "workerId")
        status = body.get("status")
        word = status if status in WORKER_STATUSES else WORKER_STATUSES[0]
        job, poll_ms = body.get("currentJobId"), body.get("pollMs")
        with self._bus.transaction():
            self._bus.heartbeats.beat(
                worker,
                word,
                task=job.strip() or None if isinstance(job, str) else None,
                is_here=False,
            )
            self._workers.describe(
                worker,
                poll_ms=_whole(poll_ms),
                capabilities=_object(body.get("capabilities")),
                details=_object(body.get("details")),
            )

    def list(self, online_ms: int = ONLINE_MS) -> list[WorkerRow]:
        """Return the workers, by name: over this API, and all others of the queue of jobs.

        Args:
            online_ms: how old the last beat of one that is online is at most; 1,000 at least.
        """
        online_ms = max(_MIN_ONLINE_MS, online_ms)
        info = self._jobs.queue.info
        active = Counter(claim.group for claim in Views.of(self._bus).active_claims(info))
        beats = {beat.agent: beat for beat in self._bus.heartbeats.list()}
        details_by_name = {worker.worker: worker for worker in self._workers.list()}
        names = details_by_name.keys() | active.keys() | QueueWorkers(self._bus).groups(info)
        return [
            _row(name, details_by_name.get(name), beats.get(name), active[name], online_ms)
            for name in sorted(names)
        ]


def _row(
    worker: str,
    details: WorkerDetails | None,
    beat: Heartbeat | None,
    active: int,
    online_ms: int,
) -> WorkerRow:
    status = worker_status(None if beat is None else beat.status)
    is_online = beat is not None and beat.age_s * 1000 <= online_ms and status != "offline"
    beat_at_ms = None if beat is None else beat.ts_ms
    updated_ms = max((details.updated_at_ms if details else 0), beat_at_ms or 0)
    record = {
        "workerId": worker,
        "status": status,
        "currentJobId": None if beat is None else beat.task,
        "pollMs": None if details is None else details.poll_ms,
        "capabilities": {} if details is None else details.capabilities,
        "details": {} if details is None else details.details,
        "lastHeartbeat": None if beat_at_ms is None else format_ts(beat_at_ms),
        "createdAt": format_ts(details.created_at_ms if details else updated_ms),
        "updatedAt": format_ts(updated_ms),
        "activeJobCount": active,
        "isOnline": is_online,
    }
    return WorkerRow(record, worker, status, is_online, active)


def pick_worker(
    look: Callable[[], Sequence[WorkerRow]],
    *,
    start: Callable[[], None] | None = None,
    wait: Callable[[Callable[[], bool], float], object] | None = None,
    max_started: int = MAX_STARTED,
    wait_s: float = WAIT_S,
) -> str | None:
    """Return a worker for a job: one that is online, idle and has none.

    Args:
        look: returns the workers of now.
        start: starts another worker; None: this planner starts none.
        wait: calls a condition until it holds, for so many seconds at most.
        max_started: how many workers there are at most by starting.
        wait_s: for how long it waits.

    Returns:
        The worker; None when there is none in time: the job is for anybody then.
    """
    idle = _idle(look())
    if idle is not None:
        return idle
    online = sum(row.is_online for row in look())
    if start is not None and online < max_started:
        start()
    if wait is not None:
        wait(lambda: _idle(look()) is not None, wait_s)
    return _idle(look())


def _idle(rows: Sequence[WorkerRow]) -> str | None:
    free = (row.worker for row in rows if row.is_online and row.status == "idle" and not row.active)
    return next(free, None)


def _whole(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return max(0, min(int(value), 2**53 - 1)) if is_number and abs(value) < 1e18 else None  # type: ignore[arg-type, call-overload]


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def system_status(bus: LocalBus, online_ms: int = ONLINE_MS) -> dict[str, Any]:
    """Return how many workers and entries there are, what is next in line, and how it went.

    Args:
        bus: an open bus.
        online_ms: how old the last beat of a worker that is online is at most.
    """
    requests, jobs = Requests(bus).entries, JobQueue(bus).entries
    workers = WorkerTable(bus, jobs).list(online_ms)
    online = sum(worker.is_online for worker in workers)
    busy = sum(worker.is_online and worker.status == "busy" for worker in workers)
    of_requests, request_priorities = requests.counts()
    of_jobs, job_priorities = jobs.counts()
    return {
        "ts": format_ts(bus.now_ms()),
        "workers": {
            "total": len(workers),
            "online": online,
            "busy": busy,
            "idle": max(0, online - busy),
        },
        "queues": {
            "requests": of_requests,
            "requestPriorities": request_priorities,
            "requestPendingSnapshot": requests.in_line(),
            "jobs": of_jobs,
            "jobPriorities": job_priorities,
            "jobPendingSnapshot": jobs.in_line(),
            "completions": Completions(bus).entries.counts()[0],
        },
        "slo": {
            "requests": summary(requests.queue),
            "jobs": summary(jobs.queue, of_jobs=True),
        },
    }
