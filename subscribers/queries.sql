-- name: has_worked
-- Whether a worker group has, or has had, the job of a message: a look into each queue.
SELECT EXISTS (SELECT 1 FROM queues CROSS JOIN claims
                WHERE queue_id = queues.id AND claims.seq = ? AND worker_group = ?);

-- name: is_taken_in
-- Whether a queue of exactly this type takes in what is addressed to an agent.
SELECT EXISTS (SELECT 1 FROM queues
                WHERE pattern = ? AND addressed IN ('*', ?) AND removed_at_ms IS NULL);
