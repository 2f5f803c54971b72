-- name: has_worked
-- Whether a worker group has, or has had, the job of a message: a look into each queue.
SELECT EXISTS (SELECT 1 FROM queues CROSS JOIN claims
                WHERE queue_id = queues.id AND claims.seq = ? AND worker_group = ?);
