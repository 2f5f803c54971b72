-- The statements for work, by table.

-- queues --------------------------------------------------------------------------------------

-- name: create_queue
INSERT INTO queues (name, pattern, filled_seq, created_at_ms, {policy})
VALUES (?, ?, ?, ?, {?policy}) ON CONFLICT DO NOTHING;

-- name: queue
SELECT id, name, pattern, filled_seq, rank_clock_ms, rank_offset_ms, paused_at_ms, created_at_ms,
       {policy}
  FROM queues WHERE name = ?;

-- name: queues
SELECT id, name, pattern, filled_seq, rank_clock_ms, rank_offset_ms, paused_at_ms, created_at_ms,
       {policy}
  FROM queues WHERE removed_at_ms IS NULL ORDER BY name;

-- name: set_policy
UPDATE queues SET ({policy}) = ({?policy}) WHERE id = ?;

-- name: set_paused
UPDATE queues SET paused_at_ms = ? WHERE id = ?;

-- name: remove_queue
UPDATE queues SET name = ?, removed_at_ms = ? WHERE id = ?;

-- name: filled_seq
-- How far a queue has looked, and the newest seq of the log, as of one moment.
SELECT filled_seq, ifnull((SELECT max(seq) FROM messages), 0)
  FROM queues WHERE id = ?;

-- name: pass_by
-- What fits not. Only from where the filler began: another one may have been here. Never back:
-- what has become a job would become one again.
UPDATE queues SET filled_seq = ?1 WHERE id = ?2 AND filled_seq = ?3 AND filled_seq < ?1
RETURNING id;

-- name: advance_filling
UPDATE queues SET filled_seq = ?, rank_clock_ms = ?, rank_offset_ms = ? WHERE id = ?;

-- jobs ----------------------------------------------------------------------------------------

-- name: add_job
INSERT INTO jobs (queue_id, seq, state, gate, max_attempts, available_at_ms, priority, turn_ms,
                  rank_ms, dedupe_key, created_at_ms, ended_at_ms, error, for_worker)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: open_due
-- The delay of these is over: they may be claimed, unless others with their key come first.
UPDATE jobs SET gate = iif(dedupe_key IS NULL, 'open', 'key')
 WHERE queue_id = ?1 AND seq IN (
       SELECT seq FROM jobs
        WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time' AND available_at_ms <= ?2
        ORDER BY available_at_ms LIMIT ?3)
RETURNING dedupe_key;

-- name: open_key
-- Let as many jobs with a key be claimed as its limit leaves, the first in order.
UPDATE jobs SET gate = 'open'
 WHERE queue_id = ?1 AND seq IN (
       SELECT seq FROM jobs INDEXED BY idx_jobs_live_key
        WHERE queue_id = ?1 AND dedupe_key = ?2 AND ended_at_ms IS NULL AND gate = 'key'
        ORDER BY rank_ms, seq
        LIMIT max(0, ?3 - (
              SELECT count(*) FROM jobs INDEXED BY idx_jobs_live_key
               WHERE queue_id = ?1 AND dedupe_key = ?2 AND ended_at_ms IS NULL
                 AND gate = 'open')));

-- name: live_keys_after
-- Each after its bytes: the next page begins after these, since text may be shown in another form.
SELECT CAST(dedupe_key AS BLOB), dedupe_key FROM (
  SELECT DISTINCT dedupe_key FROM jobs INDEXED BY idx_jobs_live_key
   WHERE queue_id = ? AND dedupe_key > CAST(? AS TEXT)
     AND dedupe_key IS NOT NULL AND ended_at_ms IS NULL
   ORDER BY dedupe_key LIMIT ?);

-- name: close_key
-- Before the limit for each key changes: what is open waits for its key again.
UPDATE jobs SET gate = 'key'
 WHERE queue_id = ?1 AND seq IN (
       SELECT seq FROM jobs INDEXED BY idx_jobs_live_key
        WHERE queue_id = ?1 AND dedupe_key = ?2 AND ended_at_ms IS NULL AND gate = 'open'
          AND state = 'queued');

-- name: succeeded_with_key
SELECT seq FROM jobs
 WHERE queue_id = ? AND dedupe_key = ? AND state = 'succeeded' AND ended_at_ms BETWEEN ? AND ?
 ORDER BY ended_at_ms DESC LIMIT 1;

