"""bus graph, timeline."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ackbus import Bus

from ..conftest import RunBus
from .conftest import assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")

#: Ends nothing, begins nothing, on a terminal, in Mermaid, and in XML.
EVIL = "a\x1b[31m\u202e; end\n%%<b>&"


@pytest.fixture
def talk(bus: Bus) -> str:
    """Two conversations; the id of the first."""
    asked = bus.publish("review.request", EVIL, from_agent="lead", id="r")
    bus.publish("review.done", "fine", from_agent="ann", in_reply_to=asked.id)
    bus.publish("note", "apart", from_agent="ann", id="n")
    bus.publish("review.note", "one more", from_agent="ann", correlation_id="r")
    return asked.id


def is_svg(text: str) -> bool:
    return ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_graph_draws_the_conversation_of_any_id_of_it(run_bus: RunBus, talk: str) -> None:
    drawn = run_bus("graph", talk)
    assert (drawn.code, drawn.err) == (0, "")
    lines = drawn.out.splitlines()
    assert lines[0] == "sequenceDiagram"
    arrows = [line.strip() for line in lines if ">>" in line]
    assert arrows == [
        r"p1->>p3: 1 review.request<br/>a\x1b[31m\u202e#59; #101;nd #37;#37;#60;b#62;#38;",
        "p2-->>p3: 2 review.done<br/>fine",
        "p2->>p3: 4 review.note<br/>one more",
    ]
    for key in ("1", "2", "4"):
        assert run_bus("graph", key).out == drawn.out


def test_a_picture_goes_to_stdout_or_a_file(run_bus: RunBus, talk: str, project: Path) -> None:
    drawn = run_bus("timeline")
    assert is_svg(drawn.out)
    written = run_bus("timeline", "-o", "talk.svg")
    assert (written.code, written.out, written.err) == (0, "", "")
    assert (project / "talk.svg").read_bytes() == drawn.out.encode()


def test_graph_as_json_is_one_object(run_bus: RunBus, talk: str) -> None:
    record = json.loads(run_bus("graph", "2", "--json").out)
    assert record["conversation"] == talk
    assert record["agents"] == ["lead", "ann"]
    assert record["total"] == 3
    assert [message["seq"] for message in record["messages"]] == [1, 2, 4]
    assert [message["reply"] for message in record["messages"]] == [False, True, False]
    assert record["messages"][1]["text"] == "fine"


def test_graph_of_agents_counts_the_log_or_a_conversation(run_bus: RunBus, talk: str) -> None:
    everything = run_bus("graph", "--agents")
    assert '    p2 -->|"3"| p3' in everything.out.splitlines()
    assert '    p2 -->|"2"| p3' in run_bus("graph", talk, "--agents").out.splitlines()
    record = json.loads(run_bus("graph", "--agents", "--json").out)
    assert record == {
        "conversation": None,
        "agents": ["lead", "ann"],
        "messages": 4,
        "pairs": 2,
        "links": [{"from": "lead", "messages": 1}, {"from": "ann", "messages": 3}],
    }


def test_since_leaves_out_what_is_older(run_bus: RunBus, bus: Bus) -> None:
    with Bus.open(bus.layout.directory, clock=lambda: 1000) as before:
        before.publish("old", from_agent="a")
    bus.publish("new", from_agent="b")
    for args in (["graph", "--agents"], ["timeline"]):
        assert json.loads(run_bus(*args, "--since", "1h", "--json").out)["agents"] == ["b"]


def test_timeline_is_an_svg_of_what_the_options_leave(run_bus: RunBus, talk: str) -> None:
    drawn = run_bus("timeline")
    assert (drawn.code, drawn.err) == (0, "")
    assert is_svg(drawn.out)
    for options, seqs in [
        (["--from", "2"], [2, 3, 4]),
        (["--from", "2", "--to", "3"], [2, 3]),
        (["--agent", "lead"], [1]),
    ]:
        record = json.loads(run_bus("timeline", *options, "--json").out)
        assert [message["seq"] for message in record["messages"]] == seqs, options


def test_timeline_goes_on_to_the_last_heartbeat(run_bus: RunBus, bus: Bus, talk: str) -> None:
    """Unless it is about a range of the past, or about another agent."""
    bus.heartbeats.beat("ann", "stopped")
    bus.heartbeats.beat("silent")

    def presences(*options: str) -> dict[str, bool]:
        found = json.loads(run_bus("timeline", "--json", *options).out)["presences"]
        return {presence["agent"]: presence["stopped"] for presence in found}

    assert presences() == {"lead": False, "ann": True, "silent": False}
    assert presences("--to", "4") == {"lead": False, "ann": False}
    assert presences("--agent", "ann") == {"ann": True}


def test_what_is_left_out_is_told(run_bus: RunBus, talk: str) -> None:
    for args, what in [
        (["graph", talk], "the newest 2 of 3 messages"),
        (["timeline"], "the newest 2 of 4 messages"),
    ]:
        drawn = run_bus(*args, "--limit", "2")
        assert drawn.code == 0
        assert what in drawn.out
        assert drawn.err == f"bus: shows {what}; --limit shows more or fewer\n"
    pairs = run_bus("graph", "--agents", "--limit", "1")
    assert "the 1 busiest of 2 pairs" in pairs.err


@pytest.mark.slow
def test_a_terminal_gets_no_control_character(on_terminal: Callable[..., str], talk: str) -> None:
    """Pitfall 24."""
    for args in (["graph", "1"], ["graph", "1", "--json"], ["timeline"]):
        sent = on_terminal(*args)
        assert "review.request" in sent
        assert sent.replace("\r\n", "").isprintable()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["graph"], 2, ["give the id of a conversation", "--agents"]),
        (["graph", "nothing"], 4, ["'nothing'", "bus read"]),
        (["graph", "99"], 4, ["'99'"]),
        (["graph", "r", "--limit", "0"], 2, ["--limit"]),
        (["graph", "r", "--since", "soon"], 2, ["--since"]),
        (["graph", "r", "--since", "2100-01-01T00:00:00Z"], 4, ["nothing to draw"]),
        (["graph", "r", "-o", "no/folder.mmd"], 1, ["no/folder.mmd", "No such file"]),
        (["graph", "r", "-o", "."], 1, ["can't write .", "directory"]),
        (["timeline", "--agent", "nobody"], 4, ["nothing to draw"]),
        (["timeline", "--from", "5", "--to", "4"], 2, ["--to 4 lies before --from 5"]),
        (["timeline", "--from", "99"], 4, ["nothing to draw"]),
    ],
)
def test_bad_input_gets_one_line_and_a_code(
    run_bus: RunBus, talk: str, args: list[str], code: int, words: list[str]
) -> None:
    assert_error(run_bus(*args), code, *words)


def test_an_empty_log_is_no_picture(run_bus: RunBus) -> None:
    assert_error(run_bus("timeline"), 4, "nothing to draw")
    assert_error(run_bus("graph", "--agents"), 4, "nothing to draw")
