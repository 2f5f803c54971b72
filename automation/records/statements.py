"""The statements of the jobs of plugins, with the columns that several of them share."""

from __future__ import annotations

from ...schema.queries import Queries

_PARTS = {
    "{log}": (
        "id, plugin, command, status, result, attempt, submitted_by, created_at, completed_at,"
        " last_error, stderr, parent_job_id, source_event_id"
    ),
    "{breaker}": (
        "plugin, command, state, failure_count, opened_at, last_failure_at, last_job_id, updated_at"
    ),
}

SQL = Queries(beside=__file__, parts=_PARTS)
