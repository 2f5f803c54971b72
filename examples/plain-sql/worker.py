"""A worker of a queue in plain SQL, without ackbus: `python worker.py` in a folder with a bus.

It takes in what comes of one type, claims it under leases, and answers. docs/sql.md has the
rules that it keeps. Run as a program, it shows them on two jobs of its own.
"""

import json
import random
import sqlite3
import time


def now_ms() -> int:
    """Return the present time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def fill(db, queue, now):
    """Make jobs of what came since. The queue was read in the transaction that is open."""
    upto = db.execute("SELECT ifnull(max(seq), 0) FROM messages").fetchone()[0]
    moved = db.execute(
        "UPDATE queues SET filled_seq = ? WHERE id = ? AND filled_seq = ?",
        (max(upto, queue["filled_seq"]), queue["id"], queue["filled_seq"]),
    )
    assert moved.rowcount == 1  # else another filler was here first
    clock = queue["rank_clock_ms"]
    offset = max(queue["rank_offset_ms"], clock - now)
    for message in db.execute(
        "SELECT seq, ts_ms, priority, headers FROM messages"
        " WHERE seq > ? AND type = ? ORDER BY seq",  # a pattern with * or > is matched here
        (queue["filled_seq"], queue["pattern"]),
    ).fetchall():
        created = min(message["ts_ms"], now)
        clock = max(clock, created + offset)
        add_job(db, queue, message, created, clock, now)
    db.execute(
        "UPDATE queues SET rank_clock_ms = ?, rank_offset_ms = ? WHERE id = ?",
        (clock, offset, queue["id"]),
    )


def rank_of(queue, turn, priority):
    """Return the place of a job in the order of claiming."""
    return turn + priority * queue["ageing_ms"] if queue["ordering"] == "priority" else 0


def add_job(db, queue, message, created, turn, now):
    """Add the job of a message, or the cancelled one of a duplicate."""
    headers = json.loads(message["headers"] or "{}")
    at, key = headers.get("available_at_ms"), headers.get("dedupe_key")
    at = at if type(at) is int else 0
    key = key if isinstance(key, str) and 0 < len(key) <= 255 else None
    original = key and original_of(db, queue, message, key, headers.get("dedupe_window_ms"))
    error = f"duplicate of {original} with dedupe key {key}" if original else None
    gate = "open" if original else "time" if at > now else "key" if key else "open"
    db.execute(
        "INSERT INTO jobs (queue_id, seq, state, gate, max_attempts, available_at_ms, priority,"
        " turn_ms, rank_ms, dedupe_key, created_at_ms, ended_at_ms, error)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            queue["id"],
            message["seq"],
            "cancelled" if original else "queued",
            gate,
            queue["max_attempts"],
            max(created, at),
            message["priority"],
            turn,
            rank_of(queue, turn, message["priority"]),
            key,
            created,
            now if original else None,
            error,
        ),
    )
    open_key(db, queue, key)
    if original and not is_answered(db, message["seq"]):
        reply(db, message["seq"], "build.failed", error, {"status": "cancelled"})


def original_of(db, queue, message, key, window_ms):
    """The job of which a message is a duplicate, or None."""
    until = message["ts_ms"]
    if type(window_ms) is int:  # the sender's window: live jobs count too
        until = max(until, now_ms())
        live = db.execute(
            "SELECT seq FROM jobs WHERE queue_id = ? AND dedupe_key = ? AND ended_at_ms IS NULL",
            (queue["id"], key),
        ).fetchone()
        if live:
            return live[0]
    else:
        window_ms = queue["dedupe_window_ms"]
    done = (
        window_ms
        and db.execute(
            "SELECT seq FROM jobs WHERE queue_id = ? AND dedupe_key = ? AND state = 'succeeded'"
            " AND ended_at_ms BETWEEN ? AND ?",
            (queue["id"], key, message["ts_ms"] - window_ms, until),
        ).fetchone()
    )
    return done[0] if done else None


def open_key(db, queue, key):
    """Open as many jobs with a key be claimed as may run. Due whenever one comes or leaves."""
    if key is not None:
        db.execute(
            "UPDATE jobs SET gate = 'open' WHERE queue_id = :queue AND seq IN ("
            " SELECT seq FROM jobs WHERE queue_id = :queue AND dedupe_key = :key"
            "   AND ended_at_ms IS NULL AND gate = 'key' ORDER BY rank_ms, seq"
            "   LIMIT max(0, :most - (SELECT count(*) FROM jobs WHERE queue_id = :queue"
            "     AND dedupe_key = :key AND ended_at_ms IS NULL AND gate = 'open')))",
            {"queue": queue["id"], "key": key, "most": queue["max_running_per_key"]},
        )


def open_due(db, queue, now):
    """Open the jobs whose time has come."""
    for (key,) in db.execute(
        "UPDATE jobs SET gate = iif(dedupe_key IS NULL, 'open', 'key')"
        " WHERE queue_id = ? AND state = 'queued' AND gate = 'time' AND available_at_ms <= ?"
        " RETURNING dedupe_key",
        (queue["id"], now),
    ).fetchall():
        open_key(db, queue, key)


def lose(db, queue, now):
    """End the claims whose leases have run out, by the policy for lost owners."""
    for _, seq in db.execute(
        "UPDATE claims SET status = 'lost', ended_at_ms = :now, error = 'the lease ran out'"
        " WHERE queue_id = :queue AND status = 'active' AND lease_until_ms <= :now"
        " RETURNING token, seq",
        {"queue": queue["id"], "now": now},
    ).fetchall():
        job = job_of(db, queue, seq)
        if queue["on_lost"] == "requeue" and job["attempt"] < job["max_attempts"]:
            wait_again(db, queue, job, now, now, "the lease ran out")
        else:
            state = "failed" if queue["on_lost"] == "fail" else "dead"
            end_job(db, queue, job, state, now, "the lease ran out")  # and publish an answer


def claim(db, name, group, instance, lease_ms):
    """Take the first job, and return token and seq; None when there is none."""
    db.execute("BEGIN IMMEDIATE")
    queue = db.execute("SELECT * FROM queues WHERE name = ?", (name,)).fetchone()
    now = now_ms()
    fill(db, queue, now)
    lose(db, queue, now)
    open_due(db, queue, now)
    taken = None
    if queue["paused_at_ms"] is None and has_room(db, queue):
        taken = db.execute(
            "UPDATE jobs SET state = 'running', started_at_ms = :now"
            " WHERE queue_id = :queue AND seq = ("
            "   SELECT seq FROM jobs WHERE queue_id = :queue AND state = 'queued'"
            "      AND gate = 'open' AND for_worker IS NULL ORDER BY rank_ms, seq LIMIT 1)"
            " RETURNING seq, attempt, available_at_ms",
            {"queue": queue["id"], "now": now},
        ).fetchone()
    if taken is not None:
        seq, attempt, available_at_ms = taken
        values = (queue["id"], seq, attempt, group, instance, available_at_ms, now)
        token = db.execute(
            "INSERT INTO claims (queue_id, seq, attempt, worker_group, worker_instance,"
            " available_at_ms, claimed_at_ms, lease_until_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, now + lease_ms),
        ).lastrowid
        taken = (token, seq)
    db.execute("COMMIT")
    return taken


def has_room(db, queue):
    """Whether another job of the queue may run."""
    running = "SELECT count(*) FROM claims WHERE queue_id = ? AND status = 'active'"
    most = queue["max_running"]
    return most is None or db.execute(running, (queue["id"],)).fetchone()[0] < most


def renew(db, token, lease_ms):
    """Whether the claim is still held; if so it lasts so long from now."""
    now = now_ms()
    return (
        db.execute(
            "UPDATE claims SET lease_until_ms = ?"
            " WHERE token = ? AND status = 'active' AND lease_until_ms > ?",
            (now + lease_ms, token, now),
        ).rowcount
        == 1
    )


def end(db, token, status, *, result=None, error=None, answer=None):
    """End a claim, decide about its job, and answer if it is over. False: the claim was lost."""
    db.execute("BEGIN IMMEDIATE")
    now = now_ms()
    ended = db.execute(
        "UPDATE claims SET status = ?, ended_at_ms = ?, result = ?, error = ?"
        " WHERE token = ? AND status = 'active' AND lease_until_ms > ? RETURNING queue_id, seq",
        (status, now, result, error, token, now),
    ).fetchone()
    if ended is None:
        db.execute("ROLLBACK")
        return False
    queue = db.execute("SELECT * FROM queues WHERE id = ?", (ended["queue_id"],)).fetchone()
    job = job_of(db, queue, ended["seq"])
    is_again = queue["retry"] != "asked" and job["attempt"] < job["max_attempts"]
    if status != "completed" and is_again:
        pause = queue["backoff_ms"] * (2 ** (job["attempt"] - 1) + random.random())
        wait_again(db, queue, job, now, now + round(pause), error)
    else:
        given_up = "dead" if queue["retry"] != "asked" else status
        end_job(db, queue, job, "succeeded" if status == "completed" else given_up, now, error)
        if answer is not None:
            reply(db, ended["seq"], *answer)
    db.execute("COMMIT")
    return True


def job_of(db, queue, seq):
    """Return the job of a message in a queue."""
    key = (queue["id"], seq)
    return db.execute("SELECT * FROM jobs WHERE queue_id = ? AND seq = ?", key).fetchone()


def wait_again(db, queue, job, now, at, error):
    """Queue a job for its next attempt."""
    gate = "time" if at > now else "key" if job["dedupe_key"] else "open"
    rank = rank_of(queue, job["turn_ms"], job["priority"])
    db.execute(
        "UPDATE jobs SET state = 'queued', gate = ?, attempt = attempt + 1,"
        " available_at_ms = ?, rank_ms = ?, error = ? WHERE queue_id = ? AND seq = ?",
        (gate, at, rank, error, queue["id"], job["seq"]),
    )
    open_key(db, queue, job["dedupe_key"])


def end_job(db, queue, job, state, now, error):
    """End a job, and open the next with its key."""
    db.execute(
        "UPDATE jobs SET state = ?, ended_at_ms = ?, error = ? WHERE queue_id = ? AND seq = ?",
        (state, now, error, queue["id"], job["seq"]),
    )
    open_key(db, queue, job["dedupe_key"])


def is_answered(db, seq):
    """Whether another queue's worker has answered a request; by the index of conversations."""
    return db.execute(
        "SELECT 1 FROM messages AS asked JOIN messages AS answer"
        " ON answer.correlation_id = ifnull(asked.correlation_id, asked.id)"
        " WHERE asked.seq = ? AND answer.seq > asked.seq AND answer.in_reply_to = asked.id"
        " AND answer.type IN ('build.done', 'build.failed', 'build.request.timed_out')",
        (seq,),
    ).fetchone()


