-- The statements of the room `subscribers`, by table.

-- cursors -------------------------------------------------------------------------------------

-- name: cursor
SELECT last_acked_seq FROM cursors WHERE agent_id = ?;

-- name: mail
-- An inbox from its cursor on; ?3 is whose broadcasts are none of it. Two index walks that merge as
-- a stream: an OR would sort the backlog.
SELECT {columns} FROM messages
 WHERE to_agent = ?1 AND work IS NOT 1 AND seq > {cursor}
UNION ALL
SELECT {columns} FROM messages
 WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?3 AND {no_news} AND seq > {cursor}
ORDER BY seq LIMIT ?2;

-- name: chosen_mail
-- The same above ?4 as well, without messages that the agent has received or does not want.
-- `standing` says whether there are any.
SELECT {columns} FROM messages
 WHERE to_agent = ?1 AND work IS NOT 1
   AND seq > max(?4, {cursor}) AND seq NOT IN ({received})
UNION ALL
SELECT {columns} FROM messages
 WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?3 AND {no_news}
   AND seq > max(?4, {cursor}) AND seq NOT IN ({received}) AND {wanted}
ORDER BY seq LIMIT ?2;

-- name: mail_and_work
-- The same with what queues hide, for who asks for it: a walk over the log, which has no index of it.
SELECT {columns} FROM messages
 WHERE seq > max(?4, {cursor}) AND seq NOT IN ({received})
   AND (to_agent = ?1 OR (to_agent IS NULL AND from_agent <> ?3 AND {no_news} AND {wanted}))
ORDER BY seq LIMIT ?2;

-- name: covered
-- What an acknowledgement of ?2 covers above ?3: the mail after the cursor up to there.
SELECT seq, type, from_agent FROM messages
 WHERE to_agent = ?1 AND work IS NOT 1
   AND seq > max(?3, {cursor}) AND seq <= ?2 AND seq NOT IN ({received})
UNION ALL
SELECT seq, type, from_agent FROM messages
 WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?1 AND {no_news}
   AND seq > max(?3, {cursor}) AND seq <= ?2 AND seq NOT IN ({received}) AND {wanted}
ORDER BY seq LIMIT ?4;

-- name: covered_addressed
SELECT seq, type, from_agent FROM messages
 WHERE to_agent = ?1 AND work IS NOT 1
   AND seq > max(?3, {cursor}) AND seq <= ?2 AND seq NOT IN ({received})
ORDER BY seq LIMIT ?4;

-- name: passing
-- The cursor, and by how many messages an acknowledgement of ?2 lessens those that are `unread`.
SELECT {cursor}, (SELECT count(*) FROM (
  SELECT seq FROM messages
   WHERE to_agent = ?1 AND work IS NOT 1 AND seq > {cursor} AND seq <= ?2
     AND seq NOT IN ({received})
  UNION ALL
  SELECT seq FROM messages
   WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?1 AND {no_news}
     AND seq > {cursor} AND seq <= ?2 AND seq NOT IN ({received}) AND {wanted}
  UNION ALL
  SELECT seq FROM deliveries WHERE agent_id = ?1 AND seq = ?2 AND state = 'requeued'
  UNION ALL
  SELECT passed_over.last_seq FROM passed_over, archive_state
   WHERE agent_id = ?1
     AND min(passed_over.last_seq, archive_state.last_seq) BETWEEN {cursor} + 1 AND ?2));

-- name: read_states
-- The state of the message ?1 at each of its readers: at its recipient ?4; or without one, at all
-- whose mail a broadcast of the type ?2 is, but not at its sender ?3.
WITH readers (agent, cursor) AS (
  SELECT ?4, (SELECT last_acked_seq FROM cursors WHERE agent_id = ?4) WHERE ?4 IS NOT NULL
  UNION ALL
  SELECT agent_id, last_acked_seq FROM cursors
   WHERE ?4 IS NULL AND agent_id <> ?3 AND (wants IS NULL OR {wants_it}))
