"""The statements of the jobs of plugins, with the columns that several of them share."""

from __future__ import annotations

from ...schema.queries import Queries

_PARTS = {
    "{log}": (
        "id, plugin, command, status, result, attempt, submitted_by, created_at, completed_at,"
        " last_error, stderr, parent_job_id, source_event_id"
    ),
    "{asked for}": (
        "completed_at >= ?1 AND completed_at <= ?2 AND (?3 IS NULL OR plugin = ?3)"
        " AND (?4 IS NULL OR command = ?4) AND (?5 IS NULL OR submitted_by = ?5)"
        " AND (?6 IS NULL OR status IN (SELECT value FROM json_each(?6)))"
        " AND (?7 IS NULL OR last_error LIKE ?7 ESCAPE '\\' OR stderr LIKE ?7 ESCAPE '\\'"
        " OR result LIKE ?7 ESCAPE '\\')"
    ),
    "{of job}": "id > ?9 || '-' AND id < ?9 || '.'",
    "{breaker}": (
        "plugin, command, state, failure_count, opened_at, last_failure_at, last_job_id, updated_at"
    ),
}

SQL = Queries(beside=__file__, parts=_PARTS)
