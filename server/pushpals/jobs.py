"""Jobs, for planners and workers, with their output."""

from __future__ import annotations

from fastapi import Response

from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts
from ...subscribers.jobs.claims import ACTIVE
from ...tasks.control.entries import limit_of, whole_number
from ...tasks.control.status import summary
from ..access.access import GuardedRouter, TheClient
from ..access.table import PUSHPALS
from .common import (
    TheBody,
    TheBus,
    TheJobs,
    TheRequests,
    TheSweep,
    TheTrace,
    check_own_claim,
    client_of,
    ender_in,
    name_in,
    none_left,
    ok,
    sender_in,
    status_asked,
    worker_in,
)

router = GuardedRouter(PUSHPALS, prefix="/jobs")

#: How many lines of output a page has unless asked otherwise.
_LINES = 50


@router.post("/enqueue")
def enqueue(
    body: TheBody,
    bus: TheBus,
    requests: TheRequests,
    jobs: TheJobs,
    trace: TheTrace,
    planner: TheClient,
) -> Response:
    """Publish a job; without `tasks:rw`, one that comes of a request which the client has."""
    sender = sender_in(body, planner)
    with bus.transaction():  # so that the claim is not lost between
        params = body.get("params")
        inner = name_in(params, "requestId") if isinstance(params, dict) else None
        asked = name_in(body, "requestId") or inner
        check_own_claim(requests.entries, asked, planner, (ACTIVE,))
        return ok(201, **jobs.enqueue(body, agent=sender, trace=trace))


@router.post("/claim")
def claim(body: TheBody, jobs: TheJobs, sweep: TheSweep, worker: TheClient) -> Response:
    """Claim a job: the worker's own first, then the first in line."""
    sweep.when_due()
    claimed = jobs.claim(worker_in(body, "workerId", worker), client=client_of(worker))
    if claimed is None:
        return none_left("jobs")
    return ok(job=claimed[0], queueWaitMs=claimed[1], claimToken=claimed[2])


@router.post("/{id}/complete")
def complete(id: str, body: TheBody, jobs: TheJobs, worker: TheClient) -> Response:
    """End a claimed job with its summary and artifacts."""
    entry = jobs.complete(id, body, agent=ender_in(body, "workerId", worker))
    return ok(durationMs=entry.duration_ms())


@router.post("/{id}/fail")
def fail(id: str, body: TheBody, jobs: TheJobs, worker: TheClient) -> Response:
    """End a claimed job without success, and tell its session."""
    agent = ender_in(body, "workerId", worker)
    entry = jobs.fail(id, body.get("message"), body.get("detail"), agent=agent)
    return ok(durationMs=entry.duration_ms())


@router.post("/{id}/log")
def log(id: str, body: TheBody, jobs: TheJobs, worker: TheClient) -> Response:
    """Store a line that a job printed."""
    entry = jobs.entries.get(id)
    if entry is not None:
        worker.check_holds(None if entry.claim is None else entry.claim.group)
    text = body["message"] if isinstance(body.get("message"), str) else body.get("line")
    return ok(jobId=id, logId=jobs.log(id, text))


@router.get("/{id}/logs")
def list_logs(
    id: str,
    jobs: TheJobs,
    sweep: TheSweep,
    afterId: str | None = None,
    limit: str | None = None,
) -> Response:
    """List lines that a job printed, after one, else the newest; `cursor` is the last of them."""
    sweep.when_due()
    after = _cursor(afterId)
    lines = [
        {
            "id": line.id,
            "jobId": id,
            "ts": format_ts(line.at_ms),
            "message": line.text,
            "stream": line.stream,
            "seq": line.number,
        }
        for line in jobs.logs(id, after, limit_of(limit, _LINES))
    ]
    return ok(jobId=id, logs=lines, cursor=lines[-1]["id"] if lines else after)


@router.get("")
def list_jobs(
    jobs: TheJobs,
    sweep: TheSweep,
    status: str | None = None,
    limit: str | None = None,
) -> Response:
    """List jobs, with how many there are, what is next, and how it went."""
    sweep.when_due()
    page = jobs.entries.list(status_asked(status), limit_of(limit))
    by_status, by_priority = jobs.entries.counts()
    return ok(
        jobs=[jobs.row(entry) for entry in page],
        counts=by_status,
        priorityCounts=by_priority,
        pendingSnapshot=jobs.entries.in_line(),
        slo=summary(jobs.entries.queue, of_jobs=True),
    )


def _cursor(text: str | None) -> int | None:
    asked = whole_number(text)
    return None if asked is None else min(max(0, asked), MAX_SEQ)
