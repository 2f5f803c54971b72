"""Workers: their heartbeats, and a list of them."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from ...schema.errors import InvalidInput, NotFound
from ...schema.message.times import format_ts
from ...tasks.control.requests import required
from ...tasks.control.status import ONLINE_MS, WorkerTable, summary, system_status
from ...tasks.records.sessions import Autonomy, DispatchLock, Held, Snapshot
from ..access.access import GuardedRouter, TheClient
from ..access.table import PUSHPALS
from .common import (
    TheBody,
    TheBus,
    TheJobs,
    TheRequests,
    TheSweep,
    answer,
    ms_of,
    name_in,
    ok,
)

router = GuardedRouter(PUSHPALS, prefix="/workers")


@router.post("/heartbeat")
def heartbeat(body: TheBody, bus: TheBus, jobs: TheJobs, worker: TheClient) -> Response:
    """Write a beat of a worker."""
    named = name_in(body, "workerId") or worker.agent
    beat = body if named is None else {**body, "workerId": worker.work_as(named)}
    WorkerTable(bus, jobs.entries).heartbeat(beat)
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


def _locked(lock: Held) -> Response:
    return ok(lockUntil=format_ts(lock.expires_at_ms))


def _held_by(lock: Held | None) -> Response:
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


def _record(stored: Snapshot) -> dict[str, Any]:
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
