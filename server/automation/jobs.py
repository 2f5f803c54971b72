"""Jobs: what became of one, and of all that followed it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from ...automation.records.facts import LogFilter
from ...automation.routes.tree import RunTree, cancel
from ...bus.local_bus import LocalBus
from ...schema.errors import NotFound
from ...schema.message.times import format_ts, parse_ts
from ..api.common import MAX_PAGE, TheBus, json_of
from .access import guarded_router, problems
from .job_records import (
    MAX_COUNTED,
    JobFilter,
    Status,
    job_of,
    jobs_list,
    log_statuses,
    logs_list,
    record_of,
)

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
