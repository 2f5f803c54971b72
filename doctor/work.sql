-- Statements that rebuild queues whose rows were lost, in a file made from a damaged one.

-- name: add_lost_queues
-- Queues of which only jobs or claims are left, paused: what they took in is not known.
INSERT INTO queues (id, name, pattern, filled_seq, paused_at_ms, created_at_ms)
SELECT queue_id, 'lost-' || queue_id || '-' || lower(hex(randomblob(4))), 'lost-' || queue_id, max(seq), ?1, ?1
  FROM (SELECT queue_id, seq FROM jobs UNION ALL SELECT queue_id, seq FROM claims)
 WHERE queue_id NOT IN (SELECT id FROM queues)
 GROUP BY queue_id
RETURNING name;

-- name: add_jobs_of_claims
-- Jobs of which only claims are left: the last one tells what became of it.
INSERT INTO jobs (queue_id, seq, state, attempt, max_attempts, available_at_ms, created_at_ms,
                  started_at_ms, ended_at_ms, error)
SELECT c.queue_id, c.seq, state, c.attempt + (state = 'queued'), max(q.max_attempts, c.attempt + 1),
       c.available_at_ms, c.available_at_ms, c.claimed_at_ms,
       iif(state = 'succeeded', c.ended_at_ms, NULL), c.error
  FROM (SELECT *, CASE status WHEN 'completed' THEN 'succeeded' WHEN 'active' THEN 'running'
                              ELSE 'queued' END AS state,
               row_number() OVER (PARTITION BY queue_id, seq ORDER BY token DESC) AS place
          FROM claims) c
  JOIN queues q ON q.id = c.queue_id
 WHERE place = 1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE queue_id = c.queue_id AND seq = c.seq)
   AND (c.seq <= (SELECT last_seq FROM archive_state)
        OR EXISTS (SELECT 1 FROM messages WHERE seq = c.seq))
RETURNING seq;

-- name: queue_unheld_jobs
-- Jobs that run without a claim: it is lost, so another worker must have them.
UPDATE jobs SET state = 'queued', gate = iif(dedupe_key IS NULL, 'open', 'key')
 WHERE state = 'running' AND NOT EXISTS (
       SELECT 1 FROM claims
        WHERE queue_id = jobs.queue_id AND seq = jobs.seq AND status = 'active')
RETURNING seq;

-- name: end_idle_claims
-- Claims that hold a job which does not run.
UPDATE claims SET status = 'lost', ended_at_ms = ?1, error = 'the bus was repaired'
 WHERE status = 'active' AND NOT EXISTS (
       SELECT 1 FROM jobs
        WHERE queue_id = claims.queue_id AND seq = claims.seq AND state = 'running')
RETURNING seq;

-- name: cancel_jobs_of_lost_messages
UPDATE jobs SET state = 'cancelled', ended_at_ms = ?1, error = 'its message was lost'
 WHERE state IN ('queued', 'running') AND seq > (SELECT last_seq FROM archive_state)
   AND NOT EXISTS (SELECT 1 FROM messages WHERE seq = jobs.seq)
RETURNING seq;

-- name: give_work_back
-- Messages that are kept out of inboxes as work, and that no queue has taken or will take: mail again.
UPDATE messages SET work = 0 WHERE work = 1 AND {is_of_no_queue} RETURNING seq;

-- name: work_of_no_queue
SELECT seq FROM messages WHERE work = 1 AND {is_of_no_queue};

-- name: unheld_jobs
SELECT seq FROM jobs
 WHERE state = 'running' AND NOT EXISTS (
       SELECT 1 FROM claims
        WHERE queue_id = jobs.queue_id AND seq = jobs.seq AND status = 'active');

-- name: idle_claims
SELECT seq FROM claims
 WHERE status = 'active' AND NOT EXISTS (
       SELECT 1 FROM jobs
        WHERE queue_id = claims.queue_id AND seq = claims.seq AND state = 'running');

-- name: jobs_without_messages
SELECT seq FROM jobs
 WHERE state IN ('queued', 'running') AND seq > (SELECT last_seq FROM archive_state)
   AND NOT EXISTS (SELECT 1 FROM messages WHERE seq = jobs.seq);

-- name: first_job
SELECT min(seq) FROM jobs WHERE queue_id = ?;

-- name: has_job
SELECT 1 FROM jobs WHERE queue_id = ? AND seq = ?;

-- name: count_waiting
UPDATE waiting_limits SET waiting = (
       SELECT count(*) FROM queues q JOIN jobs j ON j.queue_id = q.id AND j.state = 'queued'
        WHERE q.name = waiting_limits.name) + (
       SELECT count(*) FROM messages m, queues q
        WHERE q.name = waiting_limits.name AND m.seq > q.filled_seq AND m.type GLOB glob
          AND (dots IS NULL OR dots = length(m.type) - length(replace(m.type, '.', '')))
          AND (m.to_agent IS NULL OR q.addressed IN ('*', m.to_agent)))
 WHERE kind = 'queue';
