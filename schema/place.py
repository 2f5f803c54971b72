"""Whether a file is still where it was opened: a directory can be moved or deleted under its users.

SQLite would go on in the file that it has open, wherever that is by now. What is written there is
lost when the directory was deleted, and in another bus when one was made in its place.
"""

from __future__ import annotations

import os
import time

from .errors import BusMoved

#: How long a look is trusted, in seconds. A publish has the time for many looks at a thousandth of
#: its cost, and what is published so shortly after a move is as good as published before it.
TRUSTED_S = 0.01


class Place:
    """The place of one file."""

    __slots__ = ("_due_s", "_found", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._found = _identity(path)
        self._due_s = 0.0

    def check(self) -> None:
        """Look whether the file is there, unless that was just done.

        Raises:
            BusMoved: it is not, or another is. As long as that is so, each look says it.
        """
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self.look()
            self._due_s = now_s + TRUSTED_S

    def look(self) -> None:
        """Look whether the file is there; raises as `check` does."""
        if _identity(self._path) != self._found:
            self._due_s = 0.0
            raise BusMoved(os.path.dirname(self._path))


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from any other; None when it can't be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
