"""Trust in files and folders that say what runs, whom to contact, and what is secret.

A user who can change such a file acts as its reader. So the file must belong to this user, to root,
or to a user whom this user trusts; no other user may write to it, or put another file in its place:
each folder and each link on the way to it is checked as well. Ownership does not tell the origin:
whether a file that came with a clone may act at all is for its reader to decide.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress

from ..errors import Refused
from .layout import own_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: How many links lead to a file at most, as the kernel has it.
_MAX_LINKS = 40

#: Where Linux keeps a list of further users who may write; the bits of the group bound it.
_ACCESS_LIST = "system.posix_acl_access"

_GROUP_AND_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Distrusted(Refused, OSError):
    """A file or a folder may have been written by somebody who is not trusted.

    It is an OSError, too: code that expects the system to refuse a file expects this as well.

    Attributes:
        path: what is not trusted; it may be a folder on the way.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(reason)
        self.strerror = reason


class Owners:
    """The users whose files count: this user, root, and the users that are trusted.

    Args:
        also: further ids of users, such as the owners of files that this user has named.
        listed: directories without links that this user trusts, whatever owner their files have.
    """

    def __init__(self, also: Iterable[int] = (), listed: Sequence[str] = ()) -> None:
        self._ids = frozenset((*own_ids(), *also))
        self._listed = tuple(listed)

    def of(self, *paths: str | os.PathLike[str]) -> Owners:
        """Return these, and the owners of what this user has named; links count as well."""
        ids = []
        for path in paths:
            for look in (os.lstat, os.stat):
                with suppress(OSError):  # the error comes again when the file is opened
                    ids.append(look(path).st_uid)
        return Owners((*self._ids, *ids), self._listed)

    def around(self, real: str) -> _PathOwners:
        """Return these as they count on the way to a path without links."""
        return _PathOwners(
            self._ids, [directory for directory in self._listed if is_within(real, directory)]
        )


class _PathOwners:
    """The trusted users on the way to one path."""

    def __init__(self, ids: frozenset[int], listed: list[str]) -> None:
        above = set()  # the owner of a trusted directory can exchange all of it: trusted, too
        for directory in listed:
            with suppress(OSError):
                above.add(os.stat(directory).st_uid)
        self._ids, self._listed = ids | above, listed

    def has(self, path: str, owner: int) -> bool:
        """Whether a thing with this path and owner counts as the user's own."""
        return owner in self._ids or any(is_within(path, directory) for directory in self._listed)


def is_within(path: str, directory: str) -> bool:
    """Whether a path is a directory, or in it; both without links."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def check(
    path: str | os.PathLike[str], owners: Owners | None = None, *, lists: bool = False
) -> str:
    """Return the real path of a file or a folder, after a check of it and of all that leads to it.

    Args:
        path: of the file or the folder.
        owners: the trusted users; None: this user and root.
        lists: whether the caller uses every name in the folder: then no other user may add a name,
            not even in a sticky folder, where users can remove only their own.

    Raises:
        Distrusted: somebody else owns it, can write to it, or can exchange it.
        OSError: it is not there, or the system refuses it.
    """
    return _checked(os.fspath(path), owners or Owners(), lists=lists)[0]


def open_checked(path: str | os.PathLike[str], owners: Owners | None = None) -> int:
    """Open a trusted file for reading, and return its descriptor.

    Opening never waits for a pipe or a device: the caller checks that it is an ordinary file.

    Raises:
        Distrusted: somebody else owns it, can write to it, or can exchange it.
        OSError: it is not there, or the system refuses it.
    """
    real, looked_at = _checked(os.fspath(path), owners or Owners())
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(real, flags)
    opened = os.fstat(descriptor)
    if not os.path.samestat(opened, looked_at) or opened.st_mode != looked_at.st_mode:
        os.close(descriptor)
        raise Distrusted(real, f"{real} has changed while it was opened; try again")
    return descriptor


def _checked(path: str, owners: Owners, *, lists: bool = False) -> tuple[str, os.stat_result]:
    steps = list(_steps(path))
    real, last = steps[-1]
    around, top = owners.around(real), steps[0][1].st_uid
    for at, status in steps:
        # Where the system's root is not seen as root (a container), its folders belong to it.
        is_systems = status is not last and stat.S_ISDIR(status.st_mode) and status.st_uid == top
        if not is_systems and not around.has(at, status.st_uid):
            raise Distrusted(at, f"{at} belongs to {user_name(status.st_uid)}; {_HOW}")
        if not stat.S_ISLNK(status.st_mode):
            _refuse_writers(at, status, is_way=status is not last, lists=lists)
    return real, last


_HOW = "look at it, then trust its folder with 'bus trust add DIR'"


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all folders and links on the way to a path, from the root on, and what it leads to."""
    at, links = "/", 0
    yield at, os.lstat(at)
    ahead = os.path.join(os.getcwd(), path).split("/")[::-1]
    while ahead:
        name = ahead.pop()
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        below = os.path.join(at, name)
        status = os.lstat(below)
        yield below, status
        if not stat.S_ISLNK(status.st_mode):
            at = below
            continue
        links += 1
        if links > _MAX_LINKS:
            raise Distrusted(path, f"too many links lead to {path}")
        target = os.readlink(below)
        at = "/" if target.startswith("/") else at
        ahead += target.split("/")[::-1]


def _refuse_writers(at: str, status: os.stat_result, *, is_way: bool, lists: bool) -> None:
    """Raise where others can write to a file, or exchange what is in a folder."""
    mode = status.st_mode
    who, bits = _writers(at, status)
    if not who:
        return
    if stat.S_ISDIR(mode):
        if mode & stat.S_ISVTX and (is_way or not lists):
            return  # users can exchange their own files alone; the next owner is checked, too
        raise Distrusted(at, f"{who} can write into {at}; chmod {bits} it")
    raise Distrusted(at, f"{who} can write to {at}; chmod {bits} it")


def _writers(at: str, status: os.stat_result) -> tuple[str, str]:
    """Return which other users may write, and the bits that let them; "" where none may."""
    if not status.st_mode & _GROUP_AND_OTHERS:
        return "", ""
    if status.st_mode & stat.S_IWOTH:
        return "everybody", "o-w"
    if _has_access_list(at):
        return "whoever its access list names", "g-w"
    is_private = _is_private(status.st_gid, status.st_uid)
    return ("", "") if is_private else ("its group", "g-w")


def _is_private(group: int, owner: int) -> bool:
    """Whether a group has one user alone: the owner of a file, or this user.

    Distributions give each user a group of their own, and a umask of 002.
    """
    users = {owner, os.geteuid()}
    try:
        members = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except KeyError:  # the system does not know the group
        return False
    own = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    return bool(own & users) and own | members <= {0, *users}


def _has_access_list(path: str) -> bool:
    if not hasattr(os, "getxattr"):
        return False
    try:
        return bool(os.getxattr(path, _ACCESS_LIST, follow_symlinks=False))
    except OSError:  # it has none, or its filesystem knows none
        return False


def user_name(owner: int) -> str:
    """Return the name of a user, or words with its number."""
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:  # containers have users without names
        return f"user {owner}"
