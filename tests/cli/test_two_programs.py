"""Issue 32: two agents of different programs finish a task, one is killed, nothing is done twice.

Each acts by what its hooks and tools tell it, and by nothing else.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Inbox

from ..agent_programs import AgentProgram, agent_program

pytestmark = pytest.mark.slow

#: The files of the task, each of which the worker writes once.
FILES = ("parser.py", "lexer.py", "printer.py")

Start = Callable[[str], AgentProgram]


@pytest.fixture
def start(bus_dir: Path, bus_env: dict[str, str]) -> Iterator[Start]:
    """Starts programs of agents, each with hooks and an MCP server of its own."""
    with ExitStack() as stack:
        yield lambda agent: stack.enter_context(agent_program(agent, bus_dir.parent, bus_env))


def hears(agent: AgentProgram, event: str, program: str, name: str) -> str:
    """The text that a hook of a program gives to the model."""
    told = agent.run("hook", event, program, "--agent", name, stdin="{}")
    return json.dumps(json.loads(told), ensure_ascii=False) if told else ""


def answer(worker: AgentProgram, request: dict[str, Any], done: Path) -> None:
    """Write the file that a request asks for, and answer it, as its mail says."""
    name = request["payload"]
    assert worker.call("bus_reserve", paths=[name])["granted"]
    with done.open("a") as file:
        file.write(f"{name}\n")
    worker.call("bus_send", type="write.done", payload=name, in_reply_to=request["seq"])


def work(worker: AgentProgram, done: Path) -> list[int]:
    """Handle the mail of a worker, and return what it is told to be answered already."""
    before = []
    for mail in worker.call("bus_inbox")["messages"]:
        if mail["answer"].startswith("you answered this as ["):
            before.append(mail["seq"])
        else:
            answer(worker, mail, done)
        worker.call("bus_ack", seq=mail["seq"])
    return before


def test_worker_that_is_killed_before_it_acknowledges_does_nothing_twice(
    bus: Bus, start: Start, tmp_path: Path
) -> None:
    """Its lock is free, its answer is known: to its hooks, its tools, and the next session."""
    done = tmp_path / "done"
    lead, worker = start("lead"), start("worker")
    for agent, program, name in ((lead, "claude", "lead"), (worker, "codex", "worker")):
        assert f"You are the agent {name} here." in hears(agent, "start", program, name)
    for name in FILES:
        lead.call("bus_send", type="write.request", payload=name, to="worker")
    assert "3 unread on the bus for worker" in hears(worker, "stop", "codex", "worker")
    first = worker.call("bus_inbox")["messages"][0]
    answer(worker, first, done)
    worker.kill()
    following = start("worker")
    assert "you answered this as [4]" in hears(following, "start", "codex", "worker")
    again = {"type": "write.done", "payload": "parser.py", "in_reply_to": first["seq"]}
    assert following.call("bus_send", **again) == {"refused": True}
    assert lead.call("bus_reserve", paths=["parser.py"])["granted"]
    assert work(following, done) == [first["seq"]]
    assert done.read_text().splitlines() == list(FILES)
    assert hears(following, "stop", "codex", "worker") == ""
    answers = lead.call("bus_inbox")["messages"]
    assert [each["payload"] for each in answers] == list(FILES)
    lead.call("bus_ack", seq=answers[-1]["seq"])
    assert bus.log.newest_seq() == 2 * len(FILES)
    assert [Inbox(bus, name).unread() for name in ("lead", "worker")] == [0, 0]
