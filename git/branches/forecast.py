"""A forecast of conflicts: the pairs of commits that git could not merge by itself.

Git merges them without a work tree. What it writes goes into a folder of its own, which is removed:
the repository stays as it is.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryDirectory

from ..repository import CommandFailed, GitFailed, Repository
from .meeting import Pair, meeting
from .repositories import repository_at

#: How many processes of git merge at a time, and how many pairs each takes at most: its memory
#: grows with every merge.
_PROCESSES, _BATCH = min(4, os.cpu_count() or 1), 100

#: How long a batch may take, in seconds: a driver for merges that somebody has set may hang.
_LIMIT_S = 600.0

# Its messages are no part of the form: advice about submodules stands between them.
_MERGE = ("merge-tree", "--write-tree", "--stdin", "--name-only", "--no-messages")
UNRELATED = "refusing to merge unrelated histories"

#: How git ends at a few conflicts of renamed folders, also when it merges in a work tree.
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV)


def conflicts(repository: Repository, pairs: Sequence[Pair]) -> list[tuple[str, ...] | None]:
    """Return for each pair the files that conflict, or None where it would merge.

    There are none where commits have no common ancestor, or git fails at renamed folders.

    Args:
        repository: where the commits are.
        pairs: whole ids: git ends alike for a name that it doesn't know, and for a conflict.

    Raises:
        GitFailed: git is too old, or an object is missing.
    """
    if not pairs:
        return []
    are_met = meeting(repository, pairs)
    tried = [pair for pair, is_met in zip(pairs, are_met, strict=True) if is_met]
    found = iter(_merge_all(repository, tried))
    return [next(found) if is_met else None for is_met in are_met]


def _merge_all(repository: Repository, pairs: Sequence[Pair]) -> list[tuple[str, ...] | None]:
    size = max(1, min(_BATCH, -(-len(pairs) // _PROCESSES)))
    batches = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    with TemporaryDirectory(prefix="ackbus-forecast-") as aside:
        writing_aside = repository_at(repository.folder, objects_aside(repository, aside))
        with ThreadPoolExecutor(_PROCESSES) as processes:
            found = processes.map(partial(_merge, writing_aside), batches)
            return [files for batch in found for files in batch]


def objects_aside(repository: Repository, folder: str) -> dict[str, str | None]:
    """Return the environment in which git reads all objects, and writes new ones to a folder."""
    own = repository.run("rev-parse", "--path-format=absolute", "--git-path", "objects")
    return {
        "GIT_OBJECT_DIRECTORY": folder,
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(os.fsdecode(own[:-1])),
    }


def _quoted(path: str) -> str:
    """Return a path as git reads it in a list of paths."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _merge(repository: Repository, pairs: Sequence[Pair]) -> list[tuple[str, ...] | None]:
    """Merge pairs in one process; where it fails, each half in one, down to the pair at fault."""
    try:
        asked = "".join(f"{a} {b}\n" for a, b in pairs)
        said = repository.run(*_MERGE, stdin=asked.encode(), limit_s=_LIMIT_S)
        return list(_results(said, pairs))
    except CommandFailed as error:
        if "unknown option" in error.reason:
            raise GitFailed("a forecast needs git 2.39 or later: update git") from error
        if len(pairs) > 1:
            half = len(pairs) // 2
            return [
                each for part in (pairs[:half], pairs[half:]) for each in _merge(repository, part)
            ]
        if error.reason != UNRELATED and error.code not in CRASHES:
            raise
        return [()]


def _results(said: bytes, pairs: Sequence[Pair]) -> Iterator[tuple[str, ...] | None]:
    """Yield the files of each merge that git tells of.

    It tells 1 for clean, the tree, the files that conflict, and an empty word.
    """
    words = iter(said.split(b"\0"))
    for pair in pairs:
        status, _ = next(words), next(words)
        files = list(iter(words.__next__, b""))
        names = sorted(
            {plain_name(file.decode("utf-8", "backslashreplace"), pair) for file in files}
        )
        yield None if status == b"1" else tuple(names)


def plain_name(file: str, pair: Pair) -> str:
    """Return the name of a file without what git adds where a folder of the same name is."""
    return re.sub(f"~({'|'.join(pair)})(_[0-9]+)?$", "", file)
