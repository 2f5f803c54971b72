-- From version 7 to version 8: tasks. schema.sql says what each table is for.

-- Tasks: work of one agent on one branch. The newest attempt of each, as the messages of its
-- conversation add up.
CREATE TABLE tasks (
  task           TEXT PRIMARY KEY CHECK (task <> ''),
  attempt        INTEGER NOT NULL CHECK (attempt >= 1),
  state          TEXT NOT NULL CHECK (state IN ('ASSIGNED', 'WORKING', 'IN_REVIEW', 'APPROVED',
                                                'COMPLETED', 'CANCELLED', 'FAILED')),
  worker         TEXT NOT NULL CHECK (worker <> ''),
  branch         TEXT NOT NULL CHECK (branch <> ''),
  path           TEXT NOT NULL,  -- of the work tree
  repository     TEXT NOT NULL,  -- the git directory that its work trees share
  base_ref       TEXT NOT NULL,
  base           TEXT NOT NULL,  -- the commit from which the branch started
  target         TEXT NOT NULL,  -- the branch that it is for
  head           TEXT,           -- the commit that is done
  token          INTEGER NOT NULL CHECK (token >= 1),  -- of the lease of this attempt
  review         TEXT NOT NULL CHECK (review IN ('none', 'required', 'other')),
  reviewer       TEXT,
  requester      TEXT NOT NULL,
  priority       INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
  max_attempts   INTEGER NOT NULL CHECK (max_attempts >= 1),
  on_lost        TEXT NOT NULL CHECK (on_lost IN ('requeue', 'fail')),
  depends_on     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(depends_on)),
  from_queue     INTEGER NOT NULL DEFAULT 0 CHECK (from_queue IN (0, 1)),  -- of jobs
  prompt         TEXT CHECK (json_valid(prompt)),
  reason         TEXT,           -- of the state, or of the end of the attempt before
  blocked        TEXT CHECK (json_valid(blocked)),
  commit_id      TEXT,           -- that has landed
  correlation_id TEXT NOT NULL,
  last_seq       INTEGER NOT NULL,  -- of its newest state_change
  created_at_ms  INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  changed_at_ms  INTEGER NOT NULL CHECK (changed_at_ms BETWEEN 0 AND 253402300799999),
  cleaned_at_ms  INTEGER CHECK (cleaned_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_tasks_created ON tasks (created_at_ms);
CREATE INDEX idx_tasks_commit ON tasks (commit_id) WHERE commit_id IS NOT NULL;
CREATE INDEX idx_tasks_live ON tasks (created_at_ms)
  WHERE state IN ('ASSIGNED', 'WORKING', 'IN_REVIEW', 'APPROVED');

CREATE TRIGGER tasks_begin_assigned BEFORE INSERT ON tasks
WHEN NEW.attempt <> 1 OR NEW.state <> 'ASSIGNED' OR EXISTS (SELECT 1 FROM tasks WHERE task = NEW.task)
BEGIN
  SELECT RAISE(ABORT, 'a task begins once, with attempt 1, ASSIGNED');
END;

CREATE TRIGGER tasks_go_forward BEFORE UPDATE ON tasks
WHEN NEW.task <> OLD.task OR NEW.token < OLD.token OR NOT (
  (NEW.attempt = OLD.attempt AND (NEW.state = OLD.state
    OR (OLD.state, NEW.state) IN (VALUES ('ASSIGNED', 'WORKING'), ('WORKING', 'IN_REVIEW'),
                                         ('IN_REVIEW', 'APPROVED'), ('APPROVED', 'COMPLETED'))
    OR (OLD.state NOT IN ('COMPLETED', 'CANCELLED', 'FAILED')
        AND NEW.state IN ('CANCELLED', 'FAILED'))))
  OR (NEW.attempt = OLD.attempt + 1 AND OLD.state = 'FAILED' AND NEW.state = 'ASSIGNED'))
BEGIN
  SELECT RAISE(ABORT, 'a task goes one step forward, and a failed one begins its next attempt');
END;

-- Jobs that are for one worker alone.
ALTER TABLE jobs ADD COLUMN for_worker TEXT CHECK (for_worker <> '');
DROP INDEX idx_jobs_ready;
CREATE INDEX idx_jobs_ready ON jobs (queue_id, rank_ms, seq, for_worker)
  WHERE state = 'queued' AND gate = 'open';
CREATE INDEX idx_jobs_for_worker ON jobs (queue_id, for_worker, rank_ms, seq)
  WHERE state = 'queued' AND gate = 'open' AND for_worker IS NOT NULL;

-- The commits that were to become the heads of target branches, and those that did.
CREATE TABLE landings (
  seq           INTEGER PRIMARY KEY CHECK (seq > 0),  -- of the message that tells of the intent
  repository    TEXT NOT NULL,
  target        TEXT NOT NULL,
  task          TEXT,            -- NULL: of a branch without a task
  attempt       INTEGER,
  branch        TEXT NOT NULL,
  head          TEXT NOT NULL,
  onto          TEXT NOT NULL,
  candidate     TEXT NOT NULL,
  tree          TEXT NOT NULL,
  patch_id      TEXT NOT NULL,
  checks        TEXT NOT NULL CHECK (json_valid(checks)),
  state         TEXT NOT NULL CHECK (state IN ('intended', 'proposed', 'landed', 'abandoned')),
  completion_seq INTEGER NOT NULL CHECK (completion_seq > 0),
  intended_at_ms INTEGER NOT NULL CHECK (intended_at_ms BETWEEN 0 AND 253402300799999),
  ended_at_ms   INTEGER CHECK (ended_at_ms BETWEEN 0 AND 253402300799999)
) STRICT;
CREATE INDEX idx_landings_head ON landings (repository, target, head);
CREATE INDEX idx_landings_candidate ON landings (repository, target, candidate);
CREATE INDEX idx_landings_open ON landings (repository, target)
  WHERE state IN ('intended', 'proposed');
CREATE INDEX idx_landings_task ON landings (task) WHERE task IS NOT NULL;

-- The pairs of commits that were merged for a forecast; kept for a day, to save merging them again.
CREATE TABLE merge_forecasts (
  a     TEXT NOT NULL CHECK (a < b),
  b     TEXT NOT NULL,
  files TEXT CHECK (json_valid(files)),  -- that conflict; NULL: the commits merge
  at_ms INTEGER NOT NULL CHECK (at_ms BETWEEN 0 AND 253402300799999),
  PRIMARY KEY (a, b)
) STRICT, WITHOUT ROWID;
CREATE INDEX idx_merge_forecasts_at ON merge_forecasts (at_ms);

-- Jobs that wait until the tasks on which they depend have landed.
CREATE TABLE planned_jobs (
  task           TEXT PRIMARY KEY CHECK (task <> ''),
  payload        TEXT NOT NULL CHECK (json_valid(payload)),
  depends_on     TEXT NOT NULL CHECK (json_valid(depends_on)),
  priority       INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 2),
  planned_by     TEXT NOT NULL,
  correlation_id TEXT,
  message_id     TEXT NOT NULL,  -- of the message that told of it
  planned_at_ms  INTEGER NOT NULL CHECK (planned_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

-- The output of the jobs of tasks, a line each, while they run; pruned by age.
CREATE TABLE task_output (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  seq    INTEGER NOT NULL,  -- the message of the job
  at_ms  INTEGER NOT NULL CHECK (at_ms BETWEEN 0 AND 253402300799999),
  stream TEXT CHECK (stream IN ('stdout', 'stderr')),
  number INTEGER CHECK (number >= 1),  -- in its stream
  text   TEXT NOT NULL
) STRICT;
CREATE INDEX idx_task_output_of_job ON task_output (seq, id);
CREATE INDEX idx_task_output_at ON task_output (at_ms);

-- The times at which the jobs of tasks printed first and last.
CREATE TABLE task_progress (
  seq             INTEGER PRIMARY KEY,
  first_log_at_ms INTEGER NOT NULL CHECK (first_log_at_ms BETWEEN 0 AND 253402300799999),
  active_at_ms    INTEGER NOT NULL CHECK (active_at_ms BETWEEN 0 AND 253402300799999)
) STRICT;

-- The words of workers about themselves, beside their heartbeats.
CREATE TABLE task_workers (
  worker        TEXT PRIMARY KEY CHECK (worker <> ''),
  poll_ms       INTEGER CHECK (poll_ms >= 0),
  capabilities  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(capabilities) AND json_type(capabilities) = 'object'),
  details       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(details) AND json_type(details) = 'object'),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  updated_at_ms INTEGER NOT NULL CHECK (updated_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

-- The right of one planner to dispatch work: one row while it is held.
CREATE TABLE dispatch_lock (
  lock_id        TEXT PRIMARY KEY DEFAULT 'dispatch' CHECK (lock_id = 'dispatch'),
  session_id     TEXT NOT NULL CHECK (session_id <> ''),
  run_id         TEXT NOT NULL CHECK (run_id <> ''),
  acquired_at_ms INTEGER NOT NULL CHECK (acquired_at_ms BETWEEN 0 AND 253402300799999),
  expires_at_ms  INTEGER NOT NULL CHECK (expires_at_ms BETWEEN 0 AND 253402300799999),
  updated_at_ms  INTEGER NOT NULL CHECK (updated_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

-- The states of planners, and the facts before their decisions.
CREATE TABLE autonomy_state (
  session_id    TEXT PRIMARY KEY CHECK (session_id <> ''),
  state         TEXT NOT NULL CHECK (json_valid(state) AND json_type(state) = 'object'),
  updated_at_ms INTEGER NOT NULL CHECK (updated_at_ms BETWEEN 0 AND 253402300799999)
) STRICT, WITHOUT ROWID;

CREATE TABLE autonomy_snapshots (
  snapshot_id        TEXT PRIMARY KEY CHECK (snapshot_id <> ''),
  session_id         TEXT NOT NULL CHECK (session_id <> ''),
  run_id             TEXT NOT NULL,
  created_at_ms      INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  ttl_ms             INTEGER NOT NULL CHECK (ttl_ms >= 0),
  dispatch_lock_held INTEGER NOT NULL CHECK (dispatch_lock_held IN (0, 1)),
  payload            TEXT NOT NULL CHECK (json_valid(payload) AND json_type(payload) = 'object')
) STRICT;
CREATE INDEX idx_autonomy_snapshots_created ON autonomy_snapshots (created_at_ms);

-- Sessions of people's clients. `online` has the services that have reported in one so far, and
-- `ready_seq` the message that told that all had.
CREATE TABLE task_sessions (
  session_id    TEXT PRIMARY KEY CHECK (length(session_id) BETWEEN 1 AND 64
                                        AND session_id NOT GLOB '*[^a-zA-Z0-9._-]*'),
  created_at_ms INTEGER NOT NULL CHECK (created_at_ms BETWEEN 0 AND 253402300799999),
  label         TEXT,
  online        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(online) AND json_type(online) = 'array'),
  ready_seq     INTEGER
) STRICT, WITHOUT ROWID;

-- Their events: which messages they are.
CREATE TABLE session_events (
  session_id TEXT NOT NULL REFERENCES task_sessions (session_id),
  seq        INTEGER NOT NULL,  -- of the message
  PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

-- The approvals of people that are asked for in them: for good.
CREATE TABLE session_approvals (
  approval_id TEXT PRIMARY KEY CHECK (approval_id <> ''),
  session_id  TEXT NOT NULL REFERENCES task_sessions (session_id),
  asked_seq   INTEGER NOT NULL,  -- the event that asks
  decision    TEXT CHECK (decision IN ('approved', 'denied'))
) STRICT, WITHOUT ROWID;

-- Cursors of agents in sessions; all events up to `pruned_upto` are handled, and not marked.
CREATE TABLE session_cursors (
  agent_id    TEXT NOT NULL CHECK (agent_id <> ''),
  session_id  TEXT NOT NULL,
  cursor      INTEGER NOT NULL DEFAULT 0 CHECK (cursor >= 0),
  pruned_upto INTEGER NOT NULL DEFAULT 0 CHECK (pruned_upto >= 0),
  PRIMARY KEY (agent_id, session_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_cursors_never_go_back BEFORE UPDATE ON session_cursors
WHEN NEW.cursor < OLD.cursor OR NEW.pruned_upto < OLD.pruned_upto
BEGIN
  SELECT RAISE(ABORT, 'a cursor of a session never goes back');
END;

-- The events that agents have handled; the mark is made with the outcome.
CREATE TABLE handled_messages (
  agent_id      TEXT NOT NULL CHECK (agent_id <> ''),
  session_id    TEXT NOT NULL,
  seq           INTEGER NOT NULL,
  handled_at_ms INTEGER NOT NULL CHECK (handled_at_ms BETWEEN 0 AND 253402300799999),
  PRIMARY KEY (agent_id, session_id, seq)
) STRICT, WITHOUT ROWID;

-- The queues of tasks, for programs that know the tables of PushPals. A payload that is a blob is
-- not in this file: what would come from it is NULL, or the default.
CREATE VIEW pushpals_requests AS
  SELECT messages.id,
         messages.payload ->> '$.sessionId' AS sessionId,
         iif(json_type(messages.payload) = 'text', messages.payload ->> '$', messages.payload ->> '$.prompt')
           AS prompt,
         CASE jobs.priority WHEN 0 THEN 'interactive' WHEN 1 THEN 'normal' ELSE 'background' END
           AS priority,
         ifnull(messages.payload ->> '$.queueWaitBudgetMs',
                CASE jobs.priority WHEN 0 THEN 20000 WHEN 1 THEN 90000 ELSE 240000 END)
           AS queueWaitBudgetMs,
         CASE jobs.state WHEN 'queued' THEN 'pending' WHEN 'running' THEN 'claimed'
           WHEN 'succeeded' THEN 'completed' ELSE 'failed' END AS status,
         iif(jobs.state = 'queued', NULL, claims.worker_group) AS agentId,
         iif(jobs.state = 'succeeded', claims.result, NULL) AS result,
         CASE WHEN jobs.state IN ('queued', 'running', 'succeeded') THEN NULL
           WHEN claims.status IN ('failed', 'timed_out') AND json_valid(claims.result)
            AND json_type(claims.result, '$.message') = 'text' THEN claims.result
           WHEN instr(jobs.error, ': ') > 0 AND claims.status = 'lost' THEN json_object(
             'detail', substr(jobs.error, instr(jobs.error, ': ') + 2),
             'message', substr(jobs.error, 1, instr(jobs.error, ': ') - 1))
           ELSE json_object('message', ifnull(jobs.error, 'Unknown error')) END AS error,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS enqueuedAt,
         iif(jobs.state = 'queued', NULL,
             strftime('%Y-%m-%dT%H:%M:%fZ', claims.claimed_at_ms / 1000.0, 'unixepoch')) AS claimedAt,
         iif(jobs.state = 'succeeded',
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS completedAt,
         iif(jobs.state NOT IN ('queued', 'running', 'succeeded'),
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS failedAt,
         jobs.ended_at_ms - jobs.started_at_ms AS durationMs,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS createdAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', max(jobs.created_at_ms, ifnull(jobs.started_at_ms, 0),
                  ifnull(claims.ended_at_ms, 0), ifnull(jobs.ended_at_ms, 0)) / 1000.0, 'unixepoch') AS updatedAt
    FROM queues JOIN jobs ON jobs.queue_id = queues.id
    JOIN (SELECT seq, id, iif(json_valid(payload), payload, NULL) AS payload FROM messages) AS messages
      ON messages.seq = jobs.seq
    LEFT JOIN claims ON claims.token = (
         SELECT max(token) FROM claims WHERE queue_id = jobs.queue_id AND seq = jobs.seq)
   WHERE queues.name = 'requests' AND queues.removed_at_ms IS NULL;

CREATE VIEW pushpals_jobs AS
  SELECT messages.id,
         ifnull(messages.payload ->> '$.taskId', messages.payload ->> '$.task') AS taskId,
         messages.payload ->> '$.sessionId' AS sessionId,
         ifnull(messages.payload ->> '$.kind', 'task.execute') AS kind,
         ifnull(messages.payload -> '$.params', iif(json_type(messages.payload) = 'object', messages.payload, '{}'))
           AS params,
         CASE jobs.priority WHEN 0 THEN 'interactive' WHEN 1 THEN 'normal' ELSE 'background' END
           AS priority,
         ifnull(messages.payload ->> '$.queueWaitBudgetMs',
                CASE jobs.priority WHEN 0 THEN 20000 WHEN 1 THEN 90000 ELSE 240000 END)
           AS queueWaitBudgetMs,
         ifnull(messages.payload ->> '$.executionBudgetMs',
                CASE jobs.priority WHEN 0 THEN 300000 WHEN 1 THEN 900000 ELSE 1800000 END)
           AS executionBudgetMs,
         ifnull(messages.payload ->> '$.finalizationBudgetMs', 120000) AS finalizationBudgetMs,
         CASE jobs.state WHEN 'queued' THEN 'pending' WHEN 'running' THEN 'claimed'
           WHEN 'succeeded' THEN 'completed' ELSE 'failed' END AS status,
         iif(jobs.state = 'queued', NULL, claims.worker_group) AS workerId,
         jobs.for_worker AS targetWorkerId,
         iif(jobs.state = 'succeeded', claims.result, NULL) AS result,
         CASE WHEN jobs.state IN ('queued', 'running', 'succeeded') THEN NULL
           WHEN claims.status IN ('failed', 'timed_out') AND json_valid(claims.result)
            AND json_type(claims.result, '$.message') = 'text' THEN claims.result
           WHEN instr(jobs.error, ': ') > 0 AND claims.status = 'lost' THEN json_object(
             'detail', substr(jobs.error, instr(jobs.error, ': ') + 2),
             'message', substr(jobs.error, 1, instr(jobs.error, ': ') - 1))
           ELSE json_object('message', ifnull(jobs.error, 'Unknown error')) END AS error,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS enqueuedAt,
         iif(jobs.state = 'queued', NULL,
             strftime('%Y-%m-%dT%H:%M:%fZ', claims.claimed_at_ms / 1000.0, 'unixepoch')) AS claimedAt,
         iif(jobs.state = 'queued', NULL,
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.started_at_ms / 1000.0, 'unixepoch')) AS startedAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', task_progress.first_log_at_ms / 1000.0, 'unixepoch') AS firstLogAt,
         iif(jobs.state = 'succeeded',
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS completedAt,
         iif(jobs.state NOT IN ('queued', 'running', 'succeeded'),
             strftime('%Y-%m-%dT%H:%M:%fZ', jobs.ended_at_ms / 1000.0, 'unixepoch'), NULL) AS failedAt,
         jobs.ended_at_ms - jobs.started_at_ms AS durationMs,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS createdAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', max(jobs.created_at_ms, ifnull(jobs.started_at_ms, 0),
                  ifnull(claims.ended_at_ms, 0), ifnull(jobs.ended_at_ms, 0),
                  ifnull(task_progress.active_at_ms, 0)) / 1000.0, 'unixepoch') AS updatedAt
    FROM queues JOIN jobs ON jobs.queue_id = queues.id
    JOIN (SELECT seq, id, iif(json_valid(payload), payload, NULL) AS payload FROM messages) AS messages
      ON messages.seq = jobs.seq
    LEFT JOIN task_progress ON task_progress.seq = jobs.seq
    LEFT JOIN claims ON claims.token = (
         SELECT max(token) FROM claims WHERE queue_id = jobs.queue_id AND seq = jobs.seq)
   WHERE queues.name = 'jobs' AND queues.removed_at_ms IS NULL;

CREATE VIEW pushpals_completions AS
  SELECT messages.id,
         ifnull(messages.payload ->> '$.jobId', messages.payload ->> '$.task') AS jobId,
         messages.payload ->> '$.sessionId' AS sessionId,
         ifnull(messages.payload ->> '$.commitSha', messages.payload ->> '$.head') AS commitSha,
         messages.payload ->> '$.branch' AS branch,
         ifnull(messages.payload ->> '$.message', 'Merge ' || (messages.payload ->> '$.branch')) AS message,
         messages.payload ->> '$.prTitle' AS prTitle,
         messages.payload ->> '$.prBody' AS prBody,
         CASE jobs.state WHEN 'queued' THEN 'pending' WHEN 'running' THEN 'claimed'
           WHEN 'succeeded' THEN 'processed' ELSE 'failed' END AS status,
         iif(jobs.state = 'queued', NULL, claims.worker_group) AS pusherId,
         iif(jobs.state IN ('queued', 'running', 'succeeded'), NULL, ifnull(jobs.error, 'Unknown error'))
           AS error,
         strftime('%Y-%m-%dT%H:%M:%fZ', jobs.created_at_ms / 1000.0, 'unixepoch') AS createdAt,
         strftime('%Y-%m-%dT%H:%M:%fZ', max(jobs.created_at_ms, ifnull(jobs.started_at_ms, 0),
                  ifnull(claims.ended_at_ms, 0), ifnull(jobs.ended_at_ms, 0)) / 1000.0, 'unixepoch') AS updatedAt
    FROM queues JOIN jobs ON jobs.queue_id = queues.id
    JOIN (SELECT seq, id, iif(json_valid(payload), payload, NULL) AS payload FROM messages) AS messages
      ON messages.seq = jobs.seq
    LEFT JOIN claims ON claims.token = (
         SELECT max(token) FROM claims WHERE queue_id = jobs.queue_id AND seq = jobs.seq)
   WHERE queues.name = 'completions' AND queues.removed_at_ms IS NULL;

CREATE VIEW pushpals_job_logs AS
  SELECT task_output.id, messages.id AS jobId,
         strftime('%Y-%m-%dT%H:%M:%fZ', at_ms / 1000.0, 'unixepoch') AS ts,
         text AS message, stream, number AS seq
    FROM task_output JOIN messages ON messages.seq = task_output.seq;

CREATE VIEW pushpals_autonomy_dispatch_lock AS
  SELECT lock_id, session_id AS owner_session_id, run_id AS owner_run_id,
         strftime('%Y-%m-%dT%H:%M:%fZ', acquired_at_ms / 1000.0, 'unixepoch') AS acquired_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', expires_at_ms / 1000.0, 'unixepoch') AS expires_at,
         strftime('%Y-%m-%dT%H:%M:%fZ', updated_at_ms / 1000.0, 'unixepoch') AS updated_at
    FROM dispatch_lock;

CREATE VIEW pushpals_autonomy_snapshots AS
  SELECT snapshot_id, session_id, run_id,
         strftime('%Y-%m-%dT%H:%M:%fZ', created_at_ms / 1000.0, 'unixepoch') AS created_at,
         ttl_ms, dispatch_lock_held, payload
    FROM autonomy_snapshots;

CREATE VIEW pushpals_autonomy_state AS
  SELECT session_id, state,
         strftime('%Y-%m-%dT%H:%M:%fZ', updated_at_ms / 1000.0, 'unixepoch') AS updated_at
    FROM autonomy_state;

CREATE VIEW pushpals_sessions AS
  SELECT session_id,
         strftime('%Y-%m-%dT%H:%M:%fZ', created_at_ms / 1000.0, 'unixepoch') AS created_at,
         label
    FROM task_sessions;

CREATE VIEW pushpals_events AS
  SELECT session_events.seq AS event_id, messages.id, session_events.session_id,
         substr(messages.type, 9) AS type,
         strftime('%Y-%m-%dT%H:%M:%fZ', messages.ts_ms / 1000.0, 'unixepoch') AS ts,
         messages.payload AS envelope
    FROM session_events JOIN messages ON messages.seq = session_events.seq;

UPDATE meta SET value = '8' WHERE key = 'schema_version';
