-- The bus in one SQLite file. docs/protocol.md explains every table.
-- Any program may take part with plain SQL, so the rules that keep the log whole are in here,
-- not only in our own code.

-- The log. Appended, never changed. The newest message never leaves the table, so no seq is given
-- twice; 2^53 - 1 is the largest number that every reader of JSON knows.
CREATE TABLE messages (
  seq            INTEGER PRIMARY KEY CHECK (seq BETWEEN 1 AND 9007199254740991),
  id             TEXT NOT NULL UNIQUE CHECK (id <> ''),
  ts_ms          INTEGER NOT NULL,
  from_agent     TEXT NOT NULL CHECK (from_agent <> ''),
  to_agent       TEXT CHECK (to_agent <> ''),
  type           TEXT NOT NULL CHECK (type <> ''),
  correlation_id TEXT CHECK (correlation_id <> ''),
  in_reply_to    TEXT,
  payload        TEXT,
  payload_ref    TEXT,
  priority       INTEGER NOT NULL DEFAULT 1 CHECK (priority BETWEEN 0 AND 2),
  headers        TEXT CHECK (headers IS NULL
                             OR (json_valid(headers) AND json_type(headers) = 'object')),
  work           INTEGER CHECK (work IN (0, 1)),  -- 1: for a queue, in no inbox; 0 or NULL: mail
  CHECK (payload IS NULL OR payload_ref IS NULL)
) STRICT;

-- seq is the rowid, so it ends every index entry by itself: naming it again would only store
-- it twice. The partial indexes cost nothing to the messages that they leave out.
CREATE INDEX idx_messages_mail ON messages (to_agent) WHERE work IS NOT 1;
CREATE INDEX idx_messages_work_to ON messages (to_agent) WHERE work = 1 AND to_agent IS NOT NULL;
CREATE INDEX idx_messages_correlation_seq ON messages (correlation_id)
  WHERE correlation_id IS NOT NULL;
CREATE INDEX idx_messages_payload_ref ON messages (payload_ref)
  WHERE payload_ref IS NOT NULL;

-- But for what messages_may_be_work does.
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

-- The archive: the beginning of the log may leave this file for compressed files beside it.
CREATE TABLE archive_segments (
  first_seq      INTEGER PRIMARY KEY,
  last_seq       INTEGER NOT NULL CHECK (last_seq >= first_seq),
  messages       INTEGER NOT NULL,
  bytes          INTEGER NOT NULL,  -- of the file
  sha256         TEXT NOT NULL,     -- of the file
  archived_at_ms INTEGER NOT NULL,
  discarded_at_ms INTEGER           -- when its file was deleted for good
) STRICT;

-- Where in its segment each run of lines is that is compressed by itself.
CREATE TABLE archive_frames (
  first_seq INTEGER PRIMARY KEY,
  segment   INTEGER NOT NULL REFERENCES archive_segments (first_seq),
  start     INTEGER NOT NULL,
  bytes     INTEGER NOT NULL
) STRICT;

