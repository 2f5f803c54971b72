"""Fixtures of workers: `bus run` as a process beside the test."""

import itertools
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .hosts import Host

StartHost = Callable[..., Host]


@pytest.fixture
def start_host(project: Path, bus_env: dict[str, str]) -> Iterator[StartHost]:
    """Starts the installed ``bus run`` in ``project``; what still runs at the end is killed."""
    started: list[Host] = []
    numbers = itertools.count()

    def start(*args: str | Path, **env: str) -> Host:
        argv = [Path(sysconfig.get_path("scripts"), "bus"), "run", *args]
        log = project / f"host-{next(numbers)}.log"
        host = Host(argv, project, bus_env | {"PYTHONUNBUFFERED": "1"} | env, log)
        started.append(host)
        return host

    yield start
    for host in started:
        host.process.kill()
        host.process.wait()