def reply(db, seq, type, payload, headers=None):
    """Publish an answer to the sender of a message."""
    db.execute(
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, correlation_id,"
        " in_reply_to, priority, payload, headers)"
        " SELECT 'answer-' || seq, ?, 'builders', from_agent, ?, ifnull(correlation_id, id),"
        " id, priority, ?, ? FROM messages WHERE seq = ?",
        (now_ms(), type, json.dumps(payload), json.dumps(headers or {}), seq),
    )


def publish(db, id, headers):
    """Publish a request as another agent would."""
    db.execute(
        "INSERT INTO messages (id, ts_ms, from_agent, type, headers)"
        " VALUES (?, ?, 'alice', 'build.request', ?)",
        (id, now_ms(), json.dumps(headers)),
    )


def main():
    """Show the rules on jobs of its own."""
    db = sqlite3.connect(".worker-state/bus.db", timeout=5, isolation_level=None)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA foreign_keys = ON")
    db.execute(
        "INSERT INTO queues (name, pattern, filled_seq, backoff_ms, created_at_ms)"
        " VALUES ('builds', 'build.request', 0, 0, ?) ON CONFLICT DO NOTHING",
        (now_ms(),),
    )
    publish(db, "build-a", {"dedupe_key": "a"})
    publish(db, "build-a-too", {"dedupe_key": "a"})
    publish(db, "build-later", {"available_at_ms": now_ms() + 3_600_000})

    late, seq = claim(db, "builds", "builders", "one", 1)  # a lease of a millisecond
    time.sleep(0.01)
    assert not renew(db, late, 60_000)  # it has run out
    token, again = claim(db, "builds", "builders", "two", 60_000)
    assert again == seq
    assert token > late
    assert claim(db, "builds", "builders", "three", 60_000) is None  # the others wait: key, time
    assert not end(db, late, "completed")  # the late worker changes nothing
    assert end(db, token, "failed", error="no compiler")  # and waits for its third attempt
    token, again = claim(db, "builds", "builders", "two", 60_000)
    assert again == seq
    assert end(db, token, "completed", result="a.out", answer=("build.done", "a.out"))
    assert not end(db, token, "completed")  # it is over

    token, second = claim(db, "builds", "builders", "two", 60_000)
    assert second == seq + 1  # published before the success, so no duplicate of it
    assert end(db, token, "completed", answer=("build.done", "a.out"))
    publish(db, "build-a-again", {"dedupe_key": "a"})
    assert claim(db, "builds", "builders", "two", 60_000) is None  # a duplicate, and one for later


if __name__ == "__main__":
    main()
