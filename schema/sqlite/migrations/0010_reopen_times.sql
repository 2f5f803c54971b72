-- From version 9 to version 10: times that are reopened after the clock was set back, and schedules
-- that wait for their turn. schema.sql says what the columns are for.

ALTER TABLE schedules ADD COLUMN waiting_ms INTEGER CHECK (waiting_ms BETWEEN 0 AND 253402300799999);
ALTER TABLE schedules ADD COLUMN kept_back INTEGER NOT NULL DEFAULT 0
  CHECK (kept_back BETWEEN 0 AND 9007199254740991);

ALTER TABLE schedule_decisions RENAME TO schedule_decisions_of_9;
CREATE TABLE schedule_decisions (
  id            INTEGER PRIMARY KEY,
  plugin        TEXT NOT NULL CHECK (plugin <> ''),
  schedule_id   TEXT NOT NULL CHECK (schedule_id <> ''),
  config_hash   TEXT NOT NULL,
  nominal_ms    INTEGER NOT NULL CHECK (nominal_ms BETWEEN 0 AND 253402300799999),
  until_ms      INTEGER NOT NULL CHECK (until_ms BETWEEN nominal_ms AND 253402300799999),
  count         INTEGER NOT NULL DEFAULT 1 CHECK (count BETWEEN 1 AND 9007199254740991),
  decision      TEXT NOT NULL CHECK (decision IN ('fired', 'skipped', 'missed', 'reopened')),
  reason        TEXT,
  job_id        TEXT,
  decided_at_ms INTEGER NOT NULL CHECK (decided_at_ms BETWEEN 0 AND 253402300799999),
  turn          INTEGER NOT NULL DEFAULT 0 CHECK (turn BETWEEN 0 AND 9007199254740991),
  UNIQUE (plugin, schedule_id, config_hash, nominal_ms, turn),
  CHECK ((turn % 2 = 1) = (decision = 'reopened'))
) STRICT;
INSERT INTO schedule_decisions (id, plugin, schedule_id, config_hash, nominal_ms, until_ms, count,
                                decision, reason, job_id, decided_at_ms)
SELECT id, plugin, schedule_id, config_hash, nominal_ms, until_ms, count, decision, reason, job_id,
       decided_at_ms FROM schedule_decisions_of_9;
DROP TABLE schedule_decisions_of_9;
CREATE INDEX idx_schedule_decisions_of ON schedule_decisions (plugin, schedule_id);
CREATE INDEX idx_schedule_decisions_decided ON schedule_decisions (decided_at_ms);

CREATE TRIGGER schedule_decisions_are_only_appended BEFORE INSERT ON schedule_decisions
WHEN EXISTS (SELECT 1 FROM schedule_decisions
              WHERE id = NEW.id
                 OR ((plugin, schedule_id, config_hash, nominal_ms)
                     = (NEW.plugin, NEW.schedule_id, NEW.config_hash, NEW.nominal_ms)
                     AND (turn >= NEW.turn OR decision = 'fired')))
BEGIN
  SELECT RAISE(ABORT, 'this time of the schedule is decided');
END;

CREATE TRIGGER schedule_decisions_are_never_changed BEFORE UPDATE ON schedule_decisions BEGIN
  SELECT RAISE(ABORT, 'decisions of schedules stay on record');
END;

UPDATE meta SET value = '10' WHERE key = 'schema_version';
