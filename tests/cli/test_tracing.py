"""bus trace, inspect."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.schema.queries import file_of
from ackbus.subscribers.queues.queue import Queue

from ..conftest import RunBus
from ..programs import raw_sql
from .conftest import assert_error

pytestmark = [
    pytest.mark.usefixtures("bus_dir"),
    pytest.mark.filterwarnings(
        "ignore::ackbus.errors.AnsweredAgainWarning"
    ),  # requests are answered more than once here
]

EVIL = "\x1b[31m\u202eevil\x07"

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def reviewed(bus: Bus) -> str:
    """A review that was handed back once, then done, and asked another question; its id."""
    queue = Queue.create(bus, "review", "review.request")
    asked = bus.publish("review.request", "look", from_agent="lead", id="r")
    (first,) = queue.claim("w-1", group="w")
    queue.release(first, "went home")
    (second,) = queue.claim("w-2", group="w")
    done = Draft("review.done", "fine", from_agent="w", to_agent="lead", in_reply_to=asked.id)
    (reply,) = queue.complete(second, done)
    merge = bus.publish("merge.request", "now", from_agent="lead", in_reply_to=reply.id)
    Queue.create(bus, "merge", "merge.request").fill()
    bus.publish("review.note", "by the way", from_agent="w", in_reply_to=asked.id)
    return merge.id


def test_trace_draws_the_chain_from_any_id(run_bus: RunBus, reviewed: str) -> None:
    """U-76: `trace ID` prints the whole chain."""
    shown = run_bus("trace", reviewed)
    assert (shown.code, shown.err) == (0, "")
    lines = [re.sub(rf"{TIME}| for \S+ s", "…", line) for line in shown.out.splitlines()]
    assert lines == [
        "1  …  lead → all  review.request  look",
        "├─ queue review: succeeded, 1 of 4 attempts",
        "│  ├─ claim 1: lost, attempt 1, by w-1, from ……: went home",
        "│  └─ claim 2: completed, attempt 1, by w-2, from ……",
        "├─ 2  …  w → lead  review.done  fine",
        "│  └─ 3  …  lead → all  merge.request  now",
        "│     └─ queue merge: queued, 0 of 4 attempts, waits for a worker",
        "└─ 4  …  w → all  review.note  by the way",
    ]
    for key in ("1", "r", "2", "claim:2", "review:1", "merge:3", "4"):
        assert run_bus("trace", key).out == shown.out, key


def test_trace_as_json_is_one_object(run_bus: RunBus, reviewed: str) -> None:
    """U-76: messages with their depth, jobs and claims."""
    found = json.loads(run_bus("trace", "claim:1", "--json").out)
    assert (found["seq"], found["conversations"]) == (1, ["r"])
    messages = found["messages"]
    assert [(m["seq"], m["depth"]) for m in messages] == [(1, 0), (2, 1), (3, 2), (4, 1)]
    (job,) = messages[0]["jobs"]
    assert (job["queue"], job["state"], job["priority"]) == ("review", "succeeded", "normal")
    assert [(c["token"], c["status"], c["group"], c.get("error")) for c in job["claims"]] == [
        (1, "lost", "w", "went home"),
        (2, "completed", "w", None),
    ]
    assert re.fullmatch(TIME, job["claims"][0]["until"])
    assert messages[2]["jobs"][0]["claims"] == []
    assert messages[3]["jobs"] == []


def test_trace_of_a_long_conversation_stays_narrow(run_bus: RunBus, bus: Bus) -> None:
    """Two agents may answer each other for long; each line is drawn, at a bounded depth."""
    last = bus.publish("t", from_agent="a")
    with bus.transaction():
        for _ in range(300):
            last = bus.publish("t", from_agent="a", in_reply_to=last.id)
    lines = run_bus("trace", last.id).out.splitlines()
    assert len(lines) == 301
    assert max(map(len, lines)) < 150


def test_trace_of_nothing_ends_with_4(run_bus: RunBus) -> None:
    assert_error(run_bus("trace", "nobody"), 4, "'nobody'", "claim:TOKEN", "QUEUE:SEQ")


def test_inspect_shows_a_message_with_all_its_claims(run_bus: RunBus, reviewed: str) -> None:
    """P-67, P-68: state, status, group, instance and times of each."""
    shown = run_bus("inspect", "r").out.splitlines()
    assert shown[0].split() == ["seq:", "1"]
    assert "look" in shown
    first, second = (line for line in shown if "token=" in line)
    for line, state in ((first, "lost"), (second, "completed")):
        assert f" state=terminal status={state} " in line
        for word in ("group=w", "worker=w-", "claimed_at=", "until="):
            assert word in line
    assert "error=went home" in first
    record = json.loads(run_bus("inspect", "1", "--json").out)
    assert [claim["state"] for claim in record["jobs"][0]["claims"]] == ["terminal"] * 2
    assert record["payload"] == "look"


def test_inspect_tells_live_claims_from_expired_ones(
    run_bus: RunBus, bus: Bus, bus_dir: Path
) -> None:
    """P-68: a lease of 2020 is `status=active`, `state=expired_active`."""
    bus.publish("t", from_agent="a")
    Queue.create(bus, "t").claim("w")
    assert " state=live_active status=active " in run_bus("inspect", "1").out
    raw_sql(bus_dir, "UPDATE claims SET lease_until_ms = 1577836800000")
    shown = run_bus("inspect", "1").out
    assert " state=expired_active status=active " in shown
    assert "until=2020-01-01T00:00:00.000Z" in shown
    assert "expired_active" in run_bus("trace", "1").out
    assert file_of(bus).value("SELECT status FROM claims") == "active"


def test_logs_of_a_claim_are_shown_as_they_were_reported(
    run_bus: RunBus, bus: Bus, bus_dir: Path
) -> None:
    """P-67: JSON of our commands; a program with its own SQL may have stored anything."""
    bus.publish("t", from_agent="a")
    Queue.create(bus, "t").claim("w")
    for stored, shown in (('[{"level":"info"}]', [{"level": "info"}]), ("no JSON", "no JSON")):
        raw_sql(bus_dir, f"UPDATE claims SET logs = '{stored}'")
        (job,) = json.loads(run_bus("inspect", "1", "--json").out)["jobs"]
        assert job["claims"][0]["logs"] == shown


def test_inspect_of_a_conversation_or_of_all_shows_no_claims(
    run_bus: RunBus, bus: Bus, reviewed: str
) -> None:
    """P-67: messages only."""
    bus.publish("unrelated", from_agent="x")
    conversation, everything = run_bus("inspect", "--conversation", "r"), run_bus("inspect")
    assert [line[0] for line in conversation.out.splitlines()] == ["1", "2", "3", "4"]
    assert [line[0] for line in everything.out.splitlines()] == ["1", "2", "3", "4", "5"]
    assert "claim" not in everything.out
    assert run_bus("inspect", "--conversation", "nobody").code == 4
    assert_error(run_bus("inspect", "r", "--conversation", "r"), 2, "--conversation")
    assert_error(run_bus("inspect", "nobody"), 4, "'nobody'")


@pytest.mark.parametrize("line", [("trace", "1"), ("inspect", "1"), ("check", "evil")])
def test_nothing_in_a_trace_acts_on_a_terminal(
    line: tuple[str, ...], bus: Bus, run_bus: RunBus, on_terminal: Callable[..., str]
) -> None:
    """PITFALLS 24: payloads, errors and names of other programs are shown escaped."""
    bus.publish("t.request", EVIL, from_agent="a", id="evil")
    queue = Queue.create(bus, "t", "t.request", backoff_s=0)
    (claim,) = queue.claim("w")
    queue.fail(claim, EVIL)
    bus.publish("t.done", f"answer {EVIL}", from_agent="b", in_reply_to="evil")
    sent = on_terminal(*line)
    assert "evil" in sent
    assert "\u202e" not in sent
    assert "\x07" not in sent
    assert "\x1b[31m\\" not in sent
    assert "\\x1b[31m\\u202eevil\\x07" in sent
    if line[0] != "check":  # its body goes to programs, as it is
        assert EVIL not in run_bus(*line).out
