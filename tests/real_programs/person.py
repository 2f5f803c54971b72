"""A person who has a real program for coding agents, before a model that this machine serves."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

#: The folder that has the programs.
FOLDER = os.environ.get("ACKBUS_PROGRAMS", "")

#: The folder that has the newest versions of them.
NEWEST = os.environ.get("ACKBUS_NEWEST_PROGRAMS", "")

#: A program that has not ended after so many seconds fails its test.
TIMEOUT_S = 240

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

    @property
    def by_default(self) -> "Driven":
        """The driver that leaves the choice of the model to the program."""
        env = {key: value for key, value in self.env.items() if key not in _MODELS}
        files = {name: text.replace(_CODEX_MODEL, "") for name, text in self.files.items()}
        return replace(self, env=env, files=files)


#: What names the tests' model: variables, and a line of Codex's settings.
_MODELS = {"GEMINI_MODEL", "COPILOT_MODEL"}
_CODEX_MODEL = 'model = "m"\n'

#: Codex waits one second for a server, and then begins without its tools; with 0 it waits as long
#: as a server may take: what is tested does not depend on how busy the machine is.
_CODEX_SETTINGS = (
    f"\n{_CODEX_MODEL}"
    """\
mcp_optional_startup_grace_ms = 0
model_provider = "s"
model_providers.s = {name = "s", base_url = "{model}/v1", env_key = "KEY", wire_api = "responses"}
projects."{project}".trust_level = "trusted"
"""
)
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
        ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", PROMPT],
        {"KEY": "key"},
        {".codex/config.toml": _CODEX_SETTINGS},
        moved="CODEX_HOME",
    ),
    "gemini": Driven(
        ["gemini", "--yolo", "--prompt", PROMPT],
        {
            "GEMINI_API_KEY": "key",
            "GEMINI_MODEL": "gemini-2.5-pro",
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
            "COPILOT_MODEL": "claude-sonnet-4.5",
        },
        moved="COPILOT_HOME",
    ),
    # Alone, `opencode run` ends as soon as its session is idle, and hears of nothing then.
    "opencode": Driven(
        ["opencode", "run", "--attach", "{server}", "-m", "s/m", PROMPT],
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps(
                {"model": "s/m", "provider": {"s": _OPENCODE_MODEL}}
            ),
            "OPENCODE_DISABLE_AUTOUPDATE": "true",
        },
        server=["opencode", "serve", "--port", "0"],
    ),
}


@dataclass
class Person:
    """Somebody who has a program, in a home directory and an environment of their own."""

    project: Path
    home: Path
    driven: Driven
    urls: dict[str, str]
    folder: str = FOLDER

    def __post_init__(self) -> None:
        for name, text in self.driven.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True)
            path.write_text(self._filled(text))

    def _filled(self, text: str) -> str:
        for word, value in {"project": str(self.project), **self.urls}.items():
            text = text.replace(f"{{{word}}}", value)
        return text

    def start(
        self, line: list[str], *, stdin: int = subprocess.DEVNULL, **more: str
    ) -> "subprocess.Popen[str]":
        env = {key: self._filled(value) for key, value in self.driven.env.items()}
        path = os.pathsep.join([self.folder, os.environ["PATH"]])
        plain = {"HOME": str(self.home), "PATH": path, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        return subprocess.Popen(
            [self._filled(word) for word in line],
            cwd=self.project,
            env=plain | env | more,
            stdin=stdin,
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
