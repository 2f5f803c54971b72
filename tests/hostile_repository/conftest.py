"""A repository to plant traps in, and the folder where they leave their marks."""

from pathlib import Path

import pytest

from ..looking.full_bus import make_full_bus
from ..looking.surroundings import Surroundings
from .place import Place, copy_of, make_template


@pytest.fixture(scope="session")
def around(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    return Surroundings.make(tmp_path_factory.mktemp("hostile") / "around")


@pytest.fixture(scope="session")
def template(around: Surroundings, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A repository without a trap, for copies."""
    return make_template(tmp_path_factory.mktemp("hostile") / "template", around)


@pytest.fixture
def place(template: Place, tmp_path: Path) -> Place:
    """A repository of its own."""
    return copy_of(template, tmp_path / "place")


@pytest.fixture(scope="session")
def full_bus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bus and of a configuration, for copies."""
    folder = tmp_path_factory.mktemp("full") / "project"
    folder.mkdir()
    make_full_bus(folder / ".worker-state")
    return folder
