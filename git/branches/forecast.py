"""A forecast of conflicts: the pairs of commits that git could not merge by itself.

Git merges them in a sealed view, by the attributes of the first commit. No driver and no filter is
run, be it of the repository or of the user: what these would make of a file is not known. What git
writes goes into a folder of its own, which is removed: the repository stays as it is.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from ...schema.errors import InvalidInput
from ..drivers.merge_driver import merge
from ..one_look import look_here, take_part
from ..repository import CommandFailed, GitFailed, OutOfTime, Repository
from ..view_folders import own_folder
from .attributes import ATTRIBUTES, MergedBy, attribute_files, merged_by, with_attributes
from .meeting import Pair, meeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..sealed import SealedRepository
    from .attributes import AttributeFiles

#: How many processes of git merge at a time, and how many pairs each takes at most: its memory
#: grows with every merge.
_PROCESSES, _BATCH = min(4, os.cpu_count() or 1), 100

#: How long a batch may take, in seconds.
_LIMIT_S = 600.0

# Its messages are no part of the form: advice about submodules stands between them.
_MERGE = ("merge-tree", "--write-tree", "--stdin", "--name-only", "--no-messages")
UNRELATED = "refusing to merge unrelated histories"

#: How git ends at a few conflicts of renamed folders, also when it merges in a work tree.
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV)

#: The reason why it is not known whether a file merges.
BY_OTHERS = "a driver or a filter merges it, and is not run where one looks"

#: How large a file of messages is merged here at most, in bytes.
_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NotKnown:
    """A pair of commits of which it is not known whether it would merge.

    Attributes:
        files: those that decide it; none where it is not one of them.
        reason: why it is not known.
    """

    files: tuple[str, ...]
    reason: str


#: The forecast for a pair: the files that conflict, None where it would merge, or not known. No
#: files: the commits have no common ancestor, or git fails at renamed folders.
Forecast = tuple[str, ...] | NotKnown | None


def conflicts(repository: SealedRepository, pairs: Sequence[Pair]) -> list[Forecast]:
    """Return the forecast for each pair.

    Args:
        repository: where the commits are.
        pairs: whole ids: git ends alike for a name that it doesn't know, and for a conflict.

    Raises:
        GitFailed: git is too old.
    """
    if not pairs:
        return []
    try:
        return _forecasts(repository, pairs)
    except (CommandFailed, OutOfTime) as error:  # an object is missing, of one of them
        if len(pairs) == 1:
            return [NotKnown((), error.reason if isinstance(error, CommandFailed) else str(error))]
        half = len(pairs) // 2
        return [*conflicts(repository, pairs[:half]), *conflicts(repository, pairs[half:])]


def _forecasts(repository: SealedRepository, pairs: Sequence[Pair]) -> list[Forecast]:
    met = {
        pair: shared
        for pair, shared in zip(pairs, meeting(repository, pairs), strict=True)
        if shared is not None
    }
    merged = _merge_all(repository, met)
    wanted: dict[str, set[str]] = {}
    for pair, shared in met.items():
        for commit in pair:
            wanted.setdefault(commit, set()).update(shared, merged[pair] or ())
    by = merged_by(repository, wanted) if wanted else {}
    return [
        _judged(repository, pair, met[pair], merged[pair], by) if pair in met else None
        for pair in pairs
    ]


def _judged(
    repository: SealedRepository,
    pair: Pair,
    shared: frozenset[str],
    files: tuple[str, ...] | None,
    by: dict[str, MergedBy],
) -> Forecast:
    """Return the forecast for a pair, by the files that conflict where git merges all as text."""
    a, b = (by[commit] for commit in pair)
    foreign = (a.others | b.others) & {*shared, *(files or ())}
    if foreign:
        return NotKnown(
            tuple(sorted(foreign)),
            BY_OTHERS,
        )
    if not files:
        return files
    left = tuple(
        file for file in files if file not in a.ours & b.ours or not _unites(repository, pair, file)
    )
    return left or None


def _unites(repository: SealedRepository, pair: Pair, file: str) -> bool:
    """Whether our driver merges a file of messages of both commits."""
    sides = []
    try:
        for commit in pair:
            name = f"{commit}:{file}"
            if int(repository.run("cat-file", "-s", name)) > _MAX_BYTES:
                return False
            sides.append(repository.run("cat-file", "blob", name).splitlines(keepends=True))
        return not merge(*sides).conflicts
    except (CommandFailed, InvalidInput):  # one side has none, or a line is no message
        return False


def _merge_all(
    repository: SealedRepository, met: Mapping[Pair, frozenset[str]]
) -> dict[Pair, tuple[str, ...] | None]:
    """Merge pairs, given with the files that both change; those of the same attributes at once."""
    wanted: dict[str, set[str]] = {}
    for pair, shared in met.items():
        wanted.setdefault(pair[0], {ATTRIBUTES}).update(shared)
    files_of = attribute_files(repository, wanted)
    alike: dict[AttributeFiles, list[Pair]] = {}
    for pair in met:
        alike.setdefault(files_of[pair[0]], []).append(pair)
    merging = repository.for_merging()
    with ExitStack() as stack:
        aside = TemporaryDirectory(prefix="forecast-", dir=own_folder())
        git = merging.with_variables(objects_aside(repository, stack.enter_context(aside)))
        jobs = [
            (stack.enter_context(with_attributes(git, files)), batch)
            for files, pairs in alike.items()
            for batch in _batches(pairs)
        ]
        processes = ThreadPoolExecutor(_PROCESSES, initializer=take_part, initargs=(look_here(),))
        found = stack.enter_context(processes).map(lambda job: _merge(*job), jobs)
        results = [files for batch in found for files in batch]
    return dict(zip((pair for _, batch in jobs for pair in batch), results, strict=True))


def _batches(pairs: list[Pair]) -> list[list[Pair]]:
    size = max(1, min(_BATCH, -(-len(pairs) // _PROCESSES)))
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


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
