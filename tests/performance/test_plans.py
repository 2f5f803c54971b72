"""Every statement of the product is an index walk: no scan, no sort on a path that grows.

The statements are those that really run while a workload does everything that the product can do.
"""

import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from ackbus import Bus
from ackbus.bus.search.index import rating
from ackbus.schema.sqlite.database import Database
from ackbus.schema.sqlite.rules.column_rules import add_functions

from .statements import NAMED, OF_SEARCH, Seen, name_of, plan, watching
from .workload import use_all

#: Tables that grow with the log: a walk over one costs more with every message.
GROWING = frozenset(
    {"messages", "jobs", "claims", "catalog", "catalog_blocks", "deliveries", "finished"}
    | {"notices", "archive_segments", "archive_frames", "archived_ids", "archived_blobs"}
    | {"chain", "words", "lacking", "work_acts"}
    | {"job_log", "plugin_facts", "circuit_breaker_transitions", "event_context"}
    | {"schedule_decisions", "tasks", "merge_forecasts", "landings"}
    | {"task_output", "task_progress", "autonomy_snapshots"}
    | {"session_events"}
)

#: The others, and why they stay small.
SMALL = {
    "archive_state": "one row",
    "catalog_state": "one row",
    "export_state": "one row",
    "fencing": "one row",
    "notice_state": "one row",
    "position": "one row",
    "automation_service": "one row",
    "access_tokens": "a row for each token",
    "circuit_breakers": "a row for each command with a schedule",
    "job_output": "what running jobs have printed",
    "plugin_inits": "a row for each plugin",
    "plugin_state": "a row for each plugin",
    "schedules": "a row for each schedule",
    "planned_jobs": "the jobs that wait for others",
    "meta": "a row for each setting",
    "sqlite_sequence": "a row for each table that counts",
    "cursors": "a row for each agent",
    "heartbeats": "a row for each agent",
    "loops": "a row for each agent",
    "passed_over": "a row for each agent",
    "waiting_limits": "a row for each limit that a person set",
    "queues": "a row for each queue",
    "queue_workers": "a row for each group of workers of a queue",
    "received": "a row for each answer that an agent waited for and has yet to pass",
    "worker_states": "a row for each worker group",
    "reservations": "a row for each file that is being edited: ended ones go at the next grant",
    "task_workers": "a row for each worker",
    "dispatch_lock": "one row",
    "task_sessions": "a row for each session",
    "session_approvals": "a row for each thing that a person was asked",
    "autonomy_state": "a row for each session of a planner",
    "sessions": "a row for each agent that was shown mail, or was a session",
    "task_claims": "a row for each lease that is held, or that its holder died over",
}

#: What walks or sorts all the same, and why it may.
ALLOWED = {
    "tasks.task_names": "when all tasks are compared with their messages: it returns all",
    "bus.archive_segments": "a row for each 100,000 messages, and it returns all of them",
    "bus.discarded_segments": "the same, of the segments that were discarded",
    "bus.forget_blob": "the trigger asks for a discarded segment: they are the first",
    "bus.catalog_names": "sorts what one step counts: at most 32,768 messages",
    "bus.catalog_times": "sorts what one step counts: at most 32,768 messages",
    "bus.catalog_counts": "adds up the catalog, which has a row where the log has many",
    "bus.what_many_need": "whether there is an archived id: the first one ends it",
    "bus.known_agents": "sorts the names of agents; one step in the catalog finds each sender",
    "inboxes.all_parked": "returns nearly all that it walks over: what is parked",
    "inboxes.count_parked": "counts what is parked, which is nearly all that it walks over",
    "inboxes.standing": "whether an agent has any failed delivery: the first one ends it",
    "inboxes.parked": "returns nearly all that it walks over: what is parked for one agent",
    "work.create_queue": "the jobs of a queue that is made just now, of which there are none",
    "work.last_claim_at": "when archiving, once for each queue: entries of one index, no row",
    "work.count_claims_between": "for metrics: those since the last scrape, 100,000 at most",
    "views.newest_attempts": "for people: the newest 100,000 at most",
    "views.count_in_states": "for people: the newest 100,000 at most",
    "views.lost_claims": "for people: the newest 10,000 at most",
    "views.counts_by_state": "for people: the newest 100,000 at most",
    "views.jobs_ended_since": "for people: the newest 100,000 at most",
    "views.jobs_in_line": "for people: sorts what is held back by keys",
    "views.jobs_newest_queued": "for people: sorts what waits",
    "SELECT total(seq - after) FROM lacking": "lost segments of the archive, mostly none",
    "search.lacking": "lost segments of the archive, mostly none",
}

