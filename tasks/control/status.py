"""The state of the whole: workers, queues and service levels, each number from its table."""

from __future__ import annotations

from ...schema.message.times import format_ts
from .completions import Completions
from .jobs import JobQueue
from .requests import Requests
from .slo import summary
from .worker_table import ONLINE_MS, WorkerTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...bus.bus import Bus


def system_status(bus: Bus, online_ms: int = ONLINE_MS) -> dict[str, Any]:
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
