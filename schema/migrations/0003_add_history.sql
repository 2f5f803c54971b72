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

UPDATE meta SET value = '3' WHERE key = 'schema_version';
