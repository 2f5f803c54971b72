"""The stage of the scheduler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus

from .stage import Clock, Stage


@pytest.fixture
def stage(bus_dir: Path) -> Iterator[Stage]:
    clock = Clock()
    with Bus.open(bus_dir, clock=clock) as bus:
        yield Stage(bus, clock)
