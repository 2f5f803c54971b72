"""Taking jobs in: their fields, the producers, and what is kept out."""

import json
import logging
import sqlite3
from pathlib import Path

import apsw
import pytest

from ackbus import Bus
from ackbus.automation.jobs.submission import (
    AGENTS,
    Duplicate,
    JobRequest,
    PluginNotFound,
    Submission,
    Submitted,
    follow,
    queue_of,
    stored_key,
)
from ackbus.automation.plugins.discovery import discover
from ackbus.schema.queries import file_of
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import QueueSet

from ...programs import connect
from ...subscribers.conftest import Clock
from ..conftest import Folder

CONFIG = """
    plugin_roots: [plugins]
    plugins:
      echo: {enabled: true}
      other: {enabled: true}
"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bus(bus_dir: Path, folder: Folder, clock: Clock) -> Bus:
    """A bus with the queues of two plugins."""
    folder.write(config=CONFIG)
    for name in ("echo", "other"):
        folder.plugin(name)
    config = folder.load()
    opened = Bus.open(bus_dir, clock=clock)
    for plugin in discover(config).plugins.values():
        follow(opened, plugin, config.service)
    return opened


def submit(bus: Bus, plugin: str = "echo", command: str = "poll", **fields: object) -> object:
    given: dict[str, object] = {"submitted_by": "cli", **fields}
    return Submission(bus).submit(JobRequest(plugin=plugin, command=command, **given))  # type: ignore[arg-type]


def run(bus: Bus, plugin: str = "echo", *, ok: bool = True) -> None:
    """Ends the next job of a plugin."""
    (claim,) = QueueSet(bus, [queue_of(plugin)]).claim("here", group="automation", limit=1)
    queue = Queue.open(bus, queue_of(plugin))
    if ok:
        queue.complete(claim)
    else:
        queue.fail(claim, "no", retry=False)


def rows(bus: Bus) -> list[dict[str, object]]:
    names = [row[1] for row in file_of(bus).rows("PRAGMA table_info(job_queue)")]
    return [
        dict(zip(names, row, strict=True)) for row in file_of(bus).rows("SELECT * FROM job_queue")
    ]


FIELDS = (
    *("id", "plugin", "command", "payload", "status", "attempt", "max_attempts", "submitted_by"),
    *("dedupe_key", "created_at", "started_at", "completed_at", "next_retry_at", "last_error"),
    *("parent_job_id", "source_event_id"),
)


@pytest.mark.parametrize("payload", [None, {"a": 1}, {"payload_ref": None}, ["x" * 5_000]])
def test_any_program_with_sqlite_learns_which_blob_a_payload_is(
    bus: Bus, bus_dir: Path, payload: object
) -> None:
    submit(bus, payload=payload)
    with sqlite3.connect(bus_dir / "bus.db") as file:
        ((found,),) = file.execute("SELECT payload FROM job_queue").fetchall()
        ((ref,),) = file.execute("SELECT payload_ref FROM messages").fetchall()
    assert json.loads(found) == ({"payload_ref": ref} if ref else payload)
    assert (ref is not None) == isinstance(payload, list)
    if ref is not None:
        assert json.loads((bus_dir / "blobs" / ref).read_bytes()) == payload


def test_d_10_d_11_a_new_job_has_the_documented_fields(bus: Bus) -> None:
    done = submit(bus, payload={"a": 1}, dedupe_key="k")
    assert isinstance(done, Submitted)
    (row,) = rows(bus)
    assert tuple(row) == FIELDS
    assert row | {"created_at": ""} == dict.fromkeys(FIELDS) | {
        "id": done.job_id,
        "plugin": "echo",
        "command": "poll",
        "payload": '{"a":1}',
        "status": "queued",
        "attempt": 1,
        "max_attempts": 4,
        "submitted_by": "cli",
        "dedupe_key": "k",
        "created_at": "",
    }


@pytest.mark.requirement("D-12", "D-14")
def test_d_12_times_and_errors_are_null_until_they_apply(bus: Bus, clock: Clock) -> None:
    submit(bus)
    queues = QueueSet(bus, [queue_of("echo")])

    def nulls() -> set[str]:
        names = {"started_at", "completed_at", "next_retry_at", "last_error"}
        return {name for name in names if rows(bus)[0][name] is None}

    queued = nulls()
    (claim,) = queues.claim("here", group="automation", limit=1)
    running = nulls()
    Queue.open(bus, queue_of("echo")).fail(claim, "why")
    waiting = nulls()
    clock.advance(120)
    (claim,) = queues.claim("here", group="automation", limit=1)
    Queue.open(bus, queue_of("echo")).complete(claim)
    assert (rows(bus)[0]["status"], rows(bus)[0]["attempt"]) == ("succeeded", 2)
    everything = {"started_at", "completed_at", "next_retry_at", "last_error"}
    assert queued == everything
    assert running == everything - {"started_at"}
    assert waiting == {"completed_at"}
    assert nulls() == {"next_retry_at", "last_error"}


def test_d_13_no_other_state_is_stored(bus: Bus, bus_dir: Path) -> None:
    submit(bus)
    with pytest.raises(apsw.ConstraintError, match="CHECK"):
        connect(bus_dir).execute("UPDATE jobs SET state = 'paused'")


def test_d_15_a_job_that_succeeded_is_over(bus: Bus, bus_dir: Path) -> None:
    submit(bus)
    run(bus)
    with pytest.raises(apsw.ConstraintError, match="a job that succeeded is over"):
        connect(bus_dir).execute("UPDATE jobs SET state = 'queued', ended_at_ms = NULL")


@pytest.mark.requirement("D-09", "D-18", "X-31")
def test_d_18_each_producer_is_told_apart(bus: Bus) -> None:
    for producer in AGENTS:
        submit(bus, submitted_by=producer)
    assert [row["submitted_by"] for row in rows(bus)] == list(AGENTS)
    assert [m.from_agent for m in bus.read(type="plugin.echo.poll")] == list(AGENTS.values())


@pytest.mark.requirement("D-19", "D-22")
def test_d_19_what_succeeded_inside_the_window_is_kept_out(
    bus: Bus, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first = submit(bus, dedupe_key="k")
    assert isinstance(first, Submitted)
    run(bus)
    clock.advance(3600)
    newest = bus.log.newest_seq()
    with caplog.at_level(logging.INFO, "ackbus.automation"):
        again = submit(bus, dedupe_key="k")
    assert again == Duplicate(first.job_id, first.seq, "poll:k")
    assert bus.log.newest_seq() == newest  # it leaves neither a message nor a job
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert "poll:k" in record.getMessage()
    assert first.job_id in record.getMessage()


def test_d_20_the_window_is_the_requests_own_or_the_services(bus: Bus, clock: Clock) -> None:
    submit(bus, dedupe_key="k")
    run(bus)
    clock.advance(1.001)
    assert isinstance(submit(bus, dedupe_key="k"), Duplicate)
    assert isinstance(submit(bus, dedupe_key="k", dedupe_ttl_s=1), Submitted)
    run(bus)
    clock.advance(86_401)
    assert isinstance(submit(bus, dedupe_key="k"), Submitted)


def test_d_21_waiting_and_running_ones_keep_out_only_with_an_own_window(bus: Bus) -> None:
    first = submit(bus, dedupe_key="k")
    assert isinstance(first, Submitted)
    assert isinstance(submit(bus, dedupe_key="k"), Submitted)
    assert isinstance(submit(bus, dedupe_key="k", dedupe_ttl_s=5), Duplicate)
    QueueSet(bus, [queue_of("echo")]).claim("here", group="automation", limit=1)
    assert isinstance(submit(bus, dedupe_key="k", dedupe_ttl_s=5), Duplicate)


def test_d_23_without_a_key_nothing_is_kept_out(bus: Bus) -> None:
    for _ in range(3):
        assert isinstance(submit(bus, payload=1), Submitted)
        run(bus)


def test_d_24_what_failed_does_not_keep_out(bus: Bus) -> None:
    submit(bus, dedupe_key="k")
    run(bus, ok=False)
    assert isinstance(submit(bus, dedupe_key="k"), Submitted)


@pytest.mark.requirement("X-32", "D-26")
def test_x_32_a_key_is_of_a_plugin_and_a_command(bus: Bus) -> None:
    """A fan-out whose first target is fast loses none of the others."""
    submit(bus, dedupe_key="k")
    run(bus)
    assert isinstance(submit(bus, "other", dedupe_key="k"), Submitted)
    assert isinstance(submit(bus, "echo", "handle", dedupe_key="k"), Submitted)
    assert isinstance(submit(bus, dedupe_key="k"), Duplicate)


def test_repeated_id_is_the_same_job(bus: Bus) -> None:
    first = submit(bus, id="derived")
    assert isinstance(first, Submitted)
    assert submit(bus, id="derived") == Duplicate(first.job_id, first.seq, "")
    assert len(rows(bus)) == 1


def test_outstanding_counts_what_waits_and_what_runs(bus: Bus) -> None:
    submission = Submission(bus)
    for producer in ("scheduler", "scheduler", "cli"):
        submit(bus, submitted_by=producer)
    submit(bus, command="handle")
    assert submission.outstanding("echo", "poll") == 3
    assert submission.outstanding("echo", "poll", submitted_by="scheduler") == 2
    run(bus)
    QueueSet(bus, [queue_of("echo")]).claim("here", group="automation", limit=1)
    assert submission.outstanding("echo", "poll", submitted_by="scheduler") == 1


def test_unknown_plugin_is_told_of(bus: Bus) -> None:
    with pytest.raises(PluginNotFound, match="no plugin 'ecco'"):
        submit(bus, "ecco")


def test_long_and_odd_keys_are_kept_by_their_hash() -> None:
    assert stored_key("poll", "k") == "poll:k"
    assert stored_key("poll", None) is None
    for key in ("x" * 400, "a\nb"):
        stored = stored_key("poll", key)
        assert stored is not None
        assert stored.startswith("poll:sha256-")
        assert len(stored) < 100
        assert stored != stored_key("poll", key + "y")
