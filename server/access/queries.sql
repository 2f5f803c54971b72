-- The statements of the room `server`.

-- access_tokens -------------------------------------------------------------------------------

-- name: add_token
INSERT INTO access_tokens (token_id, name, scopes, agent_id, created_at_ms, expires_at_ms, digest)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: token
SELECT token_id, name, scopes, agent_id, created_at_ms, expires_at_ms, digest FROM access_tokens
 WHERE token_id = ?;

-- name: tokens
SELECT token_id, name, scopes, agent_id, created_at_ms, expires_at_ms FROM access_tokens
 ORDER BY name, created_at_ms;

-- name: good_tokens
-- Those of a name that are good at a time, the newest last.
SELECT token_id, name, scopes, agent_id, created_at_ms, expires_at_ms FROM access_tokens
 WHERE name = ? AND (expires_at_ms IS NULL OR expires_at_ms > ?) ORDER BY created_at_ms;

-- name: has_tokens
SELECT EXISTS (SELECT 1 FROM access_tokens);

-- name: end_tokens
UPDATE access_tokens SET expires_at_ms = ?
 WHERE name = ? AND (expires_at_ms IS NULL OR expires_at_ms > ?);

-- name: remove_tokens
DELETE FROM access_tokens WHERE name = ? RETURNING token_id;
