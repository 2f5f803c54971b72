"""Jobs as the API tells of them, with what their plugins answered."""

from __future__ import annotations

from typing import Any

import orjson

from ...automation.records.job_log import JobLog, LogEntry
from ...automation.routes.tree import RunJob, is_job
from ...bus.bus import Bus
from ...schema.errors import NotFound
from ...subscribers.jobs.jobs import CANCELLED, DEAD, Jobs
from ...subscribers.jobs.json_records import PLUGINS

#: The words of a run's jobs, where the API has others.
_NAMES = {"error": "last_error"}
#: The states that the API has another word for.
_STATES = {CANCELLED: DEAD}


def job_of(bus: Bus, job_id: str) -> RunJob:
    """Return a job of a plugin.

    Raises:
        NotFound: there is none of this id.
    """
    message = bus.get(job_id)
    if message is None or not is_job(message):
        raise NotFound(f"there is no job {job_id[:100]!a}")
    plugin = message.type.split(".", 2)[1]
    jobs = Jobs.of(bus).named([(PLUGINS + plugin, message.seq)])
    return RunJob(message, 0, jobs[0] if jobs else None)


def told_of(job: RunJob) -> dict[str, Any]:
    """Return a job as JSON, without what is absent and without its result."""
    record = {_NAMES.get(name, name): value for name, value in job.record().items()}
    del record["depth"]
    record["status"] = _STATES.get(job.state, job.state)
    record["submitted_by"] = job.message.headers.get("submitted_by")
    return _present(record)


def record_of(bus: Bus, job: RunJob) -> dict[str, Any]:
    """Return a job as JSON, without what is absent: its result stands there once it is over."""
    record, log = told_of(job), JobLog.of(bus).of_job(job.message.id)
    if not log or not (job.job is None or job.is_over):
        return record
    last = log[-1]
    if job.job is None:  # it has left the tables, long after its end
        record |= {"status": last.status, "completed_at": last.completed_at}
        record["last_error"] = last.last_error
    return _present(record | {"result": answer_of(last)})


def _present(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def answer_of(entry: LogEntry) -> Any:
    """Return the answer of a plugin as JSON, None where it printed no JSON object."""
    try:
        found = orjson.loads(entry.result or "")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
