"""PushPals' operations, and their application in its place in that of the server."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import Scope

from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError, InvalidInput, NotFound
from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts
from ...subscribers.jobs.claims import ACTIVE, COMPLETED
from ...tasks.control.entries import limit_of, whole_number
from ...tasks.control.jobs import JobQueue, Sweep
from ...tasks.control.requests import Completions, completion_row, required, row
from ...tasks.control.sessions import PROTOCOL_VERSION, Sessions
from ...tasks.control.status import ONLINE_MS, WorkerTable, summary, system_status
from ...tasks.records.sessions import Autonomy, AutonomySnapshot, DispatchLock, HeldLock
from ..access.access import BusAccess, GuardedRouter, TheClient
from ..access.table import PUSHPALS
from .common import (
    TheBody,
    TheBus,
    TheJobs,
    TheRequests,
    TheSweep,
    TheTrace,
    answer,
    check_own_claim,
    client_of,
    ender_in,
    ms_of,
    name_in,
    none_left,
    ok,
    refused,
    sender_in,
    status_asked,
    worker_in,
)
from .streams import router as streams_router

# PushPals' operations: completions, requests, jobs and workers.

completions_router = GuardedRouter(PUSHPALS, prefix="/completions")


@completions_router.post("/enqueue")
def enqueue_completion(
    body: TheBody, bus: TheBus, jobs: TheJobs, trace: TheTrace, worker: TheClient
) -> Response:
    """Publish a completion; without `tasks:rw`, one of a job which the client has or completed."""
    sender, job, completions = sender_in(body, worker), name_in(body, "jobId"), Completions(bus)
    check_own_claim(jobs.entries, job, worker, (ACTIVE, COMPLETED))
    completions.keep_head(body)
    with bus.transaction():  # so that the claim is not lost between
        check_own_claim(jobs.entries, job, worker, (ACTIVE, COMPLETED))
        return ok(201, completionId=completions.enqueue(body, agent=sender, trace=trace))


@completions_router.post("/claim")
def claim_completion(body: TheBody, bus: TheBus, pusher: TheClient) -> Response:
    """Claim the oldest completion."""
    claimed = Completions(bus).claim(worker_in(body, "pusherId", pusher))
    if claimed is None:
        return none_left("completions")
    return ok(completion=claimed[0], claimToken=claimed[1])


@completions_router.post("/{id}/processed")
def processed(id: str, body: TheBody, bus: TheBus, pusher: TheClient) -> Response:
    """End a claimed completion whose commit is in the target."""
    Completions(bus).processed(id, agent=ender_in(body, "pusherId", pusher))
    return ok()


@completions_router.post("/{id}/fail")
def fail_completion(id: str, body: TheBody, bus: TheBus, pusher: TheClient) -> Response:
    """End a claimed completion whose commit is not in the target."""
    Completions(bus).fail(id, body.get("error"), agent=ender_in(body, "pusherId", pusher))
    return ok()


@completions_router.get("")
def list_completions(bus: TheBus, status: str | None = None, limit: str | None = None) -> Response:
    """List completions, with how many there are."""
    entries = Completions(bus).entries
    page = entries.list(status_asked(status), limit_of(limit))
    return ok(completions=[completion_row(entry) for entry in page], counts=entries.counts()[0])


# Requests, for clients and planners.

requests_router = GuardedRouter(PUSHPALS, prefix="/requests")


@requests_router.post("/enqueue")
def enqueue_request(
    body: TheBody, requests: TheRequests, trace: TheTrace, client: TheClient
) -> Response:
    """Publish a request."""
    sender = sender_in(body, client)
    return ok(201, **requests.enqueue(body, agent=sender, trace=trace))


@requests_router.post("/claim")
def claim_request(body: TheBody, requests: TheRequests, planner: TheClient) -> Response:
    """Claim the first request in line."""
    agent = worker_in(body, "agentId", planner)
    return _claimed("request", requests.claim(agent, client=client_of(planner)))


def _claimed(kind: str, claimed: tuple[dict[str, Any], int, int] | None) -> Response:
    """Return the answer to a claim: the row, its wait and the token; or that none is left."""
    if claimed is None:
        return none_left(f"{kind}s")
    row, wait_ms, token = claimed
    return ok(**{kind: row}, queueWaitMs=wait_ms, claimToken=token)


@requests_router.post("/{id}/complete")
def complete_request(id: str, body: TheBody, requests: TheRequests, planner: TheClient) -> Response:
    """End a claimed request with its result."""
    agent = ender_in(body, "agentId", planner)
    entry = requests.complete(id, body.get("result"), agent=agent)
    return ok(durationMs=entry.duration_ms())


@requests_router.post("/{id}/fail")
def fail_request(id: str, body: TheBody, requests: TheRequests, planner: TheClient) -> Response:
    """End a claimed request without success."""
    agent = ender_in(body, "agentId", planner)
    entry = requests.fail(id, body.get("message"), body.get("detail"), agent=agent)
    return ok(durationMs=entry.duration_ms())


@requests_router.get("")
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


# Jobs, for planners and workers, with their output.

jobs_router = GuardedRouter(PUSHPALS, prefix="/jobs")

#: How many lines of output a page has unless asked otherwise.
_LINES = 50


@jobs_router.post("/enqueue")
def enqueue_job(
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


@jobs_router.post("/claim")
def claim_job(body: TheBody, jobs: TheJobs, sweep: TheSweep, worker: TheClient) -> Response:
    """Claim a job: the worker's own first, then the first in line."""
    sweep.when_due()
    name = worker_in(body, "workerId", worker)
    return _claimed("job", jobs.claim(name, client=client_of(worker)))


