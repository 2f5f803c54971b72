"""What the tests of the command share: a terminal, and processes that run beside the test."""

import os
import pty
import select
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..conftest import Ended

BUS = Path(sysconfig.get_path("scripts"), "bus")

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
        deadline = time.monotonic() + 20
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
        process.wait(timeout=5)
        return sent.decode()

    return run


def assert_error(ended: Ended, code: int, *words: str) -> None:
    """The command ended with this code and one line on stderr that has these words."""
    assert ended.code == code, ended
    assert ended.out == "", ended
    lines = ended.err.splitlines()
    assert len(lines) == 1, ended
    assert lines[0].startswith("bus: "), ended
    assert lines[0].isprintable(), ended
    assert "Traceback" not in ended.err
    for word in words:
        assert word in lines[0], ended
