-- The statements on the tables of tasks.

-- name: task
SELECT {task} FROM tasks WHERE task = ?;

-- name: tasks
SELECT {task} FROM tasks
 WHERE created_at_ms >= ?4 AND (?2 IS NULL OR worker = ?2)
   AND (?1 IS NULL OR state IN (SELECT value FROM json_each(?1)))
 ORDER BY created_at_ms, task LIMIT ?3;

-- name: task_of_commit
SELECT {task} FROM tasks WHERE commit_id = ? LIMIT 1;

-- name: live_tasks
SELECT {task} FROM tasks
 WHERE created_at_ms >= 0 AND state IN ('ASSIGNED', 'WORKING', 'IN_REVIEW', 'APPROVED')
 ORDER BY created_at_ms, task;

-- name: unlanded_of
SELECT value FROM json_each(?1)
 WHERE NOT EXISTS (SELECT 1 FROM tasks
                    WHERE task = value AND state = 'COMPLETED' AND NOT unproven);

-- name: add_planned_job
INSERT INTO planned_jobs (task, payload, depends_on, priority, planned_by, correlation_id,
                          message_id, for_worker, planned_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: planned_jobs
SELECT task, payload, depends_on, priority, planned_by, correlation_id, message_id, for_worker,
       planned_at_ms
  FROM planned_jobs ORDER BY task;

-- name: delete_planned_job
DELETE FROM planned_jobs WHERE task = ?;

-- name: add_task
INSERT INTO tasks ({task}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
                                   ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_task
INSERT OR REPLACE INTO tasks ({task}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
                                              ?, ?, ?, ?, ?, ?, ?, ?);

-- name: task_names
SELECT task FROM tasks ORDER BY task;

-- name: change_task
UPDATE tasks SET attempt = ?2, state = ?3, worker = ?4, head = ?5, token = ?6, reason = ?7,
                 blocked = ?8, commit_id = ?9, last_seq = ?10, changed_at_ms = ?11
 WHERE task = ?1;

-- name: confirm_task
UPDATE tasks SET unproven = 0 WHERE task = ?;

-- name: task_cleaned
UPDATE tasks SET cleaned_at_ms = ?2 WHERE task = ?1;

-- merge_forecasts -----------------------------------------------------------------------------

-- name: known_forecasts
SELECT a, b, files FROM json_each(?1) CROSS JOIN merge_forecasts
    ON a = value ->> 0 AND b = value ->> 1;

-- name: add_forecast
INSERT INTO merge_forecasts (a, b, files, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: prune_forecasts
DELETE FROM merge_forecasts WHERE at_ms < ?;

-- landings ------------------------------------------------------------------------------------

-- name: add_landing
INSERT INTO landings ({landing}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: end_landing
UPDATE landings SET state = ?2, ended_at_ms = ?3
 WHERE seq = ?1 AND state IN ('intended', 'proposed');

-- name: open_landings
SELECT {landing} FROM landings
 WHERE repository = ? AND target = ? AND state IN ('intended', 'proposed') ORDER BY seq;

-- name: undecided_landings
SELECT {landing} FROM landings
 WHERE repository > '' AND state IN ('intended', 'proposed') ORDER BY repository, target, seq;

-- name: landings_of_head
SELECT {landing} FROM landings WHERE repository = ? AND target = ? AND head = ? ORDER BY seq;

-- name: landings_of_commits
SELECT {landing} FROM json_each(?3) CROSS JOIN landings INDEXED BY idx_landings_candidate
    ON repository = ?1 AND target = ?2 AND candidate = value
 WHERE state = 'landed';

-- name: landings_of_task
SELECT {landing} FROM landings WHERE task = ? ORDER BY seq;
