-- From version 4 to version 5: bounds that the file keeps, mail that is no work, who reads.
-- schema.sql says what each table is for.

-- readers
-- An agent with a cursor is a reader. So are those whose loops ran and had nothing to acknowledge.
INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms)
SELECT agent_id, 0, max(at_ms)
  FROM (SELECT agent_id, started_at_ms AS at_ms FROM loops
        UNION ALL SELECT agent_id, updated_at_ms FROM deliveries)
 WHERE true GROUP BY agent_id
ON CONFLICT DO NOTHING;

-- work_acts
-- What was done by hand to a job, or to a queue as a whole (no seq): by whom, and when.
CREATE TABLE work_acts (
  id       INTEGER PRIMARY KEY,
  at_ms    INTEGER NOT NULL,
  who      TEXT NOT NULL CHECK (who <> ''),
  act      TEXT NOT NULL CHECK (act <> ''),
  queue_id INTEGER NOT NULL REFERENCES queues (id),
  seq      INTEGER,
  detail   TEXT
) STRICT;
CREATE INDEX idx_work_acts_queue_seq ON work_acts (queue_id, seq);

CREATE TRIGGER work_acts_are_only_appended BEFORE INSERT ON work_acts
WHEN EXISTS (SELECT 1 FROM work_acts WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'what was done by hand stays on record');
END;

CREATE TRIGGER work_acts_are_never_changed BEFORE UPDATE ON work_acts BEGIN
  SELECT RAISE(ABORT, 'what was done by hand stays on record');
END;

CREATE TRIGGER work_acts_are_never_deleted BEFORE DELETE ON work_acts BEGIN
  SELECT RAISE(ABORT, 'what was done by hand stays on record');
END;

UPDATE meta SET value = '5' WHERE key = 'schema_version';
