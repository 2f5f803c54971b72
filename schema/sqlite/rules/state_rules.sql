-- Rules for each table beyond its CHECKs: each rule finds the rows that break it, and puts them
-- right. Triggers refuse most such rows (schema.sql); a file of an older version may hold some, and
-- so may one whose triggers were switched off.
-- ?1 is the present time; bounds.py says what stands for the words in braces.

-- name: cursors.find
SELECT agent_id FROM cursors
 WHERE last_acked_seq NOT BETWEEN 0 AND {newest};

-- name: cursors.mend
UPDATE cursors SET last_acked_seq = 0
 WHERE last_acked_seq NOT BETWEEN 0 AND {newest};

-- name: queues.find
SELECT name FROM queues
 WHERE filled_seq > {newest}
    OR filled_seq < (SELECT max(seq) FROM jobs WHERE queue_id = queues.id AND seq <= {newest});

-- name: queues.mend
-- It goes on after its last job; a queue that has none, with the messages since it was made.
UPDATE queues SET filled_seq = ifnull(
       (SELECT max(seq) FROM jobs WHERE queue_id = queues.id AND seq <= {newest}),
       ifnull((SELECT min(seq) - 1 FROM messages WHERE ts_ms >= queues.created_at_ms),
              ifnull((SELECT max(seq) FROM messages), 0)))
 WHERE filled_seq > {newest}
    OR filled_seq < (SELECT max(seq) FROM jobs WHERE queue_id = queues.id AND seq <= {newest});

-- name: fencing.find
SELECT 'its row' WHERE NOT EXISTS (
  SELECT 1 FROM fencing
   WHERE last_token BETWEEN max(
         ifnull((SELECT max(token) FROM task_claims WHERE token < {above}), 0),
         ifnull((SELECT max(token) FROM reservations WHERE token < {above}), 0))
     AND {above} - 1);

-- name: fencing.mend
-- Which tokens were given to leases that have ended is not known: a million is left out.
INSERT OR IGNORE INTO fencing (id) VALUES (1);
UPDATE fencing SET last_token = 1000000 + max(
       iif(last_token BETWEEN 0 AND {above} - 1, last_token, 0),
       ifnull((SELECT max(token) FROM task_claims WHERE token < {above}), 0),
       ifnull((SELECT max(token) FROM reservations WHERE token < {above}), 0));

-- name: task_claims.find
SELECT task_id FROM task_claims
 WHERE token NOT BETWEEN 1 AND ifnull((SELECT last_token FROM fencing), 0);

-- name: task_claims.mend
UPDATE task_claims SET token = (SELECT last_token FROM fencing) + (
       SELECT count(*) FROM task_claims other WHERE other.task_id <= task_claims.task_id)
 WHERE token NOT BETWEEN 1 AND (SELECT last_token FROM fencing);
UPDATE fencing SET last_token = max(
       last_token, ifnull((SELECT max(token) FROM task_claims), 0));

-- name: reservations.find
SELECT path FROM reservations
 WHERE token NOT BETWEEN 1 AND ifnull((SELECT last_token FROM fencing), 0);

-- name: reservations.mend
UPDATE reservations SET token = (SELECT last_token FROM fencing) + (
       SELECT count(*) FROM reservations other
        WHERE (other.path, other.agent_id) <= (reservations.path, reservations.agent_id))
 WHERE token NOT BETWEEN 1 AND (SELECT last_token FROM fencing);
UPDATE fencing SET last_token = max(
       last_token, ifnull((SELECT max(token) FROM reservations), 0));

-- name: archive_state.find
SELECT 'its row' WHERE NOT EXISTS (SELECT 1 FROM archive_state);

-- name: archive_state.mend
INSERT INTO archive_state (id, last_seq)
SELECT 1, ifnull((SELECT max(last_seq) FROM archive_segments
                   WHERE last_seq < ifnull((SELECT min(seq) FROM messages), last_seq + 1)), 0);

-- name: export_state.find
SELECT 'its row' WHERE NOT EXISTS (
  SELECT 1 FROM export_state
   WHERE last_seq BETWEEN 0 AND {newest});

