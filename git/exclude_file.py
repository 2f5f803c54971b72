"""The repository's own list of what git ignores, `info/exclude`: it is no part of any commit.

A checkout of a commit from before the bus was shared takes its `.gitignore` away. What lives in
the bus directory must be ignored there too, or the next `git clean` deletes it.
"""

from __future__ import annotations

import os
import re

from ..schema.bounded_read import read_at_most
from ..schema.directory.enclosure import Enclosure
from ..schema.directory.layout import BUS_DIRECTORY
from .sealed import is_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .work_tree import WorkTree

#: The characters that git would take for a pattern's.
_SPECIAL = re.compile(r"([\\*?\[\]!# ])")


class ExcludeFile:
    """The line of a bus directory in the list of its repository.

    Args:
        tree: the work tree.
        directory: the bus directory, in it.
    """

    def __init__(self, tree: WorkTree, directory: str) -> None:
        self.path = tree.exclude_file
        inside = os.path.relpath(os.path.realpath(directory), tree.root)
        #: The line; None for a directory that has files of the project too, or no line can name.
        self.line: str | None = None
        if os.path.basename(directory) == BUS_DIRECTORY and "\n" not in inside:
            escaped = _SPECIAL.sub(r"\\\1", inside)
            self.line = f"/{escaped}/*"

    def lacking(self) -> list[str]:
        """Return the line where it is missing."""
        return [] if self.line is None or self.line in self._lines() else [self.line]

    def add(self) -> None:
        """Add the line where it is missing; a link or a pipe at its place is left alone."""
        if self.lacking() and (is_plain_file(self.path) or not os.path.lexists(self.path)):
            self._write([*self._lines(), *self.lacking()])

    def remove(self) -> list[str]:
        """Take the line out; return it where it was there."""
        lines = self._lines()
        if self.line is None or self.line not in lines:
            return []
        self._write([line for line in lines if line != self.line])
        return [self.line]

    def _lines(self) -> list[str]:
        if not is_plain_file(self.path):
            return []
        with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
            return read_at_most(file, self.path).splitlines()

    def _write(self, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        own = Enclosure(os.path.dirname(os.path.dirname(self.path)))  # no link in it leads out
        with own.spot(self.path, make=0o777) as spot:
            spot.replace(text.encode("utf-8", "surrogateescape"), mode=0o644)
