"""bus agents, bus heartbeat."""

import json
import os
import signal
import subprocess
import time

import pytest

from ackbus import Bus, Draft, Inbox
from ackbus.schema.queries import file_of

from ..conftest import RunBus, wait_until
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")


def test_agents_shows_who_acted_and_how_they_are(run_bus: RunBus, bus: Bus) -> None:
    """M-66, M-67: liveness from the table of heartbeats; one's own broadcasts are not unread."""
    bus.publish("t", from_agent="sender")
    bus.heartbeats.beat("old", "working", task="x", progress=0.5, pid=1)
    file_of(bus).rows("UPDATE heartbeats SET ts_ms = ts_ms - 200000")
    Inbox(bus, "reader").ack(1)
    records = [json.loads(line) for line in run_bus("agents", "--json").out.splitlines()]
    old, reader, sender = records
    assert (old["liveness"], old["status"], old["task"], old["progress"]) == (
        *("stale", "working", "x", 0.5),
    )
    assert 200 <= old["age_s"] < 260
    assert reader == {"agent": "reader", "cursor": 1, "unread": 0}
    assert sender == {"agent": "sender", "cursor": 0, "unread": 0}
    headings, first, *others = run_bus("agents").out.splitlines()
    assert headings.index(" age ") + 1 == first.index("3 min")
    assert len(others) == 2


def test_an_agent_is_forgotten_after_a_trial(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("note", from_agent="other")
    Inbox(bus, "gone").ack(1)
    trial = run_bus("agents", "forget", "gone", "--dry-run", "--json")
    assert (trial.code, json.loads(trial.out)) == (0, {"agent": "gone", "dry_run": True})
    assert "gone" in bus.agents.names()
    assert run_bus("agents", "forget", "gone", "--yes").out == "forgot gone\n"
    assert run_bus("agents", "forget", "gone", "--dry-run").code == 4


def test_unread_messages_are_counted_up_to_a_thousand(run_bus: RunBus, bus: Bus) -> None:
    bus.publish_many([Draft("t", from_agent="sender")] * 1000)
    bus.heartbeats.beat("reader")
    _, reader, sender = run_bus("agents").out.splitlines()
    assert reader.endswith(" 1000+")
    assert sender.endswith(" 0")
    records = [json.loads(line) for line in run_bus("agents", "--json").out.splitlines()]
    assert {each["agent"]: each["unread"] for each in records} == {"reader": 1000, "sender": 0}


def test_one_beat_is_written(run_bus: RunBus, start_bus: StartBus, bus: Bus) -> None:
    """M-60, M-63: one row, with what it says, and with the process that started the command."""
    line = ("heartbeat", "w", "--status", "busy", "--task", "t", "--progress", "0.25")
    assert run_bus(*line, "--pid", "4321").code == 0
    assert start_bus(*line).wait() == 0
    beat = bus.heartbeats.get("w")
    assert beat is not None
    assert (beat.status, beat.task, beat.progress, beat.pid) == ("working", "t", 0.25, os.getpid())


def test_sidecar_beats_until_its_process_ends(start_bus: StartBus, bus: Bus) -> None:
    """Issue 2, item 7: for agents in other languages; it ends with a given process."""
    agent = subprocess.Popen(["sleep", "60"])
    try:
        sidecar = start_bus("heartbeat", "w", "--every", "0.05", "--pid", str(agent.pid))
        wait_until(lambda: bus.heartbeats.get("w") is not None)
        first = bus.heartbeats.get("w")
        assert first is not None
        assert (first.status, first.pid) == ("idle", agent.pid)
        wait_until(lambda: getattr(bus.heartbeats.get("w"), "ts_ms", 0) > first.ts_ms)
    finally:
        agent.kill()
        agent.wait()
    assert sidecar.communicate(timeout=60) == (b"", b"")
    assert sidecar.returncode == 0
    last = bus.heartbeats.get("w")
    assert last is not None
    assert last.status == "stopped"


def test_sidecar_ends_on_sigterm_at_once(start_bus: StartBus, bus: Bus) -> None:
    """M-68: stop at once; the default process is the one that runs the command."""
    sidecar = start_bus("heartbeat", "w", "--every", "20")
    wait_until(lambda: bus.heartbeats.get("w") is not None)
    began = time.monotonic()
    sidecar.send_signal(signal.SIGTERM)
    sidecar.communicate(timeout=60)
    assert time.monotonic() - began < 15
    last = bus.heartbeats.get("w")
    assert last is not None
    assert (sidecar.returncode, last.status, last.pid) == (0, "stopped", os.getpid())


def test_sidecar_refuses_what_it_cannot_do(run_bus: RunBus) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    gone = ("heartbeat", "w", "--every", "5", "--pid", str(ended.pid))
    assert_error(run_bus(*gone), 4, str(ended.pid))
    assert_error(run_bus("heartbeat", "w", "--every", "60"), 2, "--every")
    assert_error(run_bus("heartbeat", "w", "--progress", "nan"), 2, "progress")
