-- From version 6 to version 7: the tables of automation. schema.sql says what each is for.

CREATE TABLE automation_service (
  id            INTEGER PRIMARY KEY CHECK (id = 1),
  token         INTEGER NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9007199254740991),
  pid           INTEGER CHECK (pid BETWEEN 1 AND 2147483647),
  host          TEXT,
  boot_id       TEXT,
  directory     TEXT,
  config_hash   TEXT,
  started_at_ms INTEGER CHECK (started_at_ms BETWEEN 0 AND 253402300799999),
  ready_at_ms   INTEGER CHECK (ready_at_ms BETWEEN 0 AND 253402300799999),
  beat_at_ms    INTEGER CHECK (beat_at_ms BETWEEN 0 AND 253402300799999)
) STRICT;
INSERT INTO automation_service (id) VALUES (1);

CREATE TRIGGER automation_service_is_one_row BEFORE INSERT ON automation_service BEGIN
  SELECT RAISE(ABORT, 'automation_service has one row');
END;

CREATE TRIGGER automation_service_is_kept BEFORE DELETE ON automation_service BEGIN
  SELECT RAISE(ABORT, 'automation_service has one row');
END;

CREATE TRIGGER automation_tokens_only_grow BEFORE UPDATE OF token ON automation_service
WHEN NEW.token < OLD.token
BEGIN
  SELECT RAISE(ABORT, 'the token of the service only grows');
END;