@jobs_router.post("/{id}/complete")
def complete_job(id: str, body: TheBody, jobs: TheJobs, worker: TheClient) -> Response:
    """End a claimed job with its summary and artifacts."""
    entry = jobs.complete(id, body, agent=ender_in(body, "workerId", worker))
    return ok(durationMs=entry.duration_ms())


@jobs_router.post("/{id}/fail")
def fail_job(id: str, body: TheBody, jobs: TheJobs, worker: TheClient) -> Response:
    """End a claimed job without success, and tell its session."""
    agent = ender_in(body, "workerId", worker)
    entry = jobs.fail(id, body.get("message"), body.get("detail"), agent=agent)
    return ok(durationMs=entry.duration_ms())


@jobs_router.post("/{id}/log")
def log(id: str, body: TheBody, jobs: TheJobs, worker: TheClient) -> Response:
    """Store a line that a job printed."""
    entry = jobs.entries.get(id)
    if entry is not None:
        worker.check_holds(None if entry.claim is None else entry.claim.group)
    text = body["message"] if isinstance(body.get("message"), str) else body.get("line")
    return ok(jobId=id, logId=jobs.log(id, text))


@jobs_router.get("/{id}/logs")
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


@jobs_router.get("")
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


# Workers: their heartbeats, and a list of them.

workers_router = GuardedRouter(PUSHPALS, prefix="/workers")


@workers_router.post("/heartbeat")
def heartbeat(body: TheBody, bus: TheBus, jobs: TheJobs, worker: TheClient) -> Response:
    """Write a beat of a worker."""
    named = name_in(body, "workerId") or worker.agent
    beat = body if named is None else {**body, "workerId": worker.work_as(named)}
    WorkerTable(bus, jobs.entries).heartbeat(beat)
    return ok()


@workers_router.get("")
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


# The state of the whole.

system_router = GuardedRouter(PUSHPALS, prefix="/system")


@system_router.get("/status")
def show_status(
    bus: TheBus,
    sweep: TheSweep,
    ttlMs: str | None = None,
) -> Response:
    """Show workers, queues and service levels."""
    sweep.when_due()
    return ok(**system_status(bus, ms_of(ttlMs, ONLINE_MS)))


# The dispatch lock of autonomous planners, their states and their snapshots.

autonomy_router = GuardedRouter(PUSHPALS, prefix="/autonomy")

#: The longest id of a session or a run, in characters.
_MAX_ID_CHARS = 128


@autonomy_router.post("/lock/acquire")
def acquire(body: TheBody, bus: TheBus) -> Response:
    """Acquire the dispatch lock; 409 while another run holds it."""
    session, run = _owner(body)
    is_mine, lock = DispatchLock.of(bus).acquire(
        session,
        run,
        ttl_ms=_ms(body.get("ttlMs")),
        stale_after_ms=_ms(body.get("staleAfterMs")),
    )
    return _locked(lock) if is_mine else _held_by(lock)


@autonomy_router.post("/lock/renew")
def renew(body: TheBody, bus: TheBus) -> Response:
    """Extend the dispatch lock; 409 where this run does not hold it."""
    session, run = _owner(body)
    is_mine, lock = DispatchLock.of(bus).renew(session, run, ttl_ms=_ms(body.get("ttlMs")))
    return _locked(lock) if is_mine and lock is not None else _held_by(lock)


@autonomy_router.post("/lock/release")
def release(body: TheBody, bus: TheBus) -> Response:
    """Release the dispatch lock, if this run holds it."""
    return ok(released=DispatchLock.of(bus).release(*_owner(body)))