#: What deletes all of an agent that a person forgets.
ALLOWED |= dict.fromkeys(
    ("inboxes.forget_deliveries", "inboxes.forget_what_is_finished"),
    "on request: all rows of one agent, each of which it deletes",
)

#: What reads all there is, on request: `bus doctor --full`, and a repair, which has the bus alone.
READS_ALL = (
    "SELECT * FROM ",
    "mending.",
    "bus.catalog_empty",
    "bus.forget_frames",
    "bus.gaps",
    "bus.wrong_times",
    "SELECT token FROM claims",
    "SELECT seq FROM jobs",
    "SELECT 'its counts' ",
    "SELECT agent_id FROM deliveries",
    "SELECT agent_id FROM finished",
    "SELECT agent_id FROM received",
    "SELECT first_seq FROM archive_segments",
    "SELECT worker_group FROM queue_workers",
    "SELECT conversation FROM notices",
    "SELECT id FROM archived_ids",
    "SELECT id FROM work_acts",
    "SELECT payload_ref FROM archived_blobs",
    "SELECT session_id FROM session_events",
)

#: Each index of the schema, and a statement that needs it, with what it looks for in it.
INDEXES = {
    "idx_messages_mail": ("inboxes.mail", "to_agent=? AND rowid>?"),
    "idx_messages_work_to": ("bus.sent_to", "to_agent=? AND rowid>? AND rowid<?"),
    "idx_queues_of_type": ("bus.append", "pattern=?"),
    "idx_queues_hiding": ("bus.append", "hides=?"),
    "idx_messages_correlation_seq": (
        "bus.in_conversation",
        "correlation_id=? AND rowid>? AND rowid<?",
    ),
    "idx_messages_payload_ref": ("bus.blob_is_named", "payload_ref=?"),
    "idx_sessions_base": ("inboxes.sessions_of_base", "base=?"),
    "idx_deliveries_failing": ("inboxes.passed", "agent_id=? AND seq<?"),
    "idx_deliveries_requeued": ("inboxes.requeued", "agent_id=?"),
    "idx_jobs_ready": ("work.first_ready", "queue_id=?"),
    "idx_jobs_for_worker": ("work.first_ready", "queue_id=? AND for_worker=?"),
    "idx_jobs_delayed": ("work.open_due", "queue_id=? AND available_at_ms<?"),
    "idx_jobs_live_key": ("work.open_key", "queue_id=? AND dedupe_key=? AND gate=?"),
    "idx_jobs_key_done": (
        "work.succeeded_with_key",
        "queue_id=? AND dedupe_key=? AND ended_at_ms>? AND ended_at_ms<?",
    ),
    "idx_jobs_ended_badly": ("work.jobs_ended_badly", "queue_id=? AND state=? AND seq>?"),
    "idx_tasks_created": ("tasks.tasks", "created_at_ms>?"),
    "idx_tasks_commit": ("tasks.task_of_commit", "commit_id=?"),
    "idx_tasks_live": ("tasks.live_tasks", "created_at_ms>?"),
    "idx_landings_head": (
        "tasks.landings_of_head",
        "repository=? AND target=? AND head=?",
    ),
    "idx_landings_candidate": (
        "tasks.landings_of_commits",
        "repository=? AND target=? AND candidate=?",
    ),
    "idx_landings_open": ("tasks.open_landings", "repository=? AND target=?"),
    "idx_landings_task": ("tasks.landings_of_task", "task=?"),
    "idx_merge_forecasts_at": ("tasks.prune_forecasts", "at_ms<?"),
    "idx_task_output_of_job": ("tasks_control.output_after", "seq=? AND id>?"),
    "idx_task_output_at": ("tasks_control.prune_output", "at_ms<?"),
    "idx_autonomy_snapshots_created": ("tasks_control.prune_snapshots", "created_at_ms<?"),
    "idx_schedules_due": ("schedules.due_schedules", "due_ms>? AND due_ms<?"),
    "idx_schedule_decisions_of": (
        "schedules.decisions_of",
        "plugin=? AND schedule_id=? AND rowid<?",
    ),
    "idx_schedule_decisions_decided": ("schedules.prune_decisions", "decided_at_ms<?"),
    "idx_claims_of_job": ("work.claims_of_job", "queue_id=? AND seq=?"),
    "idx_claims_one_active": ("work.active_claim", "queue_id=? AND seq=?"),
    "idx_work_acts_queue_seq": ("views.acts_of_job", "queue_id=? AND seq=?"),
    "idx_plugin_facts_of_plugin": ("records.facts_of_plugin", "plugin_name=? AND seq<?"),
    "idx_plugin_facts_created": ("records.prune_facts", "created_at<?"),
    "idx_job_log_completed": ("records.newest_log", "completed_at<?"),
    "idx_job_log_of_plugin": ("records.newest_log_of_plugin", "plugin=? AND completed_at<?"),
    "idx_breaker_transitions_of_plugin": ("records.transitions_of_plugin", "plugin=?"),
    "idx_breaker_transitions_created": ("records.prune_transitions", "created_at<?"),
    "idx_claims_lease": ("work.expired_claims", "queue_id=? AND lease_until_ms<?"),
}

