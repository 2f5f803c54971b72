"""bus prompt: the number that waits, in a shell's prompt, and never a word more."""

import json
from pathlib import Path

import pytest

from ackbus import Bus, Inbox

from ..conftest import RunBus
from .conftest import assert_error


def test_prompt_counts_what_waits_and_is_silent_at_none(bus: Bus, run_bus: RunBus) -> None:
    """Issue 4, item 6."""
    assert run_bus("prompt", "alice") == (quiet := run_bus("prompt", "bob"))
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    for agent in ("alice", "bob"):
        bus.heartbeats.beat(agent)
    for recipient in ("alice", "alice", None):
        bus.publish("note", from_agent="lead", to_agent=recipient)
    assert run_bus("prompt", "alice").out == "3\n"
    assert run_bus("prompt", "bob").out == "1\n"
    Inbox(bus, "alice").ack(1)
    assert run_bus("prompt", env={"BUS_AGENT": "alice"}).out == "2\n"
    assert run_bus("prompt", "alice", "--format", "\033[1m✉ {} ").out == "\033[1m✉ 2 \n"
    assert json.loads(run_bus("prompt", "alice", "--json").out) == {"agent": "alice", "unread": 2}
    Inbox(bus, "alice").ack(3)
    assert run_bus("prompt", "alice").out == ""
    assert json.loads(run_bus("prompt", "alice", "--json").out) == {"agent": "alice", "unread": 0}


def test_prompt_counts_to_a_thousand(bus: Bus, run_bus: RunBus) -> None:
    with bus.transaction():
        for _ in range(1002):
            bus.publish("note", from_agent="lead")
    assert run_bus("prompt", "alice").out == "1000+\n"


def test_prompt_says_nothing_in_trouble(run_bus: RunBus, project: Path, tmp_path: Path) -> None:
    """Issue 4, item 6: no bus, no agent, a damaged one, one of another version."""
    damaged = tmp_path / "damaged"
    Bus.init(damaged).close()
    (damaged / "bus.db").write_bytes(b"no database" * 1000)
    for line in (["alice"], [], ["alice", "--dir", str(damaged)], ["alice", "--user"]):
        done = run_bus("prompt", *line)
        assert (done.code, done.out, done.err) == (0, "", ""), line
        assert run_bus("prompt", *line, "-v").err.startswith("bus: "), line


@pytest.mark.parametrize("line", ["a b", "--nope", "a --format", "a --user --dir x"])
def test_a_prompt_that_is_set_up_wrongly_is_told_so(line: str, run_bus: RunBus) -> None:
    assert_error(run_bus("prompt", *line.split()), 2)
