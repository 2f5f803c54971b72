"""A bus in which every table has rows."""

from itertools import count
from pathlib import Path

from ackbus import Bus, Draft, Exporter, Inbox, JobControl, Queue
from ackbus.bus.log.catalog import Catalog
from ackbus.export.archive_writer import Archiver
from ackbus.schema.message.times import format_ts
from ackbus.schema.queries import engine_of
from ackbus.subscribers.inboxes.failed_deliveries import Cursors
from ackbus.subscribers.inboxes.seen_mail import SeenMailNotes
from ackbus.subscribers.inboxes.session_names import SessionNames
from ackbus.subscribers.overview.trace import Notices
from ackbus.subscribers.queues.queue_set import QueueWorkers
from ackbus.tasks.records.task import NewTask
from ackbus.tasks.steps.planning import NewJob
from ackbus.tasks.steps.tasks import Tasks
from ackbus.workers.json_contract import WorkerStates

#: 2026-01-02 03:04:05 UTC; each look at the clock is one millisecond later.
BEGINNING_MS = 1_767_323_045_000

#: A payload that becomes a blob.
LARGE = "x" * 5000


def fill(directory: Path) -> None:
    """Makes a bus and uses everything in it once."""
    clock = count(BEGINNING_MS)
    with Bus.init(directory, clock=lambda: next(clock)) as bus:
        publish(bus)
        read(bus)
        work(bus)
        bus.heartbeats.beat("alice", "working", task="review", progress=0.25)
        bus.heartbeats.beat("bob", "idle")
        for task in ("review", "deploy", "review-2"):
            bus.leases.acquire(task, "alice", lease_s=30)
        lease = bus.leases.get("deploy")
        assert lease is not None
        bus.leases.release(lease)
        bus.reservations.reserve(["src/*.py"], "alice", reason="review")
        archive_first(bus)
        Exporter(bus).export_once()
        Catalog.of(bus).catch_up(bus.log.newest_seq())
        trust(bus)
        automate(bus)
        bus.publish("note", "neither exported nor counted", from_agent="lead", id="m-last")
        work_on_branches(bus)


def publish(bus: Bus) -> None:
    """Publishes a message of every form."""
    request = {"path": "src/a.py", "text": LARGE}
    bus.publish("task.request", request, from_agent="lead", to_agent="alice", id="m-1")
    bus.publish("task.done", {"ok": True}, from_agent="alice", in_reply_to="m-1", id="m-2")
    bus.publish("note", "ein 'Zitat', ünïcödé, 🚌", from_agent="bob", id="m-3")
    bus.publish("note", [2**53 + 1, 1.5, None], from_agent="bob", correlation_id="talk", id="m-4")
    bus.publish("log.large", LARGE, from_agent="bob", priority=2, headers={"a": "b"}, id="m-5")
    bus.publish("ping", from_agent="lead", id="m-6")
    for number in range(7, 13):
        bus.publish("work.step", number, from_agent="lead", to_agent="carol", id=f"m-{number}")


def read(bus: Bus) -> None:
    """Leaves behind what readers can leave: cursors, failures of each kind, a loop that died."""
    alice, carol = Inbox(bus, "alice"), Inbox(bus, "carol", max_deliveries=1)
    (assigned,) = alice.poll(1)
    alice.complete(assigned, Draft("task.begun", from_agent="alice", id="m-begun"))
    alice.fail(alice.poll(1)[0], "first failure")
    carol.ack(8)
    for error in ("stays parked", "is requeued"):
        carol.fail(carol.poll(1)[0], error)
    carol.requeue(10)
    Cursors.of(bus).receive("dave", 3)
    SessionNames.of(bus).take("carol", "process 1 since 1 on another.1", "a connection", id="c-1")
    SeenMailNotes(bus, "carol").note([(8, 0, None), (9, 0, 100)], upto=9)
    Inbox(bus, "dave")._begin()


def work(bus: Bus) -> None:
    """Leaves behind what workers and people can leave: a job in each state, limits, a notice."""
    queue = Queue.create(
        bus, "steps", "work.*", max_attempts=2, backoff_s=0.001, retry="asked", addressed="*"
    )
    done, failed, delayed, dropped, running = queue.claim("w-1", group="crew", limit=5, lease_s=30)
    queue.complete(done, result={"ok": True})
    queue.fail(failed, "an answer too")
    queue.fail(delayed, "not yet", retry=True, after_s=3600)
    people = JobControl(queue)
    people.cancel(dropped.message.seq)
    queue.renew(running, lease_s=30)
    people.limit(50)
    bus.limits.set_for_inbox("carol", 100)
    WorkerStates.of(bus).update("crew", {"last_run": 1})
    QueueWorkers(bus).note(queue.info, "crew")
    assert [message.id for message in Notices(bus).news(first_since_ms=0)] == ["m-2"]


