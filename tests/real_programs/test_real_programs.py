"""Real programs for coding agents use a bus that `bus setup` told them of, before a scripted model.

They are no part of an ordinary installation: `make programs` gets them from npm, and runs this.
"""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ackbus import Bus, Inbox

from ..conftest import RunBus, wait_until
from .person import TIMEOUT_S, Person
from .roles import TOOL, roles_of
from .scripted_model import SAID, Call, ScriptedModel

#: How often each program is started to see if it has the tools.
RUNS = int(os.environ.get("ACKBUS_RUNS", "10"))

#: The requests of a turn: its beginning, the result of the tool, and the end that is put off.
TURN = 3


@pytest.fixture
def call() -> Call:
    """Read one message, so that the hook after it has another one to show."""
    return Call("bus_inbox", {"limit": 1})


def test_agent_hears_of_its_mail_without_asking(
    name: str, person: Person, model: ScriptedModel, bus: Bus, run_bus: RunBus
) -> None:
    """Issue 7, items 6 and 7: the tools work, the hooks announce, the end is put off once.

    Issue 32, items 2 and 8: a body comes as the result of a tool, and once.
    """
    assert run_bus("setup", name, "--agent", "me").code == 0
    bus.heartbeats.beat("me")
    early = bus.publish("news", "EARLY", from_agent="lead", to_agent="me")
    model.before_call = publishing(run_bus, "LATE")
    with person.server():
        said = person.run(person.driven.turn)
        if person.driven.server:
            wait_until(lambda: len(model.asked) == TURN, 60)
    assert len(model.asked) == TURN, said
    asked = [json.dumps(request) for request in model.asked]
    assert ["You are the agent me here." in each for each in asked] == [True] * TURN
    assert [each.count("unread on the bus for me:") for each in asked] == [1, 2, 3]
    assert [each.count("Before you end:") for each in asked] == [0, 0, 1]
    assert [each.count(early.id) for each in asked] == [0, 1, 1], "bus_inbox has not answered"
    assert roles_of("EARLY", model.asked[-1]) == [TOOL]
    assert roles_of("LATE", model.asked[-1]) == []
    assert Inbox(bus, "me").position == 0


def test_claude_takes_what_is_set_up_for_one_person(
    name: str, person: Person, model: ScriptedModel, bus: Bus, run_bus: RunBus, project: Path
) -> None:
    """Issue 19, item 11: its server and its hooks come from files that are not committed."""
    if name != "claude":
        pytest.skip("it has no such files")
    assert run_bus("setup", name, "--local", "--agent", "me").code == 0
    assert not (project / ".mcp.json").exists()
    assert "ackbus" in person.run([name, "mcp", "list"])
    person.run(person.driven.turn)
    assert "You are the agent me here." in json.dumps(model.heard)


@pytest.mark.timeout(1200)
def test_first_request_of_every_run_has_the_tools(
    name: str, person: Person, model: ScriptedModel, bus: Bus, run_bus: RunBus
) -> None:
    """Issue 19, item 2: a program begins its first turn with the tools that it has by then."""
    assert run_bus("setup", name, "--agent", "me").code == 0
    bus.heartbeats.beat("me")
    bus.publish("news", "early", from_agent="lead", to_agent="me")
    for _ in range(RUNS):
        model.asked.clear()
        with person.server():
            said = person.run(person.driven.turn)
            if person.driven.server:  # the last request of a turn would count for the next run
                wait_until(lambda: len(model.asked) == TURN, 60)
        assert len(model.asked) == TURN, said  # without the tool, the model ends the turn


def publishing(run_bus: RunBus, body: str) -> Callable[[], None]:
    def publish() -> None:
        run_bus("publish", "news", body, "--from", "lead", "--to", "me")

    return publish


def test_program_lists_the_server_of_all_projects(
    name: str, person: Person, bus: Bus, run_bus: RunBus, tmp_path: Path
) -> None:
    """Also where a variable of its own moves what is a person's."""
    moved = tmp_path / "moved"
    variable = {person.driven.moved: str(moved)}
    assert "ackbus" not in person.run([name, "mcp", "list"])
    run_bus("setup", name, "--global", env=variable)
    assert "ackbus" in person.run([name, "mcp", "list"], **variable)
    assert "ackbus" not in person.run([name, "mcp", "list"])
    run_bus("setup", name, "--global", "--remove", env=variable)
    assert "ackbus" not in person.run([name, "mcp", "list"], **variable)


PLUGIN = Path(__file__).parents[2] / "examples" / "plugins" / "gemini"


@pytest.fixture
def refusing() -> Iterator[str]:
    """The URL of a server that answers 404, with words of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = (
                b'{"error": {"code": 404, "message": "no such model here", "status": "NOT_FOUND"}}'
            )
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_example_plugin_gives_gemini_a_long_prompt_and_tells_its_words(
    name: str, person: Person, model: ScriptedModel, refusing: str
) -> None:
    """Issue 19, item 13: more than one argument may have; an error without the stack of Node."""
    if name != "gemini":
        pytest.skip("it is of Gemini's command")
    prompt = "a word " * 29_000
    with person.start([str(PLUGIN)], stdin=subprocess.PIPE) as plugin:
        said, _ = plugin.communicate(prompt, timeout=TIMEOUT_S)
    assert (plugin.returncode, said) == (0, f"{SAID}\n")
    assert prompt.strip() in json.dumps(model.heard[-1])
    person.urls["model"] = refusing
    with person.start([str(PLUGIN)], stdin=subprocess.PIPE) as plugin:
        said, _ = plugin.communicate("why?", timeout=TIMEOUT_S)
    assert (plugin.returncode, said) == (1, "no such model here\n")