-- name: live_with_key
SELECT seq FROM jobs INDEXED BY idx_jobs_live_key
 WHERE queue_id = ? AND dedupe_key = ? AND ended_at_ms IS NULL LIMIT 1;

-- name: bring_retries_nearer
-- Jobs that failed by a clock which was ahead of now, ?2, wait as long from now as they were to then.
UPDATE jobs SET available_at_ms = ?2 + max(0, available_at_ms - (
       SELECT max(ended_at_ms) FROM claims
        WHERE claims.queue_id = jobs.queue_id AND claims.seq = jobs.seq))
 WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time' AND available_at_ms > ?2
   AND (SELECT max(ended_at_ms) FROM claims
         WHERE claims.queue_id = jobs.queue_id AND claims.seq = jobs.seq) > ?2;

-- name: bring_claims_nearer
-- Claims of a clock that was ahead begin now, and last as long as before.
UPDATE claims INDEXED BY idx_claims_one_active
   SET lease_until_ms = iif(lease_until_ms > claimed_at_ms,
                            lease_until_ms - (claimed_at_ms - ?2), lease_until_ms),
       claimed_at_ms = ?2
 WHERE queue_id = ?1 AND status = 'active' AND claimed_at_ms > ?2;

-- name: end_no_later
-- The dedupe windows of jobs that succeeded by a clock that was ahead begin now.
UPDATE jobs INDEXED BY idx_jobs_key_done
   SET ended_at_ms = ?2, started_at_ms = min(started_at_ms, ?2)
 WHERE queue_id = ?1 AND dedupe_key IS NOT NULL AND state = 'succeeded' AND ended_at_ms > ?2;

-- name: first_ready
-- Those for one worker, ?3, go first; it gets none of those for others. Reading, and then changing
-- one by one, takes less than one UPDATE that does both: that would build two tables for it.
SELECT * FROM (
  SELECT seq, attempt, max_attempts, available_at_ms, dedupe_key
    FROM jobs INDEXED BY idx_jobs_for_worker
   WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open' AND for_worker = ?3
   ORDER BY rank_ms, seq LIMIT ?2)
UNION ALL
SELECT * FROM (
  SELECT seq, attempt, max_attempts, available_at_ms, dedupe_key FROM jobs INDEXED BY idx_jobs_ready
   WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open' AND for_worker IS NULL
   ORDER BY rank_ms, seq LIMIT ?2)
LIMIT ?2;

-- name: start_job
UPDATE jobs SET state = 'running', started_at_ms = ? WHERE queue_id = ? AND seq = ?;

-- name: end_job
UPDATE jobs SET state = ?, ended_at_ms = ?, error = ? WHERE queue_id = ? AND seq = ?;

-- name: queue_job_again
-- Ranked again: the queue's ordering may have changed while it was not queued.
UPDATE jobs SET state = 'queued', gate = ?, attempt = ?, available_at_ms = ?, error = ?,
                ended_at_ms = NULL, rank_ms = {rank}
 WHERE queue_id = ? AND seq = ?;

-- name: queued_seqs
{queued seqs};

-- name: rank_job
-- By the present ordering of the queue.
UPDATE jobs SET rank_ms = {rank} WHERE queue_id = ? AND seq = ? AND state = 'queued';

-- name: job
SELECT {job} FROM jobs JOIN queues ON queues.id = queue_id
 WHERE queue_id = ? AND jobs.seq = ?;

-- name: jobs_of_message
-- One look into each queue. CROSS keeps this order: SQLite would rather walk over all jobs.
SELECT {job} FROM queues CROSS JOIN jobs ON queues.id = queue_id WHERE jobs.seq = ? ORDER BY name;

-- name: jobs_ended_badly
SELECT {job} FROM queues JOIN jobs INDEXED BY idx_jobs_ended_badly ON queues.id = queue_id
 WHERE queue_id = ?1 AND state = ?2 AND (state = 'failed' OR state = 'timed_out' OR state = 'dead') AND seq > ?3
 ORDER BY seq LIMIT ?4;

-- name: jobs_queued
SELECT {job} FROM queues JOIN jobs ON queues.id = queue_id
 WHERE queue_id = ?1 AND jobs.seq IN (SELECT seq FROM ({queued seqs}) LIMIT ?2);

-- name: first_live_job
-- Of what waits and what runs; a walk over the queue would pass all that has ended.
SELECT min(seq) FROM (
  SELECT seq FROM ({queued seqs})
  UNION ALL
  SELECT seq FROM claims INDEXED BY idx_claims_one_active
   WHERE queue_id = ?1 AND status = 'active');

