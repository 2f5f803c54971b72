"""Jobs: what a planner made of a request, waiting for a worker or for a certain one."""

from __future__ import annotations

from ...schema.errors import InvalidInput, NotFound
from ...schema.message.times import format_ts
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.work_headers import work_headers
from ...subscribers.views import Views
from ..records.aliases import priority_of
from ..records.entry import Entry
from ..records.estimates import Budgets, eta_ms
from ..records.job_output import JobOutput
from ..records.worker_details import Workers
from ..steps.messages import JOBS
from .client_values import json_or_none, text_of
from .entries import Entries, failed, json_text
from .events import nobody
from .job_schema import KIND, check_job
from .requests import required

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ...bus.bus import Bus
    from ..records.job_output import StoredLine
    from .events import Tell

#: The sender of the event that a job has failed.
TELLER = "server:job-fail-hook"

#: The words of such an event where the failure has none.
_FAILED = "WorkerPal job failed"

#: How long the words of an event are at most, in characters.
_MAX_MESSAGE, _MAX_DETAIL = 240, 600


class JobQueue:
    """The queue of jobs, with their workers and their output.

    Args:
        bus: an open bus.
        tell: tells a session of something.
    """

    def __init__(self, bus: Bus, tell: Tell = nobody) -> None:
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

        A job that comes so is failed when its worker is lost, whatever the queue does with others.

        Raises:
            InvalidInput: task or kind is missing, a field of its params is wrong, or the target
                can't be a worker.
        """
        task, kind = required(body, "taskId", "kind")
        given = body.get("params")
        params = given if isinstance(given, dict) else {}
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

    def complete(self, id: str, body: Mapping[str, Any], *, agent: str | None = None) -> Entry:
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
    ) -> Entry:
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

    def tell_failure(self, entry: Entry) -> None:
        """Tell the session of a job that it has failed, in the caller's transaction."""
        told = entry.failure() or {}
        event = {
            "jobId": entry.id,
            "message": str(told.get("message") or _FAILED)[:_MAX_MESSAGE],
        }
        if told.get("detail"):
            event["detail"] = str(told["detail"])[:_MAX_DETAIL]
        if entry.session:
            self._tell(entry.session, "job_failed", event, TELLER, entry.id)

    def log(self, id: str, text: object) -> int:
        """Store a line that a job printed, and return its id.

        Raises:
            InvalidInput: there is nothing in it.
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

    def row(self, entry: Entry) -> dict[str, Any]:
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

    def _settle_worker(self, entry: Entry) -> None:
        """Note that a worker is idle when it has no other job, in the caller's transaction."""
        worker = None if entry.claim is None else entry.claim.group
        if worker is None:
            return
        active = Views.of(self._bus).active_claims(self.entries.queue.info)
        if not any(claim.group == worker for claim in active):
            self._bus.heartbeats.beat(worker, "idle", is_here=False)

    def _found(self, id: str) -> Entry:
        entry = self.entries.get(id)
        if entry is None:
            raise NotFound(f"there is no job {id[:100]!a}; see 'bus job list --queue jobs'")
        return entry


def is_running(entry: Entry) -> bool:
    """Whether a job is claimed."""
    return entry.job.state == states.RUNNING


def _planned(params: Mapping[str, Any], name: str) -> object:
    planning = params.get("planning")
    return planning.get(name) if isinstance(planning, dict) else None


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
