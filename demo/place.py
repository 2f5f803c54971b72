"""The directory of the demo's bus, and the remarks about it at the end."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

from ..schema.directory.layout import BUS_DIRECTORY, Layout
from ..schema.errors import Refused


@dataclass(frozen=True, slots=True)
class Place:
    """A directory for a bus.

    Attributes:
        directory: the bus.
        made: the outermost directory that the demo makes for it; None when it was there before.
    """

    directory: str
    made: str | None

    @property
    def remarks(self) -> list[str]:
        """Remarks about the directory at the end. Only one that the demo made may be removed."""
        if self.made is None:
            return [f"the bus stays in {self.directory}"]
        return [
            f"the bus stays in {self.made}",
            "that directory may be removed when it is no longer needed",
        ]


def choose_place(directory: str | None) -> Place:
    """Return the place of the bus; None takes a fresh temporary directory.

    Raises:
        Refused: a bus is there: its agents could have the names of ours.
    """
    if directory is None:
        made = os.path.realpath(tempfile.mkdtemp(prefix="ackbus-demo-"))
        return Place(os.path.join(made, BUS_DIRECTORY), made)
    if os.path.exists(Layout(directory).database):
        raise Refused(
            f"{directory} holds a bus already, and the demo makes its own; choose another"
            " directory with --dir"
        )
    real = os.path.realpath(directory)
    return Place(real, None if os.path.exists(real) else real)
