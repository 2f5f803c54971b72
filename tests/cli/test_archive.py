"""`bus archive` and `bus segments`."""

import json
import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Inbox

from ..conftest import RunBus
from ..programs import connect

pytestmark = pytest.mark.usefixtures("bus_dir")


@pytest.fixture
def filled(bus: Bus) -> Bus:
    bus.publish_many(Draft("note", n, from_agent="planner") for n in range(1, 11))
    Inbox(bus, "worker").ack(8)
    return bus


def test_archive_moves_what_nobody_needs_and_says_who_needs_the_rest(
    run_bus: RunBus, filled: Bus
) -> None:
    """X-20, Q-02: the policy is printed."""
    before = run_bus("replay", "--from", "1", "--json").out
    ended = run_bus("archive", "--before", "11")
    assert ended.code == 0
    archived, held = ended.out.splitlines()
    assert archived.startswith("archived 8 messages, up to 8, into ")
    assert re.fullmatch(r"held: inbox worker has not done with 9 \(seen \d+ s ago\)", held)
    assert filled.archive.upto() == 8
    assert run_bus("replay", "--from", "1", "--json").out == before
    assert run_bus("show", "3", "--json").out == before.splitlines(keepends=True)[2]


def test_unread_mail_of_an_idle_agent_stays_and_the_agent_is_named(
    run_bus: RunBus, filled: Bus
) -> None:
    command = ("archive", "--before", "11", "--idle-after", "0s")
    for option, act in (("--dry-run", "would archive 8"), ("-v", "archived 8"), ("--json", "{")):
        ended = run_bus(*command, option)
        assert (ended.code, ended.out.startswith(act)) == (3, True)
        assert re.fullmatch(
            r"bus: 1 idle agent did not read what could be archived: worker \(seen \d+ s ago\);"
            r" 'bus archive --pass-over NAME' or '--pass-over-idle' archives it, and the next poll"
            r" of the agent says so",
            ended.err.splitlines()[-1],
        )
    assert filled.archive.upto() == 8
    assert run_bus("poll", "worker").code == 0


def test_name_that_the_bus_has_never_seen_is_not_passed_over(run_bus: RunBus, filled: Bus) -> None:
    run_bus("publish", "note", "not its own act", "--from", "planner", "--to", "ghost")
    run_bus("publish", "note", "the newest", "--from", "planner")
    options = ("--before", "11", "--idle-after", "0s")
    ended = run_bus("archive", *options, "--pass-over", "wroker")
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == "bus: the bus has never seen an agent 'wroker'; did you mean worker?\n"
    assert filled.archive.upto() == 0
    for known in ("worker", "planner", "ghost"):  # a reader, a sender, a name that has mail
        assert run_bus("archive", *options, "--pass-over", known, "--dry-run").code in (0, 3)


@pytest.mark.parametrize("option", [["--pass-over", "worker"], ["--pass-over-idle"]])
def test_agent_that_is_passed_over_is_named_and_told(
    run_bus: RunBus, filled: Bus, option: list[str]
) -> None:
    options = ("--before", "11", "--idle-after", "0s", *option)
    named = r"would pass over: inbox worker has not done with 9 \(seen \d+ s ago\)"
    assert re.fullmatch(named, run_bus("archive", *options, "--dry-run").out.splitlines()[1])
    ended = run_bus("archive", *options, "--json")
    record = json.loads(ended.out)
    assert (ended.code, record["messages"], record["to"], record["held_by"]) == (0, 9, 9, [])
    assert [hold["name"] for hold in record["passed_over"]] == ["worker"]
    poll = run_bus("poll", "worker")
    assert (poll.code, poll.out) == (3, "")
    assert poll.err.startswith("bus: messages for 'worker' up to 9 were archived unread; read")
    assert run_bus("replay", "--from", "9", "--to", "9").code == 0
    assert run_bus("ack", "worker", "9").code == 0
    assert run_bus("poll", "worker").out.startswith("10 ")  # the newest message never leaves


@pytest.mark.parametrize(
    "join",
    [
        ["hook", "start", "claude", "--agent", "reader"],
        ["listen", "reader", "--drain", "--no-session", "--", "true"],
    ],
)
def test_agent_with_a_heart_that_joined_keeps_its_unread_broadcasts(
    run_bus: RunBus, bus: Bus, join: list[str]
) -> None:
    """It never acknowledges anything."""
    assert run_bus(*join, stdin="{}").code == 0
    for number in (1, 2):
        bus.publish("news", number, from_agent="planner")
    assert run_bus("heartbeat", "reader").code == 0
    ended = run_bus("archive", "--before", "3")
    assert (ended.code, ended.out.splitlines()[0]) == (0, "archived 0 messages")
    assert "held: inbox reader has not done with 1" in ended.out
    assert run_bus("poll", "reader").out.startswith("1 ")