SELECT agent, CASE
  WHEN EXISTS (SELECT 1 FROM deliveries
                WHERE agent_id = agent AND seq = ?1 AND state = 'parked') THEN 'parked'
  WHEN EXISTS (SELECT 1 FROM deliveries
                WHERE agent_id = agent AND seq = ?1 AND state = 'requeued') THEN 'unread'
  WHEN EXISTS (SELECT 1 FROM received WHERE agent_id = agent AND seq = ?1) THEN 'received'
  WHEN cursor >= ?1 THEN 'acknowledged'
  WHEN EXISTS (SELECT 1 FROM passed_over, archive_state
                WHERE agent_id = agent
                  AND min(passed_over.last_seq, archive_state.last_seq) >= ?1) THEN 'passed_over'
  ELSE 'unread' END
FROM readers;

-- name: first_waiting
-- The first message that waits for an agent. Of each kind the first, by its index.
SELECT min(seq) FROM (
  SELECT * FROM (SELECT seq FROM messages
                  WHERE to_agent = ?1 AND work IS NOT 1
                    AND seq > {cursor} AND seq NOT IN ({received})
                  ORDER BY seq LIMIT 1)
  UNION ALL
  SELECT * FROM (SELECT seq FROM messages
                  WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?1 AND {no_news}
                    AND seq > {cursor} AND seq NOT IN ({received})
                    AND {wanted}
                  ORDER BY seq LIMIT 1));

-- name: first_addressed
-- The same, without broadcasts.
SELECT seq FROM messages
 WHERE to_agent = ?1 AND work IS NOT 1 AND seq > {cursor} AND seq NOT IN ({received})
 ORDER BY seq LIMIT 1;

-- name: wants
SELECT wants FROM cursors WHERE agent_id = ?;

-- name: set_wants
INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms, wants) VALUES (?, 0, ?, ?)
ON CONFLICT DO UPDATE SET wants = excluded.wants, updated_at_ms = excluded.updated_at_ms;

-- name: is_unreceived
SELECT ?2 > {cursor} AND ?2 NOT IN ({received});

-- name: receive
-- Only what the cursor has yet to pass.
INSERT INTO received (agent_id, seq)
SELECT ?1, ?2 WHERE ?2 > {cursor} ON CONFLICT DO NOTHING;

-- name: forget_received
DELETE FROM received WHERE agent_id = ?1 AND seq <= {cursor};

-- name: standing
-- The cursor of an agent; up to where mail of it is archived unread (what was noted, as far as it
-- has left the log); whether any of its deliveries has failed, as few have; and whether its mail is
-- less than all that is there for it.
SELECT ifnull(last_acked_seq, 0),
       ifnull((SELECT min(passed_over.last_seq, archive_state.last_seq)
                 FROM passed_over, archive_state WHERE agent_id = ?1), 0),
       EXISTS (SELECT 1 FROM deliveries WHERE agent_id = ?1),
       wants IS NOT NULL OR EXISTS (SELECT 1 FROM received WHERE agent_id = ?1)
  FROM (SELECT 1) LEFT JOIN cursors ON cursors.agent_id = ?1;

-- name: comes_again
-- Whether an agent has deliveries that are to come again: since they failed, or were requeued.
SELECT EXISTS (SELECT 1 FROM deliveries WHERE agent_id = ?1 AND state = 'failing'),
       EXISTS (SELECT 1 FROM deliveries WHERE agent_id = ?1 AND state = 'requeued');

