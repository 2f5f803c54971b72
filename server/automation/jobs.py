"""Jobs of the automation: what became of one, of all that followed it, and lists."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from ...automation.jobs.submission import queue_of, queues_of_plugins
from ...automation.records.facts import JobLog, LogFilter
from ...automation.routes.runs import RunJob, RunTree, cancel, is_job, plugin_of
from ...bus.local_bus import LocalBus
from ...schema.errors import NotFound
from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts, parse_ts
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
from ...subscribers.views import Views
from ...subscribers.views import list_jobs as list_jobs_of
from ..api.common import MAX_PAGE, TheBus, json_of
from .access import guarded_router, problems

# The JSON of jobs: of one with the answer of its plugin, and of lists.

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
        return list_jobs_of(queue, states, _PAGE, before_seq=seq)

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


# Jobs: what became of one, and of all that followed it.

router = guarded_router("jobs")

JobId = Annotated[str, Path(min_length=1, max_length=255, description="The id of a job.")]


class AutomationJobRecord(BaseModel):
    """A job; what is not known yet is left out."""

    job_id: str
    status: str = Field(description="`queued`, `running`, `succeeded`, `failed`, … or `dead`.")
    plugin: str
    command: str
    attempt: int = Field(description="The attempt that is next, runs, or was the last; from 1.")
    submitted_by: str | None = Field(None, description="`scheduler`, `webhook`, `route`, …")
    parent_job_id: str | None = None
    pipeline: str | None = None
    step: str | None = None
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None
    last_error: str | None = None
    result: dict[str, Any] | None = Field(None, description="The answer of its plugin.")


class AutomationJobList(BaseModel):
    """Jobs, the newest first."""

    jobs: list[AutomationJobRecord]
    total: int = Field(
        description=f"How many there are; {MAX_COUNTED} at most are counted, or looked at."
    )


class LogRecord(BaseModel):
    """An attempt at a job that has ended."""

    job_id: str
    log_id: str
    plugin: str
    command: str
    status: str
    attempt: int
    submitted_by: str
    created_at: str
    completed_at: str
    last_error: str | None = None
    stderr: str | None = None
    result: dict[str, Any] | None = None
    parent_job_id: str | None = None
    source_event_id: str | None = None


class LogList(BaseModel):
    """Attempts, those that ended last first."""

    logs: list[LogRecord]
    total: int = Field(description=f"How many there are; {MAX_COUNTED} at most are counted.")


OfPlugin = Annotated[str | None, Query(min_length=1, max_length=128, description="Of a plugin.")]
OfCommand = Annotated[str | None, Query(min_length=1, max_length=128, description="Of a command.")]
OfStatus = Annotated[Status | None, Query(description="In a state.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]


@router.get("/job/{job_id}", response_model=AutomationJobRecord, responses=problems(404))
def show_job(job_id: JobId, bus: TheBus) -> Response:
    """Show a job, and its result as soon as it is over."""
    return json_of(record_of(bus, job_of(bus, job_id)))


@router.get("/job/{job_id}/tree", response_model=list[AutomationJobRecord], responses=problems(404))
def show_tree(job_id: JobId, bus: TheBus) -> Response:
    """Show a job with all that followed it; of the event of a run, all jobs of the run."""
    return json_of([record_of(bus, job) for job in _tree_of(bus, job_id).jobs])


@router.post("/job/{job_id}/cancel", responses=problems(404))
def cancel_tree(job_id: JobId, bus: TheBus) -> Response:
    """Cancel a job and all that followed it, as far as they are not over: their programs end."""
    root = _tree_of(bus, job_id).root
    return json_of({"cancelled": [job.message.id for job in cancel(bus, str(root.seq))]})


def _tree_of(bus: LocalBus, job_id: str) -> RunTree:
    """Return the tree of a job, or of the event of a run: by its id alone, as of `/job`.

    Raises:
        NotFound: there is none.
    """
    root = bus.get(job_id)
    tree = None if root is None else RunTree.of(bus, str(root.seq))
    if tree is None or not tree.jobs:
        raise NotFound(f"there is no job {job_id[:100]!a}")
    return tree


@router.get("/jobs", response_model=AutomationJobList, responses=problems())
def list_jobs(
    bus: TheBus,
    plugin: OfPlugin = None,
    command: OfCommand = None,
    status: OfStatus = None,
    limit: Limit = 50,
) -> Response:
    """List jobs, the newest first."""
    return json_of(jobs_list(bus, JobFilter(plugin, command, status), limit))


@router.get("/job-logs", response_model=LogList, responses=problems())
def list_logs(
    bus: TheBus,
    job_id: Annotated[str | None, Query(min_length=1, max_length=255)] = None,
    plugin: OfPlugin = None,
    command: OfCommand = None,
    status: OfStatus = None,
    submitted_by: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    since: Annotated[str | None, Query(alias="from", description="RFC 3339.")] = None,
    until: Annotated[str | None, Query(alias="to", description="RFC 3339.")] = None,
    text: Annotated[
        str | None, Query(alias="query", max_length=1000, description="In errors and output.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,
    include_result: Annotated[bool, Query(description="With the answers of plugins.")] = False,
) -> Response:
    """List the attempts at jobs that have ended, the newest first."""
    filters = LogFilter(
        job_id=job_id,
        plugin=plugin,
        command=command,
        submitted_by=submitted_by,
        statuses=log_statuses(status),
        since=_time(since),
        until=_time(until),
        text=text,
    )
    return json_of(logs_list(bus, filters, limit, include_result=include_result))


def _time(text: str | None) -> str | None:
    """Return a time as the log has it."""
    return None if text is None else format_ts(parse_ts(text))
