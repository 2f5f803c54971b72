-- From version 5 to version 6: queues that are removed. schema.sql says what the column is for.

ALTER TABLE queues ADD COLUMN removed_at_ms INTEGER;

UPDATE meta SET value = '6' WHERE key = 'schema_version';
