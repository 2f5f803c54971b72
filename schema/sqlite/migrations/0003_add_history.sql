-- From version 2 to version 3: history. schema.sql says what each table is for.

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

-- The archive.
CREATE TABLE archive_segments (
  first_seq      INTEGER PRIMARY KEY,
  last_seq       INTEGER NOT NULL CHECK (last_seq >= first_seq),
  messages       INTEGER NOT NULL,
  bytes          INTEGER NOT NULL,
  sha256         TEXT NOT NULL,
  archived_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE archive_frames (
  first_seq INTEGER PRIMARY KEY,
  segment   INTEGER NOT NULL REFERENCES archive_segments (first_seq),
  start     INTEGER NOT NULL,
  bytes     INTEGER NOT NULL
) STRICT;

CREATE TABLE archive_state (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  last_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO archive_state (id) VALUES (1);

CREATE TABLE archived_ids (
  id  TEXT PRIMARY KEY,
  seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE archived_blobs (
  payload_ref TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE passed_over (
  agent_id       TEXT PRIMARY KEY,
  last_seq       INTEGER NOT NULL,
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

CREATE TRIGGER archived_blobs_are_never_deleted BEFORE DELETE ON archived_blobs BEGIN
  SELECT RAISE(ABORT, 'archived messages name their blobs for ever');
END;

-- Messages may leave the file for the archive, and their ids and seqs stay taken.
DROP TRIGGER messages_are_never_deleted;
CREATE TRIGGER messages_are_never_deleted BEFORE DELETE ON messages
WHEN OLD.seq > (SELECT last_seq FROM archive_state)
BEGIN
  SELECT RAISE(ABORT, 'messages are never deleted');
END;

DROP TRIGGER messages_are_only_appended;
CREATE TRIGGER messages_are_only_appended BEFORE INSERT ON messages
WHEN EXISTS (SELECT 1 FROM messages WHERE id = NEW.id)
  OR EXISTS (SELECT 1 FROM archived_ids WHERE id = NEW.id)
  OR (NEW.seq > 0 AND NEW.seq <= (SELECT seq FROM sqlite_sequence WHERE name = 'messages'))
  OR EXISTS (SELECT 1 FROM waiting_limits)
BEGIN
  SELECT RAISE(ABORT, 'messages are only appended: this id or seq is taken')
   WHERE EXISTS (SELECT 1 FROM messages WHERE id = NEW.id)
      OR EXISTS (SELECT 1 FROM archived_ids WHERE id = NEW.id)
      OR (NEW.seq > 0 AND NEW.seq <= (SELECT seq FROM sqlite_sequence WHERE name = 'messages'));
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

DROP TRIGGER jobs_are_of_messages;
CREATE TRIGGER jobs_are_of_messages BEFORE INSERT ON jobs
WHEN NEW.seq > (SELECT last_seq FROM archive_state)
 AND NOT EXISTS (SELECT 1 FROM messages WHERE seq = NEW.seq)
BEGIN
  SELECT RAISE(ABORT, 'a job needs a message');
END;

UPDATE meta SET value = '3' WHERE key = 'schema_version';
