"""Repositories and work trees within a work tree, which go with it, in ignored folders unseen.

One that is clean and has all its commits on its remotes is no loss. Commits of another are brought
to this repository, so that refs keep them, or the tree stays. All is looked at by sealed views.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...schema.errors import Refused
from ..repository import CommandFailed, GitFailed
from ..sealed import is_plain_file, sealed_around, sealed_tree
from ..text_file import read_small
from .rescue import OPERATION_FILES, commits_in, history
from .tree_state import look_at_state, look_into

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..branches.repositories import Place
    from ..sealed import SealedRepository
    from .tree_list import Tree

#: How many files and folders of a tree are looked through at most.
MAX_ENTRIES = 1_000_000

#: How large the objects of a repository within may be that is brought here, in bytes (256 MiB).
_MAX_BYTES = 256 * 1024 * 1024

#: How long bringing a repository here may take, in seconds.
_LIMIT_S = 600.0

#: The folders of a repository of git's in which others may be.
_WITHIN_GIT = ("modules",)

#: The names that make a folder one of git's.
_OF_GIT = {"HEAD", "objects", "refs"}


@dataclass(frozen=True, slots=True)
class Inner:
    """A repository within a work tree.

    Attributes:
        path: the folder of its files; that of git's where it has none.
        git_dir: git's folder of it.
    """

    path: str
    git_dir: str


def trees_within(tree: Tree, trees: list[Tree]) -> list[Tree]:
    """Return the work trees of the same repository whose folders are in that of a tree."""
    top = os.path.realpath(tree.path) + os.sep
    return [each for each in trees if os.path.realpath(each.path).startswith(top)]


def check_within(place: Place, tree: Tree, inner: Tree, *, keeps_files: bool) -> str | None:
    """Return the head of a work tree within another whose files are to be kept; None: no need.

    Raises:
        Refused: it has to stay.
    """
    if inner.is_ours or inner.lock is not None:
        raise Refused(f"{inner.path}, a locked work tree, is in {tree.path}; end that one first")
    if not inner.is_there:
        return None
    state = look_at_state(place.common_dir, inner)
    if state.is_clean:
        return None
    if not keeps_files or state.head is None:
        raise Refused(
            f"{inner.path}, a work tree in {tree.path}, is not clean: {state.dirt()}; commit or"
            " discard that"
        )
    return state.head


def repositories_within(tree: Tree, known: list[Tree]) -> list[Inner]:
    """Return the repositories in the folder of a tree, but submodules that git keeps elsewhere.

    Args:
        tree: the tree.
        known: the work trees within it that git knows.

    Raises:
        Refused: something in it can't be looked at, or is of a repository elsewhere.
    """
    top = os.path.realpath(tree.path)
    own = (os.path.realpath(tree.admin) + os.sep, *(os.path.realpath(t.admin) for t in known))
    found = []
    for inner in _search(tree.path):
        git_dir = os.path.realpath(inner.git_dir)
        if git_dir.startswith(own) or not os.path.isdir(git_dir):
            continue
        if not git_dir.startswith(top + os.sep):
            raise Refused(
                f"{inner.path}, in a tree that is to go, is a work tree of {git_dir}; move it first"
            )
        if os.path.isdir(os.path.join(git_dir, "objects")):
            found.append(inner)
    return found


def unpushed_of(inner: Inner) -> list[str]:
    """Return the commits that would be lost with a repository, without their ancestors.

    Raises:
        Refused: it has to stay: files are not committed, or it can't be looked into.
    """
    try:
        if inner.path != inner.git_dir:
            state = look_into(inner.path, inner.git_dir)
            if not state.is_clean:
                raise Refused(
                    f"{inner.path}, a repository by itself, is not clean: {state.dirt()}; commit"
                    " that there, or move it"
                )
        tips = tips_on_no_remote(_sealed(inner))
    except GitFailed as error:
        raise Refused(
            f"{inner.path}, a repository by itself, can't be looked into: {error}; move it first"
        ) from error
    if tips:
        _refuse_unbringable(inner)
    return tips


def tips_on_no_remote(git: SealedRepository) -> list[str]:
    """Return the commits of a repository that none of its remotes has, without their ancestors.

    Those that its branches and its head once had are among them, and those of an operation.

    Raises:
        GitFailed: it can't be looked into.
    """
    once = list(dict.fromkeys(_once_had(git.common_dir)))
    there = [commit for commit in git.commits(once) if commit is not None]
    given = "".join(f"{commit}\n" for commit in there).encode()
    command = ("rev-list", "--parents", "--stdin", "--all", "--not", "--remotes")
    lines = git.run(*command, stdin=given).decode().splitlines()
    parents = {parent for line in lines for parent in line.split()[1:]}
    return [commit for line in lines if (commit := line.split()[0]) not in parents]


def _once_had(git_dir: str) -> Iterator[str]:
    """Yield the commits that files of a repository name beside its refs, as a view does not."""
    for name in OPERATION_FILES:
        if is_plain_file(file := os.path.join(git_dir, name)):
            yield from commits_in(file)
    for here, _, names in os.walk(os.path.join(git_dir, "logs")):
        for name in names:
            if is_plain_file(file := os.path.join(here, name)):
                yield from history(file)


def bring(place: Place, inner: Inner, commits: list[str]) -> None:
    """Bring commits of a repository within a tree, with all that they need, to this one.

    Git hashes each object again on its way in, so that none can stand for another.

    Raises:
        Refused: git can't.
    """
    given = "".join(f"{commit}\n" for commit in commits).encode()
    try:
        options = ("--revs", "--stdout", "--quiet")
        pack = _sealed(inner).run("pack-objects", *options, stdin=given, limit_s=_LIMIT_S)
        place.git.run("index-pack", "--stdin", stdin=pack, limit_s=_LIMIT_S)
    except CommandFailed as error:
        raise Refused(
            f"commits of {inner.path}, a repository by itself, can't be kept here: {error.reason};"
            " push them, or move it"
        ) from error


def _sealed(inner: Inner) -> SealedRepository:
    if inner.path == inner.git_dir:
        return sealed_around(inner.path)
    return sealed_tree(inner.git_dir, inner.git_dir, inner.path)


def _refuse_unbringable(inner: Inner) -> None:
    """Refuse a repository whose commits can't be kept whole here."""
    shallow, linked = (os.path.join(inner.git_dir, name) for name in ("shallow", "worktrees"))
    why = None
    if os.path.lexists(shallow):
        why = "it is a shallow clone"
    elif os.path.isdir(linked) and os.listdir(linked):
        why = "it has work trees elsewhere"
    elif _bytes_of_objects(inner.git_dir) > _MAX_BYTES:
        why = f"its objects are more than {_MAX_BYTES >> 20} MiB"
    if why is not None:
        raise Refused(
            f"{inner.path}, a repository by itself, has commits that none of its remotes has, and"
            f" {why}; push them, or move it"
        )