-- name: pass_over
INSERT INTO passed_over (agent_id, last_seq, archived_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET last_seq = max(last_seq, excluded.last_seq),
                          archived_at_ms = excluded.archived_at_ms;

-- name: discarded_upto
SELECT ifnull(max(last_seq), 0) FROM archive_segments WHERE discarded_at_ms IS NOT NULL;

-- name: passed_over
-- The agents of whose mail some has left the log unread, and when that was noted last.
SELECT agent_id, archived_at_ms FROM passed_over, archive_state
 WHERE min(passed_over.last_seq, archive_state.last_seq) > ifnull(
       (SELECT last_acked_seq FROM cursors WHERE cursors.agent_id = passed_over.agent_id), 0);

-- name: join
INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET updated_at_ms = excluded.updated_at_ms;

-- name: cursors
SELECT agent_id, last_acked_seq, updated_at_ms FROM cursors ORDER BY agent_id;

-- name: advance
-- Forward only.
INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET last_acked_seq = max(last_acked_seq, excluded.last_acked_seq),
                          updated_at_ms = excluded.updated_at_ms
RETURNING last_acked_seq;

-- name: forget_cursor
DELETE FROM cursors WHERE agent_id = ? RETURNING agent_id;

-- name: forget_all_received
DELETE FROM received WHERE agent_id = ?;

-- name: forget_passed_over
DELETE FROM passed_over WHERE agent_id = ?;

-- name: acknowledge
-- The same in one step where nothing else is to be done: the seq is in the log, and none of the
-- agent's deliveries has failed. Else it changes and returns nothing.
INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms)
SELECT ?1, ?2, ?3
 WHERE ?2 BETWEEN 1 AND (SELECT max(seq) FROM messages)
   AND NOT EXISTS (SELECT 1 FROM deliveries WHERE agent_id = ?1 AND state = 'failing')
   AND NOT EXISTS (SELECT 1 FROM deliveries WHERE agent_id = ?1 AND state = 'requeued')
ON CONFLICT DO UPDATE SET last_acked_seq = max(last_acked_seq, excluded.last_acked_seq),
                          updated_at_ms = excluded.updated_at_ms
RETURNING last_acked_seq;

-- name: unread
-- How much is in an inbox after the cursor, or requeued, counted up to a limit; what was archived
-- unread counts as one.
SELECT count(*) FROM (
  SELECT seq FROM messages
   WHERE to_agent = ?1 AND work IS NOT 1 AND seq > {cursor} AND seq NOT IN ({received})
  UNION ALL
  SELECT seq FROM messages
   WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?1 AND {no_news}
     AND seq > {cursor} AND seq NOT IN ({received})
     AND {wanted}
  UNION ALL
  SELECT seq FROM deliveries WHERE agent_id = ?1 AND state = 'requeued'
  UNION ALL
  SELECT passed_over.last_seq FROM passed_over, archive_state
   WHERE agent_id = ?1 AND min(passed_over.last_seq, archive_state.last_seq)
         > ifnull((SELECT last_acked_seq FROM cursors WHERE agent_id = ?1), 0)
  LIMIT ?2);

-- name: last_broadcasts
-- The last broadcasts that are an agent's mail, and when they came.
SELECT seq, ts_ms FROM messages
 WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?1 AND {no_news} AND {wanted}
 ORDER BY seq DESC LIMIT ?2;

-- name: count_broadcasts
-- How many of these come before a seq, counted up to a limit.
SELECT count(*) FROM (
  SELECT seq FROM messages
   WHERE to_agent IS NULL AND work IS NOT 1 AND from_agent <> ?1 AND {no_news} AND {wanted}
     AND seq < ?2 LIMIT ?3);

-- name: addressed_mail
-- What is addressed to an agent, without broadcasts: the mail of a base name for the session that
-- claims it.
SELECT {columns} FROM messages
 WHERE to_agent = ?1 AND work IS NOT 1
   AND seq > max(?4, {cursor}) AND seq NOT IN ({received})
ORDER BY seq LIMIT ?2;

-- name: unread_addressed
SELECT count(*) FROM (
  SELECT seq FROM messages
   WHERE to_agent = ?1 AND work IS NOT 1 AND seq > {cursor} AND seq NOT IN ({received})
  UNION ALL
  SELECT seq FROM deliveries WHERE agent_id = ?1 AND state = 'requeued'
  LIMIT ?2);

-- name: is_known
SELECT 1 FROM known_agents WHERE agent_id = ?;

