"""A bus with rows in every table, of which each command has something to say."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import apsw

from ackbus import Bus, Exporter, Inbox, Queue
from ackbus.export.archive_writer import Archiver
from ackbus.subscribers.inboxes.seen_mail import SeenMailNotes
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..programs import connect, tamper
from .commands import CONFIG

LARGE = "x" * 5000

#: The time of all rows that no step writes, in milliseconds.
AT = 1_790_000_000_000

#: Tasks in four states; each has a branch that the others' would not merge with.
TASKS = {
    "t-1": ("WORKING", "topic", None),
    "t-2": ("IN_REVIEW", "other", "other"),
    "t-3": ("COMPLETED", "main", "main"),
    "t-4": ("APPROVED", "main", "main"),
}

_TASK = """
INSERT INTO tasks (task, attempt, state, worker, branch, path, repository, base_ref, base, target,
                   head, token, review, requester, priority, max_attempts, on_lost, depends_on,
                   prompt, correlation_id, last_seq, created_at_ms, changed_at_ms)
VALUES (:task, 1, :state, 'bob', :branch, :path, :repository, 'main', :base, 'main',
        :head, 1, 'none', 'ann', 1, 3, 'fail', '[]', '"mend it"', 'm-1', 1, :at, :at)
"""

_LANDING = """
INSERT INTO landings (repository, target, task, attempt, branch, head, onto, candidate, tree,
                      patch_id, checks, state, completion_seq, intended_at_ms)
VALUES (:repository, 'main', :task, 1, :branch, :head, :base, :head, :base, '', '[]', 'intended',
        1, :at)
"""

_NO_COMMIT = "1" * 40


def make_full_bus(directory: Path) -> Path:
    """Makes a bus by its own steps, and adds a row to each table that these leave empty.

    Beside it is the configuration of a service without plugins.
    """
    with warnings.catch_warnings(), Bus.init(directory) as bus:
        warnings.simplefilter("ignore")  # of unknown recipients
        _fill(bus)
    add_tasks(directory, "repository", {})
    (directory.parent / CONFIG).mkdir()
    (directory.parent / CONFIG / "config.yaml").write_text("plugins: {}\n")
    _fill_empty_tables(directory)
    return directory


def _fill(bus: Bus) -> None:
    for number in range(1, 12):
        given = {"to_agent": "bob"} if number % 3 == 0 else {}
        bus.publish("note", [number, "small"], from_agent="ann", id=f"m-{number}", **given)
    bus.publish("note", [LARGE], from_agent="ann", id="large")
    bus.publish("review.done", "yes", from_agent="bob", correlation_id="m-9", in_reply_to="m-9")
    queue = Queue.create(bus, "work", "work.>", max_attempts=1)
    for number in range(3):
        bus.publish("work.step", {"n": number}, from_agent="ann")
    (claim,) = queue.claim("bob", limit=1)
    queue.fail(claim, "it broke")
    queue.claim("bob", limit=1)
    bus.leases.acquire("deploy", "ann", lease_s=600)
    bus.reservations.reserve(["a.txt"], "ann", reason="mine")
    bus.heartbeats.beat("bob", "busy", task="t-1", progress=0.5, pid=1)
    for connection in ("one", "two"):
        SessionNames.of(bus).take("bob", "process 1 since 1 on another.1", connection, id="b-1")
    SeenMailNotes(bus, "bob-2").note([(3, 0, None), (6, 0, 100)], upto=6)
    box = Inbox(bus, "bob", max_deliveries=1)
    box.fail(box.poll(1)[0], "no handler")
    Exporter(bus).export_once()
    with Archiver(bus) as archiver:
        archiver.archive(2)


def add_tasks(
    directory: Path, repository: str, commits: Mapping[str, str], prefix: str = ""
) -> None:
    """Writes rows of tasks that say they are of a repository.

    Args:
        directory: of the bus.
        repository: any text.
        commits: the ids of its branches.
        prefix: of the names of the tasks.
    """
    with connect(directory) as connection:
        for name, (state, branch, head) in TASKS.items():
            values = {
                "task": prefix + name,
                "state": state,
                "branch": branch,
                "path": repository,
                "repository": repository,
                "base": commits.get("main", _NO_COMMIT),
                "head": commits.get(head, _NO_COMMIT) if head else None,
                "at": AT,
            }
            _run_untriggered(connection, _TASK, values)
        _run_untriggered(connection, _LANDING, {**values, "head": values["base"]})


def _run_untriggered(connection: apsw.Connection, sql: str, values: Mapping[str, object]) -> None:
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(sql, values)


def _fill_empty_tables(directory: Path) -> None:
    """Adds a row to each table that has none, whose values are of the types of the columns."""
    with connect(directory) as connection:
        tables = tables_of(connection)
        empty = {
            name: columns
            for name, columns in tables.items()
            if not connection.execute(f"SELECT count(*) FROM {name}").get
        }
    plain = {"INTEGER": str(AT), "TEXT": "'p'", "REAL": "0.5", "BLOB": "zeroblob(32)"}
    tamper(
        directory,
        *(
            f"INSERT INTO {name} VALUES ({', '.join(_value(name, *c, plain) for c in columns)})"
            for name, columns in empty.items()
        ),
    )


def _value(table: str, column: str, kind: str, plain: Mapping[str, str]) -> str:
    return _VALUES.get(f"{table}.{column}") or _VALUES.get(column) or plain[kind]


#: The values of columns that take no name or number, by column, or by table and column.
_VALUES = {
    **dict.fromkeys(
        ("state", "context", "details", "payload", "fact_json", "capabilities"), "'{}'"
    ),
    **dict.fromkeys(("scopes", "depends_on", "files", "online"), "'[]'"),
    **dict.fromkeys(("created_at", "updated_at", "completed_at"), "'2026-01-01T00:00:00.000Z'"),
    **dict.fromkeys(("opened_at", "last_failure_at"), "'2026-01-01T00:00:00.000Z'"),
    **dict.fromkeys(("id", "seq", "failure_count", "attempt", "priority"), "1"),
    **dict.fromkeys(("circuit_breakers.state", "from_state", "to_state"), "'open'"),
    "plugin_inits.state": "'failed'",
    "circuit_breaker_transitions.reason": "'success'",
    "session_approvals.decision": "'denied'",
    "stream": "'stdout'",
    "waiting_limits.kind": "'queue'",
    "merge_forecasts.b": "'q'",
    "autonomy_snapshots.dispatch_lock_held": "1",
    "job_log.status": "'failed'",
    "dispatch_lock.lock_id": "'dispatch'",
    "schedule_decisions.decision": "'fired'",
}


def tables_of(connection: apsw.Connection) -> dict[str, list[tuple[str, str]]]:
    """Returns the columns of each table of a bus, with their types."""
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return {
        name: [
            (column, kind)
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({name})").fetchall()
        ]
        for (name,) in names.fetchall()
    }
