"""The trust of this user: directories on a list, and files that say what runs.

An entry is the bus of another user, or a folder whose configuration, crew or plugins may act. The
list is a text file in the user's own configuration, for people and scripts to edit; it counts only
where no other user can write to it.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from contextlib import contextmanager, suppress

from ..bounded_read import read_at_most
from ..errors import BusNotFound, BusUnusable, InvalidInput, Refused, shown
from ..system_errors import unwritable
from .file_lock import FileLock
from .layout import BUS_DIRECTORY, Layout, NoHome, config_directory, own_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Trust in files and folders that say what runs, whom to contact, and what is secret.
#
# A user who can change such a file acts as its reader. So the file must belong to this user, to
# root, or to a user whom this user trusts; no other user may write to it, or put another file in
# its place: each folder and each link on the way to it is checked as well. Ownership does not
# tell the origin: whether a file that came with a clone may act at all is for its reader to
# decide.

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
    path: str | os.PathLike[str], owners: Owners | None = None, *, reads_names: bool = False
) -> str:
    """Return the real path of a file or a folder, after a check of it and of all that leads to it.

    Args:
        path: of the file or the folder.
        owners: the trusted users; None: this user and root.
        reads_names: whether the caller uses every name in the folder: then no other user may
            add a name, not even in a sticky folder, where users can remove only their own files.

    Raises:
        Distrusted: somebody else owns it, can write to it, or can exchange it.
        OSError: it is not there, or the system refuses it.
    """
    return _checked(os.fspath(path), owners or Owners(), reads_names=reads_names)[0]


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


def _checked(path: str, owners: Owners, *, reads_names: bool = False) -> tuple[str, os.stat_result]:
    steps = list(_steps(path))
    real, last = steps[-1]
    around, top = owners.around(real), steps[0][1].st_uid
    for at, status in steps:
        # Where the system's root is not seen as root (a container), its folders belong to it.
        is_systems = status is not last and stat.S_ISDIR(status.st_mode) and status.st_uid == top
        if not is_systems and not around.has(at, status.st_uid):
            raise Distrusted(at, f"{at} belongs to {user_name(status.st_uid)}; {_HOW}")
        if not stat.S_ISLNK(status.st_mode):
            _refuse_writers(at, status, is_way=status is not last, reads_names=reads_names)
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


def _refuse_writers(at: str, status: os.stat_result, *, is_way: bool, reads_names: bool) -> None:
    """Raise where others can write to a file, or exchange what is in a folder."""
    mode = status.st_mode
    who, bits = _writers(at, status)
    if not who:
        return
    if stat.S_ISDIR(mode):
        if mode & stat.S_ISVTX and (is_way or not reads_names):
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


#: The environment variable that names more directories, as PATH does: for containers and CI.
SAFE_VARIABLE = "BUS_SAFE_DIRECTORIES"

#: The entry that stands for every directory, in the list and in the variable.
EVERY = "*"

#: Files that may act in a directory, beside a bus.
_ACTING = {
    "config.yaml": "the configuration",
    "crew.yaml": "the crew",
    "manifest.yaml": "the plugin of",
    ".git": "the repository of",
    "HEAD": "the bare repository of",
}

#: The longest list that is read, in characters: each command that finds a bus may read it.
_MAX_CHARS = 1024 * 1024

#: How long a change of the list waits for another change, in seconds; each takes milliseconds.
_LOCK_S = 10.0


def is_safe(directory: str) -> bool:
    """Whether this user's list, or the environment, names a directory."""
    real_path = _resolved(directory)
    return any(listed == EVERY or real_path in _meant(listed) for listed in _all_named())


def trusted_owners(*named: str | os.PathLike[str]) -> Owners:
    """Return the users whose files count for this user.

    Args:
        named: paths that this user has given: their owners count as well.
    """
    listed = ["/" if name == EVERY else os.path.realpath(name) for name in _all_named()]
    return Owners(listed=listed).of(*named)


def _all_named() -> Iterator[str]:
    named = os.environ.get(SAFE_VARIABLE, "").split(os.pathsep)
    return (name for name in (*named, *safe_directories()) if name)


def _meant(entry: str) -> tuple[str, str]:
    """Return the directories that an entry may mean: itself, or the bus in that project."""
    return _resolved(entry), _resolved(os.path.join(entry, BUS_DIRECTORY))


def _resolved(directory: str) -> str:
    """Return a path without links, except for its last part, which may be a link."""
    path = os.path.abspath(directory)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def safe_list() -> str:
    """Return the path of this user's list, there or not."""
    return os.path.join(config_directory(), "safe-directories")


def safe_directories() -> list[str]:
    """Return the directories that this user's list names, in the order of their lines."""
    try:
        return [line for line in _lines() if line and not line.startswith("#")]
    except BusUnusable:  # nothing is allowed by a list that can't be read, or isn't trusted
        return []


def fault_of_list() -> str | None:
    """Return why this user's list counts as empty; None where it counts, or there is none."""
    try:
        _lines()
    except BusUnusable as error:
        return str(error)
    return None


