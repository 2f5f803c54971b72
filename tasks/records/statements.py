"""The statements of tasks, with the columns that several of them share."""

from __future__ import annotations

from ...schema.queries import Queries
from .task import Task

_PARTS = {
    "{task}": ", ".join(Task.__slots__),
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
