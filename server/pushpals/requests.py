"""Requests, for clients and planners."""

from __future__ import annotations

from fastapi import Response

from ...tasks.control.entries import limit_of
from ...tasks.control.requests import row
from ...tasks.control.status import summary
from ..access.access import GuardedRouter, TheClient
from ..access.table import PUSHPALS
from .common import (
    TheBody,
    TheRequests,
    TheTrace,
    client_of,
    ender_in,
    none_left,
    ok,
    sender_in,
    status_asked,
    worker_in,
)

router = GuardedRouter(PUSHPALS, prefix="/requests")


@router.post("/enqueue")
def enqueue(body: TheBody, requests: TheRequests, trace: TheTrace, client: TheClient) -> Response:
    """Publish a request."""
    sender = sender_in(body, client)
    return ok(201, **requests.enqueue(body, agent=sender, trace=trace))


@router.post("/claim")
def claim(body: TheBody, requests: TheRequests, planner: TheClient) -> Response:
    """Claim the first request in line."""
    claimed = requests.claim(worker_in(body, "agentId", planner), client=client_of(planner))
    if claimed is None:
        return none_left("requests")
    return ok(request=claimed[0], queueWaitMs=claimed[1], claimToken=claimed[2])


@router.post("/{id}/complete")
def complete(id: str, body: TheBody, requests: TheRequests, planner: TheClient) -> Response:
    """End a claimed request with its result."""
    agent = ender_in(body, "agentId", planner)
    entry = requests.complete(id, body.get("result"), agent=agent)
    return ok(durationMs=entry.duration_ms())


@router.post("/{id}/fail")
def fail(id: str, body: TheBody, requests: TheRequests, planner: TheClient) -> Response:
    """End a claimed request without success."""
    agent = ender_in(body, "agentId", planner)
    entry = requests.fail(id, body.get("message"), body.get("detail"), agent=agent)
    return ok(durationMs=entry.duration_ms())


@router.get("")
def list_requests(
    requests: TheRequests, status: str | None = None, limit: str | None = None
) -> Response:
    """List requests, with how many there are, what is next, and how it went."""
    page = requests.entries.list(status_asked(status), limit_of(limit))
    by_status, by_priority = requests.entries.counts()
    return ok(
        requests=[row(entry) for entry in page],
        counts=by_status,
        priorityCounts=by_priority,
        pendingSnapshot=requests.entries.in_line(),
        slo=summary(requests.entries.queue),
    )