-- name: count_jobs
-- The live ones and those that ended badly, by gate or state; no walk over successes.
SELECT 'open', count(*) FROM jobs INDEXED BY idx_jobs_ready
 WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open'
UNION ALL
SELECT 'time', count(*) FROM jobs INDEXED BY idx_jobs_delayed
 WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time'
UNION ALL
SELECT 'key', count(*) FROM jobs INDEXED BY idx_jobs_live_key
 WHERE queue_id = ?1 AND dedupe_key IS NOT NULL AND ended_at_ms IS NULL AND gate = 'key'
UNION ALL
SELECT 'running', count(*) FROM claims WHERE queue_id = ?1 AND status = 'active'
UNION ALL
SELECT * FROM (
  SELECT state, count(*) FROM jobs INDEXED BY idx_jobs_ended_badly
   WHERE queue_id = ?1 AND (state = 'failed' OR state = 'timed_out' OR state = 'dead') GROUP BY state);

-- claims --------------------------------------------------------------------------------------

-- name: add_claim
INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance, available_at_ms,
                    claimed_at_ms, lease_until_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: renew_claim
UPDATE claims SET lease_until_ms = ?
 WHERE token = ? AND status = 'active' AND lease_until_ms > ?;

-- name: end_claim
UPDATE claims SET status = ?, ended_at_ms = ?, exit_code = ?, error = ?, stderr = ?, result = ?,
                  logs = ?
 WHERE token = ? AND status = 'active' AND lease_until_ms > ?;

-- name: lose_claim
UPDATE claims SET status = 'lost', ended_at_ms = ?, error = ? || ifnull('; ' || error, '')
 WHERE token = ? AND status = 'active' RETURNING token;

-- name: hand_back_claim
UPDATE claims SET status = 'lost', ended_at_ms = ?, error = ?
 WHERE token = ? AND status = 'active' AND lease_until_ms > ?;

-- name: claim_status
SELECT status FROM claims WHERE token = ?;

-- name: note_late_end
-- What a worker reports of a claim that it no longer has: kept for people, once.
UPDATE claims SET exit_code = ?, stderr = ?, result = ?, logs = ?,
                  error = ifnull(error || '; ', '') || ?
 WHERE token = ? AND status IN ('active', 'lost') AND result IS NULL AND exit_code IS NULL
   AND ifnull(error, '') NOT LIKE '%reported too late: %';

-- name: expired_claims
SELECT token, seq FROM claims
 WHERE queue_id = ? AND status = 'active' AND lease_until_ms <= ?
 ORDER BY lease_until_ms LIMIT ?;

-- name: active_claims
SELECT token, seq FROM claims WHERE queue_id = ? AND status = 'active' ORDER BY seq;

-- name: queue_is_at_work
SELECT EXISTS (SELECT 1 FROM claims
                WHERE queue_id = ? AND status = 'active' AND lease_until_ms > ?);

-- name: active_claim
SELECT token FROM claims WHERE queue_id = ? AND seq = ? AND status = 'active';

-- name: last_claim_at
-- A walk over the queue's part of an index, without a sort and without reading the claims.
SELECT claimed_at_ms FROM claims
 WHERE token = (SELECT max(token) FROM claims WHERE queue_id = ?);

-- name: newest_claim_time
-- When the newest claim of all was made, or ended.
SELECT max(claimed_at_ms, ifnull(ended_at_ms, 0)) FROM claims
 WHERE token = (SELECT max(token) FROM claims);

-- name: count_active
-- Counted up to a limit.
SELECT count(*) FROM (
  SELECT 1 FROM claims WHERE queue_id = ? AND status = 'active' LIMIT ?);

-- name: newest_token
SELECT ifnull(max(token), 0) FROM claims;

-- name: count_claims_between
SELECT queue_id, count(*), sum(attempt > 1) FROM claims
 WHERE token > ? AND token <= ? GROUP BY queue_id;

-- name: claim
SELECT {claim} FROM claims JOIN queues ON queues.id = queue_id WHERE token = ?;

-- name: worker_of_message
-- One look into each queue, as for its jobs.
SELECT worker_group, max(token) FROM queues CROSS JOIN claims ON queues.id = queue_id WHERE seq = ?;

-- name: claims_of_job
SELECT {claim} FROM queues JOIN claims ON queues.id = queue_id
 WHERE queue_id = ? AND seq = ? ORDER BY token;

