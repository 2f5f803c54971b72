"""The statements for work and for looking at it, ready to run. The plain inbox loads neither."""

from __future__ import annotations

from ...schema.queries import Queries
from .policy import POLICY_FIELDS

#: The columns of `queues` that hold the policy, in the order of its fields.
_POLICY = ", ".join(
    name.removesuffix("_s") + "_ms" if name.endswith("_s") else name for name in POLICY_FIELDS
)

_JOB = (
    "name, jobs.seq, state, gate, attempt, jobs.max_attempts, available_at_ms, priority,"
    " dedupe_key, jobs.created_at_ms, started_at_ms, ended_at_ms, error, for_worker"
)

_CLAIM = (
    "token, name, seq, attempt, worker_group, worker_instance, available_at_ms, claimed_at_ms,"
    " lease_until_ms, status, ended_at_ms, exit_code, error, stderr, result, logs"
)

#: `Policy.rank_ms`, by the queue's policy of now.
_RANK = (
    "(SELECT iif(ordering = 'fifo', 0, turn_ms + priority * ageing_ms)"
    " FROM queues WHERE id = queue_id)"
)

#: The seqs of all queued jobs of queue ?1, in no order: an index walk for each gate.
_QUEUED_SEQS = """
SELECT seq FROM jobs INDEXED BY idx_jobs_ready
 WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open'
UNION ALL
SELECT seq FROM jobs INDEXED BY idx_jobs_delayed
 WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time'
UNION ALL
SELECT seq FROM jobs INDEXED BY idx_jobs_live_key
 WHERE queue_id = ?1 AND dedupe_key IS NOT NULL AND ended_at_ms IS NULL AND gate = 'key'
   AND state = 'queued'"""

_PARTS = {
    "{policy}": _POLICY,
    "{?policy}": ", ".join("?" * len(POLICY_FIELDS)),
    "{job}": _JOB,
    "{claim}": _CLAIM,
    "{rank}": _RANK,
    "{queued seqs}": _QUEUED_SEQS,
}

SQL = Queries(beside=__file__, file="work.sql", parts=_PARTS)
VIEWS = Queries(beside=__file__, file="views.sql", parts=_PARTS)
