"""The statements of tasks, with the columns that several of them share."""

from __future__ import annotations

from ...schema.queries import Queries

_PARTS = {
    "{task}": (
        "task, attempt, state, worker, branch, path, repository, base_ref, base, target, head,"
        " token, review, reviewer, requester, priority, max_attempts, on_lost, depends_on,"
        " from_queue, prompt, reason, blocked, commit_id, correlation_id, last_seq,"
        " created_at_ms, changed_at_ms, cleaned_at_ms"
    ),
    "{landing}": (
        "seq, repository, target, task, attempt, branch, head, onto, candidate, tree, patch_id,"
        " checks, state, completion_seq, intended_at_ms, ended_at_ms"
    ),
}

SQL = Queries(beside=__file__, parts=_PARTS)

#: Those of PushPals' control plane.
CONTROL = Queries(beside=__file__, file="control.sql")

#: Those of sessions.
SESSIONS = Queries(beside=__file__, file="sessions.sql")
