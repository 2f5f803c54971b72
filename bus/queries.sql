-- The statements of the room `bus`, by table. {columns} are the columns of a message.

-- messages ------------------------------------------------------------------------------------

-- name: append
-- With what the trigger messages_may_be_work would find out, which then has nothing to change.
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to,
                      payload, payload_ref, priority, headers, work)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, CASE WHEN {is_work} THEN 1 ELSE 0 END);

-- name: append_mail
-- A message that no queue hides.
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to,
                      payload, payload_ref, priority, headers, work)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0);

-- name: what_many_need
-- Whether a trigger could have anything to do for new messages but look for their ids in the log:
-- limits, archived ids; and whether a queue may hide any of them. The array ?1 has their types.
SELECT EXISTS (SELECT 1 FROM waiting_limits)
    OR EXISTS (SELECT 1 FROM archived_ids),
       EXISTS (SELECT 1 FROM queues WHERE hides = 'all')
    OR EXISTS (SELECT 1 FROM json_each(?1) JOIN queues ON pattern = value AND hides <> 'none');

-- name: message_by_id
SELECT {columns} FROM messages WHERE id = ?;

-- name: message_by_seq
SELECT {columns} FROM messages WHERE seq = ?;

-- name: newest_seq
-- The newest message never leaves the table.
SELECT max(seq) FROM messages;

-- name: has_sent
SELECT EXISTS (SELECT 1 FROM messages WHERE seq > ? AND from_agent = ?);

-- name: is_work
SELECT work = 1 FROM messages WHERE seq = ?;

-- name: work_between
SELECT type FROM messages WHERE seq > ? AND seq <= ? AND work = 1;

-- name: wrong_times
-- Messages above ?1 whose times are none, or later than ?2.
SELECT seq FROM messages WHERE seq > ?1 AND ts_ms NOT BETWEEN 0 AND ?2;

-- name: gaps
-- The ranges of numbers that no message has, behind what is archived. Those that a repair or an
-- upgrade has left out are none: its own message comes right behind.
SELECT before + 1, seq - 1 FROM (
  SELECT seq, type, lag(seq, 1, max(?1, seq - 1)) OVER (ORDER BY seq) AS before
    FROM messages WHERE seq > ?1)
 WHERE seq > before + 1 AND type NOT IN ('bus.repaired', 'log.continued');

-- name: named_blobs
-- The next names after ?1 of blobs that messages name, in the log or the archive, each after its
-- bytes: the next page begins after these, since text may be shown in another form.
SELECT CAST(payload_ref AS BLOB), payload_ref FROM (
  SELECT payload_ref FROM messages WHERE payload_ref > CAST(?1 AS TEXT)
  UNION
  SELECT payload_ref FROM archived_blobs WHERE payload_ref > CAST(?1 AS TEXT)
  ORDER BY payload_ref LIMIT ?2);

-- name: parent
-- The conversation that a reply joins, and the type of what it replies to.
SELECT ifnull(correlation_id, id), type FROM messages WHERE id = ?;

-- name: blob_is_named
SELECT EXISTS (SELECT 1 FROM messages WHERE payload_ref = ?);

-- name: in_conversation
SELECT {columns} FROM messages WHERE correlation_id = ?1 AND seq > ?2 AND seq <= ?3
UNION ALL
SELECT {columns} FROM messages WHERE id = ?1 AND correlation_id IS NULL AND seq > ?2 AND seq <= ?3
ORDER BY seq LIMIT ?4;

-- name: sent_to
-- Mail, and the work of a group of workers.
SELECT {columns} FROM messages
 WHERE to_agent = ?1 AND work IS NOT 1 AND seq > ?2 AND seq <= ?3
UNION ALL
SELECT {columns} FROM messages
 WHERE to_agent = ?1 AND work = 1 AND to_agent IS NOT NULL AND seq > ?2 AND seq <= ?3
ORDER BY seq LIMIT ?4;

-- name: in_span
SELECT {columns} FROM messages WHERE seq > ?1 AND seq <= ?2
ORDER BY seq LIMIT ?3;

-- name: count_in_span
SELECT count(*) FROM messages WHERE seq > ? AND seq <= ?;

-- name: in_span_of_types
SELECT {columns} FROM messages WHERE type GLOB ?1 AND seq > ?2 AND seq <= ?3
ORDER BY seq LIMIT ?4;

