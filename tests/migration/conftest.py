"""A bus of the first version."""

from pathlib import Path

import pytest

from .old_files import FIXTURES, restore


@pytest.fixture
def old_dir(project: Path) -> Path:
    """The directory of a bus of version 1 in use, where a command in ``project`` finds it."""
    return restore(FIXTURES["v1"].read_text("utf-8"), project / ".worker-state")
