"""Fixtures of the command: a terminal, and processes that run beside the test."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..conftest import Ended, RunBus
from .clones import Clone
from .git import git_env

BUS = Path(sysconfig.get_path("scripts"), "bus")

#: The nouns whose commands work on the bus of a service, which a configuration names.
OF_A_SERVICE = ("automation", "config", "plugin", "schedule", "route", "pipeline", "webhook")

StartBus = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start_bus(project: Path, bus_env: dict[str, str]) -> Iterator[StartBus]:
    """Starts the installed ``bus`` and returns its process; it is killed at the end."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: str | Path) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [BUS, *args],
            cwd=project,
            env=bus_env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def on_terminal(project: Path, bus_env: dict[str, str]) -> Callable[..., str]:
    """Runs ``bus`` with stdout and stderr on a terminal, and returns what that was sent.

    With ``until`` the command is interrupted once it has sent that.
    """

    def run(*args: str, until: bytes | None = None, columns: int = 100) -> str:
        ours, theirs = pty.openpty()
        env = {key: value for key, value in bus_env.items() if key != "NO_COLOR"}
        process = subprocess.Popen(
            [BUS, *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=project,
            env={**env, "TERM": "xterm-256color", "COLUMNS": str(columns)},
        )
        os.close(theirs)
        sent = b""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 0.05)[0]:
                continue
            try:
                sent += os.read(ours, 65536)
            except OSError:  # the other end is closed: the process has ended
                break
            if until is not None and until in sent:
                process.send_signal(signal.SIGINT)
                until = None
        os.close(ours)
        process.wait(timeout=60)
        return sent.decode()

    return run


@pytest.fixture
def repository(project: Path, run_bus: RunBus, bus_env: dict[str, str]) -> Clone:
    """A git repository with a bus and no commit."""
    made = Clone(project, run_bus, git_env(bus_env))
    made.git("init", "-q")
    made.bus("init")
    return made


@pytest.fixture(scope="session")
def kept_clones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the clones that the first test makes and the others copy."""
    return tmp_path_factory.mktemp("clones") / "kept"


@pytest.fixture
def two_clones(tmp_path: Path, repository: Clone, kept_clones: Path) -> tuple[Clone, Clone]:
    """Two clones of one repository, set up, each with its bus; both know the first messages."""
    first, second = repository, Clone(tmp_path / "second", repository.run_bus, repository.env)
    hub = tmp_path / "hub.git"
    places = {"hub": hub, "first": first.path, "second": second.path}
    if kept_clones.exists():
        shutil.rmtree(first.path)
        for name, place in places.items():
            shutil.copytree(kept_clones / name, place, symlinks=True)
        for clone in (first, second):
            clone.git("remote", "set-url", "origin", str(hub))
    else:
        make_clones(hub, first, second)
        for name, place in places.items():
            shutil.copytree(place, kept_clones / name, symlinks=True)
    return first, second


def make_clones(hub: Path, first: Clone, second: Clone) -> None:
    first.git("init", "-q", "--bare", str(hub))
    first.git("remote", "add", "origin", str(hub))
    first.bus("setup", "git")
    first.publish_all(f"begun {number}" for number in range(3))
    first.commit("begin")
    first.push()
    first.git("clone", "-q", "--branch", "main", str(hub), str(second.path))
    second.bus("init")
    second.bus("setup", "git")
    second.bus("import")
    second.commit()


def assert_error(ended: Ended, code: int, *words: str) -> None:
    """The command ended with this code and one line on stderr that has these words."""
    assert ended.code == code, ended
    assert ended.out == "", ended
    lines = ended.err.splitlines()
    assert len(lines) == 1, ended
    assert lines[0].isprintable(), ended
    assert "Traceback" not in ended.err
    text = error_of(ended.err)
    for word in words:
        assert word in text, ended


def error_of(err: str) -> str:
    """The text of an error: of the line for people, or of the object that --json asks for."""
    if err.startswith("{"):
        told = json.loads(err)
        assert list(told) == ["error", "code", "context"], err
        return str(told["error"])
    assert err.startswith("bus: "), err
    return err.removeprefix("bus: ").removesuffix("\n")
