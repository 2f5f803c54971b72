-- From version 1 to version 2: work. Queues, jobs and claims, what workers and `bus notify`
-- remember, and limits on how much may wait. schema.sql says what each is for.

CREATE TABLE waiting_limits (
  kind        TEXT NOT NULL CHECK (kind IN ('queue', 'inbox')),
  name        TEXT NOT NULL,
  max_waiting INTEGER NOT NULL CHECK (max_waiting >= 1),
  waiting     INTEGER NOT NULL DEFAULT 0,  -- queues only: counted here, by triggers
  glob        TEXT,     -- queues only: the types that count,
  dots        INTEGER,  -- and how many dots they have; NULL for any number
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

DROP TRIGGER messages_are_only_appended;
CREATE TRIGGER messages_are_only_appended BEFORE INSERT ON messages
WHEN EXISTS (SELECT 1 FROM messages WHERE id = NEW.id)
  OR (NEW.seq > 0 AND NEW.seq <= (SELECT max(seq) FROM messages))
  OR EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  SELECT RAISE(ABORT, 'messages are only appended: this id or seq is taken')
   WHERE EXISTS (SELECT 1 FROM messages WHERE id = NEW.id)
      OR (NEW.seq > 0 AND NEW.seq <= (SELECT max(seq) FROM messages));
  SELECT RAISE(ABORT, 'a queue for messages of this type is full')
    FROM waiting_limits
   WHERE kind = 'queue' AND waiting >= max_waiting AND NEW.type GLOB glob
     AND (dots IS NULL OR dots = length(NEW.type) - length(replace(NEW.type, '.', '')));
  SELECT RAISE(ABORT, 'the inbox of the recipient is full')
    FROM waiting_limits
   WHERE kind = 'inbox' AND name = NEW.to_agent AND NEW.in_reply_to IS NULL AND max_waiting <= (
         SELECT count(*) FROM messages WHERE to_agent = NEW.to_agent AND seq > ifnull(
           (SELECT last_acked_seq FROM cursors WHERE agent_id = NEW.to_agent), 0));
END;

CREATE TRIGGER messages_count_as_waiting AFTER INSERT ON messages
WHEN EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  UPDATE waiting_limits SET waiting = waiting + 1
   WHERE kind = 'queue' AND NEW.type GLOB glob
     AND (dots IS NULL OR dots = length(NEW.type) - length(replace(NEW.type, '.', '')));
END;

CREATE TABLE queues (
  id                  INTEGER PRIMARY KEY,
  name                TEXT NOT NULL UNIQUE CHECK (name <> ''),
  pattern             TEXT NOT NULL CHECK (pattern <> ''),
  filled_seq          INTEGER NOT NULL CHECK (filled_seq >= 0),
  ordering            TEXT NOT NULL DEFAULT 'fifo' CHECK (ordering IN ('fifo', 'priority')),
  ageing_ms           INTEGER NOT NULL DEFAULT 60000 CHECK (ageing_ms > 0),
  retry               TEXT NOT NULL DEFAULT 'failures' CHECK (retry IN ('failures', 'asked')),
  max_attempts        INTEGER NOT NULL DEFAULT 4 CHECK (max_attempts >= 1),
  backoff_ms          INTEGER NOT NULL DEFAULT 30000 CHECK (backoff_ms >= 0),
  on_lost             TEXT NOT NULL DEFAULT 'requeue' CHECK (on_lost IN ('requeue', 'fail', 'dead')),
  max_running         INTEGER CHECK (max_running >= 1),
  max_running_per_key INTEGER NOT NULL DEFAULT 1 CHECK (max_running_per_key >= 1),
  dedupe_window_ms    INTEGER NOT NULL DEFAULT 86400000 CHECK (dedupe_window_ms >= 0),
  rank_clock_ms       INTEGER NOT NULL DEFAULT 0,
  rank_offset_ms      INTEGER NOT NULL DEFAULT 0,
  paused_at_ms        INTEGER,
  created_at_ms       INTEGER NOT NULL
) STRICT;

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
  PRIMARY KEY (queue_id, seq),
  CHECK ((ended_at_ms IS NULL) = (state IN ('queued', 'running')))
) STRICT, WITHOUT ROWID;

CREATE INDEX idx_jobs_ready ON jobs (queue_id, rank_ms, seq)
  WHERE state = 'queued' AND gate = 'open';
CREATE INDEX idx_jobs_delayed ON jobs (queue_id, available_at_ms)
  WHERE state = 'queued' AND gate = 'time';
CREATE INDEX idx_jobs_live_key ON jobs (queue_id, dedupe_key, gate, rank_ms, seq)
  WHERE dedupe_key IS NOT NULL AND ended_at_ms IS NULL;
CREATE INDEX idx_jobs_key_done ON jobs (queue_id, dedupe_key, ended_at_ms)
  WHERE dedupe_key IS NOT NULL AND state = 'succeeded';
CREATE INDEX idx_jobs_ended_badly ON jobs (queue_id, state, seq)
  WHERE (state = 'failed' OR state = 'timed_out' OR state = 'dead');

CREATE TRIGGER jobs_are_of_messages BEFORE INSERT ON jobs
WHEN NOT EXISTS (SELECT 1 FROM messages WHERE seq = NEW.seq)
BEGIN
  SELECT RAISE(ABORT, 'a job needs a message');
END;

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

CREATE TABLE worker_states (
  worker_group  TEXT PRIMARY KEY,
  state         TEXT NOT NULL CHECK (json_valid(state) AND json_type(state) = 'object'),
  updated_at_ms INTEGER NOT NULL
) STRICT;

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

UPDATE meta SET value = '2' WHERE key = 'schema_version';