-- Up to which seq messages have left this file.
CREATE TABLE archive_state (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  last_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO archive_state (id) VALUES (1);

-- Their ids, which stay taken, and the blobs that they name.
CREATE TABLE archived_ids (
  id  TEXT PRIMARY KEY,
  seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE archived_blobs (
  payload_ref TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Agents whose mail was archived unread: somebody let go of them, as a rule since they were idle.
CREATE TABLE passed_over (
  agent_id       TEXT PRIMARY KEY,
  last_seq       INTEGER NOT NULL,  -- of what was archived unread
  archived_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER archive_has_segments BEFORE UPDATE ON archive_state
WHEN NEW.id <> 1 OR NEW.last_seq < OLD.last_seq
  OR NEW.last_seq > ifnull((SELECT max(last_seq) FROM archive_segments), 0)
BEGIN
  SELECT RAISE(ABORT, 'messages leave the log only for a segment of the archive');
END;

CREATE TRIGGER archive_state_is_one_row BEFORE INSERT ON archive_state BEGIN
  SELECT RAISE(ABORT, 'archive_state has one row');
END;

CREATE TRIGGER archive_state_is_kept BEFORE DELETE ON archive_state BEGIN
  SELECT RAISE(ABORT, 'archive_state has one row');
END;

CREATE TRIGGER archived_ids_are_never_changed BEFORE UPDATE ON archived_ids BEGIN
  SELECT RAISE(ABORT, 'the ids of archived messages stay taken');
END;

CREATE TRIGGER archived_ids_are_never_deleted BEFORE DELETE ON archived_ids BEGIN
  SELECT RAISE(ABORT, 'the ids of archived messages stay taken');
END;

CREATE TRIGGER archived_blobs_are_never_deleted BEFORE DELETE ON archived_blobs
WHEN NOT EXISTS (SELECT 1 FROM archive_segments WHERE discarded_at_ms IS NOT NULL)
BEGIN
  SELECT RAISE(ABORT, 'archived messages name their blobs until they are discarded');
END;

CREATE TRIGGER messages_are_never_deleted BEFORE DELETE ON messages
WHEN OLD.seq > (SELECT last_seq FROM archive_state) OR OLD.seq = (SELECT max(seq) FROM messages)
BEGIN
  SELECT RAISE(ABORT, 'messages are never deleted');
END;

-- How many messages may wait in a queue or an inbox: what would be one more is refused.
CREATE TABLE waiting_limits (
  kind        TEXT NOT NULL CHECK (kind IN ('queue', 'inbox')),
  name        TEXT NOT NULL,
  max_waiting INTEGER NOT NULL CHECK (max_waiting >= 1),
  waiting     INTEGER NOT NULL DEFAULT 0,  -- queues only: counted here, by triggers
  glob        TEXT,     -- queues only: the types that count,
  dots        INTEGER,  -- and how many dots they have; NULL for any number
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- INSERT OR REPLACE fires no delete trigger, and an explicit seq could land below what a reader
-- has already passed, or use the numbers up; this refuses all of it. (NEW.seq is -1 when SQLite is
-- to choose it.) So it does a time that is none, like microseconds. Where limits are set it also
-- refuses what is over one; but an inbox takes every answer, for whoever asked wants it, and no
-- worker must wait for one agent that does not read.
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

-- After, and not before: an INSERT OR IGNORE that breaks a rule stores nothing, and counts nothing.
CREATE TRIGGER messages_count_as_waiting AFTER INSERT ON messages
WHEN EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  UPDATE waiting_limits SET waiting = waiting + 1
   WHERE kind = 'queue' AND NEW.type GLOB glob
     AND (dots IS NULL OR dots = length(NEW.type) - length(replace(NEW.type, '.', '')))
     AND (NEW.to_agent IS NULL OR (SELECT addressed FROM queues WHERE queues.name = waiting_limits.name)
                                  IN ('*', NEW.to_agent));
END;

-- The messages that a queue takes in are work, and no mail: the broadcasts of its type, and those
-- addressed to its group of workers. ackbus says so in its INSERT; this is for other programs.
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

-- How far each reader has acknowledged its inbox; who joined and never acknowledged is at 0.
CREATE TABLE cursors (
  agent_id       TEXT PRIMARY KEY,
  last_acked_seq INTEGER NOT NULL DEFAULT 0,
  updated_at_ms  INTEGER NOT NULL,
  wants          TEXT CHECK (wants IS NULL OR json_valid(wants) AND json_type(wants) = 'array')
) STRICT;

-- An agent whose cursor is past the newest message would get no mail. (Each statement costs the
-- trigger of what it does alone: an upsert fires BEFORE INSERT too.)
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

-- Messages that an agent failed to handle: a row appears with the first failure.
CREATE TABLE deliveries (
  agent_id      TEXT NOT NULL,
  seq           INTEGER NOT NULL,
  state         TEXT NOT NULL CHECK (state IN ('failing', 'parked', 'requeued')),
  attempts      INTEGER NOT NULL DEFAULT 0,
  error         TEXT,
  updated_at_ms INTEGER NOT NULL,
  PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;

-- Each acknowledgement looks into these two, and must not walk over what is parked.
CREATE INDEX idx_deliveries_failing ON deliveries (agent_id, seq) WHERE state = 'failing';
CREATE INDEX idx_deliveries_requeued ON deliveries (agent_id, seq) WHERE state = 'requeued';

-- One row while an agent's delivery loop runs: what is left of one that died.
CREATE TABLE loops (
  agent_id      TEXT PRIMARY KEY,
  pid           INTEGER NOT NULL,
  started_at_ms INTEGER NOT NULL
) STRICT;

-- Which messages an agent has finished, for handlers that must act once.
CREATE TABLE finished (
  agent_id       TEXT NOT NULL,
  message_id     TEXT NOT NULL,
  finished_at_ms INTEGER NOT NULL,
  PRIMARY KEY (agent_id, message_id)
) STRICT, WITHOUT ROWID;

-- One row for each agent that has ever beaten.
CREATE TABLE heartbeats (
  agent_id     TEXT PRIMARY KEY,
  ts_ms        INTEGER NOT NULL,
  status       TEXT NOT NULL,
  current_task TEXT,
  progress     REAL,
  pid          INTEGER
) STRICT;

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

-- Leases. Every grant draws a new fencing token, also for a plain INSERT.
CREATE TABLE task_claims (
  task_id        TEXT PRIMARY KEY,
  claimed_by     TEXT NOT NULL,
  claimed_at_ms  INTEGER NOT NULL,
  lease_until_ms INTEGER NOT NULL,
  token          INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE fencing (
  id         INTEGER PRIMARY KEY CHECK (id = 1),
  last_token INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO fencing (id) VALUES (1);

CREATE TRIGGER grants_draw_a_token AFTER INSERT ON task_claims BEGIN
  UPDATE fencing SET last_token = last_token + 1;
  UPDATE task_claims SET token = (SELECT last_token FROM fencing) WHERE task_id = NEW.task_id;
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

-- Queues: named subscriptions to a type pattern, whose messages are work for one worker each.
CREATE TABLE queues (
  id                  INTEGER PRIMARY KEY,
  name                TEXT NOT NULL UNIQUE CHECK (name <> ''),
  pattern             TEXT NOT NULL CHECK (pattern <> ''),
  filled_seq          INTEGER NOT NULL CHECK (filled_seq >= 0),
  ordering            TEXT NOT NULL DEFAULT 'fifo' CHECK (ordering IN ('fifo', 'priority')),
  ageing_ms           INTEGER NOT NULL DEFAULT 60000 CHECK (ageing_ms > 0),
  retry               TEXT NOT NULL DEFAULT 'contract'
                        CHECK (retry IN ('contract', 'failures', 'asked')),
  max_attempts        INTEGER NOT NULL DEFAULT 4 CHECK (max_attempts >= 1),
  backoff_ms          INTEGER NOT NULL DEFAULT 30000 CHECK (backoff_ms >= 0),
  on_lost             TEXT NOT NULL DEFAULT 'requeue' CHECK (on_lost IN ('requeue', 'fail', 'dead')),
  max_running         INTEGER CHECK (max_running >= 1),
  max_running_per_key INTEGER NOT NULL DEFAULT 1 CHECK (max_running_per_key >= 1),
  dedupe_window_ms    INTEGER NOT NULL DEFAULT 86400000 CHECK (dedupe_window_ms >= 0),
  rank_clock_ms       INTEGER NOT NULL DEFAULT 0,
  rank_offset_ms      INTEGER NOT NULL DEFAULT 0,
  paused_at_ms        INTEGER,
  created_at_ms       INTEGER NOT NULL,
  hides               TEXT NOT NULL DEFAULT 'exact' CHECK (hides IN ('exact', 'all', 'none')),
  addressed           TEXT CHECK (addressed <> ''),
  removed_at_ms       INTEGER  -- it takes in nothing any more, and its name is free again
) STRICT;

-- Each message is looked up in the first; the second is empty, but for patterns that hide.
CREATE INDEX idx_queues_of_type ON queues (pattern, hides, addressed);
CREATE INDEX idx_queues_hiding ON queues (hides) WHERE hides = 'all';

-- A message that a queue takes is in no inbox. If the queue is gone, takes other types, or is filled
-- past the newest message, no one gets it. Creating a queue again changes nothing.
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

-- CHECKs of the table limit its words. These triggers bound its numbers
-- (schema/sqlite/rules/column_rules.py), and refuse to hide from inboxes a pattern that GLOB reads
-- more widely than the queue does: the queue would never take the rest.
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

-- Jobs: what became of each message in each queue that saw it.
CREATE TABLE jobs (
  queue_id        INTEGER NOT NULL REFERENCES queues (id),
  seq             INTEGER NOT NULL,
  state           TEXT NOT NULL DEFAULT 'queued' CHECK (state IN
                    ('queued', 'running', 'succeeded', 'failed', 'timed_out', 'dead', 'cancelled')),
  gate            TEXT NOT NULL DEFAULT 'open' CHECK (gate IN ('open', 'time', 'key')),
  attempt         INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
  max_attempts    INTEGER NOT NULL CHECK (max_attempts >= 1),
  available_at_ms INTEGER NOT NULL,
  priority        INTEGER NOT NULL DEFAULT 1 CHECK (priority BETWEEN 0 AND 2),
  turn_ms         INTEGER NOT NULL DEFAULT 0,
  rank_ms         INTEGER NOT NULL DEFAULT 0,
  dedupe_key      TEXT CHECK (dedupe_key <> ''),
  created_at_ms   INTEGER NOT NULL,
  started_at_ms   INTEGER,
  ended_at_ms     INTEGER,
  error           TEXT,
  for_worker      TEXT CHECK (for_worker <> ''),  -- the worker group that alone may claim it
  PRIMARY KEY (queue_id, seq),
  CHECK ((ended_at_ms IS NULL) = (state IN ('queued', 'running')))
) STRICT, WITHOUT ROWID;

-- A claim walks the first, from its beginning. The others hold only jobs of their kind, and cost
-- the rest nothing. (With IN instead of OR, SQLite builds a table of the three words for every
-- change of a job, which takes longer than the change.)
CREATE INDEX idx_jobs_ready ON jobs (queue_id, rank_ms, seq, for_worker)
  WHERE state = 'queued' AND gate = 'open';
CREATE INDEX idx_jobs_for_worker ON jobs (queue_id, for_worker, rank_ms, seq)
  WHERE state = 'queued' AND gate = 'open' AND for_worker IS NOT NULL;
CREATE INDEX idx_jobs_delayed ON jobs (queue_id, available_at_ms)
  WHERE state = 'queued' AND gate = 'time';
CREATE INDEX idx_jobs_live_key ON jobs (queue_id, dedupe_key, gate, rank_ms, seq)
  WHERE dedupe_key IS NOT NULL AND ended_at_ms IS NULL;
CREATE INDEX idx_jobs_key_done ON jobs (queue_id, dedupe_key, ended_at_ms)
  WHERE dedupe_key IS NOT NULL AND state = 'succeeded';
CREATE INDEX idx_jobs_ended_badly ON jobs (queue_id, state, seq)
  WHERE (state = 'failed' OR state = 'timed_out' OR state = 'dead');

CREATE TRIGGER jobs_are_of_messages BEFORE INSERT ON jobs
WHEN NEW.seq > (SELECT last_seq FROM archive_state)
 AND NOT EXISTS (SELECT 1 FROM messages WHERE seq = NEW.seq)
BEGIN
  SELECT RAISE(ABORT, 'a job needs a message');
END;

CREATE TRIGGER jobs_that_succeeded_are_over BEFORE UPDATE OF state ON jobs
WHEN OLD.state = 'succeeded' AND NEW.state <> 'succeeded'
BEGIN
  SELECT RAISE(ABORT, 'a job that succeeded is over');
END;

-- A message counts for a queue's limit from its publishing until its job begins, is cancelled,
-- or is found to be a duplicate; a job that is queued again counts again.
CREATE TRIGGER jobs_that_never_wait AFTER INSERT ON jobs
WHEN NEW.state <> 'queued' AND EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  UPDATE waiting_limits SET waiting = waiting - 1
   WHERE kind = 'queue' AND name = (SELECT name FROM queues WHERE id = NEW.queue_id);
END;

CREATE TRIGGER jobs_wait_or_not AFTER UPDATE OF state ON jobs
WHEN (OLD.state = 'queued') <> (NEW.state = 'queued') AND EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  UPDATE waiting_limits SET waiting = waiting + iif(NEW.state = 'queued', 1, -1)
   WHERE kind = 'queue' AND name = (SELECT name FROM queues WHERE id = NEW.queue_id);
END;

-- Acts by hand on a job, or on a queue as a whole (no seq): by whom, and when.
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

-- Claims: each attempt at a job, for good. The token is the claim's identity and its fence.
CREATE TABLE claims (
  token           INTEGER PRIMARY KEY AUTOINCREMENT,
  queue_id        INTEGER NOT NULL,
  seq             INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  worker_group    TEXT NOT NULL,
  worker_instance TEXT NOT NULL,
  available_at_ms INTEGER NOT NULL,
  claimed_at_ms   INTEGER NOT NULL,
  lease_until_ms  INTEGER NOT NULL,
  status          TEXT NOT NULL DEFAULT 'active'
                    CHECK (status IN ('active', 'completed', 'failed', 'timed_out', 'lost')),
  ended_at_ms     INTEGER,
  exit_code       INTEGER,
  error           TEXT,
  stderr          TEXT,
  result          TEXT,
  logs            TEXT,
  CHECK ((ended_at_ms IS NULL) = (status = 'active')),
  FOREIGN KEY (queue_id, seq) REFERENCES jobs (queue_id, seq)
) STRICT;

CREATE INDEX idx_claims_of_job ON claims (queue_id, seq);
CREATE UNIQUE INDEX idx_claims_one_active ON claims (queue_id, seq) WHERE status = 'active';
CREATE INDEX idx_claims_lease ON claims (queue_id, lease_until_ms) WHERE status = 'active';

-- INSERT OR REPLACE would take an active claim away, and fires no delete trigger.
CREATE TRIGGER claims_are_only_appended BEFORE INSERT ON claims
WHEN EXISTS (SELECT 1 FROM claims WHERE token = NEW.token)
  OR (NEW.status = 'active' AND EXISTS (
      SELECT 1 FROM claims
       WHERE queue_id = NEW.queue_id AND seq = NEW.seq AND status = 'active'))
BEGIN
  SELECT RAISE(ABORT, 'a claim on this job is active, or the token is taken');
END;

CREATE TRIGGER claims_keep_what_they_are_on BEFORE UPDATE OF token, queue_id, seq ON claims BEGIN
  SELECT RAISE(ABORT, 'the token and the job of a claim are never changed');
END;

CREATE TRIGGER claims_are_never_deleted BEFORE DELETE ON claims BEGIN
  SELECT RAISE(ABORT, 'claims are never deleted');
END;

-- Which groups of workers answer for a queue; whether they are there, their hearts tell.
CREATE TABLE queue_workers (
  queue_id     INTEGER NOT NULL REFERENCES queues (id),
  worker_group TEXT NOT NULL CHECK (worker_group <> ''),
  begun_at_ms  INTEGER NOT NULL,
  PRIMARY KEY (queue_id, worker_group)
) STRICT, WITHOUT ROWID;

-- The state that the commands of a worker group keep from one run to the next.
CREATE TABLE worker_states (
  worker_group  TEXT PRIMARY KEY,
  state         TEXT NOT NULL CHECK (json_valid(state) AND json_type(state) = 'object'),
  updated_at_ms INTEGER NOT NULL
) STRICT;

-- Which answers a person has been told of, and how far `bus notify` has looked.
CREATE TABLE notices (
  conversation   TEXT PRIMARY KEY,
  seq            INTEGER NOT NULL,
  notified_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notice_state (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  last_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO notice_state (id) VALUES (1);

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

-- The part of the log that bus.jsonl already holds.
CREATE TABLE export_state (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  last_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO export_state (id) VALUES (1);

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

-- The catalog: which types and senders stand in which block of the log, and each block's times.
-- Publishers never touch it; it is brought up to date from its own position when it is asked.
CREATE TABLE catalog (
  kind     TEXT NOT NULL CHECK (kind IN ('type', 'from')),
  name     TEXT NOT NULL,
  block    INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  PRIMARY KEY (kind, name, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE catalog_blocks (
  block     INTEGER PRIMARY KEY,
  max_ts_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE catalog_state (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  last_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO catalog_state (id) VALUES (1);

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

-- Every agent that the bus has seen act: it acknowledged, beat its heart, or sent.
CREATE VIEW known_agents AS
  SELECT agent_id FROM cursors
  UNION ALL SELECT agent_id FROM heartbeats
  UNION ALL SELECT name FROM catalog WHERE kind = 'from';

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
INSERT INTO meta (key, value) VALUES ('schema_version', '12');

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

-- File reservations: who edits which files until when. A path or glob from the root of the project;
-- it holds for all below it too. Every grant draws a new fencing token, also for a plain INSERT.
CREATE TABLE reservations (
  path           TEXT NOT NULL CHECK (path <> ''),
  agent_id       TEXT NOT NULL CHECK (agent_id <> ''),
  mode           TEXT NOT NULL DEFAULT 'exclusive' CHECK (mode IN ('exclusive', 'shared')),
  reason         TEXT,
  reserved_at_ms INTEGER NOT NULL,
  until_ms       INTEGER NOT NULL,
  token          INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (path, agent_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER reservations_draw_a_token AFTER INSERT ON reservations BEGIN
  UPDATE fencing SET last_token = last_token + 1;
  UPDATE reservations SET token = (SELECT last_token FROM fencing)
   WHERE path = NEW.path AND agent_id = NEW.agent_id;
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

-- The hash chain, where it is switched on: for each message the digest of its line of bus.jsonl and
-- of the digest before it. Those of archived messages stay.
CREATE TABLE chain (
  seq    INTEGER PRIMARY KEY,
  digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

CREATE TRIGGER chain_is_only_appended BEFORE INSERT ON chain
WHEN NEW.seq <= (SELECT max(seq) FROM chain)
BEGIN
  SELECT RAISE(ABORT, 'the chain is only appended to');
END;

CREATE TRIGGER chain_is_never_changed BEFORE UPDATE ON chain BEGIN
  SELECT RAISE(ABORT, 'the chain is never changed');
END;

CREATE TRIGGER chain_is_never_deleted BEFORE DELETE ON chain BEGIN
  SELECT RAISE(ABORT, 'the chain is never changed');
END;

-- Tokens for the server: of each the SHA-256 of its secret, never the secret.
CREATE TABLE access_tokens (
  token_id      TEXT PRIMARY KEY,
  name          TEXT NOT NULL CHECK (name <> ''),
  scopes        TEXT NOT NULL CHECK (json_valid(scopes) AND json_type(scopes) = 'array'),
  agent_id      TEXT CHECK (agent_id <> ''),
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER,
  digest        BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

-- Automation (bus automation start). Times that stand as text are RFC 3339 with milliseconds and Z.
-- What the state of a plugin holds may be secret: it is in these tables alone, and in no message.

-- The one service of a bus, and its fence: what it writes carries the token that it drew as it began.
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

-- How the command init of each plugin ended, for the plugin and its configuration as they were.
CREATE TABLE plugin_inits (
  plugin      TEXT PRIMARY KEY CHECK (plugin <> ''),
  fingerprint TEXT NOT NULL,
  state       TEXT NOT NULL CHECK (state IN ('ok', 'failed')),
  error       TEXT,
  at_ms       INTEGER NOT NULL CHECK (at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

-- Facts: each snapshot that a plugin reported, for good. The newest of a plugin is its state.
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

-- The state that each plugin is given: its newest fact, or the keys that it has set.
CREATE TABLE plugin_state (
  plugin_name TEXT PRIMARY KEY CHECK (plugin_name <> ''),
  state       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(state) AND json_type(state) = 'object'),
  updated_at  TEXT CHECK (updated_at IS NULL OR strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '+0 days') IS updated_at)
) STRICT, WITHOUT ROWID;

-- The ended attempts of jobs, with all that the plugins printed. The id is that of the job, a dash,
-- and the token of the claim.
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

-- The output of running jobs so far; it moves to job_log as the attempt ends.
CREATE TABLE job_output (
  token  INTEGER NOT NULL,
  chunk  INTEGER NOT NULL,
  stream TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
  text   TEXT NOT NULL,
  PRIMARY KEY (token, chunk)
) STRICT;

-- Circuit breakers of scheduled commands: the present state of each, and how it came about.
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

-- The contexts of pipeline runs: what the steps so far have claimed, which no later step changes.
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

-- Schedules: when each is due next, and what the decision about it goes by.
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
  waiting_ms      INTEGER CHECK (waiting_ms BETWEEN 0 AND 253402300799999),  -- a time that waits for its turn
  kept_back       INTEGER NOT NULL DEFAULT 0  -- times in a row that did not fire
    CHECK (kept_back BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (plugin, schedule_id),
  CHECK ((next_nominal_ms IS NULL) = (due_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_schedules_due ON schedules (due_ms) WHERE due_ms IS NOT NULL AND paused_at_ms IS NULL;

-- Each nominal time of a schedule is decided once; a run of missed ones is one row, up to until_ms.
-- One that did not fire while the clock was ahead is reopened when that is set back: the decision,
-- its reopening and the next decision have the turns 0, 1 and 2.
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

-- The jobs of plugins, for people and for programs that know the queue of Ductile. Of a large payload
-- it has the name of the blob.
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

-- Tasks: work of one agent on one branch. The newest attempt of each, as the messages of its
-- conversation add up.
CREATE TABLE tasks (
  task           TEXT PRIMARY KEY CHECK (task <> ''),
  attempt        INTEGER NOT NULL CHECK (attempt >= 1),
  state          TEXT NOT NULL CHECK (state IN ('ASSIGNED', 'WORKING', 'IN_REVIEW', 'APPROVED',
                                                'COMPLETED', 'CANCELLED', 'FAILED')),
  worker         TEXT NOT NULL CHECK (worker <> ''),
  branch         TEXT NOT NULL CHECK (branch <> ''),
  path           TEXT NOT NULL,  -- of the work tree
  repository     TEXT NOT NULL,  -- the git directory that its work trees share
  base_ref       TEXT NOT NULL,
  base           TEXT NOT NULL,  -- the commit from which the branch started
  target         TEXT NOT NULL,  -- the branch that it is for
  head           TEXT,           -- the commit that is done
  token          INTEGER NOT NULL CHECK (token >= 1),  -- of the lease of this attempt
  review         TEXT NOT NULL CHECK (review IN ('none', 'required', 'other')),
  reviewer       TEXT,
  requester      TEXT NOT NULL,
  priority       INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
  max_attempts   INTEGER NOT NULL CHECK (max_attempts >= 1),
  on_lost        TEXT NOT NULL CHECK (on_lost IN ('requeue', 'fail')),
  depends_on     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(depends_on)),
  from_queue     INTEGER NOT NULL DEFAULT 0 CHECK (from_queue IN (0, 1)),  -- of jobs
  prompt         TEXT CHECK (json_valid(prompt)),
  reason         TEXT,           -- of the state, or of the end of the attempt before
  blocked        TEXT CHECK (json_valid(blocked)),
  commit_id      TEXT,           -- that has landed
  correlation_id TEXT NOT NULL,
  last_seq       INTEGER NOT NULL,  -- of its newest state_change
  created_at_ms  INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  changed_at_ms  INTEGER NOT NULL CHECK (changed_at_ms BETWEEN 0 AND 253402300799999),
  cleaned_at_ms  INTEGER CHECK (cleaned_at_ms BETWEEN 0 AND 253402300799999),
  unproven       INTEGER NOT NULL DEFAULT 0 CHECK (unproven IN (0, 1))  -- made again of messages
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_tasks_created ON tasks (created_at_ms);
CREATE INDEX idx_tasks_commit ON tasks (commit_id) WHERE commit_id IS NOT NULL;
CREATE INDEX idx_tasks_live ON tasks (created_at_ms)
  WHERE state IN ('ASSIGNED', 'WORKING', 'IN_REVIEW', 'APPROVED');

CREATE TRIGGER tasks_begin_assigned BEFORE INSERT ON tasks
WHEN NEW.attempt <> 1 OR NEW.state <> 'ASSIGNED' OR EXISTS (SELECT 1 FROM tasks WHERE task = NEW.task)
BEGIN
  SELECT RAISE(ABORT, 'a task begins once, with attempt 1, ASSIGNED');
END;

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

-- The commits that were to become the heads of target branches, and those that did.
CREATE TABLE landings (
  seq           INTEGER PRIMARY KEY CHECK (seq > 0),  -- of the message that tells of the intent
  repository    TEXT NOT NULL,
  target        TEXT NOT NULL,
  task          TEXT,            -- NULL: of a branch without a task
  attempt       INTEGER,
  branch        TEXT NOT NULL,
  head          TEXT NOT NULL,
  onto          TEXT NOT NULL,
  candidate     TEXT NOT NULL,
  tree          TEXT NOT NULL,
  patch_id      TEXT NOT NULL,
  checks        TEXT NOT NULL CHECK (json_valid(checks)),
  state         TEXT NOT NULL CHECK (state IN ('intended', 'proposed', 'landed', 'abandoned')),
  completion_seq INTEGER NOT NULL CHECK (completion_seq > 0),
  intended_at_ms INTEGER NOT NULL CHECK (intended_at_ms BETWEEN 0 AND 253402300799999),
  ended_at_ms   INTEGER CHECK (ended_at_ms BETWEEN 0 AND 253402300799999)
) STRICT;
CREATE INDEX idx_landings_head ON landings (repository, target, head);
CREATE INDEX idx_landings_candidate ON landings (repository, target, candidate);
CREATE INDEX idx_landings_open ON landings (repository, target)
  WHERE state IN ('intended', 'proposed');
CREATE INDEX idx_landings_task ON landings (task) WHERE task IS NOT NULL;

-- The pairs of commits that were merged for a forecast; kept for a day, to save merging them again.
CREATE TABLE merge_forecasts (
  a     TEXT NOT NULL CHECK (a < b),
  b     TEXT NOT NULL,
  files TEXT CHECK (json_valid(files)),  -- that conflict; NULL: the commits merge
  at_ms INTEGER NOT NULL CHECK (at_ms BETWEEN 0 AND 253402300799999),
  PRIMARY KEY (a, b)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_merge_forecasts_at ON merge_forecasts (at_ms);

-- Jobs that wait until the tasks on which they depend have landed.
CREATE TABLE planned_jobs (
  task           TEXT PRIMARY KEY CHECK (task <> ''),
  payload        TEXT NOT NULL CHECK (json_valid(payload)),
  depends_on     TEXT NOT NULL CHECK (json_valid(depends_on)),
  priority       INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
  planned_by     TEXT NOT NULL,
  correlation_id TEXT,
  message_id     TEXT NOT NULL,  -- of the message that told of it
  for_worker     TEXT,  -- the worker that alone may claim it; NULL: any
  planned_at_ms  INTEGER NOT NULL CHECK (planned_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

-- The output of the jobs of tasks, a line each, while they run; pruned by age.
CREATE TABLE task_output (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  seq    INTEGER NOT NULL,  -- the message of the job
  at_ms  INTEGER NOT NULL CHECK (at_ms BETWEEN 0 AND 253402300799999),
  stream TEXT CHECK (stream IN ('stdout', 'stderr')),
  number INTEGER CHECK (number >= 1),  -- in its stream
  text   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_task_output_of_job ON task_output (seq, id);
CREATE INDEX idx_task_output_at ON task_output (at_ms);

-- The times at which the jobs of tasks printed first and last.
CREATE TABLE task_progress (
  seq             INTEGER PRIMARY KEY,
  first_log_at_ms INTEGER NOT NULL CHECK (first_log_at_ms BETWEEN 0 AND 253402300799999),
  active_at_ms    INTEGER NOT NULL CHECK (active_at_ms BETWEEN 0 AND 253402300799999)
) STRICT;

-- The words of workers about themselves, beside their heartbeats.
CREATE TABLE task_workers (
  worker        TEXT PRIMARY KEY CHECK (worker <> ''),
  poll_ms       INTEGER CHECK (poll_ms >= 0),
  capabilities  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(capabilities) AND json_type(capabilities) = 'object'),
  details       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(details) AND json_type(details) = 'object'),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  updated_at_ms INTEGER NOT NULL CHECK (updated_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

-- The right of one planner to dispatch work: one row while it is held.
CREATE TABLE dispatch_lock (
  lock_id        TEXT PRIMARY KEY DEFAULT 'dispatch' CHECK (lock_id = 'dispatch'),
  session_id     TEXT NOT NULL CHECK (session_id <> ''),
  run_id         TEXT NOT NULL CHECK (run_id <> ''),
  acquired_at_ms INTEGER NOT NULL CHECK (acquired_at_ms BETWEEN 0 AND 253402300799999),
  expires_at_ms  INTEGER NOT NULL CHECK (expires_at_ms BETWEEN 0 AND 253402300799999),
  updated_at_ms  INTEGER NOT NULL CHECK (updated_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

-- The states of planners, and the facts before their decisions.
CREATE TABLE autonomy_state (
  session_id    TEXT PRIMARY KEY CHECK (session_id <> ''),
  state         TEXT NOT NULL CHECK (json_valid(state) AND json_type(state) = 'object'),
  updated_at_ms INTEGER NOT NULL CHECK (updated_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

CREATE TABLE autonomy_snapshots (
  snapshot_id        TEXT PRIMARY KEY CHECK (snapshot_id <> ''),
  session_id         TEXT NOT NULL CHECK (session_id <> ''),
  run_id             TEXT NOT NULL,
  created_at_ms      INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  ttl_ms             INTEGER NOT NULL CHECK (ttl_ms >= 0),
  dispatch_lock_held INTEGER NOT NULL CHECK (dispatch_lock_held IN (0, 1)),
  payload            TEXT NOT NULL CHECK (json_valid(payload) AND json_type(payload) = 'object')
) STRICT;
CREATE INDEX idx_autonomy_snapshots_created ON autonomy_snapshots (created_at_ms);

-- Sessions of people's clients. `online` has the services that have reported in one so far, and
-- `ready_seq` the message that told that all had.
CREATE TABLE task_sessions (
  session_id    TEXT PRIMARY KEY CHECK (length(session_id) BETWEEN 1 AND 64
                                        AND session_id NOT GLOB '*[^a-zA-Z0-9._-]*'),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  label         TEXT,
  online        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(online) AND json_type(online) = 'array'),
  ready_seq     INTEGER
) STRICT, WITHOUT ROWID;

-- Their events: which messages they are.
CREATE TABLE session_events (
  session_id TEXT NOT NULL REFERENCES task_sessions (session_id),
  seq        INTEGER NOT NULL,  -- of the message
  PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

-- The approvals of people that are asked for in them: for good.
CREATE TABLE session_approvals (
  approval_id TEXT PRIMARY KEY CHECK (approval_id <> ''),
  session_id  TEXT NOT NULL REFERENCES task_sessions (session_id),
  asked_seq   INTEGER NOT NULL,  -- the event that asks
  decision    TEXT CHECK (decision IN ('approved', 'denied'))
) STRICT, WITHOUT ROWID;

-- The queues of tasks, for programs that know the tables of PushPals. A payload that is a blob is
-- not in this file: what would come from it is NULL, or the default.
CREATE VIEW pushpals_requests AS
  SELECT messages.id,
         messages.payload ->> '$.sessionId' AS sessionId,
         iif(json_type(messages.payload) = 'text', messages.payload ->> '$', messages.payload ->> '$.prompt')
           AS prompt,
         CASE jobs.priority WHEN 0 THEN 'interactive' WHEN 1 THEN 'normal' ELSE 'background' END
           AS priority,
         ifnull(messages.payload ->> '$.queueWaitBudgetMs',
                CASE jobs.priority WHEN 0 THEN 20000 WHEN 1 THEN 90000 ELSE 240000 END)
           AS queueWaitBudgetMs,
         CASE jobs.state WHEN 'queued' THEN 'pending' WHEN 'running' THEN 'claimed'
           WHEN 'succeeded' THEN 'completed' ELSE 'failed' END AS status,
         iif(jobs.state = 'queued', NULL, claims.worker_group) AS agentId,
         iif(jobs.state = 'succeeded', claims.result, NULL) AS result,
         CASE WHEN jobs.state IN ('queued', 'running', 'succeeded') THEN NULL
           WHEN claims.status IN ('failed', 'timed_out') AND json_valid(claims.result)
            AND json_type(claims.result, '$.message') = 'text' THEN claims.result
           WHEN instr(jobs.error, ': ') > 0 AND claims.status = 'lost' THEN json_object(
             'detail', substr(jobs.error, instr(jobs.error, ': ') + 2),
             'message', substr(jobs.error, 1, instr(jobs.error, ': ') - 1))
           ELSE json_object('message', ifnull(jobs.error, 'Unknown error')) END AS error,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS enqueuedAt,
         iif(jobs.state = 'queued', NULL,
             strftime('%Y-%m-%dT%H:%M:%fZ', claims.claimed_at_ms / 1000.0, 'unixepoch')) AS claimedAt,
         iif(jobs.state = 'succeeded',
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS completedAt,
         iif(jobs.state NOT IN ('queued', 'running', 'succeeded'),
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS failedAt,
         jobs.ended_at_ms - jobs.started_at_ms AS durationMs,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS createdAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', max(jobs.created_at_ms, ifnull(jobs.started_at_ms, 0),
                  ifnull(claims.ended_at_ms, 0), ifnull(jobs.ended_at_ms, 0)) / 1000.0, 'unixepoch') AS updatedAt
    FROM queues JOIN jobs ON jobs.queue_id = queues.id
    JOIN (SELECT seq, id, iif(json_valid(payload), payload, NULL) AS payload FROM messages) AS messages
      ON messages.seq = jobs.seq
    LEFT JOIN claims ON claims.token = (
         SELECT max(token) FROM claims WHERE queue_id = jobs.queue_id AND seq = jobs.seq)
   WHERE queues.name = 'requests' AND queues.removed_at_ms IS NULL;

CREATE VIEW pushpals_jobs AS
  SELECT messages.id,
         ifnull(messages.payload ->> '$.taskId', messages.payload ->> '$.task') AS taskId,
         messages.payload ->> '$.sessionId' AS sessionId,
         ifnull(messages.payload ->> '$.kind', 'task.execute') AS kind,
         ifnull(messages.payload -> '$.params', iif(json_type(messages.payload) = 'object', messages.payload, '{}'))
           AS params,
         CASE jobs.priority WHEN 0 THEN 'interactive' WHEN 1 THEN 'normal' ELSE 'background' END
           AS priority,
         ifnull(messages.payload ->> '$.queueWaitBudgetMs',
                CASE jobs.priority WHEN 0 THEN 20000 WHEN 1 THEN 90000 ELSE 240000 END)
           AS queueWaitBudgetMs,
         ifnull(messages.payload ->> '$.executionBudgetMs',
                CASE jobs.priority WHEN 0 THEN 300000 WHEN 1 THEN 900000 ELSE 1800000 END)
           AS executionBudgetMs,
         ifnull(messages.payload ->> '$.finalizationBudgetMs', 120000) AS finalizationBudgetMs,
         CASE jobs.state WHEN 'queued' THEN 'pending' WHEN 'running' THEN 'claimed'
           WHEN 'succeeded' THEN 'completed' ELSE 'failed' END AS status,
         iif(jobs.state = 'queued', NULL, claims.worker_group) AS workerId,
         jobs.for_worker AS targetWorkerId,
         iif(jobs.state = 'succeeded', claims.result, NULL) AS result,
         CASE WHEN jobs.state IN ('queued', 'running', 'succeeded') THEN NULL
           WHEN claims.status IN ('failed', 'timed_out') AND json_valid(claims.result)
            AND json_type(claims.result, '$.message') = 'text' THEN claims.result
           WHEN instr(jobs.error, ': ') > 0 AND claims.status = 'lost' THEN json_object(
             'detail', substr(jobs.error, instr(jobs.error, ': ') + 2),
             'message', substr(jobs.error, 1, instr(jobs.error, ': ') - 1))
           ELSE json_object('message', ifnull(jobs.error, 'Unknown error')) END AS error,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS enqueuedAt,
         iif(jobs.state = 'queued', NULL,
             strftime('%Y-%m-%dT%H:%M:%fZ', claims.claimed_at_ms / 1000.0, 'unixepoch')) AS claimedAt,
         iif(jobs.state = 'queued', NULL,
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.started_at_ms / 1000.0, 'unixepoch')) AS startedAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', task_progress.first_log_at_ms / 1000.0, 'unixepoch') AS firstLogAt,
         iif(jobs.state = 'succeeded',
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS completedAt,
         iif(jobs.state NOT IN ('queued', 'running', 'succeeded'),
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS failedAt,
         jobs.ended_at_ms - jobs.started_at_ms AS durationMs,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS createdAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', max(jobs.created_at_ms, ifnull(jobs.started_at_ms, 0),
                  ifnull(claims.ended_at_ms, 0), ifnull(jobs.ended_at_ms, 0),
                  ifnull(task_progress.active_at_ms, 0)) / 1000.0, 'unixepoch') AS updatedAt
    FROM queues JOIN jobs ON jobs.queue_id = queues.id
    JOIN (SELECT seq, id, iif(json_valid(payload), payload, NULL) AS payload FROM messages) AS messages
      ON messages.seq = jobs.seq
    LEFT JOIN task_progress ON task_progress.seq = jobs.seq
    LEFT JOIN claims ON claims.token = (
         SELECT max(token) FROM claims WHERE queue_id = jobs.queue_id AND seq = jobs.seq)
   WHERE queues.name = 'jobs' AND queues.removed_at_ms IS NULL;

CREATE VIEW pushpals_completions AS
  SELECT messages.id,
         ifnull(messages.payload ->> '$.jobId', messages.payload ->> '$.task') AS jobId,
         messages.payload ->> '$.sessionId' AS sessionId,
         ifnull(messages.payload ->> '$.commitSha', messages.payload ->> '$.head') AS commitSha,
         messages.payload ->> '$.branch' AS branch,
         ifnull(messages.payload ->> '$.message', 'Merge ' || (messages.payload ->> '$.branch')) AS message,
         messages.payload ->> '$.prTitle' AS prTitle,
         messages.payload ->> '$.prBody' AS prBody,
         CASE jobs.state WHEN 'queued' THEN 'pending' WHEN 'running' THEN 'claimed'
           WHEN 'succeeded' THEN 'processed' ELSE 'failed' END AS status,
         iif(jobs.state = 'queued', NULL, claims.worker_group) AS pusherId,
         iif(jobs.state IN ('queued', 'running', 'succeeded'), NULL, ifnull(jobs.error, 'Unknown error'))
           AS error,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS createdAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', max(jobs.created_at_ms, ifnull(jobs.started_at_ms, 0),
                  ifnull(claims.ended_at_ms, 0), ifnull(jobs.ended_at_ms, 0)) / 1000.0, 'unixepoch') AS updatedAt
    FROM queues JOIN jobs ON jobs.queue_id = queues.id
    JOIN (SELECT seq, id, iif(json_valid(payload), payload, NULL) AS payload FROM messages) AS messages
      ON messages.seq = jobs.seq
    LEFT JOIN claims ON claims.token = (
         SELECT max(token) FROM claims WHERE queue_id = jobs.queue_id AND seq = jobs.seq)
   WHERE queues.name = 'completions' AND queues.removed_at_ms IS NULL;

CREATE VIEW pushpals_job_logs AS
  SELECT task_output.id, messages.id AS jobId,
         strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000.0, 'unixepoch') AS ts,
         text AS message, stream, number AS seq
    FROM task_output JOIN messages ON messages.seq = task_output.seq;

CREATE VIEW pushpals_autonomy_dispatch_lock AS
  SELECT lock_id, session_id AS owner_session_id, run_id AS owner_run_id,
         strftime('%Y-%m-%dT%H:%M:%fZ', acquired_at_ms / 1000.0, 'unixepoch') AS acquired_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', expires_at_ms / 1000.0, 'unixepoch') AS expires_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', updated_at_ms / 1000.0, 'unixepoch') AS updated_at
    FROM dispatch_lock;

CREATE VIEW pushpals_autonomy_snapshots AS
  SELECT snapshot_id, session_id, run_id,
         strftime('%Y-%m-%dT%H:%M:%fZ', created_at_ms / 1000.0, 'unixepoch') AS created_at,
         ttl_ms, dispatch_lock_held, payload
    FROM autonomy_snapshots;

CREATE VIEW pushpals_autonomy_state AS
  SELECT session_id, state,
         strftime('%Y-%m-%dT%H:%M:%fZ', updated_at_ms / 1000.0, 'unixepoch') AS updated_at
    FROM autonomy_state;

CREATE VIEW pushpals_sessions AS
  SELECT session_id,
         strftime('%Y-%m-%dT%H:%M:%fZ', created_at_ms / 1000.0, 'unixepoch') AS created_at,
         label
    FROM task_sessions;

CREATE VIEW pushpals_events AS
  SELECT session_events.seq AS event_id, messages.id, session_events.session_id,
         substr(messages.type, 9) AS type,
         strftime('%Y-%m-%dT%H:%M:%fZ', messages.ts_ms / 1000.0, 'unixepoch') AS ts,
         messages.payload AS envelope
    FROM session_events JOIN messages ON messages.seq = session_events.seq;
