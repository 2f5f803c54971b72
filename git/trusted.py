"""The repositories in which git may be started for a bus.

The path of a repository in a row of a bus was written by anybody who can write the bus. It is a
name to compare, and never a place to go: git runs in the repository of the working directory, in
the one around the bus, in one that the user names, and in those that the user's list names.
"""

from __future__ import annotations

import os
import shlex
from contextlib import suppress

from ..schema.directory.ownership import is_safe
from ..schema.errors import shown
from .branches.repositories import RepositoryPlace
from .repository import CommandFailed, GitFailed, Repository
from .sealed import LIMIT_S, LOOKING, SealedRepository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


#: The repositories whose folders the user named to this program; nobody else can add one.
_named: set[str] = set()


def named_repository(folder: str) -> RepositoryPlace:
    """Return the repository around a folder that the user has named; it is trusted from now on.

    Raises:
        GitFailed: git is not installed, or there is no repository.
    """
    place = RepositoryPlace.around(folder)
    _named.add(place.common_dir)
    return place


class NotTrusted(GitFailed):
    """A repository that only a row names: git is not started there."""

    exit_code = 3


class TrustedRepositories:
    """The repositories in which git may be started for a bus.

    Args:
        bus_directory: the directory of the bus.
        named: folders that the user has named, as with `-C`.
    """

    def __init__(self, bus_directory: str, *named: str) -> None:
        self._folders = [*named, os.path.dirname(bus_directory)]
        with suppress(FileNotFoundError):  # the working directory may have been deleted
            self._folders.append(os.getcwd())
        self._around: set[str] = set()

    def place(self, repository: str) -> RepositoryPlace:
        """Return a repository to work in, with its own configuration.

        Args:
            repository: as a row names it: the folder that its work trees share.

        Raises:
            NotTrusted: nothing but a row names it.
            GitFailed: it is none.
        """
        self.check(repository)
        return RepositoryPlace.around(repository)

    def sealed(self, repository: str) -> SealedRepository:
        """Return a repository to look into, where nothing of it is run.

        Raises:
            NotTrusted: nothing but a row names it.
            GitFailed: it is none, or can't be looked into.
        """
        self.check(repository)
        return SealedRepository(repository)

    def check(self, repository: str) -> None:
        """Refuse a repository that only a row names.

        Raises:
            NotTrusted: it is one.
        """
        if not self.has(repository):
            raise NotTrusted(_refusal(repository))

    def has(self, repository: str) -> bool:
        """Whether git may be started in a repository."""
        if repository in _named or repository in self._around:
            return True
        return repository in self.around() or _is_listed(repository)

    def around(self) -> set[str]:
        """Return the repositories around the bus, the working directory and the named folders."""
        self._around.update(self._found_around())
        return self._around

    def _found_around(self) -> Iterator[str]:
        for folder in dict.fromkeys(self._folders):
            git = Repository(folder, LOOKING, limit_s=LIMIT_S)
            try:
                answer = os.fsdecode(git.run("rev-parse", "--git-common-dir"))
            except CommandFailed:  # it is in none, or in one that git refuses to this user
                continue
            yield os.path.realpath(os.path.join(folder, answer.removesuffix("\n")))


def _is_listed(repository: str) -> bool:
    """Whether the user's list names a repository, or its main work tree."""
    if not _is_path(repository):
        return False
    tree, name = os.path.split(repository)
    return is_safe(repository) or (name == ".git" and is_safe(tree))


def _is_path(repository: str) -> bool:
    """Whether a text is the path of a folder without links, as a step stores it."""
    try:
        return os.path.isabs(repository) and os.path.realpath(repository) == repository
    except (OSError, ValueError):
        return False


def _refusal(repository: str) -> str:
    """Return why git is not started in a repository, and how to trust it, if one can."""
    if not _is_path(repository) or not repository.isprintable():
        return f"repository {shown(repository)} is not looked into: that is no path of one"
    tree, name = os.path.split(repository)
    folder = tree if name == ".git" else repository
    return (
        f"repository {folder} is not looked into: it is neither that of the working directory nor"
        f" that of the bus; if it is yours, run 'bus trust add {shlex.quote(folder)}'"
    )
