"""Each door needs its own extra only; and what `bus mcp` refuses."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus.cli.extras import install_command

from ..conftest import RunBus
from .conftest import BUS

#: Runs `bus` where some packages are not installed.
WITHOUT = """
import sys
lacking, sys.argv = sys.argv[1].split(","), ["bus", *sys.argv[2:]]
sys.modules |= dict.fromkeys(lacking)
from ackbus.cli import main
sys.exit(main())
"""


def run_without(
    lacking: str, *arguments: str | Path, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, lacking, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )


def test_mcp_needs_no_server(bus_dir: Path, bus_env: dict[str, str]) -> None:
    ended = run_without("fastapi,websockets", "mcp", "--dir", bus_dir, env=bus_env)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_mcp_says_what_to_install(bus_dir: Path, bus_env: dict[str, str]) -> None:
    ended = run_without("mcp", "mcp", "--dir", bus_dir, env=bus_env)
    assert ended.returncode == 1
    assert install_command("mcp") in ended.stderr


#: Prints the paths of the application; with an argument more, where the SDK is not installed.
PATHS = """
import sys
sys.modules |= dict.fromkeys(sys.argv[2:])
from ackbus import Bus
from ackbus.server.access.access import BusAccess
from ackbus.server.running import create_app
with Bus.open(sys.argv[1]) as bus:
    print(*[getattr(route, "path", "") for route in create_app(bus, BusAccess(bus)).routes])
"""


@pytest.mark.slow
@pytest.mark.parametrize("lacking", [[], ["mcp"]], ids=["with", "without"])
def test_server_needs_no_mcp(bus_dir: Path, bus_env: dict[str, str], lacking: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PATHS, bus_dir, *lacking],
        capture_output=True,
        text=True,
        env=bus_env,
        timeout=60,
        check=True,
    )
    assert ("/mcp" in ended.stdout.split()) == (not lacking)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--profile", "none"], "--profile must be default or full, not 'none'"),
        (["--agent", "a\nb"], "agent name"),
        (["--dir", "x", "--user"], "--dir or --user, not both"),
    ],
)
def test_what_can_never_be_served_is_refused(
    run_bus: RunBus, arguments: list[str], why: str
) -> None:
    ended = run_bus("mcp", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err


def test_missing_bus_is_no_reason_to_end(run_bus: RunBus, tmp_path: Path) -> None:
    """The agent is told by each call, and can tell its user."""
    ended = run_bus("mcp", "--agent", "a", "--dir", tmp_path / "none")
    assert (ended.code, ended.out) == (0, "")
    assert "no bus in" in ended.err


def test_person_who_starts_it_by_hand_is_told_what_it_does(
    tmp_path: Path, bus_env: dict[str, str]
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [BUS, "mcp", "--dir", tmp_path / "none"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=bus_env,
    )
    assert process.stderr is not None
    lines = [process.stderr.readline().decode() for _ in range(2)]
    assert "Ctrl-C ends it" in lines[0]
    assert "no bus in" in lines[1]
    process.send_signal(signal.SIGINT)  # what Ctrl-C sends
    assert process.communicate(timeout=60)[0] == b""
    assert process.returncode in (130, -signal.SIGINT)  # before it serves, or while it does
    os.close(ours)
    os.close(theirs)
