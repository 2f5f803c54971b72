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
