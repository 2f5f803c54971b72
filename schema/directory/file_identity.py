"""Whether a file is still where it was opened: a directory can be moved or deleted under its users.

SQLite would go on in the file that it has open, wherever that is by now. What is written there is
lost when the directory was deleted, and in another bus when one was made in its place.
"""

from __future__ import annotations

import os
import time

from ..errors import BusMoved
from ..system_errors import unreachable

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
        """Look whether the file is there, unless that was just done; raises as `look` does."""
        now_s = time.monotonic()
        if now_s >= self._due_s:
            self.look()
            self._due_s = now_s + TRUSTED_S

    def look(self) -> None:
        """Look whether the file is there.

        Raises:
            BusMoved: it is not, or another is. As long as that is so, each look says it.
            BusUnusable: this user may no longer see it.
        """
        try:
            is_there = _identity(self._path) == self._found
        except OSError as error:
            self._due_s = 0.0
            raise unreachable(os.path.dirname(self._path), error) from error
        if not is_there:
            self._due_s = 0.0
            raise BusMoved(os.path.dirname(self._path))


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from any other; None when there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
