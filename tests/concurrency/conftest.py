"""The fixtures of this folder: its actors and their gate."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .actors import Gate, StartActor, actor_starter
from .actors import gate as gate


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartActor]:
    """Starts a role of roles.py in a process of its own."""
    yield from actor_starter(Path(__file__).with_name("roles.py"), tmp_path)


@pytest.fixture
def start_raw(tmp_path: Path) -> Iterator[StartActor]:
    """Starts a role of raw_roles.py, which has SQLite and knows nothing of ackbus."""
    folder = tmp_path / "raw"
    folder.mkdir()
    yield from actor_starter(Path(__file__).with_name("raw_roles.py"), folder)


@pytest.fixture
def gates(tmp_path: Path) -> list[Gate]:
    """Closed gates, for races in rounds."""
    return [Gate(tmp_path / f"gate-{number}") for number in range(10)]
