"""The room that work trees take on the disk."""

from __future__ import annotations

import os
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tree_list import Tree

#: The size of a block that `st_blocks` counts, in bytes.
_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True)
class Usage:
    """The room that work trees take.

    Attributes:
        trees: how many there are.
        bytes: what their files take on the disk; git's own are shared and not counted.
    """

    trees: int
    bytes: int


def usage_of(trees: list[Tree]) -> Usage:
    """Return the room that trees take; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    taken = sum(_bytes_below(tree.path, seen) for tree in trees)
    return Usage(len(trees), taken)


def _bytes_below(folder: str, seen: set[tuple[int, int]]) -> int:
    total = 0
    for entry in _entries(folder):
        try:
            stat = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # somebody is at work there
            continue
        if stat.st_nlink == 1 or (stat.st_dev, stat.st_ino) not in seen:
            seen.add((stat.st_dev, stat.st_ino))
            total += stat.st_blocks * _BLOCK_BYTES
        if entry.is_dir(follow_symlinks=False):
            total += _bytes_below(entry.path, seen)
    return total


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
