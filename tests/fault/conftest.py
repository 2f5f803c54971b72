"""The fixtures of this folder: processes that come to harm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..concurrency.actors import StartActor, actor_starter


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartActor]:
    """Starts a role of victims.py in a process of its own."""
    yield from actor_starter(Path(__file__).with_name("victims.py"), tmp_path)
