-- The statements of the records of automation, by table.

-- automation_service --------------------------------------------------------------------------

-- name: begin_service
UPDATE automation_service
   SET token = token + 1, pid = ?, host = ?, boot_id = ?, directory = ?, config_hash = ?,
       started_at_ms = ?, ready_at_ms = NULL, beat_at_ms = ?
RETURNING token;

-- name: service_token
SELECT token FROM automation_service;

-- name: note_ready
UPDATE automation_service SET ready_at_ms = ?, config_hash = ? WHERE token = ?;

-- name: note_beat
UPDATE automation_service SET beat_at_ms = ? WHERE token = ?;

-- name: end_service
UPDATE automation_service SET pid = NULL, ready_at_ms = NULL WHERE token = ?;

-- name: service
SELECT token, pid, host, boot_id, directory, config_hash, started_at_ms, ready_at_ms, beat_at_ms
  FROM automation_service;

-- meta ----------------------------------------------------------------------------------------

-- name: taking
SELECT value FROM meta WHERE key = 'automation_taking';

-- name: set_taking
INSERT INTO meta (key, value) VALUES ('automation_taking', ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- plugin_inits --------------------------------------------------------------------------------

-- name: inits
SELECT plugin, fingerprint, state, error, at_ms FROM plugin_inits;

-- name: set_init
INSERT INTO plugin_inits (plugin, fingerprint, state, error, at_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET fingerprint = excluded.fingerprint, state = excluded.state,
                          error = excluded.error, at_ms = excluded.at_ms;

-- name: forget_init
DELETE FROM plugin_inits WHERE plugin = ?;

-- plugin_facts, plugin_state ------------------------------------------------------------------

-- name: add_fact
INSERT INTO plugin_facts (seq, plugin_name, fact_type, job_id, command, fact_json, created_at)
VALUES ((SELECT ifnull(max(seq), 0) + 1 FROM plugin_facts), ?, ?, ?, ?, ?, ?);

-- name: facts_of_plugin
SELECT id, seq, plugin_name, fact_type, job_id, command, fact_json, created_at
  FROM plugin_facts WHERE plugin_name = ? AND seq < ? ORDER BY seq DESC LIMIT ?;

-- name: prune_facts
-- The newest of each plugin stays.
DELETE FROM plugin_facts WHERE id IN (
  SELECT id FROM plugin_facts old
   WHERE created_at < ?1
     AND seq < (SELECT max(seq) FROM plugin_facts WHERE plugin_name = old.plugin_name)
   LIMIT ?2);

-- name: plugin_state
SELECT state FROM plugin_state WHERE plugin_name = ?;

-- name: plugin_states
SELECT plugin_name, state, updated_at FROM plugin_state ORDER BY plugin_name;

-- name: set_plugin_state
INSERT INTO plugin_state (plugin_name, state, updated_at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at;

-- job_log, job_output -------------------------------------------------------------------------

-- name: add_log
INSERT INTO job_log (id, plugin, command, status, result, attempt, submitted_by, created_at,
                     completed_at, last_error, stderr, parent_job_id, source_event_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: drop_old_output
-- The output of failed attempts that have become old: with each attempt, those of the few that come
-- right behind the newest ?2 of its plugin.
UPDATE job_log SET result = NULL, stderr = NULL
 WHERE status <> 'succeeded' AND id IN (
       SELECT id FROM job_log WHERE plugin = ?1 ORDER BY completed_at DESC LIMIT 8 OFFSET ?2);

-- name: log_of_job
-- The attempts of a job: its id, a dash, the token of the claim.
SELECT {log} FROM job_log WHERE id > ?1 || '-' AND id < ?1 || '.';

-- name: newest_log
SELECT {log} FROM job_log WHERE completed_at <= ? ORDER BY completed_at DESC LIMIT ?;

-- name: newest_log_of_plugin
SELECT {log} FROM job_log WHERE plugin = ? AND completed_at <= ?
 ORDER BY completed_at DESC LIMIT ?;

-- name: find_log
-- Those that a person asks for: {asked for} takes ?1 to ?7, where null is any.
SELECT {log} FROM job_log WHERE {asked for} ORDER BY completed_at DESC LIMIT ?8;

-- name: count_log
SELECT count(*) FROM (SELECT 1 FROM job_log WHERE {asked for} LIMIT ?8);

-- name: find_log_of_job
-- In no order: a job has few attempts.
SELECT {log} FROM job_log INDEXED BY sqlite_autoindex_job_log_1
 WHERE {of job} AND {asked for} AND ?8;

-- name: count_log_of_job
SELECT count(*) FROM (
  SELECT 1 FROM job_log INDEXED BY sqlite_autoindex_job_log_1 WHERE {of job} AND {asked for} LIMIT ?8);

-- name: prune_log
DELETE FROM job_log WHERE id IN (SELECT id FROM job_log WHERE completed_at < ? LIMIT ?);

-- name: add_output
INSERT INTO job_output (token, chunk, stream, text)
SELECT ?1, ifnull(max(chunk) + 1, 0), ?2, ?3 FROM job_output WHERE token = ?1;

-- name: output_of_attempt
SELECT stream, text FROM job_output WHERE token = ? ORDER BY chunk;

-- name: drop_output
DELETE FROM job_output WHERE token = ?;

-- name: clear_output
DELETE FROM job_output;

-- circuit_breakers, circuit_breaker_transitions -----------------------------------------------

-- name: breaker
SELECT {breaker} FROM circuit_breakers WHERE plugin = ? AND command = ?;

-- name: breakers
SELECT {breaker} FROM circuit_breakers ORDER BY plugin, command;

-- name: set_breaker
INSERT INTO circuit_breakers ({breaker}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, failure_count = excluded.failure_count,
  opened_at = excluded.opened_at, last_failure_at = excluded.last_failure_at,
  last_job_id = excluded.last_job_id, updated_at = excluded.updated_at;

-- name: add_transition
INSERT INTO circuit_breaker_transitions
  (id, plugin, command, from_state, to_state, failure_count, reason, job_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: transitions_of_plugin
SELECT id, plugin, command, from_state, to_state, failure_count, reason, job_id, created_at
  FROM circuit_breaker_transitions WHERE plugin = ? ORDER BY created_at, rowid LIMIT ?;

-- name: prune_transitions
DELETE FROM circuit_breaker_transitions WHERE id IN (
  SELECT id FROM circuit_breaker_transitions WHERE created_at < ? LIMIT ?);
