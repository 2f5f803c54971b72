"""Heartbeats: one row for each agent, beaten by a thread that waits for nobody's work."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from inspect import signature
from itertools import pairwise
from pathlib import Path

import pytest

from ackbus import Bus, Message, Session
from ackbus.bus import heartbeats as module
from ackbus.errors import InvalidInput
from ackbus.model import Heartbeat, Liveness
from ackbus.schema.process_table import process, system
from ackbus.schema.queries import file_of

from ..conftest import wait_until
from ..programs import connect, held_write_lock

#: Reads the beats that were written.
Beats = Callable[[], list[tuple[str, int, str]]]


def beat_of(bus: Bus, agent: str = "alice") -> Heartbeat:
    beat = bus.heartbeats.get(agent)
    assert beat is not None
    return beat


def status_of(bus: Bus) -> str | None:
    """The status of alice's last beat, or None before the first."""
    beat = bus.heartbeats.get("alice")
    return None if beat is None else beat.status


def backdate(bus_dir: Path, agent: str, age_s: float) -> None:
    connect(bus_dir).execute(
        "INSERT OR REPLACE INTO heartbeats (agent_id, ts_ms, status) VALUES (?, ?, 'idle')",
        (agent, time.time_ns() // 1_000_000 - int(age_s * 1000)),
    )


@pytest.fixture
def beats(bus: Bus, bus_dir: Path) -> Iterator[Beats]:
    """Reads every beat that was written from now on: agent, time, status."""
    file_of(bus).refuses_foreign_objects = False  # the triggers are not ours
    connection = connect(bus_dir)
    connection.execute(
        "CREATE TABLE beats (agent, ts_ms, status);"
        "CREATE TRIGGER beat_inserted AFTER INSERT ON heartbeats BEGIN"
        " INSERT INTO beats VALUES (NEW.agent_id, NEW.ts_ms, NEW.status); END;"
        "CREATE TRIGGER beat_updated AFTER UPDATE ON heartbeats BEGIN"
        " INSERT INTO beats VALUES (NEW.agent_id, NEW.ts_ms, NEW.status); END"
    )

    def read() -> list[tuple[str, int, str]]:
        rows = connection.execute("SELECT agent, ts_ms, status FROM beats ORDER BY rowid")
        return rows.fetchall()  # type: ignore[return-value]

    yield read
    connection.close()


def test_ten_beats_are_one_row(bus: Bus, bus_dir: Path) -> None:
    """M-60, C-05: with the documented columns, and no message for any of them (X-39)."""
    for n in range(10):
        bus.heartbeats.beat("alice", "working", task="t1", progress=n / 10)
    rows = connect(bus_dir).execute(
        "SELECT agent_id, status, current_task, progress FROM heartbeats"
    )
    assert rows.fetchall() == [("alice", "working", "t1", 0.9)]
    assert bus.log.newest_seq() == 0


def test_first_beat_is_at_once_and_idle(bus: Bus) -> None:
    """M-63."""
    with bus.heart("alice", interval_s=29):
        wait_until(lambda: bus.heartbeats.get("alice"), timeout_s=20)
        beat = beat_of(bus)
        assert (beat.status, beat.task, beat.progress) == ("idle", None, None)
        assert beat.liveness is Liveness.ALIVE


def test_update_shows_at_once(bus: Bus) -> None:
    """M-63, M-64: status, task and progress by a command to the thread, not by the next beat."""
    with bus.heart("alice", interval_s=29) as heart:
        wait_until(lambda: status_of(bus) == "idle")
        heart.update("blocked", task="t1", progress=0.5)
        wait_until(lambda: status_of(bus) == "blocked", timeout_s=20)
        assert (beat_of(bus).task, beat_of(bus).progress) == ("t1", 0.5)


def test_beats_come_at_the_interval(bus: Bus, beats: Beats) -> None:
    """M-62: every 10 s by default, which this shows at a hundredth of it."""
    assert module.BEAT_INTERVAL_S == 10
    assert signature(Bus.heart).parameters["interval_s"].default == 10.0
    with bus.heart("alice", interval_s=0.1):
        wait_until(lambda: len(beats()) >= 6)
    times = [ts_ms for _, ts_ms, status in beats() if status == "idle"]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= 99
    assert sorted(gaps)[len(gaps) // 2] < 1000


def test_blocked_agent_keeps_beating(bus: Bus, beats: Beats) -> None:
    """M-61, C-05, promise 10: a handler that blocks for long does not stop its agent's heart.

    The beats come every 10 s against a warning at 30; here one call blocks for 6 beats.
    """
    assert module.BEAT_INTERVAL_S * 2 < module.WARN_AFTER_S
    bus.publish("note", from_agent="bob")
    during: list[int] = []

    def block(message: Message) -> None:
        before = len(beats())
        wait_until(lambda: len(beats()) >= before + 6)
        during.append(message.seq)

    with Session(bus, "alice", interval_s=0.05) as me:
        me.run(lambda message: block(message) if message.type == "note" else None, drain=True)
    assert during == [1]


def test_heart_has_a_connection_of_its_own(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """M-61, M-64: in its own thread, and none of its calls comes from the agent's."""
    seen: list[tuple[threading.Thread, object]] = []
    real_beat = module.Heartbeats.beat

    def beat(self: module.Heartbeats, *args: object, **fields: object) -> None:
        seen.append((threading.current_thread(), file_of(bus).connection))
        real_beat(self, *args, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(module.Heartbeats, "beat", beat)
    with bus.heart("alice") as heart:
        heart.update("working")
    assert len(seen) >= 2
    assert {thread.name for thread, _ in seen} == {"heart of alice"}
    assert all(connection is not file_of(bus).connection for _, connection in seen)


def test_failing_beat_is_logged_and_the_heart_goes_on(
    bus_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """M-65: while another program locks the bus, no beat gets in; afterwards they do."""
    with Bus.open(bus_dir, write_timeout_s=0.05) as bus:
        heart = bus.heart("alice", interval_s=0.05)
        with caplog.at_level(logging.WARNING, logger="ackbus.heart"), held_write_lock(bus_dir):
            heart.start()
            wait_until(lambda: len(caplog.records) >= 2)
            assert bus.heartbeats.get("alice") is None
        wait_until(lambda: bus.heartbeats.get("alice"))
        heart.stop()
        assert beat_of(bus).status == "stopped"
    assert caplog.records[0].getMessage().startswith("a beat of alice was not written: another")


@pytest.mark.parametrize(
    ("age_s", "liveness"),
    [
        (0, Liveness.ALIVE),
        (20, Liveness.ALIVE),
        (29.9, Liveness.ALIVE),
        (30, Liveness.WARN),
        (40, Liveness.WARN),
        (99.9, Liveness.WARN),
        (100, Liveness.STALE),
        (120, Liveness.STALE),
        (299.9, Liveness.STALE),
        (300, Liveness.DEAD),
        (400, Liveness.DEAD),
        (-5, Liveness.ALIVE),
    ],
)
def test_age_of_a_beat_tells_how_an_agent_is(
    age_s: float, liveness: Liveness, bus_dir: Path
) -> None:
    """M-66, X-11: 30 s WARN, 100 s STALE, 5 min DEAD, to the millisecond; never below 0."""
    now_ms = 1_000_000_000
    with Bus.open(bus_dir, clock=lambda: now_ms - int(age_s * 1000)) as bus:
        bus.heartbeats.beat("alice")
    with Bus.open(bus_dir, clock=lambda: now_ms) as bus:
        beat = beat_of(bus)
        assert (beat.liveness, beat.age_s) == (liveness, max(0, age_s))


def test_agents_to_worry_about_are_listed_with_their_age(bus: Bus, bus_dir: Path) -> None:
    """M-67: agent, time and age of the beats older than 30 s."""
    backdate(bus_dir, "alice", 45)
    backdate(bus_dir, "bob", 5)
    backdate(bus_dir, "carol", 200)
    found = bus.heartbeats.list(older_than_s=30)
    assert [(beat.agent, beat.liveness) for beat in found] == [
        ("alice", Liveness.WARN),
        ("carol", Liveness.STALE),
    ]
    assert 45 <= found[0].age_s < 100
    assert all(beat.ts_ms > 0 for beat in found)


def test_age_limit_of_the_listing_serves_other_thresholds(bus: Bus, bus_dir: Path) -> None:
    """X-11: a view that takes an agent for online within 15 s asks with its own limit."""
    backdate(bus_dir, "alice", 1)
    backdate(bus_dir, "bob", 20)
    assert [beat.agent for beat in bus.heartbeats.list(older_than_s=15)] == ["bob"]


def test_status_is_stored_as_it_is_given(bus: Bus) -> None:
    """M-18, M-63, X-11: any printable word; `busy` of other systems is `working` here."""
    for given, stored in [
        ("idle", "idle"),
        ("working", "working"),
        ("blocked", "blocked"),
        ("busy", "working"),
        ("shutting_down", "shutting_down"),
        ("x" * 64, "x" * 64),
    ]:
        bus.heartbeats.beat("alice", given)
        assert beat_of(bus).status == stored


def test_beat_that_breaks_a_rule_is_refused(bus: Bus) -> None:
    """M-18, promise 11: by the table and by the heart, before anything is written."""
    heart = bus.heart("alice")
    refused: list[dict[str, object]] = [
        {"status": ""},
        {"status": "x" * 65},
        {"status": "esc\x1b[0m"},
        {"status": "idle", "task": "line\nbreak"},
        {"status": "idle", "task": "x" * 513},
        {"status": "idle", "progress": float("nan")},
    ]
    for fields in refused:
        with pytest.raises(InvalidInput):
            bus.heartbeats.beat("alice", **fields)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            heart.update(**fields)  # type: ignore[arg-type]
    for interval_s in (0, -1, 30):
        with pytest.raises(InvalidInput, match="a heart beats every"):
            bus.heart("alice", interval_s=interval_s)
    assert bus.heartbeats.list() == []


def test_stop_is_prompt_and_says_so(bus: Bus) -> None:
    """M-68: whatever the interval; a stopped agent is not late."""
    heart = bus.heart("alice", interval_s=29)
    heart.start()
    started = time.monotonic()
    heart.stop()
    assert time.monotonic() - started < 15
    assert (beat_of(bus).status, beat_of(bus).liveness) == ("stopped", Liveness.STOPPED)
    assert "heart of alice" not in {thread.name for thread in threading.enumerate()}


def test_stop_is_prompt_while_the_bus_is_locked(bus_dir: Path, bus: Bus) -> None:
    """M-68, promise 10: the agent does not wait for its heart's last write."""
    with held_write_lock(bus_dir):
        heart = bus.heart("alice")
        heart.start()
        started = time.monotonic()
        heart.stop()
        assert time.monotonic() - started < 15
    wait_until(lambda: status_of(bus) == "stopped")
    wait_until(lambda: "heart of alice" not in {t.name for t in threading.enumerate()})


def test_of_several_commands_the_last_counts(bus: Bus, beats: Beats) -> None:
    """M-68: they are drained together, with one beat for all that wait."""
    heart = bus.heart("alice")
    for n in range(50):
        heart.update("working", task=f"t{n}")
    heart.start()
    wait_until(lambda: status_of(bus) == "working")
    assert beat_of(bus).task == "t49"
    heart.stop()
    assert [status for _, _, status in beats()] == ["working", "stopped"]


# The end of a process whose heart beat: anybody can write the entry that names it.


def process_text(pid: int | str = 4194303, began: str = "7", host: str | None = None) -> str:
    """Return what an entry says of a process; as default, of one of this machine that has ended."""
    return f"process {pid} since {began} on {host or system()}"


def test_an_agent_is_dead_as_soon_as_the_process_of_its_heart_has_ended(
    bus: Bus, bus_dir: Path
) -> None:
    """And alive again by its next beat; a heart that stops in order is stopped, not dead."""
    script = (
        "import sys, ackbus\n"
        "with ackbus.Bus.open(sys.argv[1]) as bus, bus.heart('alice'):\n"
        "    sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", script, str(bus_dir)]
    for end, liveness in ((subprocess.Popen.kill, "dead"), (None, "stopped")):
        with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
            wait_until(lambda: status_of(bus) == "idle" and beat_of(bus).liveness == "alive")
            if end is not None:
                end(child)
                wait_until(lambda: beat_of(bus).liveness != "alive")  # before it was waited for
        assert (beat_of(bus).liveness, beat_of(bus).age_s < 30) == (liveness, True)


@pytest.mark.parametrize("later_ms", [-1000, 40_000])
def test_one_of_two_processes_of_an_agent_may_end(bus_dir: Path, later_ms: int) -> None:
    """Also when the clock was set back between their beats, or the other beats seldom."""
    now_ms = 1_768_053_600_000
    with Bus.open(bus_dir, clock=lambda: now_ms) as bus:
        bus.heartbeats.beat("alice", process=str(process(os.getpid())))
        now_ms += later_ms
        bus.heartbeats.beat("alice", process=process_text())
        assert beat_of(bus).liveness == "alive"


@pytest.mark.parametrize(
    ("processes", "liveness"),
    [
        ([process_text()], "dead"),
        ([process_text(), process_text(4194302)], "dead"),
        ([process_text(os.getpid())], "dead"),  # the number was given again
        ([process_text(), str(process(os.getpid()))], "alive"),  # another worker of the group
        ([process_text(host="0123abcd.4026531836")], "alive"),
        ([process_text(host=system().split(".")[0] + ".1")], "alive"),
        ([process_text(host=".")], "alive"),
        ([process_text(), process_text(host="0123abcd.1")], "alive"),
        ([process_text(began="")], "alive"),
        ([process_text(0)], "alive"),
        ([process_text(-1)], "alive"),
        ([process_text("9" * 12)], "alive"),
        ([process_text(1)] * 65, "alive"),
        (["process"], "alive"),
        (["\x1b[2J"], "alive"),
        ([], "alive"),
    ],
)
def test_only_processes_that_were_seen_to_end_make_an_agent_dead(
    bus: Bus, bus_dir: Path, processes: list[str], liveness: str
) -> None:
    """Each value by anybody: another machine's, a container's, one that runs, and nonsense."""
    bus.heartbeats.beat("alice")
    ts_ms = beat_of(bus).ts_ms
    write_hearts(bus_dir, "\n".join(f"{ts_ms} {text}" for text in processes))
    assert beat_of(bus).liveness == liveness
    assert [beat.liveness for beat in bus.heartbeats.list()] == [liveness]


@pytest.mark.parametrize(
    "value", ["", "\n", "x", "1", " ", "-5 x", "9" * 5000, "\u0661 x", "a\x00b", b"\xff\xfe 1"]
)
def test_an_entry_of_any_form_keeps_the_heartbeats_readable(
    bus: Bus, bus_dir: Path, value: str | bytes
) -> None:
    bus.heartbeats.beat("alice")
    write_hearts(bus_dir, value)
    assert beat_of(bus).liveness == "alive"
    bus.heartbeats.beat("alice", process=process_text())
    assert beat_of(bus).liveness == "dead"


def test_a_false_entry_ends_with_the_next_beat(bus: Bus, bus_dir: Path) -> None:
    """M-66: a beat by plain SQL, from any machine, goes by its time, whatever was said before."""
    bus.heartbeats.beat("alice", process=process_text())
    assert beat_of(bus).liveness == "dead"
    backdate(bus_dir, "alice", 1)
    assert beat_of(bus).liveness == "alive"
    write_hearts(bus_dir, f"{beat_of(bus).ts_ms - 1} {process_text()}")
    assert beat_of(bus).liveness == "alive"


def test_workers_of_one_group_live_while_one_of_them_does(bus: Bus, bus_dir: Path) -> None:
    """Each process notes itself; the last that stops in order takes the entry with it."""
    own = str(process(os.getpid()))
    bus.heartbeats.beat("alice", process=own)
    bus.heartbeats.beat("alice", process=process_text())
    assert beat_of(bus).liveness == "alive"
    bus.heartbeats.beat("alice", "stopped", process=own)
    bus.heartbeats.beat("alice", process=process_text())
    assert beat_of(bus).liveness == "dead"
    bus.heartbeats.beat("alice", "stopped", process=process_text())
    assert connect(bus_dir).execute("SELECT 1 FROM meta WHERE key LIKE 'hearts%'").fetchall() == []


def write_hearts(bus_dir: Path, value: str | bytes) -> None:
    """Write the entry of alice's hearts as any program can: bytes stand for broken text."""
    connect(bus_dir).execute(
        "INSERT OR REPLACE INTO meta VALUES ('hearts of alice', CAST(? AS TEXT))", (value,)
    )
