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
-- The log: bounds, no numbers of its own, work apart from mail ---------------------------------
--
-- Rows stay as they are, and have the default of a column that comes at their end. SQLite documents
-- this way to change a table whose rows need no other form:
-- https://www.sqlite.org/lang_altertable.html#otheralter

PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = 'CREATE TABLE messages (
  seq            INTEGER PRIMARY KEY CHECK (seq BETWEEN 1 AND 9007199254740991),
  id             TEXT NOT NULL UNIQUE CHECK (id <> ''''),
  ts_ms          INTEGER NOT NULL,
  from_agent     TEXT NOT NULL CHECK (from_agent <> ''''),
  to_agent       TEXT CHECK (to_agent <> ''''),
  type           TEXT NOT NULL CHECK (type <> ''''),
  correlation_id TEXT CHECK (correlation_id <> ''''),
  in_reply_to    TEXT,
  payload        TEXT,
  payload_ref    TEXT,
  priority       INTEGER NOT NULL DEFAULT 1 CHECK (priority BETWEEN 0 AND 2),
  headers        TEXT CHECK (headers IS NULL
                             OR (json_valid(headers) AND json_type(headers) = ''object'')),
  work           INTEGER CHECK (work IN (0, 1)),
  CHECK (payload IS NULL OR payload_ref IS NULL)
) STRICT'
 WHERE type = 'table' AND name = 'messages';
UPDATE sqlite_schema SET sql = 'CREATE TABLE queues (
  id                  INTEGER PRIMARY KEY,
  name                TEXT NOT NULL UNIQUE CHECK (name <> ''''),
  pattern             TEXT NOT NULL CHECK (pattern <> ''''),
  filled_seq          INTEGER NOT NULL CHECK (filled_seq >= 0),
  ordering            TEXT NOT NULL DEFAULT ''fifo'' CHECK (ordering IN (''fifo'', ''priority'')),
  ageing_ms           INTEGER NOT NULL DEFAULT 60000 CHECK (ageing_ms > 0),
  retry               TEXT NOT NULL DEFAULT ''failures'' CHECK (retry IN (''failures'', ''asked'')),
  max_attempts        INTEGER NOT NULL DEFAULT 4 CHECK (max_attempts >= 1),
  backoff_ms          INTEGER NOT NULL DEFAULT 30000 CHECK (backoff_ms >= 0),
  on_lost             TEXT NOT NULL DEFAULT ''requeue'' CHECK (on_lost IN (''requeue'', ''fail'', ''dead'')),
  max_running         INTEGER CHECK (max_running >= 1),
  max_running_per_key INTEGER NOT NULL DEFAULT 1 CHECK (max_running_per_key >= 1),
  dedupe_window_ms    INTEGER NOT NULL DEFAULT 86400000 CHECK (dedupe_window_ms >= 0),
  rank_clock_ms       INTEGER NOT NULL DEFAULT 0,
  rank_offset_ms      INTEGER NOT NULL DEFAULT 0,
  paused_at_ms        INTEGER,
  created_at_ms       INTEGER NOT NULL,
  hides               TEXT NOT NULL DEFAULT ''exact'' CHECK (hides IN (''exact'', ''all'', ''none'')),
  addressed           TEXT CHECK (addressed <> '''')
) STRICT'
 WHERE type = 'table' AND name = 'queues';
UPDATE sqlite_schema SET sql = replace(sql, 'updated_at_ms  INTEGER NOT NULL',
  'updated_at_ms  INTEGER NOT NULL,
  wants          TEXT CHECK (wants IS NULL OR json_valid(wants) AND json_type(wants) = ''array'')')
 WHERE type = 'table' AND name = 'cursors';
PRAGMA writable_schema = RESET;

-- Answers that an agent received by waiting for them: no mail any more, though its cursor has yet to
-- pass them.
CREATE TABLE received (
  agent_id TEXT NOT NULL,
  seq      INTEGER NOT NULL,
  PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER received_answers_are_of_the_log BEFORE INSERT ON received
WHEN NEW.seq < 1 OR NEW.seq > ifnull((SELECT max(seq) FROM messages), 0)
BEGIN
  SELECT RAISE(ABORT, 'only a message of the log is received: seq is past the newest');
END;

DROP INDEX idx_messages_to_seq;
CREATE INDEX idx_messages_mail ON messages (to_agent) WHERE work IS NOT 1;
CREATE INDEX idx_messages_work_to ON messages (to_agent) WHERE work = 1 AND to_agent IS NOT NULL;

DROP TRIGGER messages_are_never_changed;
DROP TRIGGER messages_are_never_deleted;
DROP TRIGGER messages_are_only_appended;

-- Where the newest messages have left the table, one stands for them: the next seq follows it.
INSERT INTO messages (seq, id, ts_ms, from_agent, to_agent, type, payload)
SELECT seq + 1, lower(hex(randomblob(16))), CAST(unixepoch('subsec') * 1000 AS INTEGER),
       'ackbus', 'ackbus', 'log.continued', json_object('after', seq)
  FROM sqlite_sequence
 WHERE name = 'messages' AND seq > ifnull((SELECT max(seq) FROM messages), 0);
DELETE FROM sqlite_sequence WHERE name = 'messages';
DELETE FROM meta WHERE key = 'old_programs';  -- nobody has the file open

-- A queue that is there takes in what is addressed to anybody, as before, until somebody says
-- otherwise.
UPDATE queues SET addressed = '*';
CREATE INDEX idx_queues_of_type ON queues (pattern, hides, addressed);
CREATE INDEX idx_queues_hiding ON queues (hides) WHERE hides = 'all';

CREATE TRIGGER messages_are_never_changed BEFORE UPDATE ON messages
WHEN NOT (OLD.work IS NULL AND NEW.work IS 1 AND OLD.seq = (SELECT max(seq) FROM messages)
  AND (NEW.seq, NEW.id, NEW.ts_ms, NEW.from_agent, NEW.to_agent, NEW.type, NEW.correlation_id,
       NEW.in_reply_to, NEW.payload, NEW.payload_ref, NEW.priority, NEW.headers)
   IS (OLD.seq, OLD.id, OLD.ts_ms, OLD.from_agent, OLD.to_agent, OLD.type, OLD.correlation_id,
       OLD.in_reply_to, OLD.payload, OLD.payload_ref, OLD.priority, OLD.headers)
  AND (EXISTS (SELECT 1 FROM queues
           WHERE pattern = NEW.type AND hides <> 'none'
             AND (NEW.to_agent IS NULL OR NEW.to_agent = addressed))
  OR EXISTS (SELECT 1 FROM queues
              WHERE hides = 'all' AND (NEW.to_agent IS NULL OR NEW.to_agent = addressed)
                AND (NEW.type GLOB replace(replace(replace(pattern, '[', '[[]'), '?', '[?]'), '>', '*')
                  AND (pattern GLOB '*>' OR length(pattern) - length(replace(pattern, '.', ''))
                                          = length(NEW.type) - length(replace(NEW.type, '.', '')))))))
BEGIN
  SELECT RAISE(ABORT, 'messages are never changed');
END;

CREATE TRIGGER messages_are_never_deleted BEFORE DELETE ON messages
WHEN OLD.seq > (SELECT last_seq FROM archive_state) OR OLD.seq = (SELECT max(seq) FROM messages)
BEGIN
  SELECT RAISE(ABORT, 'messages are never deleted');
END;

CREATE TRIGGER messages_are_only_appended BEFORE INSERT ON messages
WHEN EXISTS (SELECT 1 FROM messages WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM archived_ids WHERE id = NEW.id)
  OR NEW.seq > 0
  OR NEW.ts_ms NOT BETWEEN 0 AND 253402300799999
  OR EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  SELECT RAISE(ABORT, 'messages are only appended: this id or seq is taken')
   WHERE EXISTS (SELECT 1 FROM messages WHERE id = NEW.id)
      OR EXISTS (SELECT 1 FROM archived_ids WHERE id = NEW.id)
      OR (NEW.seq > 0 AND NEW.seq <= (SELECT max(seq) FROM messages));
  SELECT RAISE(ABORT, 'seq is more than 1000000 above the newest: leave it out')
   WHERE NEW.seq > ifnull((SELECT max(seq) FROM messages), 0) + 1000000;
  SELECT RAISE(ABORT, 'ts_ms is not the milliseconds since 1970, of a year up to 9999')
   WHERE NEW.ts_ms NOT BETWEEN 0 AND 253402300799999;
  SELECT RAISE(ABORT, 'a queue for messages of this type is full')
    FROM waiting_limits
   WHERE kind = 'queue' AND waiting >= max_waiting AND NEW.type GLOB glob
     AND (dots IS NULL OR dots = length(NEW.type) - length(replace(NEW.type, '.', '')))
     AND (NEW.to_agent IS NULL OR (SELECT addressed FROM queues WHERE queues.name = waiting_limits.name)
                                  IN ('*', NEW.to_agent));
  SELECT RAISE(ABORT, 'the inbox of the recipient is full')
    FROM waiting_limits
   WHERE kind = 'inbox' AND name = NEW.to_agent AND NEW.in_reply_to IS NULL AND max_waiting <= (
         SELECT count(*) FROM messages
          WHERE to_agent = NEW.to_agent AND work IS NOT 1 AND seq > ifnull(
                (SELECT last_acked_seq FROM cursors WHERE agent_id = NEW.to_agent), 0)
            AND seq NOT IN (SELECT seq FROM received WHERE agent_id = NEW.to_agent));
END;

DROP TRIGGER messages_count_as_waiting;
CREATE TRIGGER messages_count_as_waiting AFTER INSERT ON messages
WHEN EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  UPDATE waiting_limits SET waiting = waiting + 1
   WHERE kind = 'queue' AND NEW.type GLOB glob
     AND (dots IS NULL OR dots = length(NEW.type) - length(replace(NEW.type, '.', '')))
     AND (NEW.to_agent IS NULL OR (SELECT addressed FROM queues WHERE queues.name = waiting_limits.name)
                                  IN ('*', NEW.to_agent));
END;

CREATE TRIGGER messages_may_be_work AFTER INSERT ON messages
WHEN NEW.work IS NULL AND (
  EXISTS (SELECT 1 FROM queues
           WHERE pattern = NEW.type AND hides <> 'none'
             AND (NEW.to_agent IS NULL OR NEW.to_agent = addressed))
  OR EXISTS (SELECT 1 FROM queues
              WHERE hides = 'all' AND (NEW.to_agent IS NULL OR NEW.to_agent = addressed)
                AND (NEW.type GLOB replace(replace(replace(pattern, '[', '[[]'), '?', '[?]'), '>', '*')
                  AND (pattern GLOB '*>' OR length(pattern) - length(replace(pattern, '.', ''))
                                          = length(NEW.type) - length(replace(NEW.type, '.', ''))))))
BEGIN
  UPDATE messages SET work = 1 WHERE seq = NEW.seq;
END;

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

-- queue_workers
-- Which groups of workers answer for a queue; whether they are there, their hearts tell.
CREATE TABLE queue_workers (
  queue_id     INTEGER NOT NULL REFERENCES queues (id),
  worker_group TEXT NOT NULL CHECK (worker_group <> ''),
  begun_at_ms  INTEGER NOT NULL,
  PRIMARY KEY (queue_id, worker_group)
) STRICT, WITHOUT ROWID;

-- state
-- Rows of an older file that break these bounds are put right after this (schema/sqlite/rules/state_rules.py).
CREATE TRIGGER cursors_begin_in_the_log AFTER INSERT ON cursors
WHEN NEW.last_acked_seq < 0 OR NEW.last_acked_seq > ifnull((SELECT max(seq) FROM messages), 0)
BEGIN
  SELECT RAISE(ABORT, 'a cursor is at 0 or at a message: last_acked_seq is past the newest');
END;

CREATE TRIGGER cursors_stay_in_the_log AFTER UPDATE OF last_acked_seq ON cursors
WHEN NEW.last_acked_seq <> OLD.last_acked_seq AND (
  NEW.last_acked_seq < 0 OR NEW.last_acked_seq > ifnull((SELECT max(seq) FROM messages), 0))
BEGIN
  SELECT RAISE(ABORT, 'a cursor is at 0 or at a message: last_acked_seq is past the newest');
END;

CREATE TRIGGER heartbeats_begin_at_times AFTER INSERT ON heartbeats
WHEN NEW.ts_ms NOT BETWEEN 0 AND 253402300799999
BEGIN
  SELECT RAISE(ABORT, 'times are milliseconds since 1970, of a year up to 9999');
END;

CREATE TRIGGER heartbeats_stay_at_times AFTER UPDATE OF ts_ms ON heartbeats
WHEN NEW.ts_ms NOT BETWEEN 0 AND 253402300799999
BEGIN
  SELECT RAISE(ABORT, 'times are milliseconds since 1970, of a year up to 9999');
END;

CREATE TRIGGER fencing_is_one_row BEFORE INSERT ON fencing BEGIN
  SELECT RAISE(ABORT, 'fencing has one row');
END;

CREATE TRIGGER fencing_is_kept BEFORE DELETE ON fencing BEGIN
  SELECT RAISE(ABORT, 'fencing has one row');
END;

CREATE TRIGGER fencing_only_grows BEFORE UPDATE ON fencing
WHEN NEW.last_token <> OLD.last_token + 1
BEGIN
  SELECT RAISE(ABORT, 'fencing tokens only grow, one by one');
END;

CREATE TRIGGER leases_keep_their_tokens BEFORE UPDATE OF token ON task_claims
WHEN NEW.token <> (SELECT last_token FROM fencing)
BEGIN
  SELECT RAISE(ABORT, 'the token of a lease is drawn from fencing, and never changed');
END;

CREATE TRIGGER leases_begin_at_times AFTER INSERT ON task_claims
WHEN NEW.claimed_at_ms NOT BETWEEN 0 AND 253402300799999 OR NEW.lease_until_ms NOT BETWEEN 0 AND 253402300799999
BEGIN
  SELECT RAISE(ABORT, 'times are milliseconds since 1970, of a year up to 9999');
END;

CREATE TRIGGER leases_stay_at_times AFTER UPDATE OF claimed_at_ms, lease_until_ms ON task_claims
WHEN NEW.claimed_at_ms NOT BETWEEN 0 AND 253402300799999 OR NEW.lease_until_ms NOT BETWEEN 0 AND 253402300799999
BEGIN
  SELECT RAISE(ABORT, 'times are milliseconds since 1970, of a year up to 9999');
END;

CREATE TRIGGER queues_stay_in_the_log AFTER UPDATE OF filled_seq ON queues
WHEN NEW.filled_seq > ifnull((SELECT max(seq) FROM messages), 0)
BEGIN
  SELECT RAISE(ABORT, 'filled_seq is past the newest message');
END;

CREATE TRIGGER queues_are_only_added BEFORE INSERT ON queues
WHEN EXISTS (SELECT 1 FROM queues WHERE id = NEW.id OR name = NEW.name)
BEGIN
  SELECT RAISE(ABORT, 'this queue is there, and takes other types: make another queue')
   WHERE NOT EXISTS (SELECT 1 FROM queues WHERE name = NEW.name AND pattern = NEW.pattern);
  SELECT RAISE(IGNORE);
END;

CREATE TRIGGER queues_keep_what_they_take BEFORE UPDATE OF id, pattern ON queues
WHEN NEW.id <> OLD.id OR NEW.pattern <> OLD.pattern
BEGIN
  SELECT RAISE(ABORT, 'the id and the pattern of a queue are never changed: make another queue');
END;

CREATE TRIGGER queues_are_never_deleted BEFORE DELETE ON queues BEGIN
  SELECT RAISE(ABORT, 'queues are never deleted, since what they take is in no inbox: pause it');
END;

CREATE TRIGGER cursors_begin_with_patterns AFTER INSERT ON cursors
WHEN NEW.wants IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(NEW.wants) WHERE type <> 'text')
BEGIN
  SELECT RAISE(ABORT, 'wants is a list of patterns of types, in JSON');
END;

CREATE TRIGGER cursors_stay_with_patterns AFTER UPDATE OF wants ON cursors
WHEN NEW.wants IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(NEW.wants) WHERE type <> 'text')
BEGIN
  SELECT RAISE(ABORT, 'wants is a list of patterns of types, in JSON');
END;

CREATE TRIGGER queues_begin_within_bounds AFTER INSERT ON queues
WHEN NEW.ageing_ms > 315360000000 OR NEW.backoff_ms > 315360000000 OR NEW.dedupe_window_ms > 315360000000
  OR NEW.max_attempts > 2147483647 OR NEW.max_running > 2147483647 OR NEW.max_running_per_key > 2147483647
  OR NEW.paused_at_ms NOT BETWEEN 0 AND 253402300799999 OR NEW.created_at_ms NOT BETWEEN 0 AND 253402300799999
  OR (NEW.hides = 'all' AND NEW.pattern GLOB '*[*]*[^*.]*.>')
BEGIN
  SELECT RAISE(ABORT, 'a queue that hides all has no word between a * and a last > in its pattern')
   WHERE NEW.hides = 'all' AND NEW.pattern GLOB '*[*]*[^*.]*.>';
  SELECT RAISE(ABORT, 'a rule of a queue is over ten years, or 2147483647, or a time is none');
END;

CREATE TRIGGER queues_stay_within_bounds AFTER UPDATE OF ageing_ms, max_attempts, backoff_ms, max_running,
  max_running_per_key, dedupe_window_ms, paused_at_ms, created_at_ms, hides ON queues
WHEN NEW.ageing_ms > 315360000000 OR NEW.backoff_ms > 315360000000 OR NEW.dedupe_window_ms > 315360000000
  OR NEW.max_attempts > 2147483647 OR NEW.max_running > 2147483647 OR NEW.max_running_per_key > 2147483647
  OR NEW.paused_at_ms NOT BETWEEN 0 AND 253402300799999 OR NEW.created_at_ms NOT BETWEEN 0 AND 253402300799999
  OR (NEW.hides = 'all' AND NEW.pattern GLOB '*[*]*[^*.]*.>')
BEGIN
  SELECT RAISE(ABORT, 'a queue that hides all has no word between a * and a last > in its pattern')
   WHERE NEW.hides = 'all' AND NEW.pattern GLOB '*[*]*[^*.]*.>';
  SELECT RAISE(ABORT, 'a rule of a queue is over ten years, or 2147483647, or a time is none');
END;

CREATE TRIGGER notice_state_is_one_row BEFORE INSERT ON notice_state BEGIN
  SELECT RAISE(ABORT, 'notice_state has one row');
END;

CREATE TRIGGER notice_state_is_kept BEFORE DELETE ON notice_state BEGIN
  SELECT RAISE(ABORT, 'notice_state has one row');
END;

CREATE TRIGGER notice_state_stays_in_the_log BEFORE UPDATE ON notice_state
WHEN NEW.last_seq < 0 OR NEW.last_seq > ifnull((SELECT max(seq) FROM messages), 0)
BEGIN
  SELECT RAISE(ABORT, 'last_seq is past the newest message');
END;

CREATE TRIGGER export_state_is_one_row BEFORE INSERT ON export_state BEGIN
  SELECT RAISE(ABORT, 'export_state has one row');
END;

CREATE TRIGGER export_state_is_kept BEFORE DELETE ON export_state BEGIN
  SELECT RAISE(ABORT, 'export_state has one row');
END;

CREATE TRIGGER export_state_stays_in_the_log BEFORE UPDATE ON export_state
WHEN NEW.last_seq < 0 OR NEW.last_seq > ifnull((SELECT max(seq) FROM messages), 0)
BEGIN
  SELECT RAISE(ABORT, 'last_seq is past the newest message');
END;

CREATE TRIGGER catalog_state_is_one_row BEFORE INSERT ON catalog_state BEGIN
  SELECT RAISE(ABORT, 'catalog_state has one row');
END;

CREATE TRIGGER catalog_state_is_kept BEFORE DELETE ON catalog_state BEGIN
  SELECT RAISE(ABORT, 'catalog_state has one row');
END;

CREATE TRIGGER catalog_state_stays_in_the_log BEFORE UPDATE ON catalog_state
WHEN NEW.last_seq < 0 OR NEW.last_seq > ifnull((SELECT max(seq) FROM messages), 0)
BEGIN
  SELECT RAISE(ABORT, 'last_seq is past the newest message');
END;

CREATE TRIGGER meta_keeps_its_version BEFORE INSERT ON meta
WHEN NEW.key = 'schema_version'
BEGIN
  SELECT RAISE(ABORT, 'the schema version is there, and only grows');
END;

CREATE TRIGGER meta_version_only_grows BEFORE UPDATE ON meta
WHEN OLD.key = 'schema_version' AND (
  NEW.key <> OLD.key OR NEW.value GLOB '*[^0-9]*'
  OR CAST(NEW.value AS INTEGER) < CAST(OLD.value AS INTEGER))
BEGIN
  SELECT RAISE(ABORT, 'the schema version is there, and only grows');
END;

CREATE TRIGGER meta_version_is_kept BEFORE DELETE ON meta
WHEN OLD.key = 'schema_version'
BEGIN
  SELECT RAISE(ABORT, 'the schema version is there, and only grows');
END;

CREATE TRIGGER meta_begins_as_it_should AFTER INSERT ON meta
WHEN CASE NEW.key
  WHEN 'imports' THEN NOT json_valid(NEW.value)
  WHEN 'export_rotate_bytes' THEN NEW.value GLOB '*[^0-9]*' OR length(NEW.value) NOT BETWEEN 1 AND 18
END
BEGIN
  SELECT RAISE(ABORT, 'this entry of meta has another form');
END;

CREATE TRIGGER meta_stays_as_it_should AFTER UPDATE ON meta
WHEN CASE NEW.key
  WHEN 'imports' THEN NOT json_valid(NEW.value)
  WHEN 'export_rotate_bytes' THEN NEW.value GLOB '*[^0-9]*' OR length(NEW.value) NOT BETWEEN 1 AND 18
END
BEGIN
  SELECT RAISE(ABORT, 'this entry of meta has another form');
END;

CREATE TRIGGER reservations_keep_their_tokens BEFORE UPDATE OF token ON reservations
WHEN NEW.token <> (SELECT last_token FROM fencing)
BEGIN
  SELECT RAISE(ABORT, 'the token of a reservation is drawn from fencing, and never changed');
END;

CREATE TRIGGER reservations_begin_at_times AFTER INSERT ON reservations
WHEN NEW.reserved_at_ms NOT BETWEEN 0 AND 253402300799999 OR NEW.until_ms NOT BETWEEN 0 AND 253402300799999
BEGIN
  SELECT RAISE(ABORT, 'times are milliseconds since 1970, of a year up to 9999');
END;

CREATE TRIGGER reservations_stay_at_times AFTER UPDATE OF reserved_at_ms, until_ms ON reservations
WHEN NEW.reserved_at_ms NOT BETWEEN 0 AND 253402300799999 OR NEW.until_ms NOT BETWEEN 0 AND 253402300799999
BEGIN
  SELECT RAISE(ABORT, 'times are milliseconds since 1970, of a year up to 9999');
END;

UPDATE meta SET value = '5' WHERE key = 'schema_version';
