-- The bus in one SQLite file, schema version 1. docs/protocol.md explains every table.
-- Any program may take part with plain SQL, so the rules that keep the log whole are in here,
-- not only in our own code.

-- The log. Appended, never changed.
CREATE TABLE messages (
  seq            INTEGER PRIMARY KEY AUTOINCREMENT CHECK (seq > 0),
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
  CHECK (payload IS NULL OR payload_ref IS NULL)
) STRICT;

-- seq is the rowid, so it ends every index entry by itself: naming it again would only store
-- it twice. The partial indexes cost nothing to the messages that they leave out.
CREATE INDEX idx_messages_to_seq ON messages (to_agent);
CREATE INDEX idx_messages_correlation_seq ON messages (correlation_id)
  WHERE correlation_id IS NOT NULL;
CREATE INDEX idx_messages_payload_ref ON messages (payload_ref)
  WHERE payload_ref IS NOT NULL;

CREATE TRIGGER messages_are_never_changed BEFORE UPDATE ON messages BEGIN
  SELECT RAISE(ABORT, 'messages are never changed');
END;

CREATE TRIGGER messages_are_never_deleted BEFORE DELETE ON messages BEGIN
  SELECT RAISE(ABORT, 'messages are never deleted');
END;

-- INSERT OR REPLACE fires no delete trigger, and an explicit seq could land below what a reader
-- has already passed; this refuses both. (NEW.seq is -1 when SQLite is to choose it.)
CREATE TRIGGER messages_are_only_appended BEFORE INSERT ON messages
WHEN EXISTS (SELECT 1 FROM messages WHERE id = NEW.id)
  OR (NEW.seq > 0 AND NEW.seq <= (SELECT max(seq) FROM messages))
BEGIN
  SELECT RAISE(ABORT, 'messages are only appended: this id or seq is taken');
END;

-- How far each agent has acknowledged its inbox.
CREATE TABLE cursors (
  agent_id       TEXT PRIMARY KEY,
  last_acked_seq INTEGER NOT NULL DEFAULT 0,
  updated_at_ms  INTEGER NOT NULL
) STRICT;

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

-- What bus.jsonl already holds.
CREATE TABLE export_state (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  last_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO export_state (id) VALUES (1);

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

-- Every agent that the bus has seen act: it acknowledged, beat its heart, or sent.
CREATE VIEW known_agents AS
  SELECT agent_id FROM cursors
  UNION ALL SELECT agent_id FROM heartbeats
  UNION ALL SELECT name FROM catalog WHERE kind = 'from';

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;
INSERT INTO meta (key, value) VALUES ('schema_version', '1');
