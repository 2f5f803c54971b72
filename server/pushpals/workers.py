"""Workers: their heartbeats, and who is there."""

from __future__ import annotations

from fastapi import Response

from ...tasks.control.worker_table import ONLINE_MS, WorkerTable
from ..access.access import GuardedRouter, TheClient
from ..access.table import PUSHPALS
from .common import TheBody, TheBus, TheJobs, TheSweep, ms_of, name_in, ok

router = GuardedRouter(PUSHPALS, prefix="/workers")


@router.post("/heartbeat")
def heartbeat(body: TheBody, bus: TheBus, jobs: TheJobs, worker: TheClient) -> Response:
    """Write a beat of a worker."""
    named = name_in(body, "workerId") or worker.agent
    told = body if named is None else {**body, "workerId": worker.work_as(named)}
    WorkerTable(bus, jobs.entries).heartbeat(told)
    return ok()


@router.get("")
def list_workers(
    bus: TheBus,
    jobs: TheJobs,
    sweep: TheSweep,
    ttlMs: str | None = None,
) -> Response:
    """List workers; those are online whose last beat is at most `ttlMs` old."""
    sweep.when_due()
    rows = WorkerTable(bus, jobs.entries).list(ms_of(ttlMs, ONLINE_MS))
    return ok(workers=[row.record for row in rows])
