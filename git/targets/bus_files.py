"""Files that a bus in a work tree keeps changing by itself: no landing waits for them.

They are derived from the bus, so they are nobody's work. While git brings a tree to another commit
they stand aside, under the lock of whoever writes them, and come back as they were. Lines of
`bus.jsonl` that only the commit has are put to the others, for `bus import`.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ...export.jsonl.jsonl_file import lines_of
from ...export.jsonl.parts import part_files
from ...export.jsonl.writer import writing_lock
from ...schema.directory.folder import Folder
from ...schema.directory.ignoring import IGNORING, default_text
from ...schema.directory.layout import Layout
from ...schema.errors import InvalidInput
from ..drivers.git_lines import messages_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..repository import Repository

#: The files of a bus that git may have, by their path in the work tree.
_DERIVED = re.compile(
    r"(?P<directory>(?:.+/)?)(?P<name>bus\.jsonl|bus-\d{6}\.jsonl|bus\.index\.json"
    r"|blobs/sha256-[0-9a-f]{64}|\.gitignore)"
)

#: The ending of the name of a file that stands aside; of one that a killed process left, the bus
#: has all that is in it.
_ASIDE = ".aside"

#: How long a writer of `bus.jsonl` is waited for, in seconds.
_WAIT_S = 30.0

#: How long git may take to put these files as a commit has them, filters included, in seconds.
_LIMIT_S = 600.0


def is_derived(tree: str, file: str) -> bool:
    """Whether a file of a work tree is one that the bus beside it keeps, and can make again."""
    match = _DERIVED.fullmatch(file)
    return (
        match is not None
        and match["name"] != IGNORING
        and _is_within(tree, match["directory"])
        and os.path.isfile(os.path.join(tree, match["directory"], "bus.db"))
    )


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a bus: its path in the work tree, its folder, and its name there."""

    path: str
    folder: Folder
    name: str
    directory: str

    @property
    def is_log(self) -> bool:
        return self.path.endswith("bus.jsonl")


@contextmanager
def standing_aside(git: Repository, before: str, changed: Iterable[str]) -> Iterator[None]:
    """Put the derived files among some as a commit has them, and bring them back after the block.

    Args:
        git: of the work tree.
        before: the commit that the tree is at.
        changed: the files that are to change.

    Raises:
        BusBusy: an exporter has been writing for too long.
        GitFailed: git failed.
    """
    files = [found for path in changed if (found := _found(git.folder, path)) is not None]
    directories = sorted({file.directory for file in files})
    locks = [writing_lock(directory) for directory in directories]
    try:
        for lock in locks:
            lock.acquire(_WAIT_S)
        aside = [file for file in files if file.folder.has(file.name)]
        for file in aside:
            file.folder.rename(file.name, file.name + _ASIDE)
        try:
            _put(git, before, [file.path for file in files])
            yield
        except BaseException:
            _bring_back(git, aside)
            raise
        _bring_back(git, [file for file in aside if file.name != IGNORING])
        for file in aside:
            file.folder.remove(file.name + _ASIDE)
    finally:
        for lock in locks:
            lock.close()


def _is_within(tree: str, directory: str) -> bool:
    """Whether a folder of a work tree is there, and not where a link of a commit leads."""
    there = os.path.join(os.path.realpath(tree), directory).rstrip(os.sep)
    return os.path.realpath(there) == there


def _found(tree: str, path: str) -> _File | None:
    match = _DERIVED.fullmatch(path)
    if match is None or not _is_within(tree, match["directory"]):
        return None
    layout = Layout(os.path.join(tree, match["directory"]))
    folder, name = layout.files, match["name"]
    if match["name"].startswith("blobs/"):
        folder, name = layout.blob_folder, name.removeprefix("blobs/")
    if not layout.files.has("bus.db") or (name == IGNORING and not _is_ours(layout)):
        return None
    return _File(path, folder, name, layout.directory)


def _is_ours(layout: Layout) -> bool:
    """Whether the `.gitignore` there is the one that any bus has, which a commit's may replace."""
    if not layout.files.has(IGNORING):
        return False
    with layout.files.read(IGNORING) as file:
        return file.read(10_000) == default_text(layout).encode()


def _put(git: Repository, commit: str, paths: list[str]) -> None:
    """Put files, and their entries in the index, as a commit has them; some it may not have."""
    if not paths:
        return
    listed = os.fsdecode(git.run("ls-tree", "-z", "--name-only", commit, "--", *paths))
    there = [path for path in listed.split("\0") if path]
    given = "".join(f"{path}\0" for path in paths if path not in there)
    git.run("update-index", "-z", "--force-remove", "--stdin", stdin=os.fsencode(given))
    if there:
        literal = [f":(literal){path}" for path in there]
        checkout = ("-c", "core.hooksPath=/dev/null", "checkout", "--quiet", commit, "--", *literal)
        git.run(*checkout, limit_s=_LIMIT_S)


def _bring_back(git: Repository, files: list[_File]) -> None:
    for file in files:
        aside = file.name + _ASIDE
        if not file.folder.has(aside):
            continue
        new = _unknown_lines(os.path.join(git.folder, file.path), file) if file.is_log else []
        if new:
            fresh = _with_lines(file.folder, aside, new)
            file.folder.remove(aside)
            aside = fresh
        file.folder.rename(aside, file.name)


def _unknown_lines(path: str, file: _File) -> list[bytes]:
    """Return the lines of a commit's file that neither the one that stands aside nor a part has."""
    if not file.folder.has(file.name):
        return []
    known: set[str] = set()
    for own in (*part_files(path), path + _ASIDE):
        with suppress(InvalidInput):  # markers of a conflict: then the person keeps what to keep
            known |= messages_in(lines_of(own), own).keys()
    try:
        brought = messages_in(lines_of(path), path)
    except InvalidInput:
        return []
    return [line[2] for id, line in sorted(brought.items()) if id not in known]


def _with_lines(folder: Folder, name: str, lines: list[bytes]) -> str:
    """Write a file with more lines beside another one, and return its name."""
    fresh = name + ".new"
    with folder.new(fresh) as file, folder.read(name) as old:
        while chunk := old.read(1024 * 1024):
            file.write(chunk)
        file.write(b"".join(line + b"\n" for line in lines))
    return fresh
