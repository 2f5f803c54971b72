"""Fixtures of queues: a clock that stands still until it is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus


class Clock:
    """A source of the present time in epoch milliseconds; only tests move it."""

    def __init__(self) -> None:
        self.now_ms = 1_768_053_600_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


@pytest.fixture
def clock() -> Clock:
    """A clock; the bus of a test that asks for one goes by it."""
    return Clock()


@pytest.fixture
def bus(bus_dir: Path, request: pytest.FixtureRequest) -> Iterator[Bus]:
    """An open, empty bus; it goes by the test's clock if the test has one."""
    options = {}
    if "clock" in request.fixturenames:
        options["clock"] = request.getfixturevalue("clock")
    opened = Bus.open(bus_dir, **options)
    yield opened
    opened.close()
