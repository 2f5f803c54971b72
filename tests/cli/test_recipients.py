"""Recipients on the command line: several of one message, and names that no agent has."""

import json

import pytest

from ackbus import Bus

from .conftest import RunBus, assert_error

PUBLISH = ("publish", "task", "look", "--from", "lead")


@pytest.fixture(autouse=True)
def agents(bus: Bus) -> None:
    for name in ("alice", "bob"):
        bus.heartbeats.beat(name)


@pytest.mark.parametrize("way", [(), ("--header", "a=1", "-v")], ids=["fast", "by typer"])
def test_publishing_to_several_prints_the_id_of_each(
    run_bus: RunBus, bus: Bus, way: tuple[str, ...]
) -> None:
    """Issue 19, 6: in the order of the options, and safe to repeat by an id."""
    line = (*PUBLISH, *way, "--to", "alice", "--to=bob", "--id", "once")
    for _ in range(2):
        assert run_bus(*line).out.split() == ["once", "once:bob"]
    assert [each.to_agent for each in bus.read(conversation="once")] == ["alice", "bob"]
    records = run_bus(*line, "--json").out.splitlines()
    assert [json.loads(each) for each in records] == [
        {"seq": 1, "id": "once", "duplicate": True},
        {"seq": 2, "id": "once:bob", "duplicate": True},
    ]


@pytest.mark.parametrize("name", ["everyone", "All", "alice,bob", ""])
def test_name_that_means_several_is_refused(run_bus: RunBus, bus: Bus, name: str) -> None:
    """Issue 19, 6: by every command that names a recipient, before anything is stored."""
    what = "one by one" if "," in name else "to reach everyone, name no recipient"
    line = json.dumps({"type": "t", "from": "lead", "to": name}).encode()
    fine = json.dumps({"type": "t", "from": "lead", "to": "bob"}).encode()
    for ended in (
        run_bus(*PUBLISH, "--to", name),
        run_bus(*PUBLISH, "--to", "alice", "--to", name),
        run_bus("request", "t.request", "?", "--from", "lead", "--to", name),
        run_bus("publish", "--jsonl", stdin=fine + b"\n" + line),
    ):
        assert ended.code in (2, 3)
        assert_error(ended, ended.code, what)
    assert bus.log.newest_seq() == 0


def test_lines_may_name_several(run_bus: RunBus, bus: Bus) -> None:
    line = json.dumps({"type": "t", "from": "lead", "to": ["alice", "bob"], "id": "once"}).encode()
    assert run_bus("publish", "--jsonl", stdin=line).out.split() == ["once", "once:bob"]
    assert [each.to_agent for each in bus.read()] == ["alice", "bob"]
    for wrong in (b'["alice", 7]', b"[]"):
        line = b'{"type": "t", "from": "lead", "to": %b}' % wrong
        assert_error(run_bus("publish", "--jsonl", stdin=line), 2, "line 1", "recipients")


def test_request_goes_to_one(run_bus: RunBus, bus: Bus) -> None:
    """Issue 19, 6: it waits for one answer; the help says how several are asked."""
    to = ("--to", "alice", "--to", "bob")
    assert_error(run_bus("request", "t.request", "?", "--from", "lead", *to), 2, "give --to once")
    assert bus.log.newest_seq() == 0
    ids = run_bus("publish", "t.request", "?", "--from", "lead", *to).out.split()
    bus.publish("done", "yes", from_agent="bob", in_reply_to=ids[1])
    assert "pending" in run_bus("check", ids[0]).out
    assert run_bus("check", "2").out.endswith(" type=done\nyes\n")