def _bytes_of_objects(git_dir: str) -> int:
    walk = os.walk(os.path.join(git_dir, "objects"))
    return sum(
        os.lstat(os.path.join(here, name)).st_size for here, _, names in walk for name in names
    )


def _search(top: str) -> Iterator[Inner]:
    """Yield all that looks like a repository below a folder; links are not followed.

    Raises:
        Refused: there is too much to look through, or a folder can't be read.
    """
    left, folders = MAX_ENTRIES, [top]
    while folders:
        here = folders.pop()
        entries = _entries(here)
        left -= len(entries)
        if left < 0:
            raise Refused(
                f"{top} has more than {MAX_ENTRIES} files, too many to look for repositories in it;"
                " delete what nobody needs"
            )
        is_git = {entry.name for entry in entries} >= _OF_GIT
        if is_git and here != top:
            yield Inner(here, here)
        for entry in entries:
            if entry.name == ".git":
                if here != top:
                    yield Inner(here, _git_dir_of(entry))
                if entry.is_dir(follow_symlinks=False):
                    folders += [os.path.join(entry.path, name) for name in _WITHIN_GIT]
            elif entry.is_dir(follow_symlinks=False) and (not is_git or entry.name in _WITHIN_GIT):
                folders.append(entry.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Refused(f"{folder} can't be looked through: {error.strerror}") from error


def _git_dir_of(entry: os.DirEntry[str]) -> str:
    """Return git's folder as a `.git` says it, be it a folder, a file, or a link to either.

    Raises:
        Refused: it is a file that can't be read: what would be lost is not known.
    """
    path = os.path.realpath(entry.path)
    if not is_plain_file(path):
        return path
    try:
        text = read_small(path)
    except (FileNotFoundError, GitFailed) as error:
        raise Refused(
            f"{entry.path}, in a tree that is to go, can't be looked into: {error}; move it first"
        ) from error
    named = text.removesuffix("\n").removeprefix("gitdir: ").replace("\0", "")
    return os.path.realpath(os.path.join(os.path.dirname(entry.path), named))
