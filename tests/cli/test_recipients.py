"""Recipients on the command line: several of one message, and names that no agent has."""

import json

import pytest

from ackbus import Bus
from ackbus.tasks.steps.tasks import Tasks

from ..tasks.conftest import new_task
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


@pytest.mark.parametrize("name", ["Bad Name", "alic e", " alice", "alice\t", "\u202eecila"])
def test_what_is_no_name_is_refused_with_one_that_is(run_bus: RunBus, bus: Bus, name: str) -> None:
    """By every command that names a recipient, before anything is stored."""
    valid = {"Bad Name": "Bad-Name", "alic e": "alice", "\u202eecila": "ecila"}.get(name, "alice")
    for line in (PUBLISH, ("request", "t.request", "?", "--from", "lead")):
        ended = run_bus(*line, "--to", name)
        assert ended.code in (2, 3)
        assert_error(ended, ended.code, "spaces", "did you mean", valid)
    assert bus.log.newest_seq() == 0
    assert run_bus(*PUBLISH, "--to", valid).code == 0


def test_an_agent_that_has_acted_is_reached_whatever_its_name(run_bus: RunBus, bus: Bus) -> None:
    bus.heartbeats.beat("Bad Name")
    ended = run_bus(*PUBLISH, "--to", "Bad Name")
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Bad Name", "did you mean 'Bad-Name'?"),
        ("all", "the bus has never seen an agent 'all'"),
        ("Everyone", "the bus has never seen an agent 'Everyone'"),
        ("alice,bob", "name several one by one"),
    ],
)
def test_new_sender_to_whom_nobody_could_write_is_refused(
    run_bus: RunBus, bus: Bus, name: str, what: str
) -> None:
    """By every command that publishes, before anything is stored; by the environment too."""
    line = json.dumps({"type": "t"}).encode()
    for ended in (
        run_bus("publish", "t", "hi", "--from", name),
        run_bus("publish", "t", "hi", env={"BUS_AGENT": name}),
        run_bus("request", "t.request", "?", "--from", name),
        run_bus("publish", "--jsonl", "--from", name, stdin=line),
    ):
        assert_error(ended, 3, what)
    assert bus.log.newest_seq() == 0
    bus.publish("t", from_agent=name)  # as an older program has sent
    assert run_bus("publish", "t", "hi", "--from", name).code == 0


def test_new_sender_that_is_nearly_a_known_agent_is_noted(run_bus: RunBus) -> None:
    line = ("publish", "t", "hi", "-v", "--from")
    assert "'alic' is a new agent" in run_bus(*line, "alic").err
    for name in ("alic", "alice", "zoe"):  # known by now, known, and near to none
        assert "new agent" not in run_bus(*line, name).err


def test_an_agent_in_the_place_of_the_type_is_noted(run_bus: RunBus) -> None:
    """`publish alice hi` is meant for alice, and everybody gets it."""
    line = ("publish", "alice", "hi", "--from", "bob", "-v")
    note = "bus: note: 'alice' is an agent, and here the type of a message to everyone"
    assert note in run_bus(*line).err
    for other in ((*line, "--to", "alice"), ("publish", "note", "hi", "--from", "bob", "-v")):
        assert "note" not in run_bus(*other).err


#: Lines that name nothing, and what stands near.
MISTYPED = {
    "poll alic": "alice",
    "poll ALICE": "alice",
    "inbox alic": "alice",
    "parked list alic": "alice",
    "agents forget alic --dry-run": "alice",
    "wake alic --dry-run": "alice",
    "read --agent alic": "alice",
    "read --type jbo.build": "job.build",
    "ack alic 1": "alice",
    "queue show biuld": "build",
    "job list --queue biuld": "build",
    "queue pause biuld": "build",
    "task show fix-logn": "fix-login",
    "task diff fix-logn": "fix-login",
    "task proof fix-logn": "fix-login",
    "lease release chekout --token 1 --agent alice": "checkout",
    "lease renew chekout --token 1 --agent alice": "checkout",
    "check the-conversatoin": "the-conversation",
    "check the-conv": "the-conversation",
    "graph the-conversatoin": "the-conversation",
    "show the-conversatoin": "the-conversation",
    "inspect the-conversatoin": "the-conversation",
    "trace the-conversatoin": "the-conversation",
    "receipts the-conversatoin": "the-conversation",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_name_is_answered_with_near_ones(run_bus: RunBus, bus: Bus, line: str) -> None:
    bus.publish("job.build", from_agent="bob", id="the-conversation")
    run_bus("queue", "create", "build", "--type", "job.build")
    bus.leases.acquire("checkout", "bob")
    Tasks(bus).assign(new_task("fix-login"), agent="lead")
    err = run_bus(*line.split()).err
    assert MISTYPED[line] in err.partition("did you mean")[2], err


def test_polling_under_a_name_never_seen_says_so_and_stores_nothing(
    run_bus: RunBus, bus: Bus
) -> None:
    """An agent that somebody writes to is expected; one that acknowledges is new, and known."""
    bus.publish("news", from_agent="bob")
    before = bus.agents.recorded()
    for words, code in ((("poll", "carol"), 0), (("poll", "carol", "--json"), 0)):
        ended = run_bus(*words)
        assert (ended.code, ended.out.count("\n")) == (code, 1)
        assert ended.err == "bus: the bus has never seen an agent 'carol'\n"
    assert run_bus("poll", "bob").err == ""  # it has sent, and was not counted yet
    assert bus.agents.recorded() == before
    with pytest.warns(UserWarning, match="carol"):
        bus.publish("task", from_agent="bob", to_agent="carol")
    assert run_bus("poll", "carol").err == ""
    for agent, note in (
        ("carol", ""),
        ("dave", "'dave' is a new agent: the bus had never seen it"),
    ):
        ended = run_bus("ack", agent, "2")
        assert ended.out.startswith("acknowledged 2: ")
        assert ended.err == (f"bus: {note}\n" if note else "")
        assert run_bus("ack", agent, "2").err == ""
        assert run_bus("poll", agent).err == ""


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


def test_the_same_warning_is_printed_once(run_bus: RunBus, bus: Bus) -> None:
    """However many lines name the same recipient, in one command; another has its own."""
    lines = [{"type": "t", "from": "lead", "to": name} for name in ("alcie", "alcie", "bbo")]
    text = "\n".join(map(json.dumps, lines)).encode()
    err = run_bus("publish", "--jsonl", stdin=text).err
    assert sorted(line.count("alcie") for line in err.splitlines()) == [0, 1]
    for words in (("a", "b"), ("c",)):
        to = [word for name in words for word in ("--to", name)]
        assert run_bus(*PUBLISH, *to).err.count("warning") == len(words)
