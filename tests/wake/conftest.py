"""Agents in real terminals of tmux and screen, with a stand-in for their program."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from ackbus import Bus

from ..conftest import wait_until

STAND_IN = Path(__file__).with_name("stand_in.py")


class Window(Protocol):
    """A terminal in tmux or screen."""

    def start(self, *words: str) -> None:
        """Runs a command in it."""

    def type(self, text: str) -> None:
        """Types as a person would, who ends with Enter."""

    def press(self, key: str) -> None:
        """Presses a key with Ctrl, such as `^Z`."""

    def shown(self) -> str:
        """The text that it shows."""

    def close(self) -> None:
        """Ends it."""


@dataclass
class TmuxWindow:
    """The pane of a tmux server of its own, in which a shell runs."""

    socket: Path
    env: dict[str, str]
    project: Path

    def ask(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-u", "-f", "/dev/null", "-S", str(self.socket), *words],
            env=self.env,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout

    def open(self) -> None:
        self.ask("new-session", "-d", "-x", "100", "-y", "30", "sh")

    def start(self, *words: str) -> None:
        self.type(shlex.join(words))

    def type(self, text: str) -> None:
        self.ask("send-keys", "-l", text)
        self.ask("send-keys", "Enter")

    def press(self, key: str) -> None:
        self.ask("send-keys", key.replace("^", "C-"))

    def shown(self) -> str:
        return self.ask("capture-pane", "-p")

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], check=False)


@dataclass
class ScreenWindow:
    """The window of a screen session of its own, in which a shell runs."""

    name: str
    env: dict[str, str]
    project: Path

    def ask(self, *words: str) -> None:
        self.run(*words).check_returncode()

    def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["screen", "-S", self.name, *words],
            env=self.env,
            cwd=self.project,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def open(self) -> None:
        self.ask("-c", "/dev/null", "-U", "-d", "-m", "sh")
        # It is a daemon, and answers only a moment after the command has ended.
        wait_until(lambda: not self.run("-p", "0", "-Q", "title").returncode)

    def start(self, *words: str) -> None:
        self.type(shlex.join(words))

    def type(self, text: str) -> None:
        self.ask("-p", "0", "-X", "stuff", f"{text}^M")

    def press(self, key: str) -> None:
        self.ask("-p", "0", "-X", "stuff", key)

    def shown(self) -> str:
        path = self.project.parent / "shown"
        path.unlink(missing_ok=True)
        self.ask("-p", "0", "-X", "hardcopy", str(path))
        wait_until(lambda: path.exists() and path.stat().st_size)
        return path.read_text(errors="replace")

    def close(self) -> None:
        subprocess.run(
            ["screen", "-S", self.name, "-X", "quit"],
            env=self.env,
            check=False,
            capture_output=True,
        )


@dataclass
class AgentInTerminal:
    """The agent `me`, whose program is in a window.

    Attributes:
        window: the window.
        read: the lines that the program has read.
        bus: the bus.
    """

    window: Window
    bus: Bus
    file: Path

    def start(self, mode: str = "lines", agent: str = "me", *before: str) -> None:
        """Starts the program, and sends mail to the agent."""
        line = (sys.executable, str(STAND_IN), agent, str(self.file), mode)
        self.window.start(*before, *line)
        wait_until(lambda: self.bus.heartbeats.get(agent))
        self.wait_shown(">", "]", "mind")
        self.bus.publish("t", "touch owned\n", from_agent="$(touch owned)", to_agent=agent)

    def wait_shown(self, *ends: str) -> None:
        """Waits until what the window shows ends with one of some texts."""
        wait_until(lambda: self.window.shown().rstrip().endswith(ends))

    def wait_for_shell(self) -> None:
        """Waits until the shell asks for a command."""
        self.wait_shown("$", "#")

    @property
    def read(self) -> str:
        return self.file.read_text() if self.file.exists() else ""


@pytest.fixture
def tmux(tmp_path: Path, bus_env: dict[str, str], project: Path) -> Iterator[TmuxWindow]:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    window = TmuxWindow(tmp_path / "tmux", bus_env, project)
    window.open()
    yield window
    window.close()


@pytest.fixture
def screen(tmp_path: Path, bus_env: dict[str, str], project: Path) -> Iterator[ScreenWindow]:
    if not shutil.which("screen"):
        pytest.skip("screen is not installed")
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700)
    window = ScreenWindow("w", bus_env | {"SCREENDIR": str(folder)}, project)
    window.open()
    yield window
    window.close()


@pytest.fixture(params=["tmux", "screen"])
def agent(request: pytest.FixtureRequest, bus: Bus, tmp_path: Path) -> AgentInTerminal:
    """An agent in a terminal of each kind; its program is not started yet."""
    window: Window = request.getfixturevalue(str(request.param))
    return AgentInTerminal(window, bus, tmp_path / "lines")


@pytest.fixture
def in_tmux(tmux: TmuxWindow, bus: Bus, tmp_path: Path) -> AgentInTerminal:
    return AgentInTerminal(tmux, bus, tmp_path / "lines")