#: A walk over all that belongs to a queue, an agent, or a kind: in a bus with one it is a scan.
WALKS = re.compile(
    r"SEARCH (\w+) USING (?:PRIMARY KEY|(?:COVERING )?INDEX idx_claims_of_job)"
    r" \((?:queue_id|agent_id|kind)=\?\)"
)


@dataclass(frozen=True)
class Statement:
    """A statement that ran, and SQLite's plans of it for the values that it was given."""

    name: str
    plans: list[tuple[str, ...]]

    @property
    def dear(self) -> set[str]:
        """The steps that cost more with every message."""
        return {step for steps in self.plans for step in steps if is_dear(step)}


def is_dear(step: str) -> bool:
    """Whether a step walks over what grows, or sorts; a MATCH shows as `SCAN … M`."""
    walked = re.match(r"SCAN (\w+)(?! VIRTUAL TABLE INDEX \d+:M)", step) or WALKS.match(step)
    is_walk = walked is not None and walked[1] in GROWING
    return is_walk or "TEMP B-TREE" in step or "AUTOMATIC" in step


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seen]:
    """A bus with which everything was done, and what ran on it."""
    folder = tmp_path_factory.mktemp("used")
    with watching() as seen:
        Bus.init(folder / "bus").close()
        use_all(folder / "bus", folder)
    return folder / "bus", seen


@pytest.fixture(scope="module", params=["as it is", "after ANALYZE"])
def statements(used: tuple[Path, Seen], request: pytest.FixtureRequest) -> list[Statement]:
    """Every statement that ran; another program may have run ANALYZE, which changes plans."""
    directory, seen = used
    found = []
    for file in ("bus.db", "search.db"):
        with closing(connect(directory, file)) as connection, connection:
            if request.param == "after ANALYZE":
                connection.execute("ANALYZE")
            for (where, sql), samples in seen.values.items():
                if where == file:
                    plans = [plan(connection, sql, values) for values in samples]
                    found.append(Statement(name_of(sql), plans))
            connection.execute("DROP TABLE IF EXISTS sqlite_stat1")
            connection.execute("DROP TABLE IF EXISTS sqlite_stat4")
    return found


