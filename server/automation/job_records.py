"""The JSON of jobs: of one with the answer of its plugin, and of lists."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

from ...automation.jobs.submission import queue_of, queues_of_plugins
from ...automation.records.facts import JobLog, LogFilter
from ...automation.routes.tree import RunJob, is_job, plugin_of
from ...bus.local_bus import LocalBus
from ...schema.errors import NotFound
from ...schema.message.names import MAX_SEQ
from ...schema.paging import pages, seq_of
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import (
    CANCELLED,
    DEAD,
    FAILED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TIMED_OUT,
    Job,
    Jobs,
)
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.views import Views, list_jobs

#: The words of a run's jobs, where the API has others.
_NAMES = {"error": "last_error"}
#: The states that the API has another word for.
_SHOWN_STATES = {CANCELLED: DEAD}

#: The words by which a client may filter by state.
Status = Literal[
    "queued",
    "running",
    "succeeded",
    "failed",
    "timed_out",
    "dead",
    "pending",
    "ok",
    "completed",
    "error",
]

_STATES: dict[str, tuple[str, ...]] = {
    **{state: (state,) for state in (QUEUED, RUNNING, SUCCEEDED, FAILED, TIMED_OUT)},
    "dead": (DEAD, CANCELLED),
    "pending": (QUEUED,),
    "ok": (SUCCEEDED,),
    "completed": (SUCCEEDED,),
    "error": (FAILED,),
}
#: How many jobs are looked at, at most, to tell how many there are.
MAX_COUNTED = 10_000
#: How many of the newest jobs of a queue are counted where that reads no message.
_WALKED = 100_000
#: How many jobs of a queue are read at once.
_PAGE = 200


def job_of(bus: LocalBus, job_id: str) -> RunJob:
    """Return a job of a plugin.

    Raises:
        NotFound: there is none of this id.
    """
    message = bus.get(job_id)
    if message is None or not is_job(message):
        raise NotFound(f"there is no job {job_id[:100]!a}")
    queue = queue_of(plugin_of(message))
    waits = _is_to_be_looked_at(bus, queue, message.seq)  # first: it may change meanwhile
    jobs = Jobs.of(bus).named([(queue, message.seq)])
    if not (jobs or waits or JobLog.of(bus).of_job(message.id)):
        raise NotFound(f"no queue has a job {job_id[:100]!a}; it may have left it, long ago")
    return RunJob(message, 0, jobs[0] if jobs else None)


def _is_to_be_looked_at(bus: LocalBus, queue: str, seq: int) -> bool:
    try:
        return Queues(bus).get(queue).filled_seq < seq
    except QueueNotFound:
        return False


def job_summary(job: RunJob) -> dict[str, Any]:
    """Return a job as JSON, without what is absent and without its result."""
    record = {_NAMES.get(name, name): value for name, value in job.record().items()}
    del record["depth"]
    record["status"] = _SHOWN_STATES.get(job.state, job.state)
    record["submitted_by"] = job.message.headers.get("submitted_by")
    return _present(record)


def record_of(bus: LocalBus, job: RunJob) -> dict[str, Any]:
    """Return a job as JSON, without what is absent: its result stands there once it is over."""
    record, log = job_summary(job), JobLog.of(bus).of_job(job.message.id)
    if not log or not (job.job is None or job.is_over):
        return record
    last = log[-1]
    if job.job is None:  # it has left the tables, long after its end
        record |= {"status": last.status, "completed_at": last.completed_at}
        record["last_error"] = last.last_error
    return _present(record | {"result": last.answer})


def _present(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


@dataclass(frozen=True)
class JobFilter:
    """The jobs that are wanted; None is any.

    Attributes:
        plugin, command: the plugin and the command that they run.
        status: their state.
    """

    plugin: str | None = None
    command: str | None = None
    status: Status | None = None


def jobs_list(bus: LocalBus, filters: JobFilter, limit: int) -> dict[str, Any]:
    """Return the newest jobs as JSON, and how many there are.

    Only the messages have the command, so the newest of them are searched for it.
    """
    names = [info for info in queues_of_plugins(bus) if _is_of(info.name, filters.plugin)]
    walks = [_walk(Queue(bus, info), filters.status) for info in names]
    newest: Iterator[RunJob] = heapq.merge(*walks, key=lambda job: -job.message.seq)
    if filters.command is None:
        page = list(islice(newest, limit))
        states = () if filters.status is None else _STATES[filters.status]
        total = sum(Views.of(bus).count(info, states, _WALKED) for info in names)
    else:
        jobs = [job for job in islice(newest, MAX_COUNTED) if job.command == filters.command]
        page, total = jobs[:limit], len(jobs)
    return {"jobs": [job_summary(job) for job in page], "total": min(total, MAX_COUNTED)}


def _is_of(queue: str, plugin: str | None) -> bool:
    return plugin is None or queue == queue_of(plugin)


def _walk(queue: Queue, status: Status | None) -> Iterator[RunJob]:
    """Yield the jobs of a queue, the newest first."""
    states = () if status is None else _STATES[status]

    def jobs_before(seq: int) -> list[Job]:
        return list_jobs(queue, states, _PAGE, before_seq=seq)

    for page in pages(jobs_before, MAX_SEQ, place=seq_of, what="jobs", backwards=True):
        yield from filter(None, (_job(queue.bus, job) for job in page))


def _job(bus: LocalBus, job: Job) -> RunJob | None:
    message = bus.log.readable(job.seq)
    return None if message is None else RunJob(message, 0, job)


def logs_list(
    bus: LocalBus, filters: LogFilter, limit: int, *, include_result: bool
) -> dict[str, Any]:
    """Return the attempts that ended last as JSON, and how many there are."""
    log = JobLog.of(bus)
    entries = []
    for entry in log.find(filters, limit):
        record = asdict(entry)
        record["log_id"] = record.pop("id")
        record["job_id"] = entry.id.rpartition("-")[0]
        del record["result"]
        if include_result:
            record["result"] = entry.answer
        entries.append({name: value for name, value in record.items() if value is not None})
    return {"logs": entries, "total": log.count(filters, MAX_COUNTED)}


def log_statuses(status: Status | None) -> tuple[str, ...]:
    """Return the states of attempts that a word stands for; empty for all."""
    return () if status is None else _STATES[status]
