-- The statements of sessions, by table.

-- task_sessions -------------------------------------------------------------------------------

-- name: add_session
INSERT INTO task_sessions (session_id, created_at_ms, label) VALUES (?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: session
SELECT online, ready_seq FROM task_sessions WHERE session_id = ?;

-- name: note_online
UPDATE task_sessions SET online = ? WHERE session_id = ?;

-- name: note_ready
UPDATE task_sessions SET ready_seq = ? WHERE session_id = ? AND ready_seq IS NULL;

-- session_events ------------------------------------------------------------------------------

-- name: add_event
INSERT INTO session_events (session_id, seq) VALUES (?, ?);

-- name: events_after
SELECT seq FROM session_events WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: newest_event
SELECT max(seq) FROM session_events WHERE session_id = ?;

-- session_approvals ---------------------------------------------------------------------------

-- name: ask_approval
INSERT INTO session_approvals (approval_id, session_id, asked_seq) VALUES (?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: approval
SELECT session_id, asked_seq, decision FROM session_approvals WHERE approval_id = ?;

-- name: decide
UPDATE session_approvals SET decision = ? WHERE approval_id = ? AND decision IS NULL;

-- session_cursors -----------------------------------------------------------------------------

-- name: session_cursor
SELECT cursor, pruned_upto FROM session_cursors WHERE agent_id = ? AND session_id = ?;

-- name: move_session_cursor
INSERT INTO session_cursors (agent_id, session_id, cursor) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET cursor = max(cursor, excluded.cursor);

-- name: note_pruned
INSERT INTO session_cursors (agent_id, session_id, pruned_upto) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET pruned_upto = max(pruned_upto, excluded.pruned_upto);

-- handled_messages ----------------------------------------------------------------------------

-- name: is_handled
SELECT EXISTS (SELECT 1 FROM handled_messages WHERE agent_id = ? AND session_id = ? AND seq = ?);

-- name: mark_handled
INSERT INTO handled_messages (agent_id, session_id, seq, handled_at_ms) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: last_to_prune
SELECT seq FROM handled_messages WHERE agent_id = ? AND session_id = ?
 ORDER BY seq DESC LIMIT 1 OFFSET ?;

-- name: prune_handled
DELETE FROM handled_messages WHERE agent_id = ? AND session_id = ? AND seq <= ?;
