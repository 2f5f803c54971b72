-- The statements of schedules and of the decisions about their times.

-- name: add_schedule
INSERT INTO schedules (plugin, schedule_id, config_hash, next_nominal_ms, due_ms, begun_at_ms)
VALUES (?, ?, ?, ?, ?, ?);

-- name: change_schedule
-- Another configuration of its times: another schedule under the same name.
UPDATE schedules SET config_hash = ?, next_nominal_ms = ?, due_ms = ?, waiting_ms = NULL, kept_back = 0
 WHERE plugin = ? AND schedule_id = ?;

-- name: advance_schedule
UPDATE schedules SET next_nominal_ms = ?1, due_ms = ?2, last_fired_ms = ifnull(?3, last_fired_ms),
                     last_job_id = ifnull(?4, last_job_id),
                     kept_back = iif(?3 IS NULL, kept_back, 0)
 WHERE plugin = ?5 AND schedule_id = ?6;

-- name: set_schedule_paused
UPDATE schedules SET paused_at_ms = ?, next_nominal_ms = ?, due_ms = ?
 WHERE plugin = ? AND schedule_id = ?;

-- name: correct_schedules
-- The clock was set back: nothing has run later than now.
UPDATE schedules SET last_fired_ms = min(last_fired_ms, ?1), begun_at_ms = min(begun_at_ms, ?1),
                     waiting_ms = iif(waiting_ms > ?1, NULL, waiting_ms)
 WHERE last_fired_ms > ?1 OR begun_at_ms > ?1 OR waiting_ms > ?1;

-- name: set_schedule_waiting
UPDATE schedules SET waiting_ms = ? WHERE plugin = ? AND schedule_id = ?;

-- name: count_kept_back
UPDATE schedules SET kept_back = kept_back + 1 WHERE plugin = ? AND schedule_id = ?;

-- name: waiting_schedules
-- One whose next time is due is decided about with that.
SELECT {schedule} FROM schedules
 WHERE waiting_ms IS NOT NULL AND paused_at_ms IS NULL AND (due_ms IS NULL OR due_ms > ?);

-- name: starving_schedules
SELECT {schedule}, (SELECT reason FROM schedule_decisions INDEXED BY idx_schedule_decisions_of
                     WHERE plugin = schedules.plugin AND schedule_id = schedules.schedule_id
                     ORDER BY id DESC LIMIT 1)
  FROM schedules WHERE kept_back >= ? AND paused_at_ms IS NULL;

-- name: remove_schedule
DELETE FROM schedules WHERE plugin = ? AND schedule_id = ?;

-- name: remove_other_schedules
-- All that are not in a JSON list of pairs.
DELETE FROM schedules WHERE (plugin, schedule_id) NOT IN (
  SELECT value ->> 0, value ->> 1 FROM json_each(?));

-- name: schedule
SELECT {schedule} FROM schedules WHERE plugin = ? AND schedule_id = ?;

-- name: schedules
SELECT {schedule} FROM schedules ORDER BY plugin, schedule_id;

-- name: due_schedules
SELECT {schedule} FROM schedules
 WHERE due_ms <= ?1 AND due_ms IS NOT NULL AND paused_at_ms IS NULL ORDER BY due_ms LIMIT ?2;

-- name: next_due
SELECT min(due_ms) FROM schedules WHERE due_ms IS NOT NULL AND paused_at_ms IS NULL;

-- name: add_decision
-- One about a reopened time has the next turn; one about a decided time is refused by the table.
INSERT INTO schedule_decisions (plugin, schedule_id, config_hash, nominal_ms, until_ms, count,
                                decision, reason, job_id, decided_at_ms, turn)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ifnull(
  (SELECT max(turn) + 1 FROM schedule_decisions
    WHERE plugin = ?1 AND schedule_id = ?2 AND config_hash = ?3 AND nominal_ms = ?4), 0));

-- name: reopen_decisions
-- Of times after one that did not fire and were decided while the clock was ahead; of one schedule,
-- or of all.
INSERT INTO schedule_decisions (plugin, schedule_id, config_hash, nominal_ms, until_ms, count,
                                decision, reason, decided_at_ms, turn)
SELECT plugin, schedule_id, config_hash, nominal_ms, until_ms, count, 'reopened',
       'the clock was set back; this was ' || decision || ' while it was ahead'
         || ifnull(': ' || nullif(reason, ''), ''), ?1, turn + 1
  FROM schedule_decisions old INDEXED BY idx_schedule_decisions_decided
 WHERE decided_at_ms > ?1 AND until_ms > ?2 AND decision IN ('skipped', 'missed')
   AND (?3 IS NULL OR (plugin, schedule_id) = (?3, ?4))
   AND NOT EXISTS (SELECT 1 FROM schedule_decisions
                    WHERE plugin = old.plugin AND schedule_id = old.schedule_id
                      AND config_hash = old.config_hash AND nominal_ms = old.nominal_ms
                      AND turn > old.turn);

-- name: newest_decision
SELECT max(decided_at_ms) FROM schedule_decisions;

-- name: is_decided
-- Its newest turn is a decision, and no reopening.
SELECT max(turn) % 2 = 0 FROM schedule_decisions
 WHERE plugin = ? AND schedule_id = ? AND config_hash = ? AND nominal_ms = ?;

-- name: decided_within
-- After the clock was set back a span may have some.
SELECT nominal_ms FROM schedule_decisions
 WHERE plugin = ? AND schedule_id = ? AND config_hash = ? AND nominal_ms BETWEEN ? AND ?
 GROUP BY nominal_ms HAVING max(turn) % 2 = 0;

-- name: is_any_decided
SELECT EXISTS (SELECT 1 FROM schedule_decisions
                WHERE plugin = ? AND schedule_id = ? AND config_hash = ?
                GROUP BY nominal_ms HAVING max(turn) % 2 = 0);

-- name: decisions_of
-- The newest first.
SELECT {decision} FROM schedule_decisions INDEXED BY idx_schedule_decisions_of
 WHERE plugin = ?1 AND schedule_id = ?2 AND id < ?3 ORDER BY id DESC LIMIT ?4;

-- name: missed_since
-- Among the newest decisions only, however many there are of the time.
SELECT plugin, schedule_id, count FROM (
  SELECT plugin, schedule_id, count, decision
    FROM schedule_decisions INDEXED BY idx_schedule_decisions_decided
   WHERE decided_at_ms >= ?1 ORDER BY decided_at_ms DESC LIMIT ?2)
 WHERE decision = 'missed';

-- name: prune_decisions
-- The last nominal time of each schedule stays: it tells that a single time was decided.
DELETE FROM schedule_decisions WHERE id IN (
  SELECT id FROM schedule_decisions old
   WHERE decided_at_ms < ?1
     AND EXISTS (SELECT 1 FROM schedule_decisions
                  WHERE plugin = old.plugin AND schedule_id = old.schedule_id
                    AND config_hash = old.config_hash AND nominal_ms > old.nominal_ms)
   LIMIT ?2);
