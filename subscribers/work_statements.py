"""The statements for work, ready to run. The plain inbox does not load them."""

from __future__ import annotations

from ..schema import Queries
from .policy import POLICY_FIELDS

#: The columns of `queues` that hold the policy, in the order of its fields.
_POLICY = ", ".join(
    name.removesuffix("_s") + "_ms" if name.endswith("_s") else name for name in POLICY_FIELDS
)

_JOB = (
    "name, jobs.seq, state, gate, attempt, jobs.max_attempts, available_at_ms, priority,"
    " dedupe_key, jobs.created_at_ms, started_at_ms, ended_at_ms, error"
)

_CLAIM = (
    "token, name, seq, attempt, worker_group, worker_instance, available_at_ms, claimed_at_ms,"
    " lease_until_ms, status, ended_at_ms, exit_code, error, stderr, result, logs"
)

SQL = {
    name: sql.replace("{policy}", _POLICY).replace("{job}", _JOB).replace("{claim}", _CLAIM)
    for name, sql in Queries(beside=__file__, file="work.sql").items()
}
