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

UPDATE meta SET value = '8' WHERE key = 'schema_version';
