-- The statements of PushPals' control plane, by table.

-- task_output, task_progress ------------------------------------------------------------------

-- name: add_output
INSERT INTO task_output (seq, at_ms, stream, number, text) VALUES (?, ?, ?, ?, ?);

-- name: output_after
SELECT id, seq, at_ms, stream, number, text FROM task_output INDEXED BY idx_task_output_of_job
 WHERE seq = ? AND id > ? ORDER BY id LIMIT ?;

-- name: output_newest
SELECT id, seq, at_ms, stream, number, text FROM task_output INDEXED BY idx_task_output_of_job
 WHERE seq = ? ORDER BY id DESC LIMIT ?;

-- name: prune_output
DELETE FROM task_output WHERE id IN (
  SELECT id FROM task_output WHERE at_ms < ? LIMIT ?);

-- name: jobs_of_old_output
SELECT seq FROM task_output WHERE at_ms < ? LIMIT ?;

-- name: prune_progress
DELETE FROM task_progress WHERE seq = ? AND active_at_ms < ?;

-- name: note_progress
INSERT INTO task_progress (seq, first_log_at_ms, active_at_ms) VALUES (?1, ?2, ?2)
ON CONFLICT DO UPDATE SET active_at_ms = max(active_at_ms, excluded.active_at_ms);

-- name: progress
SELECT first_log_at_ms, active_at_ms FROM task_progress WHERE seq = ?;

-- task_workers --------------------------------------------------------------------------------

-- name: describe_worker
INSERT INTO task_workers (worker, poll_ms, capabilities, details, created_at_ms, updated_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT DO UPDATE SET poll_ms = excluded.poll_ms, capabilities = excluded.capabilities,
                          details = excluded.details, updated_at_ms = excluded.updated_at_ms;

-- name: note_worker
INSERT INTO task_workers (worker, created_at_ms, updated_at_ms) VALUES (?1, ?2, ?2)
ON CONFLICT DO NOTHING;

-- name: workers
SELECT worker, poll_ms, capabilities, details, created_at_ms, updated_at_ms FROM task_workers
 ORDER BY worker;

-- dispatch_lock -------------------------------------------------------------------------------

-- name: dispatch_lock
SELECT session_id, run_id, acquired_at_ms, expires_at_ms, updated_at_ms FROM dispatch_lock;

-- name: drop_expired_lock
DELETE FROM dispatch_lock WHERE expires_at_ms <= ?;

-- name: hold_lock
INSERT INTO dispatch_lock (session_id, run_id, acquired_at_ms, expires_at_ms, updated_at_ms)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET session_id = excluded.session_id, run_id = excluded.run_id,
                          acquired_at_ms = excluded.acquired_at_ms,
                          expires_at_ms = excluded.expires_at_ms,
                          updated_at_ms = excluded.updated_at_ms;

-- name: release_lock
DELETE FROM dispatch_lock WHERE session_id = ? AND run_id = ?;

-- autonomy_state, autonomy_snapshots ----------------------------------------------------------

-- name: set_autonomy_state
INSERT INTO autonomy_state (session_id, state, updated_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, updated_at_ms = excluded.updated_at_ms;

-- name: autonomy_state
SELECT state FROM autonomy_state WHERE session_id = ?;

-- name: add_snapshot
INSERT INTO autonomy_snapshots (snapshot_id, session_id, run_id, created_at_ms, ttl_ms,
                                dispatch_lock_held, payload)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: snapshot
SELECT snapshot_id, session_id, run_id, created_at_ms, ttl_ms, dispatch_lock_held, payload
  FROM autonomy_snapshots WHERE snapshot_id = ?;

-- name: prune_snapshots
DELETE FROM autonomy_snapshots WHERE snapshot_id IN (
  SELECT snapshot_id FROM autonomy_snapshots WHERE created_at_ms < ? LIMIT ?);
