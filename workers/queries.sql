-- The statements of the room `workers`.

-- worker_states -------------------------------------------------------------------------------

-- name: worker_state
SELECT state FROM worker_states WHERE worker_group = ?;

-- name: set_worker_state
INSERT INTO worker_states (worker_group, state, updated_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET state = excluded.state, updated_at_ms = excluded.updated_at_ms;
