-- Jobs and claims as people see them. These statements only read.

-- name: oldest_available
-- Since when the job waits that could be claimed for longest: of the ?2 next in line, and of those
-- whose time has come though no worker has looked since. What stands further back came later, but
-- for jobs of lower priority, whom their age brings to the front.
SELECT min(at_ms) FROM (
  SELECT min(available_at_ms) AS at_ms FROM (
         SELECT available_at_ms FROM jobs
          WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open'
          ORDER BY rank_ms, seq LIMIT ?2)
  UNION ALL
  SELECT min(available_at_ms) FROM jobs
   WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time' AND available_at_ms <= ?3);

-- name: newest_attempts
-- The queue's own walk, so that the claims of busier queues cost it nothing: from the newest
-- messages (?2 claims at most) those that were claimed last (?3).
SELECT status, available_at_ms, claimed_at_ms, ended_at_ms FROM claims
 WHERE token IN (
       SELECT token FROM (
              SELECT token FROM claims INDEXED BY idx_claims_of_job
               WHERE queue_id = ?1 ORDER BY seq DESC LIMIT ?2)
        ORDER BY token DESC LIMIT ?3);

-- name: jobs_in_line
-- What waits: first what may be claimed, in the order of claiming, then what waits for its time,
-- then what waits for others with its key.
SELECT * FROM (
  SELECT {job} FROM queues JOIN jobs INDEXED BY idx_jobs_ready ON queues.id = queue_id
   WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open'
   ORDER BY rank_ms, jobs.seq LIMIT ?2)
UNION ALL
SELECT * FROM (
  SELECT {job} FROM queues JOIN jobs INDEXED BY idx_jobs_delayed ON queues.id = queue_id
   WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time'
   ORDER BY available_at_ms LIMIT ?2)
UNION ALL
SELECT * FROM (
  SELECT {job} FROM queues JOIN jobs INDEXED BY idx_jobs_live_key ON queues.id = queue_id
   WHERE queue_id = ?1 AND dedupe_key IS NOT NULL AND ended_at_ms IS NULL AND gate = 'key'
     AND state = 'queued'
   ORDER BY rank_ms, jobs.seq LIMIT ?2)
LIMIT ?2;

-- name: jobs_newest
SELECT {job} FROM queues JOIN jobs ON queues.id = queue_id
 WHERE queue_id = ?1 AND seq <= ?3 ORDER BY seq DESC LIMIT ?2;

-- name: jobs_running
SELECT {job} FROM queues JOIN jobs ON queues.id = queue_id
 WHERE queue_id = ?1 AND state = 'running' AND jobs.seq IN (
       SELECT seq FROM claims INDEXED BY idx_claims_one_active
        WHERE queue_id = ?1 AND status = 'active' AND seq <= ?3)
 ORDER BY jobs.seq DESC LIMIT ?2;

-- name: oldest_active_claim
-- Since when the claim stands that has been active for longest.
SELECT min(claimed_at_ms) FROM claims INDEXED BY idx_claims_one_active
 WHERE queue_id = ?1 AND status = 'active';

-- name: jobs_newest_queued
SELECT {job} FROM queues JOIN jobs ON queues.id = queue_id
 WHERE queue_id = ?1 AND jobs.seq IN (
       SELECT seq FROM ({queued seqs}) WHERE seq <= ?3 ORDER BY seq DESC LIMIT ?2)
 ORDER BY jobs.seq DESC;

-- name: jobs_newest_ended_badly
SELECT {job} FROM queues JOIN jobs INDEXED BY idx_jobs_ended_badly ON queues.id = queue_id
 WHERE queue_id = ?1 AND state = ?4 AND (state = 'failed' OR state = 'timed_out' OR state = 'dead')
   AND seq <= ?3
 ORDER BY jobs.seq DESC LIMIT ?2;

-- name: jobs_newest_in_state
-- A walk over the queue from its newest job on, for states that most jobs are in.
SELECT {job} FROM queues JOIN jobs ON queues.id = queue_id
 WHERE queue_id = ?1 AND state = ?4 AND seq <= ?3 ORDER BY jobs.seq DESC LIMIT ?2;

-- name: count_in_states
-- ?2 is a JSON array of states, or null for any; among a queue's newest jobs (?3 at most).
SELECT count(*) FROM (SELECT state FROM jobs WHERE queue_id = ?1 ORDER BY seq DESC LIMIT ?3)
 WHERE ?2 IS NULL OR state IN (SELECT value FROM json_each(?2));

-- name: lost_claims
-- How many of a queue's newest claims (?2 at most) ran out since ?3, noticed or not. What was
-- handed back counts as lost too, but ended in time.
SELECT count(*) FROM claims
 WHERE token IN (SELECT token FROM claims INDEXED BY idx_claims_of_job
                  WHERE queue_id = ?1 ORDER BY seq DESC LIMIT ?2)
   AND (status = 'lost' AND ended_at_ms >= max(?3, lease_until_ms) OR status = 'active' AND lease_until_ms <= ?4);

-- name: acts_of_job
SELECT at_ms, who, act, seq, detail FROM work_acts WHERE queue_id = ? AND seq = ? ORDER BY id;

-- name: acts_of_queue
-- The newest first.
SELECT at_ms, who, act, seq, detail FROM work_acts
 WHERE queue_id = ? AND seq IS NULL ORDER BY id DESC LIMIT ?;

-- name: jobs_named
-- ?1 is a JSON array of [name of a queue, seq].
SELECT {job} FROM json_each(?1) wanted
  CROSS JOIN queues ON queues.name = wanted.value ->> 0
  CROSS JOIN jobs ON jobs.queue_id = queues.id AND jobs.seq = wanted.value ->> 1;

-- name: place_in_line
-- How many jobs that may be claimed go up to one, it too: those for anybody, or for its worker.
SELECT count(*) FROM jobs mine JOIN jobs INDEXED BY idx_jobs_ready
    ON jobs.queue_id = mine.queue_id AND jobs.state = 'queued' AND jobs.gate = 'open'
   AND (jobs.rank_ms, jobs.seq) <= (mine.rank_ms, mine.seq)
   AND jobs.for_worker IS mine.for_worker
 WHERE mine.queue_id = ?1 AND mine.seq = ?2 AND mine.state = 'queued' AND mine.gate = 'open';

-- name: counts_by_state
-- Among a queue's newest jobs (?2 at most).
SELECT state, priority, count(*)
  FROM (SELECT state, priority FROM jobs WHERE queue_id = ?1 ORDER BY seq DESC LIMIT ?2)
 GROUP BY state, priority;

-- name: jobs_ended_since
-- Of a queue's newest jobs (?2 at most) those that were over since ?3.
SELECT state, created_at_ms, started_at_ms, ended_at_ms, error
  FROM (SELECT state, created_at_ms, started_at_ms, ended_at_ms, error
          FROM jobs WHERE queue_id = ?1 ORDER BY seq DESC LIMIT ?2)
 WHERE ended_at_ms >= ?3;

-- name: active_claims
-- The oldest messages first.
SELECT token, seq, worker_group, worker_instance, claimed_at_ms
  FROM claims INDEXED BY idx_claims_one_active
 WHERE queue_id = ?1 AND status = 'active' ORDER BY seq;

-- name: newest_claim
SELECT {claim} FROM claims JOIN queues ON queues.id = queue_id
 WHERE token = (SELECT max(token) FROM claims WHERE queue_id = ?1 AND seq = ?2);
