-- The statements of the room `export`.

-- name: position
SELECT last_seq FROM export_state;

-- name: advance
UPDATE export_state SET last_seq = ?;