-- name: newest_in_span
SELECT {columns} FROM messages WHERE seq > ?1 AND seq <= ?2
ORDER BY seq DESC LIMIT ?3;

-- name: newest_sent_to
SELECT {columns} FROM messages
 WHERE to_agent = ?4 AND work IS NOT 1 AND seq > ?1 AND seq <= ?2
UNION ALL
SELECT {columns} FROM messages
 WHERE to_agent = ?4 AND work = 1 AND to_agent IS NOT NULL AND seq > ?1 AND seq <= ?2
ORDER BY seq DESC LIMIT ?3;

-- name: sent_and_answered
-- The recipients and types of what the agents ?1 and ?2 have sent among the last ?3 messages, and the
-- senders and types of what they have answered by that.
WITH sent AS (
  SELECT to_agent, type, in_reply_to FROM messages
   WHERE seq > (SELECT max(seq) FROM messages) - ?3 AND from_agent IN (?1, ?2))
SELECT to_agent, type FROM sent
UNION ALL
SELECT parent.from_agent, parent.type FROM sent JOIN messages AS parent ON parent.id = sent.in_reply_to;

-- name: recipients
-- Every name that mail is addressed to: one step in the index for each.
WITH RECURSIVE named (name) AS (
  SELECT min(to_agent) FROM messages WHERE work IS NOT 1
  UNION ALL
  SELECT (SELECT min(to_agent) FROM messages WHERE work IS NOT 1 AND to_agent > name) FROM named
   WHERE name IS NOT NULL)
SELECT name FROM named WHERE name IS NOT NULL;

-- catalog -------------------------------------------------------------------------------------

-- name: catalog_position
SELECT last_seq FROM catalog_state;

-- name: catalog_next
SELECT seq FROM messages WHERE seq > ? ORDER BY seq LIMIT 1;

-- name: catalog_names
-- Count what stands in the messages (?1, ?2] under their types and senders, by block of ?3.
INSERT INTO catalog (kind, name, block, messages)
SELECT 'type', type, seq / ?3, count(*) FROM messages
 WHERE seq > ?1 AND seq <= ?2 GROUP BY 2, 3
UNION ALL
SELECT 'from', from_agent, seq / ?3, count(*) FROM messages
 WHERE seq > ?1 AND seq <= ?2 GROUP BY 2, 3
ON CONFLICT DO UPDATE SET messages = messages + excluded.messages;

-- name: catalog_times
INSERT INTO catalog_blocks (block, max_ts_ms)
SELECT seq / ?3, max(ts_ms) FROM messages
 WHERE seq > ?1 AND seq <= ?2 GROUP BY 1
ON CONFLICT DO UPDATE SET max_ts_ms = max(max_ts_ms, excluded.max_ts_ms);

-- name: catalog_advance
UPDATE catalog_state SET last_seq = ?;

-- name: catalog_counts
SELECT name, sum(messages) FROM catalog WHERE kind = ? GROUP BY name ORDER BY name;

-- name: catalog_blocks_of
SELECT DISTINCT block FROM catalog WHERE kind = ? AND name = ? AND block BETWEEN ? AND ?;

-- name: catalog_blocks_since
SELECT block FROM catalog_blocks WHERE max_ts_ms >= ? AND block BETWEEN ? AND ?;

-- name: catalog_empty
DELETE FROM catalog;

-- name: catalog_empty_blocks
DELETE FROM catalog_blocks;

-- name: catalog_name
-- Count some messages of one block under a name.
INSERT INTO catalog (kind, name, block, messages) VALUES (?, ?, ?, ?);

-- name: catalog_block
INSERT INTO catalog_blocks (block, max_ts_ms) VALUES (?, ?);

-- name: last_sent_ms
-- What an agent sent last is in the newest block of ?2 seqs in which it stands, unless archived.
SELECT ifnull((SELECT ts_ms FROM messages
                WHERE seq BETWEEN block * ?2 AND block * ?2 + ?2 - 1 AND from_agent = ?1
                ORDER BY seq DESC LIMIT 1), max_ts_ms)
  FROM catalog_blocks
 WHERE block = (SELECT max(block) FROM catalog WHERE kind = 'from' AND name = ?1);

