"""Two agents of different programs finish a small task together, each before a scripted model.

The calls of a model are made from what it was sent: where the next step is not in the result of a
tool as the program hands it on, the script can't go on. `make programs` gets the programs from npm,
and runs this.
"""

import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Inbox

from ..conftest import RunBus, wait_until
from .person import DRIVEN, FOLDER, TIMEOUT_S, Person
from .scripted_model import Call, scripted_model

FILE, TITLE = "notes.txt", "The title of the notes"


@dataclass(frozen=True)
class Writer:
    """The way in which a program writes a file: the tool, what it takes, and what permits it."""

    tool: str
    takes: Callable[[str], dict[str, Any]]
    options: tuple[str, ...] = ()


WRITERS = {
    "claude": Writer(
        "Write",
        lambda text: {"file_path": FILE, "content": text},
        ("--permission-mode", "acceptEdits"),
    ),
    "gemini": Writer("write_file", lambda text: {"file_path": FILE, "content": text}),
    "copilot": Writer("create", lambda text: {"path": FILE, "file_text": text}),
}


def last(pattern: str, seen: str) -> str:
    """The last text of what a model was sent that fits a pattern."""
    matches = re.findall(pattern, seen)
    assert matches, f"the model was not sent {pattern}"
    return str(matches[-1])


def acknowledged(seen: str) -> dict[str, Any]:
    """The acknowledgement that the model was told to make."""
    return {"seq": int(last(r"bus_ack\(seq=(\d+)\)", seen))}


def answer(seen: str) -> dict[str, Any]:
    """The answer that the model was told to give."""
    seq = last(r"in_reply_to=(\d+)", seen)
    return {"type": "title.done", "in_reply_to": seq, "payload": TITLE}


def writers_script(writer: Writer) -> list[Call]:
    def written(seen: str) -> dict[str, Any]:
        return writer.takes(last(TITLE, seen))

    return [
        Call("bus_inbox", {}),
        Call("bus_reserve", {"paths": [FILE]}),
        Call("bus_request", {"type": "title.request", "to": "reviewer", "wait_s": 25}),
        Call(writer.tool, written),
        Call("bus_reserve", {"paths": [FILE], "mode": "release"}),
        Call("bus_send", {"type": "notes.done", "to": "lead", "payload": "written"}),
        Call("bus_ack", acknowledged),
    ]


REVIEWERS_SCRIPT = [
    Call("bus_inbox", {"wait_s": 25}),
    Call("bus_inbox", {"wait_s": 25}),  # the writer may take long to start
    Call("bus_reserve", {"paths": [FILE]}),
    Call("bus_send", answer),
    Call("bus_ack", acknowledged),
]


@pytest.mark.parametrize(
    ("writer", "reviewer"), [("claude", "codex"), ("gemini", "claude"), ("copilot", "codex")]
)
def test_two_programs_finish_a_task_by_mail_a_reservation_and_a_request(
    writer: str, reviewer: str, project: Path, tmp_path: Path, bus: Bus, run_bus: RunBus
) -> None:
    for name in (writer, reviewer):
        if not shutil.which(name, path=FOLDER):
            pytest.skip(f"{name} is not there; see `make programs`")
    for name, agent in ((writer, "writer"), (reviewer, "reviewer")):
        done = run_bus("setup", name, "--agent", agent, "--profile", "full")
        assert done.code == 0, done
        bus.heartbeats.beat(agent)
    task = f"write {FILE} under a title that the reviewer chooses"
    bus.publish("notes.task", task, from_agent="lead", to_agent="writer")
    with ExitStack() as stack:
        models = [
            stack.enter_context(scripted_model(*script))
            for script in (REVIEWERS_SCRIPT, writers_script(WRITERS[writer]))
        ]
        people = [
            Person(project, tmp_path / f"home-{name}", DRIVEN[name], {"model": model.url})
            for name, model in zip((reviewer, writer), models, strict=True)
        ]
        started = [people[0].start(DRIVEN[reviewer].turn)]
        wait_until(lambda: models[0].asked, TIMEOUT_S)  # the answer is waited for 25 s at most
        options = WRITERS[writer].options
        started.append(people[1].start([*DRIVEN[writer].turn, *options]))
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in started]
    assert [model.failure for model in models] == [None, None], said
    assert [process.returncode for process in started] == [0, 0], said
    assert (project / FILE).read_text() == TITLE, said
    log = [(each.type, each.from_agent, each.to_agent) for each in bus.read()]
    assert log == [
        ("notes.task", "lead", "writer"),
        ("title.request", "writer", "reviewer"),
        ("title.done", "reviewer", "writer"),
        ("notes.done", "writer", "lead"),
    ]
    assert bus.get(3).in_reply_to == bus.get(2).id  # type: ignore[union-attr]
    assert bus.reservations.list() == []
    assert [Inbox(bus, agent).unread() for agent in ("writer", "reviewer")] == [0, 0]
    asked = "\n".join(str(request) for request in models[0].asked)
    assert "not edit them now" in asked, "the reviewer has not heard that the file is the writer's"
