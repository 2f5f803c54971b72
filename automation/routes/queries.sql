-- The statements of contexts.

-- name: add_context
INSERT INTO event_context (id, parent_id, pipeline, step, context, root_job_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: context
SELECT id, parent_id, pipeline, step, context, root_job_id, created_at
  FROM event_context WHERE id = ?;

-- name: has_older_contexts
SELECT EXISTS (SELECT 1 FROM event_context WHERE id < ?);

-- name: runs_of_jobs
SELECT ifnull(event_context.root_job_id, event_context.id)
  FROM json_each(?) AS wanted CROSS JOIN messages ON messages.seq = wanted.value
  JOIN event_context ON event_context.id = json_extract(messages.headers, '$.job.context_id');

-- name: delete_contexts
DELETE FROM event_context WHERE id IN (
  SELECT id FROM event_context
   WHERE id < ?1 AND ifnull(root_job_id, id) NOT IN (SELECT value FROM json_each(?2))
   LIMIT ?3);
