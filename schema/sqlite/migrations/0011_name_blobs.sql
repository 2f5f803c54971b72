-- From version 10 to version 11: the view of plugins' jobs names the blob of a large payload. schema.sql
-- says what it is for.

DROP VIEW job_queue;
CREATE VIEW job_queue AS
  SELECT messages.id,
         substr(queues.name, 8) AS plugin,
         substr(messages.type, length(queues.name) + 2) AS command,
         iif(messages.payload_ref IS NULL, messages.payload,
             json_object('payload_ref', messages.payload_ref)) AS payload,
         iif(jobs.state = 'cancelled', 'dead', jobs.state) AS status,
         jobs.attempt,
         jobs.max_attempts,
         json_extract(messages.headers, '$.submitted_by') AS submitted_by,
         substr(jobs.dedupe_key, length(messages.type) - length(queues.name) + 1) AS dedupe_key,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS created_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.started_at_ms / 1000.0, 'unixepoch') AS started_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch') AS completed_at,
         iif(jobs.state = 'queued' AND jobs.attempt > 1,
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.available_at_ms / 1000.0, 'unixepoch'), NULL)
           AS next_retry_at,
         jobs.error AS last_error,
         json_extract(messages.headers, '$.job.parent_job_id') AS parent_job_id,
         json_extract(messages.headers, '$.job.source_event_id') AS source_event_id
    FROM queues JOIN jobs ON jobs.queue_id = queues.id
    JOIN messages ON messages.seq = jobs.seq
   WHERE queues.name GLOB 'plugin.?*' AND queues.removed_at_ms IS NULL;

UPDATE meta SET value = '11' WHERE key = 'schema_version';