CREATE TABLE plugin_inits (
  plugin      TEXT PRIMARY KEY CHECK (plugin <> ''),
  fingerprint TEXT NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('ok', 'failed')),
  error       TEXT,
  at_ms       INTEGER NOT NULL CHECK (at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

CREATE TABLE plugin_facts (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  seq         INTEGER NOT NULL UNIQUE CHECK (seq BETWEEN 1 AND 9007199254740991),
  plugin_name TEXT NOT NULL CHECK (plugin_name <> ''),
  fact_type   TEXT NOT NULL CHECK (fact_type <> ''),
  job_id      TEXT,
  command     TEXT,
  fact_json   TEXT NOT NULL CHECK (json_valid(fact_json) AND json_type(fact_json) = 'object'),
  created_at  TEXT NOT NULL CHECK (strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days') IS created_at)
) STRICT;

CREATE INDEX idx_plugin_facts_of_plugin ON plugin_facts (plugin_name, seq);
CREATE INDEX idx_plugin_facts_created ON plugin_facts (created_at);

CREATE TRIGGER plugin_facts_are_only_appended BEFORE INSERT ON plugin_facts
WHEN EXISTS (SELECT 1 FROM plugin_facts WHERE id = NEW.id OR seq >= NEW.seq)
BEGIN
  SELECT RAISE(ABORT, 'facts are only appended');
END;

CREATE TRIGGER plugin_facts_are_never_changed BEFORE UPDATE ON plugin_facts BEGIN
  SELECT RAISE(ABORT, 'facts are never changed');
END;

CREATE TRIGGER plugin_facts_keep_the_newest BEFORE DELETE ON plugin_facts
WHEN OLD.seq = (SELECT max(seq) FROM plugin_facts WHERE plugin_name = OLD.plugin_name)
BEGIN
  SELECT RAISE(ABORT, 'the newest fact of a plugin stays');
END;

CREATE TABLE plugin_state (
  plugin_name TEXT PRIMARY KEY CHECK (plugin_name <> ''),
  state       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(state) AND json_type(state) = 'object'),
  updated_at  TEXT CHECK (updated_at IS NULL OR strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '+0 days') IS updated_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_log (
  id              TEXT PRIMARY KEY CHECK (id <> ''),
  plugin          TEXT NOT NULL,
  command         TEXT NOT NULL,
  status          TEXT NOT NULL CHECK (status IN ('succeeded', 'failed', 'timed_out', 'dead')),
  result          TEXT,
  attempt         INTEGER NOT NULL CHECK (attempt BETWEEN 1 AND 2147483647),
  submitted_by    TEXT NOT NULL,
  created_at      TEXT NOT NULL CHECK (strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days') IS created_at),
  completed_at    TEXT NOT NULL CHECK (strftime('%Y-%m-%dT%H:%M:%fZ', completed_at, '+0 days') IS completed_at),
  last_error      TEXT,
  stderr          TEXT,
  parent_job_id   TEXT,
  source_event_id TEXT
) STRICT;

CREATE INDEX idx_job_log_completed ON job_log (completed_at);
CREATE INDEX idx_job_log_of_plugin ON job_log (plugin, completed_at);

CREATE TABLE job_output (
  token  INTEGER NOT NULL,
  chunk  INTEGER NOT NULL,
  stream TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
  text   TEXT NOT NULL,
  PRIMARY KEY (token, chunk)
) STRICT;

CREATE TABLE circuit_breakers (
  plugin          TEXT NOT NULL CHECK (plugin <> ''),
  command         TEXT NOT NULL CHECK (command <> ''),
  state           TEXT NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
  failure_count   INTEGER NOT NULL DEFAULT 0 CHECK (failure_count BETWEEN 0 AND 2147483647),
  opened_at       TEXT CHECK (opened_at IS NULL OR strftime('%Y-%m-%dT%H:%M:%fZ', opened_at, '+0 days') IS opened_at),
  last_failure_at TEXT CHECK (last_failure_at IS NULL OR strftime('%Y-%m-%dT%H:%M:%fZ', last_failure_at, '+0 days') IS last_failure_at),
  last_job_id     TEXT,
  updated_at      TEXT NOT NULL CHECK (strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '+0 days') IS updated_at),
  PRIMARY KEY (plugin, command),
  CHECK ((opened_at IS NULL) = (state = 'closed'))
) STRICT, WITHOUT ROWID;

CREATE TABLE circuit_breaker_transitions (
  id            TEXT PRIMARY KEY CHECK (id <> ''),
  plugin        TEXT NOT NULL CHECK (plugin <> ''),
  command       TEXT NOT NULL CHECK (command <> ''),
  from_state    TEXT CHECK (from_state IN ('closed', 'open', 'half_open')),
  to_state      TEXT NOT NULL CHECK (to_state IN ('closed', 'open', 'half_open')),
  failure_count INTEGER NOT NULL DEFAULT 0 CHECK (failure_count BETWEEN 0 AND 2147483647),
  reason        TEXT NOT NULL
                  CHECK (reason IN ('failure_threshold', 'success', 'cooldown_elapsed', 'manual_reset')),
  job_id        TEXT,
  created_at    TEXT NOT NULL CHECK (strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days') IS created_at)
) STRICT;

CREATE INDEX idx_breaker_transitions_of_plugin ON circuit_breaker_transitions (plugin, created_at);
CREATE INDEX idx_breaker_transitions_created ON circuit_breaker_transitions (created_at);

CREATE TRIGGER breaker_transitions_are_only_appended BEFORE INSERT ON circuit_breaker_transitions
WHEN EXISTS (SELECT 1 FROM circuit_breaker_transitions WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'the transitions of breakers stay on record');
END;

CREATE TRIGGER breaker_transitions_are_never_changed BEFORE UPDATE ON circuit_breaker_transitions BEGIN
  SELECT RAISE(ABORT, 'the transitions of breakers stay on record');
END;

CREATE TABLE event_context (
  id          TEXT PRIMARY KEY CHECK (id <> ''),
  parent_id   TEXT,
  pipeline    TEXT,
  step        TEXT,
  context     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(context) AND json_type(context) = 'object'),
  root_job_id TEXT,
  created_at  TEXT NOT NULL CHECK (strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days') IS created_at)
) STRICT;

CREATE TRIGGER event_contexts_are_only_appended BEFORE INSERT ON event_context
WHEN EXISTS (SELECT 1 FROM event_context WHERE id = NEW.id)
BEGIN
  SELECT RAISE(ABORT, 'a context of this id is there, and is never changed');
END;

CREATE TRIGGER event_contexts_are_never_changed BEFORE UPDATE ON event_context BEGIN
  SELECT RAISE(ABORT, 'contexts are never changed');
END;

CREATE TABLE schedules (
  plugin          TEXT NOT NULL CHECK (plugin <> ''),
  schedule_id     TEXT NOT NULL CHECK (schedule_id <> ''),
  config_hash     TEXT NOT NULL,
  next_nominal_ms INTEGER CHECK (next_nominal_ms BETWEEN 0 AND 253402300799999),  -- NULL: exhausted
  due_ms          INTEGER CHECK (due_ms BETWEEN 0 AND 253402300799999),
  paused_at_ms    INTEGER CHECK (paused_at_ms BETWEEN 0 AND 253402300799999),
  begun_at_ms     INTEGER NOT NULL CHECK (begun_at_ms BETWEEN 0 AND 253402300799999),
  last_fired_ms   INTEGER CHECK (last_fired_ms BETWEEN 0 AND 253402300799999),
  last_job_id     TEXT,
  PRIMARY KEY (plugin, schedule_id),
  CHECK ((next_nominal_ms IS NULL) = (due_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_schedules_due ON schedules (due_ms) WHERE due_ms IS NOT NULL AND paused_at_ms IS NULL;

CREATE TABLE schedule_decisions (
  id            INTEGER PRIMARY KEY,
  plugin        TEXT NOT NULL CHECK (plugin <> ''),
  schedule_id   TEXT NOT NULL CHECK (schedule_id <> ''),
  config_hash   TEXT NOT NULL,
  nominal_ms    INTEGER NOT NULL CHECK (nominal_ms BETWEEN 0 AND 253402300799999),
  until_ms      INTEGER NOT NULL CHECK (until_ms BETWEEN nominal_ms AND 253402300799999),
  count         INTEGER NOT NULL DEFAULT 1 CHECK (count BETWEEN 1 AND 9007199254740991),
  decision      TEXT NOT NULL CHECK (decision IN ('fired', 'skipped', 'missed')),
  reason        TEXT,
  job_id        TEXT,
  decided_at_ms INTEGER NOT NULL CHECK (decided_at_ms BETWEEN 0 AND 253402300799999),
  UNIQUE (plugin, schedule_id, config_hash, nominal_ms)
) STRICT;
CREATE INDEX idx_schedule_decisions_of ON schedule_decisions (plugin, schedule_id);
CREATE INDEX idx_schedule_decisions_decided ON schedule_decisions (decided_at_ms);

CREATE TRIGGER schedule_decisions_are_only_appended BEFORE INSERT ON schedule_decisions
WHEN EXISTS (SELECT 1 FROM schedule_decisions
              WHERE id = NEW.id
                 OR (plugin, schedule_id, config_hash, nominal_ms)
                  = (NEW.plugin, NEW.schedule_id, NEW.config_hash, NEW.nominal_ms))
BEGIN
  SELECT RAISE(ABORT, 'this time of the schedule is decided');
END;

CREATE TRIGGER schedule_decisions_are_never_changed BEFORE UPDATE ON schedule_decisions BEGIN
  SELECT RAISE(ABORT, 'decisions of schedules stay on record');
END;

CREATE VIEW job_queue AS
  SELECT messages.id,
         substr(queues.name, 8) AS plugin,
         substr(messages.type, length(queues.name) + 2) AS command,
         messages.payload,
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

CREATE TRIGGER jobs_that_succeeded_are_over BEFORE UPDATE OF state ON jobs
WHEN OLD.state = 'succeeded' AND NEW.state <> 'succeeded'
BEGIN
  SELECT RAISE(ABORT, 'a job that succeeded is over');
END;

-- Parts of the archive may be discarded.
ALTER TABLE archive_segments ADD COLUMN discarded_at_ms INTEGER;

DROP TRIGGER archived_blobs_are_never_deleted;
CREATE TRIGGER archived_blobs_are_never_deleted BEFORE DELETE ON archived_blobs
WHEN NOT EXISTS (SELECT 1 FROM archive_segments WHERE discarded_at_ms IS NOT NULL)
BEGIN
  SELECT RAISE(ABORT, 'archived messages name their blobs until they are discarded');
END;

UPDATE meta SET value = '7' WHERE key = 'schema_version';
