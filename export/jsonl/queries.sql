-- The statements of the room `export`.

-- name: position
SELECT last_seq FROM export_state;

-- name: advance
UPDATE export_state SET last_seq = ?;

-- name: mark
SELECT value FROM meta WHERE key = 'export_mark';

-- name: set_mark
INSERT INTO meta (key, value) VALUES ('export_mark', ?)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: rotation
SELECT value FROM meta WHERE key = 'export_rotate_bytes';

-- name: set_rotation
INSERT INTO meta (key, value) VALUES ('export_rotate_bytes', ?)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: automatic
SELECT value FROM meta WHERE key = 'export_automatic';

-- name: set_automatic
INSERT INTO meta (key, value) VALUES ('export_automatic', ?)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;
