"""A service with all that it can do, under harm at random for a while: exact counts at the end."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ...fault.conftest import SmallDisk, mounted
from ...sizes import size
from ..conftest import Folder
from .configuration import Configuration
from .proofs import Proofs, is_clean, nothing_is_left
from .stage import Stage

#: At night each kind of harm is done once, and then by chance for so many seconds; by day some are.
SECONDS = size(sample=0, whole=1_200)


@pytest.fixture
def disk(folder: Folder) -> Iterator[SmallDisk]:
    """The filesystem of the bus, with room for the whole run."""
    path = folder.path / "data"
    path.mkdir()
    with mounted(path, size(sample=128, whole=2_048) * 1024) as disk:
        yield disk


@pytest.fixture
def stage(folder: Folder, disk: SmallDisk, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(Configuration(folder, tmp_path / "ran"), disk, random.Random(17))
    yield stage
    stage.close()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 600)
def test_nothing_is_lost_or_twice_whatever_is_done_to_the_service(
    stage: Stage,
) -> None:
    stage.senders.start()
    end = time.monotonic() + SECONDS
    for act in stage.acts if SECONDS else stage.acts[:3]:
        stage.senders.pause(0.3)
        stage.harm(act)
    while time.monotonic() < end:
        stage.senders.pause(stage.chance.uniform(0, 5))
        stage.harm(stage.chance.choice(stage.acts))
    stage.finish()
    nothing_is_left(stage.configuration.folder.path)
    with stage.service.open() as bus:
        Proofs(bus, stage.configuration, stage.senders).all()
    is_clean(stage.service)
