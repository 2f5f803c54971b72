"""Notes of the mail that an agent has seen: hooks after each tool show a message once."""

from __future__ import annotations

import os
from contextlib import suppress

from ...schema.sqlite.creation import keep_out_of_git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus

#: The folder of the bus directory that has the notes.
_FOLDER = "shown"


class Shown:
    """Up to which message an agent has been shown its mail, in a file of the bus directory.

    It is no cursor: losing it shows mail again. So trouble in writing it is none of the reader's.

    Args:
        bus, agent: whose mail, and where.
    """

    def __init__(self, bus: Bus, agent: str) -> None:
        import hashlib

        name = hashlib.sha256(agent.encode()).hexdigest()[:32]
        self._layout = bus.layout
        self._folder = bus.layout.files.folder(_FOLDER)
        self._name = name

    def upto(self) -> int:
        """Return the seq up to which mail was shown; 0 for none."""
        try:
            with self._folder.read(self._name) as file:
                return int(file.read(32))
        except (OSError, ValueError):  # there is none; or it was cut short, and is written again
            return 0

    def note(self, seq: int) -> None:
        """Note that mail was shown up to a message."""
        with suppress(OSError):
            if self._layout.files.look(_FOLDER) is None:
                self._folder.make()
                keep_out_of_git(self._layout, f"{_FOLDER}/")
            with os.fdopen(self._folder.change(self._name), "r+b") as file:
                file.truncate(0)
                file.write(b"%d" % seq)