-- known agents --------------------------------------------------------------------------------

-- name: agent_is_known
SELECT EXISTS (SELECT 1 FROM known_agents WHERE agent_id = ?);

-- name: known_agents
-- The names of the view, with one step in the catalog for each sender: it has a row for each block
-- that a sender stands in.
WITH RECURSIVE senders (name) AS (
  SELECT min(name) FROM catalog WHERE kind = 'from'
  UNION ALL
  SELECT (SELECT min(name) FROM catalog WHERE kind = 'from' AND catalog.name > senders.name)
    FROM senders WHERE name IS NOT NULL)
SELECT agent_id FROM cursors
UNION
SELECT agent_id FROM heartbeats
UNION
SELECT name FROM senders WHERE name IS NOT NULL
ORDER BY agent_id;

-- task_claims ---------------------------------------------------------------------------------

-- name: end_expired_lease
DELETE FROM task_claims WHERE task_id = ? AND lease_until_ms <= ?;

-- name: grant_lease
INSERT INTO task_claims (task_id, claimed_by, claimed_at_ms, lease_until_ms)
VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING task_id;

-- name: lease
SELECT task_id, claimed_by, token, claimed_at_ms, lease_until_ms FROM task_claims
 WHERE task_id = ?;

-- name: live_leases
SELECT task_id, claimed_by, token, claimed_at_ms, lease_until_ms FROM task_claims
 WHERE lease_until_ms > ? ORDER BY task_id;

-- name: forget_ended_leases
DELETE FROM task_claims WHERE task_id BETWEEN ? AND ? AND lease_until_ms <= ?;

-- name: newest_lease_time
SELECT max(claimed_at_ms) FROM task_claims;

-- name: bring_lease_nearer
-- One that was acquired by a clock which was ahead of now, ?1, is held since now, as long as it was
-- to be; one that was renewed since ends when it says.
UPDATE task_claims SET lease_until_ms = iif(lease_until_ms > claimed_at_ms,
                                            lease_until_ms - (claimed_at_ms - ?1), lease_until_ms),
                       claimed_at_ms = ?1
 WHERE task_id = ?2 AND claimed_at_ms > ?1 RETURNING lease_until_ms;

-- name: bring_leases_nearer
-- The same of all.
UPDATE task_claims SET lease_until_ms = iif(lease_until_ms > claimed_at_ms,
                                            lease_until_ms - (claimed_at_ms - ?1), lease_until_ms),
                       claimed_at_ms = ?1
 WHERE claimed_at_ms > ?1;

-- name: renew_lease
UPDATE task_claims SET lease_until_ms = ?
 WHERE task_id = ? AND claimed_by = ? AND token = ? AND lease_until_ms > ? RETURNING token;

-- name: release_lease
DELETE FROM task_claims
 WHERE task_id = ? AND claimed_by = ? AND token = ? AND lease_until_ms > ? RETURNING token;

-- sessions ------------------------------------------------------------------------------------

-- name: base_of_session
SELECT base FROM sessions WHERE name = ?;

-- name: sessions_under_base
SELECT name FROM sessions WHERE base = ? ORDER BY number;

-- reservations --------------------------------------------------------------------------------

-- name: end_expired_reservations
DELETE FROM reservations WHERE until_ms <= ?;

-- name: live_reservations
-- Those made in a session with its process, which holds the lease `reservation TOKEN`.
SELECT path, agent_id, mode, r.token, reserved_at_ms, until_ms, reason, claimed_by
  FROM reservations r LEFT JOIN task_claims ON task_id = 'reservation ' || r.token
 WHERE until_ms > ? ORDER BY path, agent_id;

-- name: reservation
SELECT path, agent_id, mode, r.token, reserved_at_ms, until_ms, reason, claimed_by
  FROM reservations r LEFT JOIN task_claims ON task_id = 'reservation ' || r.token
 WHERE path = ? AND agent_id = ?;

-- name: reservation_of_token
SELECT path, agent_id, mode, r.token, reserved_at_ms, until_ms, reason, claimed_by
  FROM reservations r LEFT JOIN task_claims ON task_id = 'reservation ' || r.token
 WHERE r.token = ?;