-- what is at hand: all three tables -----------------------------------------------------------

-- name: work_at_hand
-- What a claim of worker ?4 would find without filling, see `AtHand`; ready jobs are counted up
-- to ?3 of each kind.
SELECT (SELECT count(*) FROM (
          SELECT 1 FROM jobs INDEXED BY idx_jobs_ready
           WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open' AND for_worker IS NULL
           LIMIT ?3))
     + (SELECT count(*) FROM (
          SELECT 1 FROM jobs INDEXED BY idx_jobs_for_worker
           WHERE queue_id = ?1 AND state = 'queued' AND gate = 'open' AND for_worker = ?4
           LIMIT ?3)),
       EXISTS (SELECT 1 FROM jobs WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time'
                AND available_at_ms <= ?2),
       EXISTS (SELECT 1 FROM claims WHERE queue_id = ?1 AND status = 'active'
                AND lease_until_ms <= ?2),
       paused_at_ms IS NOT NULL OR (max_running IS NOT NULL AND max_running <= (
         SELECT count(*) FROM claims WHERE queue_id = ?1 AND status = 'active')),
       ordering = 'fifo'
  FROM queues WHERE id = ?1;

-- name: count_live
-- Of one type, and of one sender unless ?3 is NULL; a walk over what waits and what runs.
SELECT count(*) FROM messages
 WHERE seq IN (
       SELECT seq FROM ({queued seqs})
       UNION ALL
       SELECT seq FROM claims INDEXED BY idx_claims_one_active
        WHERE queue_id = ?1 AND status = 'active')
   AND type = ?2 AND (?3 IS NULL OR from_agent = ?3);

-- name: work_of_queues
-- The same of several queues, a JSON array of ids, see `QueueAtHand`; without jobs for one worker.
SELECT id,
       (SELECT seq FROM jobs INDEXED BY idx_jobs_ready
         WHERE queue_id = queues.id AND state = 'queued' AND gate = 'open' AND for_worker IS NULL
         ORDER BY rank_ms, seq LIMIT 1),
       (SELECT min(available_at_ms) FROM jobs
         WHERE queue_id = queues.id AND state = 'queued' AND gate = 'time'),
       paused_at_ms IS NOT NULL OR (max_running IS NOT NULL AND max_running <= (
         SELECT count(*) FROM claims WHERE queue_id = queues.id AND status = 'active'))
  FROM queues WHERE id IN (SELECT value FROM json_each(?));

-- name: next_due
-- When a job next becomes available, or a lease runs out.
SELECT min(at_ms) FROM (
  SELECT min(available_at_ms) AS at_ms FROM jobs
   WHERE queue_id = ?1 AND state = 'queued' AND gate = 'time'
  UNION ALL
  SELECT min(lease_until_ms) FROM claims WHERE queue_id = ?1 AND status = 'active');

-- queue_workers -------------------------------------------------------------------------------

-- name: queue_workers
SELECT worker_group FROM queue_workers WHERE queue_id = ?;

-- name: add_queue_worker
INSERT INTO queue_workers (queue_id, worker_group, begun_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO NOTHING;

-- notices -------------------------------------------------------------------------------------

-- name: notice_position
SELECT last_seq FROM notice_state;

-- name: advance_notices
UPDATE notice_state SET last_seq = ?1 WHERE last_seq < ?1;

-- name: is_news
-- Whether a conversation has no notice yet, and has a request of a type between two seqs or as its
-- first message.
SELECT NOT EXISTS (SELECT 1 FROM notices WHERE conversation = ?1)
   AND EXISTS (
       SELECT 1 FROM messages WHERE correlation_id = ?1 AND type = ?2 AND seq > ?3 AND seq < ?4
       UNION ALL
       SELECT 1 FROM messages
        WHERE id = ?1 AND correlation_id IS NULL AND type = ?2 AND seq < ?4);

-- name: is_told
SELECT EXISTS (SELECT 1 FROM notices WHERE conversation = ?);

-- name: add_notice
-- Returns nothing where another process has given the notice.
INSERT INTO notices (conversation, seq, notified_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO NOTHING RETURNING conversation;

-- what was done by hand -----------------------------------------------------------------------

-- name: note_act
INSERT INTO work_acts (at_ms, who, act, queue_id, seq, detail) VALUES (?, ?, ?, ?, ?, ?);