def connect(directory: Path, file: str) -> apsw.Connection:
    """Open a file as the product does: its settings and functions decide plans too."""
    if file == "bus.db":
        with closing(Database(directory)) as database:
            connection = database.connect()
            add_functions(connection)  # the rules of columns ask them
            return connection
    connection = apsw.Connection(str(directory / file))
    connection.register_fts5_function("rating", rating([1.0]))
    return connection


pytestmark = pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")


def test_workload_runs_every_statement_that_stands_in_a_file(used: tuple[Path, Seen]) -> None:
    """P-14: so that none has a plan that nobody has looked at."""
    _, seen = used
    assert sorted({*NAMED, *OF_SEARCH} - seen.names) == []


def test_every_table_is_known_to_grow_or_to_stay_small(used: tuple[Path, Seen]) -> None:
    directory, _ = used
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'words_*'"
    found = set()
    for file in ("bus.db", "search.db"):
        with closing(apsw.Connection(str(directory / file))) as connection:
            found |= {name for (name,) in connection.execute(sql)}
    assert found == GROWING | set(SMALL)


def test_nothing_scans_or_sorts_what_grows_with_the_log(statements: list[Statement]) -> None:
    """M-16, M-48, K-01, P-14: whatever a bus has done before, an act costs what it did at first."""
    dear = {each.name: each.dear for each in statements if each.dear}
    unexcused = {name: steps for name, steps in dear.items() if not name.startswith(READS_ALL)}
    assert {name: steps for name, steps in unexcused.items() if name not in ALLOWED} == {}


def test_every_exception_is_one(statements: list[Statement]) -> None:
    """A statement that no longer walks or sorts must not be excused any more."""
    assert sorted(set(ALLOWED) - {each.name for each in statements if each.dear}) == []


@pytest.mark.parametrize(("index", "use"), INDEXES.items())
def test_every_index_has_a_statement_that_needs_it(
    statements: list[Statement], index: str, use: tuple[str, str]
) -> None:
    """M-16, P-14: each one costs every publisher or worker."""
    name, wanted = use
    assert re.search(rf"INDEX {index} \({re.escape(wanted)}\)", steps_of(statements, name))


def test_every_index_is_accounted_for(used: tuple[Path, Seen]) -> None:
    directory, _ = used
    sql = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    with closing(apsw.Connection(str(directory / "bus.db"))) as connection:
        assert {name for (name,) in connection.execute(sql)} == set(INDEXES)


def test_poll_merges_two_walks_of_one_index(statements: list[Statement]) -> None:
    """M-16, M-48: with an OR, SQLite would sort all that waits before the first row."""
    for name in ("inboxes.mail", "inboxes.chosen_mail"):
        steps = steps_of(statements, name)
        assert steps.count("idx_messages_mail (to_agent=? AND rowid>?)") == 2


@pytest.mark.parametrize("name", ["queued_seqs", "jobs_queued", "first_live_job"])
def test_what_waits_is_found_by_the_indexes_of_what_waits(
    statements: list[Statement], name: str
) -> None:
    """P-14: one for each gate, and no walk over what has ended."""
    steps = steps_of(statements, f"work.{name}")
    for index in ("idx_jobs_ready", "idx_jobs_delayed", "idx_jobs_live_key"):
        assert re.search(rf"SEARCH jobs USING (COVERING )?INDEX {index} \(queue_id=\?", steps)


def steps_of(statements: list[Statement], name: str) -> str:
    (statement,) = (each for each in statements if each.name == name)
    return "\n".join(statement.plans[0])
