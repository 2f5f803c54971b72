-- The statements of contexts.

-- name: add_context
INSERT INTO event_context (id, parent_id, pipeline, step, context, root_job_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: context
SELECT id, parent_id, pipeline, step, context, root_job_id, created_at
  FROM event_context WHERE id = ?;

-- name: prune_contexts
-- Ids begin with their time.
DELETE FROM event_context WHERE id IN (SELECT id FROM event_context WHERE id < ? LIMIT ?);