def test_hearts_of_a_service_and_of_a_worker_group_keep_nothing(run_bus: RunBus, bus: Bus) -> None:
    bus.publish("news", 1, from_agent="planner")
    bus.publish("job", 2, from_agent="planner")
    assert run_bus("heartbeat", "exporter").code == 0
    assert run_bus("run", "--type", "job", "--group", "crew", "--drain", "--", "true").code == 0
    assert {beat.agent for beat in bus.heartbeats.list()} == {"crew", "exporter"}
    ended = run_bus("archive", "--before", "3")
    assert (ended.code, ended.out.splitlines()[1:]) == (0, [])
    assert bus.archive.upto() == 1


def test_dry_run_changes_nothing(run_bus: RunBus, filled: Bus) -> None:
    ended = run_bus("archive", "--before", "6", "--dry-run")
    assert (ended.code, ended.out) == (0, "would archive 5 messages, up to 5\n")
    assert filled.archive.upto() == 0
    assert not Path(filled.layout.archive).exists()


def test_young_messages_stay_unless_asked_for(run_bus: RunBus, filled: Bus) -> None:
    assert run_bus("archive").out == "archived 0 messages\n"
    assert run_bus("archive", "--older-than", "0s").out.startswith("archived 8 messages, up to 8")
    assert filled.archive.upto() == 8


def test_before_and_older_than_exclude_each_other(run_bus: RunBus) -> None:
    ended = run_bus("archive", "--before", "5", "--older-than", "1d")
    assert (ended.code, ended.err) == (2, "bus: give --before or --older-than, not both\n")


@pytest.mark.slow
def test_segments_are_listed_and_verified(run_bus: RunBus, filled: Bus) -> None:
    assert run_bus("segments").code == 4
    run_bus("archive", "--before", "6")
    ended = run_bus("segments", "--json")
    listed = json.loads(ended.out)
    assert (ended.code, listed["state"]) == (0, "ok")
    assert (listed["first_seq"], listed["last_seq"], listed["messages"]) == (1, 5, 5)
    good = run_bus("segments", "--verify", "--json")
    assert (good.code, json.loads(good.out)["state"]) == (0, "ok")
    path = Path(listed["file"])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")
    assert [
        json.loads(run_bus("segments", *option, "--json").out)["state"]
        for option in ((), ("--verify",))
    ] == ["ok", "altered"]
    path.write_bytes(whole[:-1])
    path.rename(f"{path}.away")
    gone = run_bus("segments")
    assert (gone.code, gone.out.splitlines()[1].split()[-1]) == (1, "missing")
    Path(f"{path}.away").rename(path)
    for option in ((), ("--verify",)):
        bad = run_bus("segments", *option, "--json")
        assert (bad.code, json.loads(bad.out)["state"]) == (1, "altered")
    path.write_bytes(b"other")
    replay = run_bus("replay", "--from", "1")
    assert (replay.code, replay.out) == (1, "")
    assert replay.err.startswith(f"bus: messages 1 to 5 are in {listed['file']}, which can't be")
    assert replay.err.endswith("put it back, or go on with --from 6\n")
    for shown in (run_bus("replay", "--from", "1", "--to", "5"), run_bus("show", "3")):
        assert (shown.code, shown.err.endswith("put it back\n")) == (1, True)
    assert run_bus("replay", "--from", "6").code == 0


def test_maintain_tells_what_it_did(run_bus: RunBus, filled: Bus) -> None:
    run_bus("archive", "--before", "6")
    ended = run_bus("maintain")
    assert ended.code == 0
    *first, given_back, _ = ended.out.splitlines()
    assert first == ["collected 0 blobs, 0 bytes", "forgot 0 finished messages of the archive"]
    kept = re.fullmatch(
        r"gave back 0 bytes of the file, and kept ([\d,]+) bytes free for what comes", given_back
    )
    assert kept is not None
    record = json.loads(run_bus("maintain", "--json").out)
    assert record["bytes_kept_free"] % 4096 == 0
    assert json.loads(run_bus("maintain", "--json").out)["wal_bytes"] == 0
    assert len(list(filled.read())) == 10


def test_times_that_cannot_be_hold_no_archive(bus: Bus, bus_dir: Path, run_bus: RunBus) -> None:
    """One in microseconds, of before the file refused it, was never old enough."""
    now_ms = bus.now_ms()
    with closing(connect(bus_dir)) as raw:
        raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        for number, ts_ms in enumerate((1_000, now_ms * 1000, 2_000, now_ms), 1):
            raw.execute(
                "INSERT INTO messages (id, ts_ms, from_agent, type) VALUES (?, ?, 'a', 't')",
                (f"m{number}", ts_ms),
            )
    done = run_bus("archive", "--older-than", "1d", "--json")
    assert json.loads(done.out)["to"] == 3
    assert "1 of them have impossible times" in done.err
