"""The tables that stand beside the log, as any program with SQLite sees them."""

from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Queue
from ackbus.automation.config.models import ServiceConfig
from ackbus.automation.jobs.submission import JobRequest, Submission
from ackbus.automation.records.facts import MAX_STATE_BYTES, Facts, Fence
from ackbus.schema.queries import engine_of
from ackbus.workers.processes.run_process import MAX_STDERR_BYTES, MAX_STDOUT_BYTES

from ...architecture.rooms import MAY_IMPORT
from ...programs import connect

#: The columns of the specification, in order, each with its type.
TABLES = {
    "plugin_facts": "id INTEGER, seq INTEGER, plugin_name TEXT, fact_type TEXT, job_id TEXT,"
    " command TEXT, fact_json TEXT, created_at TEXT",
    "plugin_state": "plugin_name TEXT, state TEXT, updated_at TEXT",
    "job_log": "id TEXT, plugin TEXT, command TEXT, status TEXT, result TEXT, attempt INTEGER,"
    " submitted_by TEXT, created_at TEXT, completed_at TEXT, last_error TEXT, stderr TEXT,"
    " parent_job_id TEXT, source_event_id TEXT",
    "circuit_breakers": "plugin TEXT, command TEXT, state TEXT, failure_count INTEGER,"
    " opened_at TEXT, last_failure_at TEXT, last_job_id TEXT, updated_at TEXT",
    "circuit_breaker_transitions": "id TEXT, plugin TEXT, command TEXT, from_state TEXT,"
    " to_state TEXT, failure_count INTEGER, reason TEXT, job_id TEXT, created_at TEXT",
}

JOB_QUEUE = (
    "id plugin command payload status attempt max_attempts submitted_by dedupe_key created_at"
    " started_at completed_at next_retry_at last_error parent_job_id source_event_id"
)


def test_d_146_tables_have_the_columns_of_the_specification(bus_dir: Path) -> None:
    connection = connect(bus_dir)
    found = {
        table: ", ".join(
            f"{name} {kind}"
            for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")
        )
        for table in TABLES
    }
    assert found == TABLES
    names = [row[1] for row in connection.execute("PRAGMA table_info(job_queue)")]
    assert names == JOB_QUEUE.split()
    keys = {row[1] for row in connection.execute("PRAGMA table_info(circuit_breakers)") if row[5]}
    assert keys == {"plugin", "command"}


@pytest.mark.requirement("D-147", "D-82")
def test_d_147_state_is_rebuilt_from_the_newest_fact(bus: Bus) -> None:
    facts = Facts(engine_of(bus))
    for number in range(3):
        facts.record("feed", "feed.snapshot", {"n": number, f"k{number}": 1}, "j", "poll")
    (newest,) = facts.newest("feed", 1)
    ((_, state, _),) = facts.states()
    assert newest.fact_json == '{"k2":1,"n":2}'
    assert state == {"n": 2, "k2": 1}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE plugin_facts SET fact_json = '{}'",
        "DELETE FROM plugin_facts",
        "INSERT INTO plugin_facts"
        " VALUES (9, 1, 'feed', 't', NULL, NULL, '{}', '2026-01-01T00:00:00.000Z')",
        "UPDATE plugin_state SET state = '[]'",
        "UPDATE plugin_state SET updated_at = 'yesterday'",
        "UPDATE automation_service SET token = 0",
        "DELETE FROM automation_service",
        "INSERT INTO automation_service (id) VALUES (2)",
    ],
)
def test_rules_of_the_tables_hold_for_every_program(
    bus: Bus, bus_dir: Path, statement: str
) -> None:
    Facts(engine_of(bus)).record("feed", "feed.snapshot", {}, "j", "poll")
    Fence(engine_of(bus)).begin(Path("config"), "h")
    with pytest.raises(apsw.ConstraintError):
        connect(bus_dir).execute(statement)


@pytest.mark.requirement("X-19", "R-01", "R-06")
def test_x_19_limits_and_defaults_are_those_of_the_documents() -> None:
    """Stdout over its limit fails, stderr is cut: two limits, of which neither is the other's."""
    assert (MAX_STATE_BYTES, MAX_STDOUT_BYTES, MAX_STDERR_BYTES) == (1_000_000, 10 << 20, 64 << 10)
    assert ServiceConfig().dedupe_ttl_s == 24 * 3600
    assert ServiceConfig().job_log_retention_s == 30 * 24 * 3600


def test_x_22_the_log_knows_nothing_of_pipelines() -> None:
    """Orchestration and dead letters stand above it, in rooms that it does not import."""
    for room in ("schema", "blobs", "bus"):
        assert MAY_IMPORT[room].isdisjoint({"subscribers", "workers", "automation"})


@pytest.mark.requirement("X-15")
def test_x_15_a_cancelled_job_is_dead_in_the_words_of_ductile(bus: Bus, bus_dir: Path) -> None:
    queue = Queue.create(bus, "plugin.a", "plugin.a.*", hides="all", addressed="automation")
    Submission(bus).submit(JobRequest(plugin="a", command="poll", submitted_by="cli"))
    queue.jobs.cancel(1)
    assert queue.jobs.get(1).state == "cancelled"
    assert connect(bus_dir).execute("SELECT status FROM job_queue").get == "dead"
