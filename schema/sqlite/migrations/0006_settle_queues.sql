-- From version 5 to version 6: queues that are removed, and failures that the contract of a worker
-- decides about. schema.sql says what the columns are for. Queues that are there keep their rules.

ALTER TABLE queues ADD COLUMN removed_at_ms INTEGER;

PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
  'retry               TEXT NOT NULL DEFAULT ''failures'' CHECK (retry IN (''failures'', ''asked''))',
  'retry               TEXT NOT NULL DEFAULT ''contract''
                        CHECK (retry IN (''contract'', ''failures'', ''asked''))')
 WHERE type = 'table' AND name = 'queues';
PRAGMA writable_schema = RESET;

UPDATE meta SET value = '6' WHERE key = 'schema_version';