-- task_claims ---------------------------------------------------------------------------------

-- name: sessions
SELECT {session} FROM sessions ORDER BY base, number;

-- name: sessions_of_base
SELECT {session} FROM sessions WHERE base = ? ORDER BY number;

-- name: session_named
-- The session that has a name, and whether it holds its base name, too.
SELECT first.name IS NOT NULL, {session} FROM sessions
  LEFT JOIN sessions AS first ON {first_of_session}
 WHERE sessions.name = ?1;

-- name: hold_session
-- With another holder nothing was shown.
INSERT INTO sessions (name, base, number, process, connection, resume_id, begun_at_ms, until_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (name) DO UPDATE SET
   base = ?2, number = ?3, process = ?4, connection = ?5, resume_id = ?6, until_ms = ?8,
   begun_at_ms = iif({same_holder}, begun_at_ms, ?7), revision = {next_revision},
   announced_seq = iif({same_holder}, announced_seq, 0),
   counted_seq = iif({same_holder}, counted_seq, 0),
   shown = iif({same_holder}, shown, '[]'),
   shown_parts = iif({same_holder}, shown_parts, '{}');

-- name: free_session
UPDATE sessions SET process = NULL, connection = '', resume_id = '', until_ms = ?2,
                    revision = {next_revision}, announced_seq = 0, counted_seq = 0, shown = '[]',
                    shown_parts = '{}'
 WHERE name = ?1;

-- name: end_sessions
UPDATE sessions SET until_ms = ?4
 WHERE base = ?1 AND process = ?2 AND connection = ?3 AND until_ms > ?4;

-- name: bring_sessions_nearer
-- Those that began by a clock which was ahead of now, ?1, began now, and end as long after it.
UPDATE sessions SET until_ms = iif(until_ms > begun_at_ms,
                                   until_ms - (begun_at_ms - ?1), until_ms),
                    begun_at_ms = ?1
 WHERE begun_at_ms > ?1;

-- name: shown_mail
-- What an agent, ?1, was shown; up to where it acknowledged its mail, and that of the base name
-- which its session claims; and which of both was requeued.
SELECT ifnull(sessions.revision, 0), ifnull(sessions.announced_seq, 0), ifnull(sessions.counted_seq, 0),
       iif(length(sessions.shown) <= 100000, sessions.shown, '[]'),
       iif(length(sessions.shown_parts) <= 100000, sessions.shown_parts, '{}'),
       min({cursor}, iif(first.name IS NULL, 9007199254740991,
           ifnull((SELECT last_acked_seq FROM cursors WHERE agent_id = first.name), 0))),
       (SELECT json_group_array(seq) FROM deliveries
         WHERE agent_id IN (?1, first.name) AND state = 'requeued')
  FROM (SELECT ?1 AS agent) LEFT JOIN sessions ON sessions.name = agent
  LEFT JOIN sessions AS first ON {first_of_session};

-- name: note_shown
-- Stored where nothing was noted since revision ?6 was read, 0 of a row that was not there.
INSERT INTO sessions (name, base, announced_seq, counted_seq, shown, shown_parts, begun_at_ms,
                      until_ms, revision)
VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?7, ?7, 1)
ON CONFLICT (name) DO UPDATE SET announced_seq = ?2, counted_seq = ?3, shown = ?4,
                                 shown_parts = ?5, revision = {next_revision}
 WHERE revision = ?6 RETURNING revision;

-- name: traces_of_session
-- The process whose heart beats for the agent ?1, and whether a session has reservations for it.
SELECT (SELECT pid FROM heartbeats WHERE agent_id = ?1),
       EXISTS (SELECT 1 FROM reservations r JOIN task_claims ON task_id = 'reservation ' || r.token
                WHERE agent_id = ?1 AND until_ms > ?2);

-- deliveries ----------------------------------------------------------------------------------

