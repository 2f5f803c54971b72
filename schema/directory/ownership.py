"""The list of directories that this user trusts, like git's safe.directory.

An entry is the bus of another user, or a folder whose configuration, crew or plugins may act. The
list is a text file in the user's own configuration, for people and scripts to edit; it counts only
where no other user can write to it.
"""

from __future__ import annotations

import os
import shlex
import stat
from contextlib import contextmanager, suppress

from ..bounded_read import read_at_most
from ..errors import BusNotFound, BusUnusable, InvalidInput, Refused, shown
from ..system_errors import unwritable
from .file_lock import FileLock
from .file_trust import Distrusted, Owners, open_checked, user_name
from .layout import BUS_DIRECTORY, Layout, NoHome, config_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
