"""Jobs: what a planner made of a request, waiting for a worker or for a certain one."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.errors import InvalidInput, NotFound, shown
from ...schema.message.times import format_ts
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.jobs import RUNNING
from ...subscribers.jobs.policy import work_headers
from ...subscribers.queues.clock_back import ClockBack
from ...subscribers.queues.job_control import JobControl
from ...subscribers.views import Views
from ..records.worker_details import KEPT_MS, JobOutput, Workers
from ..steps.messages import JOBS
from .entries import (
    Budgets,
    Entries,
    QueueEntry,
    eta_ms,
    failed,
    is_api_claim,
    json_or_none,
    json_text,
    priority_of,
    text_of,
)
from .requests import ignore_event, required

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...bus.heartbeats import Heartbeat
    from ...bus.local_bus import LocalBus
    from ...subscribers.views import ActiveClaim
    from ..records.worker_details import StoredLine
    from .requests import Tell

# The strict form of a job that changes files, version 2: a fault names its field.

#: The kind of job that has this form, and the version of it.
KIND, VERSION = "task.execute", 2

LANES = ("deterministic", "worker")

#: The budgets that a plan may have.
_BUDGETS = ("queueWaitBudgetMs", "executionBudgetMs", "finalizationBudgetMs")


def check_params(params: Mapping[str, object]) -> None:
    """Refuse the params of a job that do not have the form.

    Raises:
        InvalidInput: a field is wrong; the first such field is named, as `params.FIELD`.
    """
    if params.get("schemaVersion") != VERSION or params.get("schemaVersion") is True:
        raise _wrong("schemaVersion", f"{VERSION}", params.get("schemaVersion"))
    if params.get("lane") not in LANES:
        raise _wrong("lane", " or ".join(LANES), params.get("lane"))
    _check_text("instruction", params.get("instruction"))
    planning = params.get("planning")
    if not isinstance(planning, dict):
        raise _wrong("planning", "an object", planning)
    _check_text("planning.intent", planning.get("intent"))
    if not isinstance(planning.get("scope"), dict):
        raise _wrong("planning.scope", "an object", planning.get("scope"))
    _check_texts("planning.acceptanceCriteria", planning.get("acceptanceCriteria"))
    if planning.get("validationSteps") != []:
        _check_texts("planning.validationSteps", planning.get("validationSteps"))
    for name in _BUDGETS:
        budget = planning.get(name, 1)
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
            raise _wrong(f"planning.{name}", "a positive number", budget)


def check_job(kind: str, params: Mapping[str, object]) -> None:
    """Refuse a job of the kind `KIND` whose params name a version, and do not have its form.

    Raises:
        InvalidInput: as for `check_params`.
    """
    if kind == KIND and "schemaVersion" in params:
        check_params(params)


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(field, "text with something in it", value)


def _check_texts(field: str, value: object) -> None:
    if not isinstance(value, list) or not value:
        raise _wrong(field, "a list of texts, with one at least", value)
    for number, text in enumerate(value):
        _check_text(f"{field}[{number}]", text)


def _wrong(field: str, expected: str, value: object) -> InvalidInput:
    return InvalidInput(f"params.{field} must be {expected}, not {shown(value)}")


#: The sender of the event that a job has failed.
TELLER = "server:job-fail-hook"

#: The text of such an event if the failure has none.
_FAILED = "WorkerPal job failed"

#: How long the message and the detail of such an event are at most, in characters.
_MAX_MESSAGE, _MAX_DETAIL = 240, 600


class JobQueue:
    """The queue of jobs, with their workers and their output.

    Args:
        bus: an open bus.
        tell: tells a session of something.
    """

    def __init__(self, bus: LocalBus, tell: Tell = ignore_event) -> None:
        self.entries = Entries(bus, JOBS)
        self.output = JobOutput.of(bus)
        self._bus = bus
        self._tell = tell
        self._workers = Workers.of(bus)

    def enqueue(
        self,
        body: Mapping[str, Any],
        *,
        agent: str | None = None,
        trace: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Publish a job, and return its id, its place in line and when it is reached.

        The job fails when its worker is lost, whatever the policy of the queue.

        Raises:
            InvalidInput: task or kind is missing, a field of its params is wrong, or the target
                can't be a worker.
        """
        task, kind = required(body, "taskId", "kind")
        body_params = body.get("params")
        params = body_params if isinstance(body_params, dict) else {}
        check_job(kind, params)
        priority = priority_of(body.get("priority") or _planned(params, "queuePriority"))
        budgets = Budgets.of({**body, "params": params}, priority)
        target = _text(body.get("targetWorkerId"))
        payload = {
            "taskId": task,
            "sessionId": text_of(body.get("sessionId")) or None,
            "kind": kind,
            "params": params,
            "queueWaitBudgetMs": budgets.queue_wait_ms,
            "executionBudgetMs": budgets.execution_ms,
            "finalizationBudgetMs": budgets.finalization_ms,
        }
        parent = _text(body.get("requestId")) or _text(params.get("requestId"))
        entry, place = self.entries.add(
            payload,
            agent=agent,
            priority=priority,
            parent=parent,
            headers=work_headers(
                for_worker=target, on_lost="fail", dedupe_key=_text(body.get("dedupeKey"))
            ),
            trace=trace,
        )
        return {
            "jobId": entry.id,
            "taskId": task,
            "queuePosition": place,
            "etaMs": eta_ms(priority, place),
        }

    def claim(
        self, worker: str, *, client: str | None = None
    ) -> tuple[dict[str, Any], int, int] | None:
        """Claim a job for a worker, its own first, and note that it is busy.

        Args:
            worker, client: as for `Entries.claim`.

        Returns:
            The row, how long the job waited in milliseconds, and the token of the claim; None
            when there is none.
        """
        with self._bus.transaction():
            entry = self.entries.claim(worker, client=client)
            if entry is None or entry.claim is None:
                return None
            self._workers.note(worker)
            self._bus.heartbeats.beat(worker, "busy", task=entry.id, is_here=False)
            return self.row(entry), entry.wait_ms(), entry.claim.token

    def complete(self, id: str, body: Mapping[str, Any], *, agent: str | None = None) -> QueueEntry:
        """End a claimed job with its summary and, as JSON text, its artifacts.

        Raises:
            NotClaimed: it is not claimed.
        """
        result = {
            "summary": body.get("summary"),
            "artifacts": json_or_none(body.get("artifacts")),
        }
        with self._bus.transaction():
            entry = self.entries.end(id, Outcome(result=json_text(result)), agent=agent)
            self._settle_worker(entry)
            return entry

    def fail(
        self, id: str, message: object = None, detail: object = None, *, agent: str | None = None
    ) -> QueueEntry:
        """End a claimed job for good without success, and tell its session.

        Raises:
            NotClaimed: it is not claimed.
        """
        outcome = failed(text_of(message), text_of(detail))
        with self._bus.transaction():
            entry = self.entries.end(id, outcome, agent=agent)
            self._settle_worker(entry)
            self.tell_failure(entry)
            return entry

    def tell_failure(self, entry: QueueEntry) -> None:
        """Tell the session of a job that it has failed, in the caller's transaction."""
        failure = entry.failure() or {}
        event = {
            "jobId": entry.id,
            "message": str(failure.get("message") or _FAILED)[:_MAX_MESSAGE],
        }
        if failure.get("detail"):
            event["detail"] = str(failure["detail"])[:_MAX_DETAIL]
        if entry.session:
            self._tell(entry.session, "job_failed", event, TELLER, entry.id)

    def log(self, id: str, text: object) -> int:
        """Store a line that a job printed, and return its id.

        Raises:
            InvalidInput: the line is empty.
            NotFound: there is no such job.
        """
        line = text.strip() if isinstance(text, str) else ""
        if not line:
            raise InvalidInput("message is required")
        return self.output.add_text(self._found(id).message.seq, line)

    def logs(self, id: str, after_id: int | None = None, limit: int = 50) -> list[StoredLine]:
        """Return lines that a job printed, in order; none of a job that is not there.

        Args:
            id: of the job.
            after_id: the lines after this one; None: the newest.
            limit: how many at most.
        """
        entry = self.entries.get(id)
        if entry is None:
            return []
        seq, output = entry.message.seq, self.output
        return output.newest(seq, limit) if after_id is None else output.after(seq, after_id, limit)

    def row(self, entry: QueueEntry) -> dict[str, Any]:
        """Return a job by the names of PushPals' columns."""
        progress = self.output.progress(entry.message.seq)
        times = entry.times(active_at_ms=0 if progress is None else progress.active_at_ms)
        payload, failure = entry.payload(), entry.failure()
        budgets = Budgets.of(payload, entry.job.priority)
        return {
            "id": entry.id,
            "taskId": entry.text("taskId") or entry.text("task"),
            "sessionId": entry.session,
            "kind": entry.text("kind") or KIND,
            "params": json_text(payload if payload.get("params") is None else payload["params"]),
            "priority": entry.priority,
            "queueWaitBudgetMs": budgets.queue_wait_ms,
            "executionBudgetMs": budgets.execution_ms,
            "finalizationBudgetMs": budgets.finalization_ms,
            "status": entry.status,
            "workerId": entry.holder,
            "targetWorkerId": entry.job.for_worker,
            "result": entry.result(),
            "error": None if failure is None else json_text(failure),
            "enqueuedAt": times["enqueuedAt"],
            "claimedAt": times["claimedAt"],
            "startedAt": times["startedAt"],
            "firstLogAt": None if progress is None else format_ts(progress.first_log_at_ms),
            "completedAt": times["completedAt"],
            "failedAt": times["failedAt"],
            "durationMs": entry.duration_ms(),
            "createdAt": times["createdAt"],
            "updatedAt": times["updatedAt"],
        }

    def _settle_worker(self, entry: QueueEntry) -> None:
        """Note that a worker is idle when it has no other job, in the caller's transaction."""
        worker = None if entry.claim is None else entry.claim.group
        if worker is None:
            return
        active = Views.of(self._bus).active_claims(self.entries.queue.info)
        if not any(claim.group == worker for claim in active):
            self._bus.heartbeats.beat(worker, "idle", is_here=False)

    def _found(self, id: str) -> QueueEntry:
        entry = self.entries.get(id)
        if entry is None:
            raise NotFound(f"there is no job {id[:100]!a}; see 'bus job list --queue jobs'")
        return entry