-- name: count_failure
INSERT INTO deliveries (agent_id, seq, state, attempts, error, updated_at_ms)
VALUES (?1, ?2, 'failing', 1, ?3, ?4)
ON CONFLICT DO UPDATE SET attempts = attempts + 1, error = ?3, updated_at_ms = ?4
RETURNING attempts;

-- name: attempts
SELECT attempts FROM deliveries WHERE agent_id = ? AND seq = ?;

-- name: set_state
UPDATE deliveries SET state = ?, updated_at_ms = ? WHERE agent_id = ? AND seq = ?;

-- name: requeue
UPDATE deliveries SET state = 'requeued', attempts = 0, updated_at_ms = ?
 WHERE agent_id = ? AND seq = ? AND state = 'parked' RETURNING seq;

-- name: drop
DELETE FROM deliveries WHERE agent_id = ? AND seq = ? AND state = 'parked' RETURNING seq;

-- name: delivered
-- An acknowledged message is done with, unless it waits in the parking place.
DELETE FROM deliveries WHERE agent_id = ? AND seq = ? AND state <> 'parked';

-- name: passed
-- What a cursor that jumps ahead leaves behind: failures of messages it has passed. By its index:
-- SQLite would rather walk over all that is parked.
DELETE FROM deliveries INDEXED BY idx_deliveries_failing
 WHERE agent_id = ? AND seq <= ? AND state = 'failing';

-- name: requeued
SELECT seq FROM deliveries WHERE agent_id = ? AND state = 'requeued' ORDER BY seq LIMIT ?;

-- name: parked
SELECT agent_id, seq, attempts, error, updated_at_ms FROM deliveries
 WHERE state = 'parked' AND agent_id = ? ORDER BY seq;

-- name: all_parked
SELECT agent_id, seq, attempts, error, updated_at_ms FROM deliveries
 WHERE state = 'parked' ORDER BY agent_id, seq;

-- name: count_parked
-- Counted up to a limit.
SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE state = 'parked' LIMIT ?);

-- loops ---------------------------------------------------------------------------------------

-- name: loops
SELECT agent_id, pid, started_at_ms FROM loops;

-- name: running_loop
SELECT pid, started_at_ms FROM loops WHERE agent_id = ?;

-- name: begin_loop
INSERT INTO loops (agent_id, pid, started_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET pid = excluded.pid, started_at_ms = excluded.started_at_ms;

-- name: end_loop
DELETE FROM loops WHERE agent_id = ? AND pid = ?;

-- finished ------------------------------------------------------------------------------------

-- name: forget_deliveries
DELETE FROM deliveries WHERE agent_id = ?;

-- name: forget_loop
DELETE FROM loops WHERE agent_id = ?;

-- name: forget_what_is_finished
DELETE FROM finished WHERE agent_id = ?;

-- name: finish
INSERT INTO finished (agent_id, message_id, finished_at_ms) VALUES (?, ?, ?)
ON CONFLICT DO NOTHING RETURNING message_id;

-- name: is_finished
SELECT EXISTS (SELECT 1 FROM finished WHERE agent_id = ? AND message_id = ?);

-- name: finished_after
-- The names as bytes: the next page begins after these, since text may be shown in another form.
SELECT CAST(agent_id AS BLOB), CAST(message_id AS BLOB) FROM finished
 WHERE (agent_id, message_id) > (CAST(? AS TEXT), CAST(? AS TEXT))
 ORDER BY agent_id, message_id LIMIT ?;

-- name: forget_finished
-- Of a range, those whose messages are archived and will not be delivered again.
DELETE FROM finished
 WHERE (agent_id, message_id) > (CAST(?1 AS TEXT), CAST(?2 AS TEXT))
   AND (agent_id, message_id) <= (CAST(?3 AS TEXT), CAST(?4 AS TEXT)) AND EXISTS (
       SELECT 1 FROM archived_ids WHERE id = message_id AND NOT EXISTS (
              SELECT 1 FROM deliveries
               WHERE deliveries.agent_id = finished.agent_id AND deliveries.seq = archived_ids.seq))
RETURNING 1;
