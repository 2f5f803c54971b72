"""Crews as processes beside the test."""

import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ackbus import Bus

from ...command_server import Command, shared_server
from ...conftest import wait_until

BUS = Path(sysconfig.get_path("scripts"), "bus")

StartCrew = Callable[[str], Command]


@pytest.fixture
def bus(bus_dir: Path) -> Iterator[Bus]:
    """The bus of ``project``, by the real clock: processes use it, too."""
    with Bus.open(bus_dir) as bus:
        yield bus


@pytest.fixture
def start_crew(project: Path, bus_dir: Path, bus_env: dict[str, str]) -> Iterator[StartCrew]:
    """Starts ``bus crew start`` on a file of this text in ``project``, and waits until it runs."""
    started: list[Command] = []

    def start(text: str) -> Command:
        (project / "crew.yaml").write_text(dedent(text))
        with (project / "crew.out").open("ab") as out:
            line = ["crew", "start", "crew.yaml"]
            process = shared_server().start_into(out, line, cwd=project, env=bus_env)
        started.append(process)
        told = bus_dir / "crew.json"
        wait_until(
            lambda: (
                process.poll() is not None
                or (told.exists() and f'"pid":{process.pid},'.encode() in told.read_bytes())
            )
        )
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