-- name: bring_reservations_nearer
-- Those made by a clock that was ahead of now, ?1, are as if they had been made now.
UPDATE reservations SET until_ms = iif(until_ms > reserved_at_ms,
                                       until_ms - (reserved_at_ms - ?1), until_ms),
                        reserved_at_ms = ?1
 WHERE reserved_at_ms > ?1;

-- name: extend_reservation
-- Reserving again what one has, in the same mode: it never ends sooner for that.
UPDATE reservations SET until_ms = max(until_ms, ?4), reason = ifnull(?5, reason)
 WHERE path = ?1 AND agent_id = ?2 AND mode = ?3 RETURNING token;

-- name: grant_reservation
INSERT INTO reservations (path, agent_id, mode, until_ms, reason, reserved_at_ms)
VALUES (?, ?, ?, ?, ?, ?);

-- name: drop_reservation
DELETE FROM reservations WHERE path = ? AND agent_id = ?;

-- name: renew_reservation
UPDATE reservations SET until_ms = ?
 WHERE token = ? AND agent_id = ? AND until_ms > ? RETURNING path;

-- name: release_reservation
DELETE FROM reservations WHERE token = ? AND agent_id = ? AND until_ms > ? RETURNING path;

-- heartbeats ----------------------------------------------------------------------------------

-- name: beat
INSERT INTO heartbeats (agent_id, ts_ms, status, current_task, progress, pid)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET ts_ms = excluded.ts_ms, status = excluded.status,
  current_task = excluded.current_task, progress = excluded.progress, pid = excluded.pid;

-- name: heartbeat
SELECT agent_id, ts_ms, status, current_task, progress, pid, substr(CAST(value AS BLOB), 1, 8192)
  FROM heartbeats LEFT JOIN meta ON key = 'hearts of ' || agent_id WHERE agent_id = ?;

-- name: mark
UPDATE heartbeats SET status = ?, current_task = NULL, progress = NULL WHERE agent_id = ?;

-- name: forget_heartbeat
DELETE FROM heartbeats WHERE agent_id = ? RETURNING agent_id;

-- name: heartbeats
-- With the processes whose hearts beat: bytes, since anybody may write there.
SELECT agent_id, ts_ms, status, current_task, progress, pid, substr(CAST(value AS BLOB), 1, 8192)
  FROM heartbeats LEFT JOIN meta ON key = 'hearts of ' || agent_id ORDER BY agent_id;

-- name: hearts
SELECT substr(CAST(value AS BLOB), 1, 8192) FROM meta WHERE key = ?;

-- name: note_hearts
INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value;

-- name: forget_hearts
DELETE FROM meta WHERE key = ?;

-- waiting_limits ------------------------------------------------------------------------------

-- name: set_limit
INSERT INTO waiting_limits (kind, name, max_waiting, waiting, glob, dots)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET max_waiting = excluded.max_waiting, waiting = excluded.waiting;

-- name: clear_limit
DELETE FROM waiting_limits WHERE kind = ? AND name = ? RETURNING name;

-- name: limits
SELECT kind, name, max_waiting, iif(kind = 'queue', waiting, (
         SELECT count(*) FROM messages WHERE to_agent = name AND work IS NOT 1 AND seq > ifnull(
           (SELECT last_acked_seq FROM cursors WHERE agent_id = name), 0)
             AND seq NOT IN (SELECT seq FROM received WHERE agent_id = name)))
  FROM waiting_limits ORDER BY kind, name;

-- name: limit_counts
-- Whether a message of type ?2 to ?3 counts for a queue's limit: the triggers' own condition.
SELECT EXISTS (
  SELECT 1 FROM waiting_limits WHERE kind = 'queue' AND name = ?1 AND ?2 GLOB glob
     AND (dots IS NULL OR dots = length(?2) - length(replace(?2, '.', '')))
     AND (?3 IS NULL OR (SELECT addressed FROM queues WHERE queues.name = ?1) IN ('*', ?3)));

-- archive -------------------------------------------------------------------------------------

-- name: archived_upto
SELECT last_seq FROM archive_state;

-- name: archive_segments
SELECT first_seq, last_seq, messages, bytes, sha256, archived_at_ms FROM archive_segments
 WHERE discarded_at_ms IS NULL ORDER BY first_seq;

-- name: discarded_segments
SELECT first_seq, last_seq, messages, discarded_at_ms FROM archive_segments
 WHERE discarded_at_ms IS NOT NULL ORDER BY first_seq;

