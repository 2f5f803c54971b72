"""Completions, for workers and integrators."""

from __future__ import annotations

from fastapi import Response

from ...subscribers.jobs.claims import ACTIVE, COMPLETED
from ...tasks.control.entries import limit_of
from ...tasks.control.requests import Completions, completion_row
from ..access.access import GuardedRouter, TheClient
from ..access.table import PUSHPALS
from .common import (
    TheBody,
    TheBus,
    TheJobs,
    TheTrace,
    check_own_claim,
    ender_in,
    name_in,
    none_left,
    ok,
    sender_in,
    status_asked,
    worker_in,
)

router = GuardedRouter(PUSHPALS, prefix="/completions")


@router.post("/enqueue")
def enqueue(
    body: TheBody, bus: TheBus, jobs: TheJobs, trace: TheTrace, worker: TheClient
) -> Response:
    """Publish a completion; without `tasks:rw`, one of a job which the client has or completed."""
    sender, job, completions = sender_in(body, worker), name_in(body, "jobId"), Completions(bus)
    check_own_claim(jobs.entries, job, worker, (ACTIVE, COMPLETED))
    completions.keep_head(body)
    with bus.transaction():  # so that the claim is not lost between
        check_own_claim(jobs.entries, job, worker, (ACTIVE, COMPLETED))
        return ok(201, completionId=completions.enqueue(body, agent=sender, trace=trace))


@router.post("/claim")
def claim(body: TheBody, bus: TheBus, pusher: TheClient) -> Response:
    """Claim the oldest completion."""
    claimed = Completions(bus).claim(worker_in(body, "pusherId", pusher))
    if claimed is None:
        return none_left("completions")
    return ok(completion=claimed[0], claimToken=claimed[1])


@router.post("/{id}/processed")
def processed(id: str, body: TheBody, bus: TheBus, pusher: TheClient) -> Response:
    """End a claimed completion whose commit is in the target."""
    Completions(bus).processed(id, agent=ender_in(body, "pusherId", pusher))
    return ok()


@router.post("/{id}/fail")
def fail(id: str, body: TheBody, bus: TheBus, pusher: TheClient) -> Response:
    """End a claimed completion whose commit is not in the target."""
    Completions(bus).fail(id, body.get("error"), agent=ender_in(body, "pusherId", pusher))
    return ok()


@router.get("")
def list_completions(bus: TheBus, status: str | None = None, limit: str | None = None) -> Response:
    """List completions, with how many there are."""
    entries = Completions(bus).entries
    page = entries.list(status_asked(status), limit_of(limit))
    return ok(completions=[completion_row(entry) for entry in page], counts=entries.counts()[0])
