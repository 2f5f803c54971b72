"""A cache of large files of YAML as trees: reading one takes a second for 2,000 routes.

An entry is named by the hash of the file's bytes, so it is never out of date. Its values are as
they stand in the file, with variables not filled: no secret of the environment gets here. A file
that holds a secret itself is not kept. The cache is the user's own, like the configuration.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

import orjson

from ..redaction import is_secret_key
from .reading import read_bytes
from .variables import has_variable
from .writing import replace_file
from .yaml_tree import Items, Map, Plain, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from ..faults import Fault
    from .yaml_tree import Tree

#: The size from which a file is kept, in bytes: below it, reading takes some milliseconds.
MIN_BYTES = 4_096
#: How many entries are kept, the newest ones.
MAX_ENTRIES = 64
#: The form of the entries: another one is another name.
_FORM = 1

_ENTRY = re.compile(r"[0-9a-f]{64}-\d+\.json")


class TreeCache:
    """Trees of files that were read before.

    Args:
        directory: where they are kept; it is made, for its owner alone. None keeps nothing.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def parse(self, data: bytes, hash: str, file: str) -> tuple[Map, list[Fault]]:
        """Return the tree of a file and its faults, as `yaml_tree.parse` does.

        Args:
            data: the file's bytes, in UTF-8.
            hash: their BLAKE3 hash.
            file: the name for places.
        """
        large = len(data) >= MIN_BYTES
        if large and (kept := self._read(hash)) is not None:
            return _map_from(kept, file), []
        tree, faults = parse(data.decode(), file)
        if large and not faults and not _has_secret(tree):
            self._write(hash, orjson.dumps(_entry_of(tree)))
        return tree, faults

    def _read(self, hash: str) -> Any:
        if self._directory is None or not _is_private(self._directory):
            return None
        with suppress(OSError, orjson.JSONDecodeError):
            return orjson.loads(read_bytes(self._directory / f"{hash}-{_FORM}.json"))
        return None

    def _write(self, hash: str, entry: bytes) -> None:
        if self._directory is None:
            return
        with suppress(OSError):  # a cache that can't be written is none
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(self._directory):
                self._forget_old()
                replace_file(self._directory / f"{hash}-{_FORM}.json", entry)

    def _forget_old(self) -> None:
        assert self._directory is not None
        entries = [each for each in self._directory.iterdir() if _ENTRY.fullmatch(each.name)]
        entries.sort(key=lambda each: each.stat().st_mtime_ns)
        for old in entries[: 1 - MAX_ENTRIES or None]:
            old.unlink(missing_ok=True)


def _is_private(directory: Path) -> bool:
    """Tell whether nobody else can put anything into a directory."""
    with suppress(OSError):
        found = os.lstat(directory)
        mine = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and mine
    return False


def _has_secret(tree: Tree) -> bool:
    """Tell whether a secret stands in a file itself, and not as a variable."""
    if isinstance(tree, Items):
        return any(map(_has_secret, tree))
    if not isinstance(tree, Map):
        return False
    for key, value in tree.items():
        if isinstance(value, Map | Items):
            if _has_secret(value):
                return True
        elif is_secret_key(key) and not has_variable(value):
            return True
    return False


def _entry_of(tree: Tree) -> object:
    """Return a tree as JSON: a map as an object of [line, value], a list as a list of them.

    A value is text where it was plain, and a list of its text alone in an object where not.
    """
    if isinstance(tree, Map):
        return {"m": {key: [tree.at[key][1], _entry_of(value)] for key, value in tree.items()}}
    if isinstance(tree, Items):
        return [[at[1], _entry_of(value)] for value, at in zip(tree, tree.at, strict=True)]
    return str(tree) if isinstance(tree, Plain) else {"q": tree}


def _tree_from(entry: Any, file: str) -> Tree:
    if isinstance(entry, str):
        return Plain(entry)
    if isinstance(entry, list):
        items = Items(_tree_from(value, file) for _, value in entry)
        items.at = [(file, line) for line, _ in entry]
        return items
    return entry["q"] if "q" in entry else _map_from(entry, file)


def _map_from(entry: Any, file: str) -> Map:
    made = Map({key: _tree_from(value, file) for key, (_, value) in entry["m"].items()})
    made.at = {key: (file, line) for key, (line, _) in entry["m"].items()}
    return made
