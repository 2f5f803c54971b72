"""Places of the demo's buses: a directory that its user names holds none yet."""

from __future__ import annotations

import os
import tempfile

from ..schema.directory.layout import Layout
from ..schema.errors import Refused


def refuse_bus(directory: str) -> None:
    """Refuse a directory that holds a bus: its agents could have the names of the demo's.

    Raises:
        Refused: it holds one.
    """
    if os.path.exists(Layout(directory).database):
        raise Refused(
            f"{directory} holds a bus already, and the demo makes its own; choose another"
            " directory with --dir"
        )


def fresh_folder() -> str:
    """Make a temporary folder, and return its real path."""
    return os.path.realpath(tempfile.mkdtemp(prefix="ackbus-demo-"))
