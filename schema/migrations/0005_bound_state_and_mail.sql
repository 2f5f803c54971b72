-- From version 4 to version 5: bounds that the file keeps, mail that is no work, who reads.
-- schema.sql says what each table is for.

UPDATE meta SET value = '5' WHERE key = 'schema_version';