def _lines() -> list[str]:
    """Return the lines of this user's list, with its comments; none where there is no list.

    Raises:
        BusUnusable: it can't be read, is too long, or others may have written it.
    """
    try:
        path = safe_list()
    except NoHome:
        return []
    try:
        with open(open_checked(path), encoding="utf-8", errors="surrogateescape") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BusUnusable(f"{path} can't be read: it is not a file")
            *lines, last = read_at_most(file, path, _MAX_CHARS).split("\n")
            return [*lines, last] if last else lines
    except (FileNotFoundError, NotADirectoryError):
        return []
    except Distrusted as error:
        raise BusUnusable(f"{path} counts as empty: {error}") from error
    except Refused as error:
        raise BusUnusable(f"{path} counts as empty: {error}") from error
    except OSError as error:
        raise BusUnusable(f"{path} can't be read: {error.strerror}") from error


def add_safe_directory(directory: str) -> bool:
    """Add a directory, or `EVERY`, to this user's list; safe to repeat.

    Where a bus is in it, that is added, and the directory itself only if it holds more.

    Returns:
        Whether anything was added now.

    Raises:
        BusNotFound: there is no such directory.
        BusUnusable: the list can't be read or written.
        InvalidInput: the directory's name can't stand in a line.
    """
    named = [directory] if directory == EVERY else _meant_by(directory)
    with _locked_list():
        before = _lines()
        new = [path for path in named if path not in before]
        if new:
            _write([*before, *new])
    return bool(new)


def remove_safe_directory(directory: str) -> bool:
    """Take a bus directory, or `EVERY`, off this user's list; say whether it was on it.

    Raises:
        BusUnusable: the list can't be read or written.
    """
    path = os.path.abspath(directory)
    spellings = {directory, path, _resolved(path), os.path.join(path, BUS_DIRECTORY)}
    if spellings.isdisjoint(_lines()):  # a list that is not there, or can't be written, has no lock
        return False
    with _locked_list():
        before = _lines()
        after = [line for line in before if line not in spellings]
        if after != before:
            _write(after)
    return after != before


def contents(directory: str) -> list[str]:
    """Return what there is in a directory that trust in it lets act, in words for people."""
    path = os.path.abspath(directory)
    bus = _bus_in(path)
    return [f"the bus {bus}"] * bool(bus) + _beside_bus(path)


def _meant_by(directory: str) -> list[str]:
    """Return what is trusted where a person names a directory."""
    path = os.path.abspath(directory)
    bus = _bus_in(path)
    if not bus and not os.path.isdir(path):
        raise BusNotFound(
            f"no bus in {path}, and no such folder, or this user can't see it; nothing was added"
        )
    if "\n" in path or "\r" in path:  # either ends a line where it is read
        raise InvalidInput("a directory with a line break in its name can't be in a list of lines")
    trusted = [bus] if bus else []
    return trusted if bus and not _beside_bus(path) else [*trusted, *({path} - {bus})]


def _bus_in(path: str) -> str:
    """Return the bus directory at a path, or in the project at that path; "" for none."""
    for candidate in (os.path.join(path, BUS_DIRECTORY), path):
        if os.path.exists(Layout(candidate).database):
            return candidate
    return ""


def _beside_bus(path: str) -> list[str]:
    """Return what else there is in a directory that may act."""
    descriptions = []
    for name, what in _ACTING.items():
        if os.path.lexists(os.path.join(path, name)):
            descriptions.append(f"{what} {os.path.join(path, name)}")
    with suppress(OSError):
        for name in sorted(os.listdir(path)):
            if os.path.lexists(os.path.join(path, name, "manifest.yaml")):
                descriptions.append(f"the plugin {os.path.join(path, name)}")
    return descriptions


@contextmanager
def _locked_list() -> Iterator[None]:
    """Keep other processes from changing the list between the look at it and the change.

    Raises:
        BusBusy: another change has held the lock for seconds.
        BusUnusable: the lock can't be had.
    """
    path = f"{safe_list()}.lock"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lock = FileLock(path)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        lock.acquire(_LOCK_S)
        yield
    finally:
        lock.close()


def _write(lines: list[str]) -> None:
    """Put another list in the place of this user's; a reader meanwhile finds either whole."""
    path = safe_list()
    fresh = f"{path}.{os.getpid()}.new"
    try:
        with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
            os.chmod(fresh, 0o600)
            file.writelines(f"{line}\n" for line in lines)
        os.rename(fresh, path)
    except OSError as error:
        raise BusUnusable(f"{path} can't be written: {error.strerror}") from error


def refusal(directory: str, owner: int) -> BusUnusable:
    """Return the error for a bus that was found, and that belongs to another user."""
    return BusUnusable(
        f"the bus in {directory} was found here, and belongs to {user_name(owner)}; to use it"
        f" all the same, run 'bus trust add {shlex.quote(directory)}', or name it in"
        f" {SAFE_VARIABLE}"
    )


def refusal_of_link(directory: str, link: str) -> BusUnusable:
    """Return the error for a bus that something led to which may have come with a clone.

    Args:
        directory: the bus directory, as it was found.
        link: the link, or the `.git` of a work tree that the repository does not know.
    """
    if link == directory:
        what = f"{link} is a link out of its project, to {shown(os.readlink(link))}, which"
        mend = ""
    else:
        what = f"{link} leads to the bus in {directory}, whose repository does not know it: it"
        mend = "; 'git worktree repair' there tells it of a tree that was moved"
    return BusUnusable(
        f"{what} may have come with a clone or an archive{mend}; to use that bus all the same, name"
        f" it with --dir or BUS_DIR, or run 'bus trust add {shlex.quote(directory)}'"
    )
