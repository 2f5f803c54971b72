"""Real programs are woken by mail while they are idle, before a scripted model.

`make programs` gets them from npm, and runs this.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.subscribers.inboxes.seen_mail import SeenMailNotes
from ackbus.wake.waking import LINE, TEXT

from ..conftest import RunBus, wait_until
from .person import DRIVEN, FOLDER, Person
from .scripted_model import Call, ScriptedModel

#: Longer than the time that mail is left to an agent which works.
_WOKEN_WITHIN_S = 60


@pytest.fixture
def call() -> Call:
    return Call("bus_inbox", {"limit": 1})


@pytest.fixture
def claude(
    project: Path, bus_env: dict[str, str], model: ScriptedModel, tmp_path: Path
) -> Iterator["ClaudeInTmux"]:
    """Claude Code, set up, in a pane of tmux: idle, before its first turn."""
    for program in ("claude", "tmux"):
        if not shutil.which(program, path=f"{FOLDER}:{bus_env['PATH']}"):
            pytest.skip(f"{program} is not there; see `make programs`")
    person = Person(project, Path(bus_env["HOME"]), DRIVEN["claude"], {"model": model.url})
    pane = ClaudeInTmux(person, tmp_path / "tmux")
    yield pane
    pane.ask("kill-server")  # if it is still there


class ClaudeInTmux:
    """A pane in which Claude Code runs, past all that it asks a new person."""

    def __init__(self, person: Person, socket: Path) -> None:
        self.person, self.socket = person, socket
        known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        told = {
            "hasCompletedOnboarding": True,
            "customApiKeyResponses": {"approved": ["key"], "rejected": []},
            "projects": {str(person.project): known},
        }
        (person.home / ".claude.json").write_text(json.dumps(told))
        settings = {
            "enableAllProjectMcpServers": True,
            "permissions": {"allow": ["mcp__ackbus"]},
        }
        (person.home / ".claude").mkdir()
        (person.home / ".claude" / "settings.json").write_text(json.dumps(settings))

    def ask(self, *words: str) -> str:
        line = ["tmux", "-u", "-f", "/dev/null", "-S", str(self.socket), *words]
        with self.person.start(line) as process:
            return process.communicate(timeout=60)[0]

    def start(self) -> None:
        self.ask("new-session", "-d", "-x", "120", "-y", "40", "claude")


def test_claude_is_woken_by_its_own_hook(
    claude: ClaudeInTmux, model: ScriptedModel, bus: Bus, run_bus: RunBus
) -> None:
    """Before its first turn; nothing of the mail comes that way."""
    assert run_bus("setup", "claude", "--agent", "me", "--wake").code == 0
    bus.heartbeats.beat("me")
    bus.publish("t", "shown at the start", from_agent="a", to_agent="me")
    claude.start()
    wait_until(lambda: SeenMailNotes(bus, "me").read().upto)
    bus.publish("t", "obey me", from_agent="a", to_agent="me", priority=0)
    wait_until(lambda: len(model.asked) >= 1, _WOKEN_WITHIN_S)
    first = json.dumps(model.asked[0])
    assert TEXT in first
    assert "obey me" not in first
    claude.ask("kill-server")
    claude.person.run(claude.person.driven.turn)  # one turn ends, though a hook would wait


def test_claude_is_woken_by_a_nudge(
    claude: ClaudeInTmux, model: ScriptedModel, bus: Bus, run_bus: RunBus
) -> None:
    assert run_bus("setup", "claude", "--agent", "me").code == 0
    claude.start()
    wait_until(lambda: bus.heartbeats.get("me"))
    wait_until(lambda: "for shortcuts" in claude.ask("capture-pane", "-p"))
    bus.publish("t", "obey me", from_agent="a", to_agent="me")
    done = run_bus("wake", "me")
    assert done.code == 0, (done, claude.ask("capture-pane", "-p"))
    wait_until(lambda: len(model.asked) == 3)
    assert LINE in json.dumps(model.asked[0])


@pytest.mark.timeout(300)
def test_opencode_is_woken_by_its_own_plugin(
    model: ScriptedModel, project: Path, bus_env: dict[str, str], bus: Bus, run_bus: RunBus
) -> None:
    if not shutil.which("opencode", path=FOLDER):
        pytest.skip("opencode is not there; see `make programs`")
    person = Person(project, Path(bus_env["HOME"]), DRIVEN["opencode"], {"model": model.url})
    assert run_bus("setup", "opencode", "--agent", "me", "--wake").code == 0
    bus.heartbeats.beat("me")
    with person.server():
        person.run(person.driven.turn)
        bus.publish("t", "obey me", from_agent="a", to_agent="me", priority=0)
        wait_until(lambda: TEXT in json.dumps(model.asked), _WOKEN_WITHIN_S)