-- name: discard_segment
UPDATE archive_segments SET discarded_at_ms = ?2 WHERE first_seq = ?1;

-- name: frames_in_span
-- The frames that hold messages (?1, ?2]: each begins where its first message is.
SELECT first_seq, segment, start, bytes FROM archive_frames
 WHERE first_seq >= ifnull((SELECT max(first_seq) FROM archive_frames WHERE first_seq <= ?1), 0)
   AND first_seq <= ?2
 ORDER BY first_seq;

-- name: frame_end
-- Up to where the frame that begins at ?1 is the only one to have messages: what has yet to leave
-- the log is there too.
SELECT min(last_seq, ifnull((SELECT min(first_seq) - 1 FROM archive_frames WHERE first_seq > ?1),
                            last_seq))
  FROM archive_state;

-- name: segment_end
-- The same, for a segment.
SELECT min(a.last_seq, s.last_seq) FROM archive_state a, archive_segments s WHERE s.first_seq = ?1;

-- name: archived_seq
SELECT seq FROM archived_ids WHERE id = ?;

-- name: kept_seq
-- The seq of a message in a segment, whether it has left the log already or not.
SELECT seq FROM archived_ids WHERE id = ?1 UNION ALL SELECT seq FROM messages WHERE id = ?1;

-- name: archived_blob
SELECT EXISTS (SELECT 1 FROM archived_blobs WHERE payload_ref = ?);

-- name: add_segment
INSERT INTO archive_segments (first_seq, last_seq, messages, bytes, sha256, archived_at_ms)
VALUES (?, ?, ?, ?, ?, ?);

-- name: add_frame
INSERT INTO archive_frames (first_seq, segment, start, bytes) VALUES (?, ?, ?, ?);

-- name: forget_frames
DELETE FROM archive_frames WHERE segment = ?;

-- name: put_segment
INSERT INTO archive_segments (first_seq, last_seq, messages, bytes, sha256, archived_at_ms)
VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (first_seq) DO UPDATE
   SET last_seq = excluded.last_seq, messages = excluded.messages, bytes = excluded.bytes,
       sha256 = excluded.sha256;

-- name: forget_blob
DELETE FROM archived_blobs WHERE payload_ref = ?;

-- name: message_is_there
-- What is still in the log has its id there.
SELECT 1 FROM messages WHERE seq = ?;

-- name: keep_id
INSERT INTO archived_ids (id, seq) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: keep_blob
INSERT INTO archived_blobs (payload_ref) VALUES (?) ON CONFLICT DO NOTHING;

-- name: last_of
-- The seq of the last of the ?2 messages above ?1, up to ?3.
SELECT max(seq) FROM (
  SELECT seq FROM messages WHERE seq > ?1 AND seq <= ?3 ORDER BY seq LIMIT ?2);

-- name: keep_ids
INSERT INTO archived_ids (id, seq) SELECT id, seq FROM messages WHERE seq > ? AND seq <= ?
ON CONFLICT DO NOTHING;

-- name: keep_blobs
INSERT INTO archived_blobs (payload_ref)
SELECT payload_ref FROM messages WHERE seq > ? AND seq <= ? AND payload_ref IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: set_archived_upto
UPDATE archive_state SET last_seq = ?;

-- name: remove_archived
DELETE FROM messages WHERE seq > ? AND seq <= ?;

-- imports -------------------------------------------------------------------------------------

-- name: imports
SELECT value FROM meta WHERE key = 'imports';

-- name: set_imports
INSERT INTO meta (key, value) VALUES ('imports', ?)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- chain ---------------------------------------------------------------------------------------

-- name: chain_switch
SELECT value FROM meta WHERE key = 'chain';

-- name: switch_chain_on
INSERT INTO meta (key, value) VALUES ('chain', 'on') ON CONFLICT DO NOTHING;

-- name: switch_chain_off
DELETE FROM meta WHERE key = 'chain';

-- name: chain_head
SELECT seq, digest FROM chain WHERE seq <= ? ORDER BY seq DESC LIMIT 1;

-- name: chain_links
SELECT seq, digest FROM chain WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?;

-- name: add_link
INSERT INTO chain (seq, digest) VALUES (?, ?);