def is_running(entry: QueueEntry) -> bool:
    """Whether a job is claimed."""
    return entry.job.state == states.RUNNING


def _planned(params: Mapping[str, Any], name: str) -> object:
    planning = params.get("planning")
    return planning.get(name) if isinstance(planning, dict) else None


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


# The sweep: jobs whose workers have shown no sign of life are taken from them.
#
# It checks only claims over PushPals' API, whose clients renew none; all others have leases.

#: How long a claimed job may show no activity, in milliseconds.
STALE_AFTER_MS = 120_000

#: A job whose worker is busy may be silent for its budget, up to so many times `STALE_AFTER_MS`.
_GRACE = 5

#: How often a sweep looks at most, in milliseconds.
EVERY_MS = 5_000

#: How many jobs one sweep recovers by default, and at most.
RECOVERED, MAX_RECOVERED = 100, 500

#: Why a job failed that was taken from its worker.
STALE = "Job auto-failed after stale worker claim"


@dataclass(frozen=True, slots=True)
class RecoveredJob:
    """A job that was taken from its worker.

    Attributes:
        job: its id.
        worker: the worker that had it.
        status: what became of the job: `failed`, or `pending` if it was not enqueued over this API.
        detail: why the job counted as stale, for people.
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
        stale_after_ms: how long a job may show no activity.
    """

    def __init__(
        self, bus: LocalBus, jobs: JobQueue, *, stale_after_ms: int = STALE_AFTER_MS
    ) -> None:
        self._bus = bus
        self._jobs = jobs
        self._stale_after_ms = stale_after_ms
        self._looked_at_ms: int | None = None
        self._clock = ClockBack(bus)

    def when_due(self) -> list[RecoveredJob]:
        """Run at most every 5,000 ms, and delete old output of jobs."""
        now_ms = self._bus.now_ms()
        if self._looked_at_ms is not None and 0 <= now_ms - self._looked_at_ms < EVERY_MS:
            return []
        self._looked_at_ms = now_ms
        self._clock.look()
        recovered = self.run()
        self._jobs.output.prune(now_ms - KEPT_MS)
        return recovered

    def run(self, limit: int = RECOVERED) -> list[RecoveredJob]:
        """Take the jobs that are stale from their workers, and tell their sessions of failures.

        One transaction for each; none when nothing is stale.

        Args:
            limit: how many at most, 1 to 500.
        """
        most = min(max(1, limit), MAX_RECOVERED)
        recoveries: list[RecoveredJob] = []
        for claim in Views.of(self._bus).active_claims(self._jobs.entries.queue.info):
            if len(recoveries) == most:
                break
            if is_api_claim(claim.instance) and self._why(claim) is not None:
                with self._bus.transaction():
                    recovered = self._recover(claim)
                recoveries += [] if recovered is None else [recovered]
        return recoveries

    def _recover(self, claim: ActiveClaim) -> RecoveredJob | None:
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
        return RecoveredJob(ended.id, claim.group, ended.status, detail)

    def _why(self, claim: ActiveClaim) -> str | None:
        """Return why a claimed job is stale, for people; None if it is not."""
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


def _with_grace(entry: QueueEntry, stale_ms: int) -> int:
    """Return how long a job may be silent while its worker reports to be working on it."""
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