@autonomy_router.get("/snapshot")
def snapshot(
    bus: TheBus,
    requests: TheRequests,
    jobs: TheJobs,
    sweep: TheSweep,
    sessionId: str = "",
    runId: str = "",
    isWorktreeDirty: str = "",
    isMergeInProgress: str = "",
) -> Response:
    """Make a snapshot of how things are, for a planner, and store it."""
    sweep.when_due()
    if not sessionId.strip():
        raise InvalidInput("sessionId is required")
    payload = {
        "requestSlo": summary(requests.entries.queue),
        "jobSlo": summary(jobs.entries.queue, of_jobs=True),
        "repoHealthFlags": {
            "is_worktree_dirty": isWorktreeDirty.lower() == "true",
            "is_merge_in_progress": isMergeInProgress.lower() == "true",
        },
    }
    stored = Autonomy.of(bus).add_snapshot(_id(sessionId), _id(runId), payload)
    return ok(snapshot=_record(stored))


@autonomy_router.get("/snapshots/{id}")
def show_snapshot(id: str, bus: TheBus) -> Response:
    """Show a snapshot that was made before."""
    stored = Autonomy.of(bus).snapshot(id)
    if stored is None:
        raise NotFound(f"there is no snapshot {id[:100]!a}")
    return ok(snapshot=_record(stored))


@autonomy_router.post("/state")
def set_state(body: TheBody, bus: TheBus) -> Response:
    """Store the state of a session's planner."""
    (session,) = required(body, "sessionId")
    state = body.get("state")
    if not isinstance(state, dict):
        raise InvalidInput("state is required, an object")
    Autonomy.of(bus).set_state(_id(session), state)
    return ok()


@autonomy_router.get("/state")
def show_state(
    bus: TheBus,
    sessionId: str = "",
) -> Response:
    """Show the state of a session's planner; null before the first."""
    if not sessionId.strip():
        raise InvalidInput("sessionId is required")
    return ok(state=Autonomy.of(bus).state(_id(sessionId)))


def _owner(body: dict[str, Any]) -> tuple[str, str]:
    session, run = required(body, "sessionId", "runId")
    return _id(session), _id(run)


def _id(text: str) -> str:
    return " ".join(text.split())[:_MAX_ID_CHARS]


def _locked(lock: HeldLock) -> Response:
    return ok(lockUntil=format_ts(lock.expires_at_ms))


def _held_by(lock: HeldLock | None) -> Response:
    if lock is None:
        return answer({"ok": False, "message": "nobody holds the lock: acquire it"}, 409)
    return answer(
        {
            "ok": False,
            "message": f"run {lock.run} of session {lock.session} holds the lock",
            "ownerSessionId": lock.session,
            "ownerRunId": lock.run,
            "lockUntil": format_ts(lock.expires_at_ms),
        },
        409,
    )


def _record(stored: AutonomySnapshot) -> dict[str, Any]:
    return {
        "snapshotId": stored.id,
        "sessionId": stored.session,
        "runId": stored.run,
        "createdAt": format_ts(stored.created_at_ms),
        "ttlMs": stored.ttl_ms,
        "dispatchLockHeld": stored.dispatch_lock_held,
        **stored.payload,
    }


def _ms(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 1e15 else None  # type: ignore[call-overload, operator]


# The application of PushPals' forms, and its place in that of the server.

ROUTERS = (
    *(requests_router, jobs_router, completions_router, workers_router),
    *(autonomy_router, system_router, streams_router),
)

#: The first parts of all their paths.
FAMILIES = frozenset(
    {"requests", "jobs", "completions", "workers", "autonomy", "message", "system"}
    | {"sessions", "approvals"}
)


class PushPalsMount(Mount):
    """The application at the paths of PushPals alone: all others are the server's own."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the first part of a path is one of PushPals'."""
        if scope["path"].split("/", 2)[1:2][0] not in FAMILIES:
            return Match.NONE, {}
        return super().matches(scope)


def create_door(bus: LocalBus, access: BusAccess) -> FastAPI:
    """Return the application, which shares the life of the server's.

    Args:
        bus: what is served.
        access: authenticates requests.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.bus = bus
    app.state.access = access
    app.state.sessions = sessions = Sessions(bus)
    app.state.tell = sessions.tell
    app.state.sweep = Sweep(bus, JobQueue(bus, sessions.tell))
    for kind in (AckbusError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, refused)
    for router in ROUTERS:
        app.include_router(router)
    return app


def add_door(app: FastAPI, door: FastAPI) -> None:
    """Put the application of PushPals' forms into that of the server, behind all its paths."""
    door.state.server = app
    for shared in ("metrics", "patience"):
        setattr(door.state, shared, getattr(app.state, shared))
    door.state.hang_up = lambda client: app.state.hang_up(client)
    app.state.protocol = PROTOCOL_VERSION
    app.router.routes.append(PushPalsMount("/", app=door))
