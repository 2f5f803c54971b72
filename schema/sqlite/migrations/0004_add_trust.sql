-- From version 3 to version 4: a hash chain over the log, and tokens. schema.sql says what each
-- table is for.

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

CREATE TABLE access_tokens (
  token_id      TEXT PRIMARY KEY,
  name          TEXT NOT NULL CHECK (name <> ''),
  scopes        TEXT NOT NULL CHECK (json_valid(scopes) AND json_type(scopes) = 'array'),
  agent_id      TEXT CHECK (agent_id <> ''),
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER,
  digest        BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;

UPDATE meta SET value = '4' WHERE key = 'schema_version';