def trust(bus: Bus) -> None:
    """Leaves a hash chain over what is in the log by now, and a token of the server."""
    # Loaded here, as tests of the core alone import this module.
    from ackbus.server.access.tokens import Scope, Tokens

    bus.chain.switch_on()
    bus.chain.catch_up()
    Tokens.of(bus).create("ci", [Scope.MESSAGES_RO], agent="alice", ttl_s=3600)


def automate(bus: Bus) -> None:
    """Leaves a row in each table of automation."""
    engine = engine_of(bus)
    at, at_ms = format_ts(BEGINNING_MS), BEGINNING_MS
    for sql, values in (
        ("UPDATE automation_service SET token = 1, pid = 1, started_at_ms = ?", (at_ms,)),
        ("INSERT INTO plugin_inits VALUES ('feed', 'f', 'ok', NULL, ?)", (at_ms,)),
        (
            "INSERT INTO plugin_facts VALUES (1, 1, 'feed', 'feed.snapshot', 'j', 'poll', '{}', ?)",
            (at,),
        ),
        ("INSERT INTO plugin_state VALUES ('feed', '{}', ?)", (at,)),
        (
            "INSERT INTO job_log VALUES"
            " ('j-1', 'feed', 'poll', 'failed', '{}', 1, 'cli', ?, ?, 'no', '', NULL, NULL)",
            (at, at),
        ),
        ("INSERT INTO job_output VALUES (2, 0, 'stdout', 'x')", ()),
        (
            "INSERT INTO circuit_breakers VALUES ('feed', 'poll', 'closed', 1, NULL, ?, 'j', ?)",
            (at, at),
        ),
        (
            "INSERT INTO circuit_breaker_transitions VALUES"
            " ('t', 'feed', 'poll', NULL, 'closed', 0, 'manual_reset', NULL, ?)",
            (at,),
        ),
        ("INSERT INTO event_context VALUES ('c', NULL, 'p', 's', '{}', 'j', ?)", (at,)),
        (
            "INSERT INTO schedules VALUES"
            " ('feed', 'default', 'h', ?, ?, NULL, ?, NULL, NULL, ?, 1)",
            (at_ms, at_ms, at_ms, at_ms),
        ),
        (
            "INSERT INTO schedule_decisions"
            " VALUES (1, 'feed', 'default', 'h', ?, ?, 1, 'fired', NULL, 'j', ?, 0)",
            (at_ms, at_ms, at_ms),
        ),
    ):
        engine.change(sql, values)


def work_on_branches(bus: Bus) -> None:
    """Leaves a row in each table of tasks."""
    task = NewTask(
        task="fix",
        worker="erin",
        branch="erin/fix",
        path="/trees/fix",
        repository="/repository/.git",
        base_ref="main",
        base="1" * 40,
        target="main",
    )
    tasks = Tasks(bus)
    tasks.assign(task, agent="bob")
    tasks.plan([NewJob(task="test", depends_on=("fix",))], agent="bob")
    engine, at_ms = engine_of(bus), BEGINNING_MS
    for table, *values in (
        (
            *("landings", 5, "/r/.git", "main", "fix", 1, "erin/fix"),
            *("2" * 40, "1" * 40, "3" * 40, "4" * 40, "", "[]", "landed", 6, at_ms, at_ms),
        ),
        ("merge_forecasts", "1" * 40, "2" * 40, None, at_ms),
        ("task_workers", "erin", 1000, "{}", "{}", at_ms, at_ms),
        ("task_output", 1, 5, at_ms, "stdout", 1, "x"),
        ("task_progress", 5, at_ms, at_ms),
        ("task_sessions", "dev", at_ms, None, "[]", None),
        ("session_events", "dev", 5),
        ("session_approvals", "a-1", "dev", 5, None),
        ("dispatch_lock", "dispatch", "dev", "run", at_ms, at_ms + 5000, at_ms),
        ("autonomy_state", "dev", "{}", at_ms),
        ("autonomy_snapshots", "s-1", "dev", "run", at_ms, 1000, 0, "{}"),
    ):
        engine.change(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", tuple(values))


def archive_first(bus: Bus) -> None:
    """Leaves the first message in the archive, and an agent that missed what is there."""
    Cursors.of(bus).pass_over("eve", 1)
    with Archiver(bus) as archiver:
        archiver.archive(1)
