"""Which buses of other users may be used where they are found, as git's safe.directory says it.

The list is a text file in the user's own configuration, for people and scripts to edit.
"""

from __future__ import annotations

import os
import pwd
import shlex
from contextlib import contextmanager

from ..errors import BusNotFound, BusUnusable, InvalidInput
from ..system_errors import unwritable
from .file_lock import FileLock
from .layout import BUS_DIRECTORY, Layout, config_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The environment variable that names more directories, as PATH does: for containers and CI.
SAFE_VARIABLE = "BUS_SAFE_DIRECTORIES"

#: The entry that stands for every directory, in the list and in the variable.
EVERY = "*"

#: How long a change of the list waits for another one, in seconds; each takes milliseconds.
_LOCK_S = 10.0


def is_safe(directory: str) -> bool:
    """Whether this user's list, or the environment, names a bus directory."""
    named = os.environ.get(SAFE_VARIABLE, "").split(os.pathsep)
    wanted = _resolved(directory)
    return any(
        each == EVERY or wanted in _meant(each) for each in (*named, *safe_directories()) if each
    )


def _meant(entry: str) -> tuple[str, str]:
    """Return the bus directories that an entry may mean: itself, or the one in that project."""
    return _resolved(entry), _resolved(os.path.join(entry, BUS_DIRECTORY))


def _resolved(directory: str) -> str:
    """Return a path without links, except for its last part, which may be one."""
    path = os.path.abspath(directory)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def safe_list() -> str:
    """Return the path of this user's list, there or not."""
    return os.path.join(config_directory(), "safe-directories")


def safe_directories() -> list[str]:
    """Return the directories that this user's list names, in the order of their lines."""
    try:
        return [line for line in _lines() if line and not line.startswith("#")]
    except BusUnusable:  # nothing is allowed by a list that can't be read
        return []


def _lines() -> list[str]:
    """Return the lines of this user's list, with its comments; none where there is no list.

    Raises:
        BusUnusable: it can't be read.
    """
    path = safe_list()
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return [line.rstrip("\n") for line in file]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise BusUnusable(f"{path} can't be read: {error.strerror}") from error


def add_safe_directory(directory: str) -> bool:
    """Add a bus directory, or `EVERY`, to this user's list; safe to repeat.

    Returns:
        Whether it was added now.

    Raises:
        BusNotFound: there is no bus in the directory.
        BusUnusable: the list can't be read or written.
        InvalidInput: the directory's name can't stand in a line.
    """
    named = directory if directory == EVERY else _bus_in(directory)
    with _alone():
        before = _lines()
        if named not in before:
            _write([*before, named])
    return named not in before


def remove_safe_directory(directory: str) -> bool:
    """Take a bus directory, or `EVERY`, off this user's list; say whether it was on it.

    Raises:
        BusUnusable: the list can't be read or written.
    """
    path = os.path.abspath(directory)
    gone = {directory, path, _resolved(path), os.path.join(path, BUS_DIRECTORY)}
    if gone.isdisjoint(_lines()):  # a list that is not there, or can't be written, has no lock
        return False
    with _alone():
        before = _lines()
        left = [each for each in before if each not in gone]
        if left != before:
            _write(left)
    return left != before


def _bus_in(directory: str) -> str:
    """Return the bus directory that is meant: a person may name the project that it is in."""
    path = os.path.abspath(directory)
    inside = os.path.join(path, BUS_DIRECTORY)
    found = inside if os.path.exists(Layout(inside).database) else path
    if not os.path.exists(Layout(found).database):
        raise BusNotFound(f"no bus in {path}, or this user can't see it; nothing was added")
    if "\n" in found or "\r" in found:  # either ends a line where it is read
        raise InvalidInput("a directory with a line break in its name can't be in a list of lines")
    return found


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other processes from changing the list between the look at it and the change.

    Raises:
        BusBusy: another one has held the lock for seconds.
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
            file.writelines(f"{each}\n" for each in lines)
        os.rename(fresh, path)
    except OSError as error:
        raise BusUnusable(f"{path} can't be written: {error.strerror}") from error


def refusal(directory: str, owner: int) -> BusUnusable:
    """Return the error for a bus that was found, and that belongs to another user."""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:  # containers have users without names
        name = f"user {owner}"
    return BusUnusable(
        f"the bus in {directory} was found here, and belongs to {name}; to use it all the same, run"
        f" 'bus trust add {shlex.quote(directory)}', or name it in {SAFE_VARIABLE}"
    )
