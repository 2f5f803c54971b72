"""A repository to plant traps in, and the folder where they leave their marks."""

from pathlib import Path

import pytest

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
