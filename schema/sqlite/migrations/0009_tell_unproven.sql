-- From version 8 to version 9: tasks whose rows are made of messages, and work that steps alone add.
-- schema.sql says what the column is for.

ALTER TABLE tasks ADD COLUMN unproven INTEGER NOT NULL DEFAULT 0 CHECK (unproven IN (0, 1));

DROP TRIGGER tasks_go_forward;
CREATE TRIGGER tasks_go_forward BEFORE UPDATE ON tasks
WHEN NEW.task <> OLD.task OR NEW.token < OLD.token OR NEW.unproven > OLD.unproven
  OR (NEW.unproven AND NEW.state NOT IN (OLD.state, 'CANCELLED')) OR NOT (
  (NEW.attempt = OLD.attempt AND (NEW.state = OLD.state
    OR (OLD.state, NEW.state) IN (VALUES ('ASSIGNED', 'WORKING'), ('WORKING', 'IN_REVIEW'),
                                         ('IN_REVIEW', 'APPROVED'), ('APPROVED', 'COMPLETED'))
    OR (OLD.state NOT IN ('COMPLETED', 'CANCELLED', 'FAILED')
        AND NEW.state IN ('CANCELLED', 'FAILED'))))
  OR (NEW.attempt = OLD.attempt + 1 AND OLD.state = 'FAILED' AND NEW.state = 'ASSIGNED'))
BEGIN
  SELECT RAISE(ABORT, 'a task goes one step forward, and a failed one begins its next attempt');
END;

-- The queues of tasks and plugins take in no message by themselves any more. What waited for that
-- was published under the rules of version 8, and becomes jobs now.
INSERT INTO jobs (queue_id, seq, max_attempts, available_at_ms, priority, turn_ms, rank_ms,
                  created_at_ms, for_worker)
SELECT q.id, m.seq, q.max_attempts, at_ms, priority, at_ms,
       iif(q.ordering = 'fifo', 0, at_ms + priority * q.ageing_ms), at_ms,
       iif(json_valid(headers), nullif(headers ->> '$.for_worker', ''), NULL)
  FROM queues q
  JOIN (SELECT seq, type, to_agent, headers, max(0, min(2, ifnull(priority, 1))) AS priority,
               max(0, min(ts_ms, unixepoch() * 1000)) AS at_ms FROM messages) m
    ON m.seq > max(q.filled_seq, ifnull((SELECT max(seq) FROM jobs WHERE queue_id = q.id), 0))
   AND (m.to_agent IS NULL OR q.addressed IN ('*', m.to_agent))
 WHERE q.removed_at_ms IS NULL
   AND (((q.name, q.pattern) IN (VALUES ('requests', 'task.request'), ('jobs', 'task.job'),
                                        ('completions', 'task.completion')) AND m.type = q.pattern)
        OR (q.name GLOB 'plugin.*' AND q.pattern = q.name || '.*'
            AND m.type GLOB q.pattern AND m.type NOT GLOB q.pattern || '.*'));
UPDATE queues SET -- of these queues alone: what is wrong with others is told after the upgrade
  filled_seq = (SELECT max(seq) FROM jobs WHERE queue_id = queues.id),
  rank_clock_ms = max(rank_clock_ms, (SELECT max(turn_ms) FROM jobs WHERE queue_id = queues.id))
 WHERE filled_seq < (SELECT max(seq) FROM jobs WHERE queue_id = queues.id)
   AND (pattern = name || '.*' AND name GLOB 'plugin.*'
        OR (name, pattern) IN (VALUES ('requests', 'task.request'), ('jobs', 'task.job'),
                                      ('completions', 'task.completion')));

UPDATE meta SET value = '9' WHERE key = 'schema_version';
