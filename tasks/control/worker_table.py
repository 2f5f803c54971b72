"""The workers of jobs, as PushPals' clients see them; and which one a planner picks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...schema.errors import InvalidInput
from ...schema.message.names import check_agent
from ...schema.message.times import format_ts
from ...subscribers.queues.worker_groups import QueueWorkers
from ...subscribers.views import Views
from ..records.aliases import WORKER_STATUSES, worker_status
from ..records.worker_details import Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ...bus.bus import Bus
    from ...bus.presence.heartbeats import Heartbeat
    from ..records.worker_details import WorkerDetails
    from .entries import Entries

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
    """The workers of the queue of jobs, by whichever door they came.

    Args:
        bus: an open bus.
        jobs: the entries of the queue of jobs.
    """

    def __init__(self, bus: Bus, jobs: Entries) -> None:
        self._bus = bus
        self._jobs = jobs
        self._workers = Workers.of(bus)

    def heartbeat(self, body: Mapping[str, Any]) -> None:
        """Write a beat of a worker, with what it says of itself.

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
        """Return the workers, by name: of this door, and all others of the queue of jobs.

        Args:
            online_ms: how old the last beat of one that is online is at most; 1,000 at least.
        """
        online_ms = max(_MIN_ONLINE_MS, online_ms)
        info = self._jobs.queue.info
        active = Counter(claim.group for claim in Views.of(self._bus).active_claims(info))
        beats = {beat.agent: beat for beat in self._bus.heartbeats.list()}
        known = {each.worker: each for each in self._workers.list()}
        names = known.keys() | active.keys() | QueueWorkers(self._bus).groups(info)
        return [
            _row(name, known.get(name), beats.get(name), active[name], online_ms)
            for name in sorted(names)
        ]


def _row(
    worker: str,
    known: WorkerDetails | None,
    beat: Heartbeat | None,
    active: int,
    online_ms: int,
) -> WorkerRow:
    status = worker_status(None if beat is None else beat.status)
    is_online = beat is not None and beat.age_s * 1000 <= online_ms and status != "offline"
    beat_at_ms = None if beat is None else beat.ts_ms
    updated_ms = max((known.updated_at_ms if known else 0), beat_at_ms or 0)
    record = {
        "workerId": worker,
        "status": status,
        "currentJobId": None if beat is None else beat.task,
        "pollMs": None if known is None else known.poll_ms,
        "capabilities": {} if known is None else known.capabilities,
        "details": {} if known is None else known.details,
        "lastHeartbeat": None if beat_at_ms is None else format_ts(beat_at_ms),
        "createdAt": format_ts(known.created_at_ms if known else updated_ms),
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
    """Return the worker that a job is meant for: one that is online, idle and has none.

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
