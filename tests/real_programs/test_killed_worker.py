"""Issue 32: two programs finish a task together, one is killed, and nothing is done twice.

The worker is killed when it has answered the first request, and has not acknowledged it. Its next
session is a new process: it knows what its hook and its tools tell it, and nothing else.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Inbox

from ..conftest import RunBus, wait_until
from .person import DRIVEN, FOLDER, TIMEOUT_S, Person
from .scripted_model import Call, ScriptedModel, scripted_model

#: The parts of the task, in the order of their requests.
PARTS = ("parser", "lexer", "printer")

#: The file in which each part that was done is a line.
DONE = "done.txt"

#: The tool by which each program runs a command, and what permits it.
SHELLS = {
    "claude": ("Bash", ["--allowedTools", "mcp__ackbus,Bash"]),
    "gemini": ("run_shell_command", []),
    "copilot": ("bash", []),
}

Turn = Callable[..., ScriptedModel]


def to_do(seen: str) -> list[int]:
    """The requests that the model was told to answer, in order; not those answered already."""
    return sorted({int(seq) for seq in re.findall(r"in_reply_to=(\d+)", seen)})


def doing(name: str, number: int) -> list[Call]:
    """The calls by which a worker does what is asked for, and answers: the next of its requests."""
    tool, _ = SHELLS[name]

    def command(seen: str) -> dict[str, Any]:
        part = PARTS[to_do(seen)[number] - 1]
        assert part in seen, "the model was not sent the request"
        return {"command": f"echo {part} >>{DONE}", "description": "do a part"}

    def answer(seen: str) -> dict[str, Any]:
        return {"type": "part.done", "in_reply_to": str(to_do(seen)[number]), "payload": "done"}

    return [Call(tool, command), Call("bus_send", answer)]


def acknowledged(seen: str) -> dict[str, Any]:
    """The acknowledgement that the model was told to make."""
    return {"seq": int(re.findall(r"bus_ack\(seq=(\d+)\)", seen)[-1])}


@pytest.fixture
def turn(project: Path, tmp_path: Path) -> Iterator[Turn]:
    """Lets a program take one turn, with a script; returns its model."""
    people: dict[str, Person] = {}
    with ExitStack() as stack:

        def take(name: str, *script: Call, is_killed: bool = False) -> ScriptedModel:
            model = stack.enter_context(scripted_model(*script))
            if name not in people:
                people[name] = Person(project, tmp_path / name, DRIVEN[name], {})
            person = people[name]
            person.urls["model"] = model.url
            words = ["setsid", *DRIVEN[name].turn, *SHELLS[name][1]]
            with person.start(words) as process:
                if is_killed:
                    model.before_last = lambda: killed(process)
                said, _ = process.communicate(timeout=TIMEOUT_S)
            assert model.failure is None, said
            assert process.returncode == (-signal.SIGKILL if is_killed else 0), said
            return model

        yield take


def killed(process: "subprocess.Popen[str]") -> None:
    """Kill a program with all that it has started in its group."""
    os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("lead", "worker"), [("claude", "gemini"), ("gemini", "claude"), ("gemini", "copilot")]
)
def test_program_that_is_killed_before_it_acknowledges_does_nothing_twice(
    lead: str, worker: str, project: Path, bus: Bus, run_bus: RunBus, turn: Turn
) -> None:
    for name, agent in ((lead, "lead"), (worker, "worker")):
        if not shutil.which(name, path=FOLDER):
            pytest.skip(f"{name} is not there; see `make programs`")
        assert run_bus("setup", name, "--agent", agent).code == 0
        bus.heartbeats.beat(agent)
    turn(
        lead,
        *(Call("bus_send", {"type": "part.request", "payload": p, "to": "worker"}) for p in PARTS),
    )
    assert [each.payload for each in bus.read()] == [*PARTS]
    reserve = Call("bus_reserve", {"paths": [DONE]})
    ack = Call("bus_ack", acknowledged)
    turn(worker, Call("bus_inbox", {}), reserve, *doing(worker, 0), ack, is_killed=True)
    assert (project / DONE).read_text().split() == [PARTS[0]]
    assert [each.in_reply_to for each in bus.read(type="part.done")] == [bus.get(1).id]  # type: ignore[union-attr]
    assert Inbox(bus, "worker").unread() == len(PARTS)
    wait_until(lambda: not bus.reservations.list(), 60)  # they end with their holder
    model = turn(
        worker,
        Call("bus_inbox", {}),
        *doing(worker, 0),
        *doing(worker, 1),
        Call("bus_ack", {"seq": 3}),
    )
    assert "you answered this as [4]" in str(model.asked[0]), "the hook at the start says so"
    turn(lead, Call("bus_inbox", {}), ack)
    assert (project / DONE).read_text().split() == [*PARTS]
    answers = [each.in_reply_to for each in bus.read(type="part.done")]
    assert answers == [bus.get(seq).id for seq in (1, 2, 3)]  # type: ignore[union-attr]
    assert [Inbox(bus, agent).unread() for agent in ("lead", "worker")] == [0, 0]
