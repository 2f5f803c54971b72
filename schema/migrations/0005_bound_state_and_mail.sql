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

UPDATE meta SET value = '5' WHERE key = 'schema_version';