-- name: export_state.mend
-- The exporter goes on from what the file has.
INSERT OR REPLACE INTO export_state (id, last_seq) VALUES (1, 0);

-- name: notice_state.find
SELECT 'its row' WHERE NOT EXISTS (
  SELECT 1 FROM notice_state
   WHERE last_seq BETWEEN 0 AND {newest});

-- name: notice_state.mend
INSERT OR REPLACE INTO notice_state (id, last_seq)
SELECT 1, ifnull((SELECT max(seq) FROM messages), 0);

-- name: catalog_state.find
SELECT 'its row' WHERE NOT EXISTS (
  SELECT 1 FROM catalog_state
   WHERE last_seq BETWEEN 0 AND {newest});

-- name: catalog_state.mend
-- It is counted again when it is asked.
DELETE FROM catalog;
DELETE FROM catalog_blocks;
INSERT OR REPLACE INTO catalog_state (id, last_seq) VALUES (1, 0);

-- name: automation_service.find
SELECT 'its row' WHERE NOT EXISTS (SELECT 1 FROM automation_service);

-- name: automation_service.mend
-- Which tokens were given is not known: a million is left out.
INSERT INTO automation_service (id, token) VALUES (1, 1000000);

-- name: meta.find
SELECT key FROM meta
 WHERE CASE key
       WHEN 'imports' THEN NOT are_imports(value)
       WHEN 'export_rotate_bytes' THEN value GLOB '*[^0-9]*' OR length(value) NOT BETWEEN 1 AND 18
       WHEN 'durability' THEN value NOT IN ('normal', 'full')
       END;

-- name: meta.mend
-- A durability that is none is taken for the greater one.
UPDATE meta SET value = 'full'
 WHERE key = 'durability' AND value NOT IN ('normal', 'full');
DELETE FROM meta
 WHERE CASE key
       WHEN 'imports' THEN NOT are_imports(value)
       WHEN 'export_rotate_bytes' THEN value GLOB '*[^0-9]*' OR length(value) NOT BETWEEN 1 AND 18
       END;

-- name: claims.find
SELECT token FROM claims WHERE {nowhere};

-- name: claims.mend
DELETE FROM claims WHERE {nowhere};

-- name: work_acts.find
SELECT id FROM work_acts WHERE {queueless};

-- name: work_acts.mend
DELETE FROM work_acts WHERE {queueless};

-- name: queue_workers.find
SELECT worker_group FROM queue_workers WHERE {queueless};

-- name: queue_workers.mend
DELETE FROM queue_workers WHERE {queueless};

-- name: task_sessions.find
SELECT session_id FROM session_events WHERE {sessionless}
 UNION SELECT session_id FROM session_approvals WHERE {sessionless};

-- name: task_sessions.mend
INSERT INTO task_sessions (session_id, created_at_ms)
SELECT session_id, ?1 FROM (
       SELECT session_id FROM session_events WHERE {sessionless}
        UNION SELECT session_id FROM session_approvals WHERE {sessionless})
 WHERE length(session_id) BETWEEN 1 AND 64 AND session_id NOT GLOB '*[^a-zA-Z0-9._-]*';
DELETE FROM session_events WHERE {sessionless};
DELETE FROM session_approvals WHERE {sessionless};

-- name: catalog.find
SELECT 'its counts' WHERE EXISTS (
  SELECT 1 FROM catalog WHERE block NOT BETWEEN 0 AND {newest} OR messages NOT BETWEEN 1 AND {newest})
    OR EXISTS (SELECT 1 FROM catalog_blocks WHERE block NOT BETWEEN 0 AND {newest} OR max_ts_ms < 0)
    OR (SELECT total(messages) FROM catalog WHERE kind = 'type')
    <> (SELECT total(messages) FROM catalog WHERE kind = 'from');

-- name: catalog.mend
DELETE FROM catalog;
DELETE FROM catalog_blocks;
UPDATE catalog_state SET last_seq = 0;
