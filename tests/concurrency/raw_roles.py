"""Actors with SQLite, docs/sql.md, and no ackbus: `python raw_roles.py ROLE ARGUMENT…`."""

import json
import os
import sqlite3
import sys
import time
import uuid

INSERT = """
INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload) VALUES (?, ?, ?, ?, ?, ?)
"""

POLL = """
SELECT seq, from_agent, payload FROM messages
 WHERE seq > ifnull((SELECT last_acked_seq FROM cursors WHERE agent_id = ?1), 0)
   AND (to_agent = ?1 OR to_agent IS NULL)
 ORDER BY seq LIMIT 100
"""

ACK = """
INSERT INTO cursors (agent_id, last_acked_seq, updated_at_ms) VALUES (?, ?, ?)
ON CONFLICT (agent_id) DO UPDATE
  SET last_acked_seq = max(last_acked_seq, excluded.last_acked_seq),
      updated_at_ms = excluded.updated_at_ms
"""


def tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def connect(directory: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        os.path.join(directory, "bus.db"), isolation_level=None, timeout=30
    )
    connection.execute("PRAGMA journal_mode = WAL")
    return connection


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def publisher(directory: str, name: str, messages: str) -> None:
    """Inserts messages 0, 1, … for all; tells how many second inserts of an id were refused."""
    connection = connect(directory)
    refused = 0
    tell("ready")
    for number in range(int(messages)):
        row = (str(uuid.uuid4()), now_ms(), name, None, "work", str(number))
        connection.execute(INSERT, row)
        try:
            connection.execute(INSERT, row)
        except sqlite3.IntegrityError:
            refused += 1
    tell(refused)


def poller(directory: str, name: str, messages: str) -> None:
    """Polls and acknowledges until it has so many messages; tells [[seq, sender, payload], …]."""
    connection = connect(directory)
    given: list[tuple[int, str, object]] = []
    tell("ready")
    while len(given) < int(messages):
        for seq, sender, payload in connection.execute(POLL, (name,)).fetchall():
            given.append((seq, sender, json.loads(payload)))
            connection.execute(ACK, (name, seq, now_ms()))
    tell(given)


def lock_holder(directory: str) -> None:
    """Takes SQLite's write lock, tells, and keeps it until it is killed."""
    connection = connect(directory)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(INSERT, ("never", now_ms(), "raw", None, "work", "0"))
    tell("locked")
    time.sleep(600)


def check(directory: str) -> None:
    """Tells what SQLite thinks of the file."""
    connection = connect(directory)
    tell([text for (text,) in connection.execute("PRAGMA integrity_check")])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
