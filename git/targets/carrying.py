"""Carrying: the files of a work tree are brought from one commit to another, all or none."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from ...schema.errors import Refused
from ..branches.repositories import repository_at
from ..repository import GitFailed
from ..trees.tree_state import git_dir_of, named
from .bus_files import standing_aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..repository import Repository

#: How long git may take to write the files, filters included, in seconds.
_LIMIT_S = 600.0


class NotCarried(Refused):
    """The files can't be brought there; the error says why."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A file that differs between the commits: `A` is new, `D` goes; and what it is after them."""

    kind: str
    file: str
    blob: str


def carry(tree: str, before: str, after: str, kept: Sequence[int]) -> None:
    """Bring the files of a clean work tree, and its index, from one commit to another.

    Args:
        tree: its top.
        before, after: the commits.
        kept: descriptors of locks, for git to hold with us.

    Raises:
        NotCarried: they can't be brought there; what git had written by then is taken back.
    """
    git = repository_at(tree)
    changes = _changes(git, before, after)
    with standing_aside(git, before, [each.file for each in changes]):
        _carry(git, changes, before, after, kept)


def _carry(
    git: Repository, changes: list[_Change], before: str, after: str, kept: Sequence[int]
) -> None:
    tree = git.folder
    _refuse_hidden(tree, changes)
    try:
        git.run("update-index", "-q", "--refresh", limit_s=_LIMIT_S, accepted=(0, 1))
        git.run("read-tree", "-m", "-u", before, after, limit_s=_LIMIT_S, kept=kept)
    except GitFailed as error:
        lock = os.path.join(git_dir_of(tree), "index.lock")
        if os.path.lexists(lock):
            raise NotCarried(f"{lock} is there: a git is at work, or was killed there") from error
        with suppress(GitFailed):  # what is left then shows as not committed
            _take_back(git, changes)
        raise NotCarried(getattr(error, "reason", str(error)).removeprefix("error: ")) from error


def _changes(git: Repository, before: str, after: str) -> list[_Change]:
    command = ("diff-tree", "-r", "-z", "--raw", "--full-index", "--no-renames", before, after)
    fields = os.fsdecode(git.run(*command)).split("\0")
    changes = []
    for about, file in zip(fields[::2], fields[1::2], strict=False):
        *_, blob, kind = about.split(" ")
        changes.append(_Change(kind, file, blob))
    return changes


def _refuse_hidden(tree: str, changes: list[_Change]) -> None:
    """Refuse to write over files that git ignores, which git itself would do."""
    gone = [each.file for each in changes if each.kind == "D"]
    for each in changes:
        if each.kind == "A" and os.path.lexists(os.path.join(tree, each.file)):
            if any(file.startswith(f"{each.file}/") for file in gone):
                continue  # a folder becomes a file
            raise NotCarried(
                f"{named([each.file])} would be overwritten, and git does not have it; move it away"
            )


def _take_back(git: Repository, changes: list[_Change]) -> None:
    """Take back what git had written when it failed; the index is still that of before.

    A file that is not as the commit has it may be somebody's by now, and stays.
    """
    written = _as_committed(git, [each for each in changes if each.kind != "D"])
    for each in written:
        if each.kind == "A":
            os.unlink(os.path.join(git.folder, each.file))
    back = [each.file for each in written if each.kind != "A"]
    back += [each.file for each in changes if each.kind == "D"]
    given = "".join(f"{file}\0" for file in back)
    git.run("checkout-index", "-f", "-q", "-z", "--stdin", stdin=os.fsencode(given))


def _as_committed(git: Repository, changes: list[_Change]) -> list[_Change]:
    """Return those files that are in the tree as the later commit has them."""
    paths = [os.path.join(git.folder, each.file) for each in changes]
    there = [
        each
        for each, path in zip(changes, paths, strict=True)
        if os.path.isfile(path) and not os.path.islink(path) and "\n" not in path
    ]
    given = "".join(f"{each.file}\n" for each in there)
    ids = git.run("hash-object", "--stdin-paths", stdin=os.fsencode(given)).decode().split()
    return [each for each, id in zip(there, ids, strict=True) if id == each.blob]
