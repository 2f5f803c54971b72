"""Real programs for coding agents use a bus that `bus setup` told them of, before a scripted model.

They are no part of an ordinary installation: `make programs` gets them from npm, and runs this.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ackbus import Bus, Inbox

from ..conftest import RunBus, wait_until
from .scripted_model import ScriptedModel, scripted_model

#: The folder that has the programs.
FOLDER = os.environ.get("ACKBUS_PROGRAMS", "")

#: A program that has not ended after so many seconds fails its test.
TIMEOUT_S = 120

PROMPT = "look into your inbox"


@dataclass(frozen=True)
class Driven:
    """The driver of a program; `{model}` and `{server}` stand for URLs, `{project}` for the folder.

    Attributes:
        turn: the command for one turn of an agent.
        env: what it is told besides, by its environment.
        files: what it must find in the home directory.
        moved: the variable that moves what is a person's.
        server: the command of a server that it leaves its turns to, or none.
    """

    turn: list[str]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    moved: str = "XDG_CONFIG_HOME"
    server: list[str] = field(default_factory=list)


_CODEX_OPTIONS = [
    'model="m"',
    'model_provider="s"',
    'model_providers.s={name="s",base_url="{model}/v1",env_key="KEY",wire_api="responses"}',
    "mcp_servers.ackbus.required=true",  # it would not wait for the server before its first turn
]
_OPENCODE_MODEL = {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": "{model}/v1", "apiKey": "key"},
    "models": {"m": {}},
}

DRIVEN = {
    "claude": Driven(
        ["claude", "-p", PROMPT, "--allowedTools", "mcp__ackbus"],
        {
            "ANTHROPIC_BASE_URL": "{model}",
            "ANTHROPIC_API_KEY": "key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        moved="CLAUDE_CONFIG_DIR",
    ),
    "codex": Driven(
        ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        + [f"--config={option}" for option in _CODEX_OPTIONS]
        + [PROMPT],
        {"KEY": "key"},
        {".codex/config.toml": '[projects."{project}"]\ntrust_level = "trusted"\n'},
        moved="CODEX_HOME",
    ),
    "gemini": Driven(
        ["gemini", "--yolo", "--model", "gemini-2.5-pro", "--prompt", PROMPT],
        {
            "GEMINI_API_KEY": "key",
            "GOOGLE_GEMINI_BASE_URL": "{model}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
        moved="GEMINI_CLI_HOME",
    ),
    "copilot": Driven(
        ["copilot", "--trust-folder", "--allow-all-tools", "-p", PROMPT],
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{model}/v1",
            "COPILOT_PROVIDER_API_KEY": "key",
            "COPILOT_MODEL": "gpt-5.4",
        },
        moved="COPILOT_HOME",
    ),
    # Alone, `opencode run` ends as soon as its session is idle, and hears of nothing then.
    "opencode": Driven(
        ["opencode", "run", "--attach", "{server}", "-m", "s/m", PROMPT],
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"s": _OPENCODE_MODEL}}),
            "OPENCODE_DISABLE_AUTOUPDATE": "true",
        },
        server=["opencode", "serve", "--port", "0"],
    ),
}


@pytest.fixture(params=DRIVEN)
def name(request: pytest.FixtureRequest) -> str:
    """The name of a program that is there."""
    if not shutil.which(str(request.param), path=FOLDER):
        pytest.skip(f"{request.param} is not there; see `make programs`")
    return str(request.param)


@dataclass
class Person:
    """Somebody who has a program, in a home directory and an environment of their own."""

    project: Path
    home: Path
    driven: Driven
    urls: dict[str, str]

    def __post_init__(self) -> None:
        for name, text in self.driven.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True)
            path.write_text(self._filled(text))

    def _filled(self, text: str) -> str:
        for word, value in {"project": str(self.project), **self.urls}.items():
            text = text.replace(f"{{{word}}}", value)
        return text

    def start(self, line: list[str], **more: str) -> "subprocess.Popen[str]":
        env = {key: self._filled(value) for key, value in self.driven.env.items()}
        path = os.pathsep.join([FOLDER, os.environ["PATH"]])
        plain = {"HOME": str(self.home), "PATH": path, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        return subprocess.Popen(
            [self._filled(word) for word in line],
            cwd=self.project,
            env=plain | env | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, line: list[str], **more: str) -> str:
        with self.start(line, **more) as process:
            try:
                said, _ = process.communicate(timeout=TIMEOUT_S)
            finally:
                process.kill()
        assert process.returncode == 0, said
        return said

    @contextmanager
    def server(self) -> Iterator[None]:
        if not self.driven.server:
            yield
            return
        with self.start(self.driven.server) as process:
            assert process.stdout is not None
            try:
                listening = next(line for line in process.stdout if "listening" in line)
                self.urls["server"] = listening.split()[-1]
                yield
            finally:
                process.terminate()


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as model:
        yield model


@pytest.fixture
def person(name: str, project: Path, bus_env: dict[str, str], model: ScriptedModel) -> Person:
    return Person(project, Path(bus_env["HOME"]), DRIVEN[name], {"model": model.url})


def test_agent_hears_of_its_mail_without_asking(
    name: str, person: Person, model: ScriptedModel, bus: Bus, run_bus: RunBus
) -> None:
    """Issue 7, items 6 and 7: the tools work, the hooks deliver, the end is put off once."""
    assert run_bus("setup", name, "--agent", "me").code == 0
    bus.heartbeats.beat("me")
    early = bus.publish("news", "early", from_agent="lead", to_agent="me")
    model.before_call = publishing(run_bus, "late")
    with person.server():
        said = person.run(person.driven.turn)
        if person.driven.server:
            wait_until(lambda: len(model.asked) == 3, 60)
    assert len(model.asked) == 3, said
    asked = [json.dumps(request) for request in model.asked]
    assert ["You are the agent me here." in each for each in asked] == [True] * 3
    assert [each.count("unread on the bus for me.") for each in asked] == [1, 2, 3]
    assert [each.count("Before you end:") for each in asked] == [0, 0, 1]
    assert asked[0].count(early.id) == 1
    assert asked[1].count(early.id) > 1, "bus_inbox has not answered"
    assert ["| late" in each for each in asked] == [False, True, True]
    assert Inbox(bus, "me").position == 0


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
