"""Jobs: what became of one, and of all that followed it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, Field

from ..api.common import TheBus, json_of
from .common import JobReader, guarded_router, problems
from .job_records import job_of, record_of

router = guarded_router("jobs")

JobId = Annotated[str, Path(min_length=1, max_length=255, description="The id of a job.")]


class JobRecord(BaseModel):
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


@router.get("/job/{job_id}", response_model=JobRecord, responses=problems(404))
def show_job(job_id: JobId, bus: TheBus, _: JobReader) -> Response:
    """Show a job, and its result as soon as it is over."""
    return json_of(record_of(bus, job_of(bus, job_id)))
