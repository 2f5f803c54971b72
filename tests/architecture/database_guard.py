"""Stops the package from opening a database file except through apsw.

A process that opens and closes the database, its WAL or its shared memory by itself loses the locks
that SQLite holds on it (POSIX drops a process's locks at any close), and another process may then
delete a live WAL. A second SQLite library, as in the module sqlite3, does the same harm. Python
announces every such opening to audit hooks, so with this one in the test process every test that
makes ackbus open such a file fails at that line. Tests may open them, to damage or inspect a bus.
"""

import os
import sys
from types import FrameType

DATABASE_FILES = {"bus.db", "bus.db-wal", "bus.db-shm"}
OPENINGS = {"open", "sqlite3.connect"}
#: What Python announces of files that are opened, made, renamed and removed by their paths.
BY_PATH = {"open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink"} | {
    *("os.chmod", "os.chown", "os.utime", "os.truncate"),
}
#: Who may be told by its user to open a file, wherever it is; and what is given a bus of its own.
USERS_FILES = tuple(
    f"ackbus.{part}" for part in ("cli.", "setup.", "demo.", "torture.", "bus.trust.keys")
)


class PathOpened(AssertionError):
    """The package went by a path to what is in a bus directory, and not through its folder."""


class DatabaseOpened(AssertionError):
    """The package opened a database file behind SQLite's back."""


def install() -> None:
    """Guards this process until it ends: an audit hook cannot be removed."""
    sys.addaudithook(_guard)


def _guard(event: str, args: tuple[object, ...]) -> None:
    _guard_databases(event, args)
    if event in BY_PATH and args and isinstance(args[0], str) and os.path.isabs(args[0]):
        caller = _nearest_of_the_package(sys._getframe(1))
        if (
            caller
            and caller != "ackbus.schema.directory.folder"
            and not caller.startswith(USERS_FILES)
        ):
            directory = os.path.dirname(args[0])
            if any(map(_is_bus, (directory, os.path.dirname(directory)))):
                raise PathOpened(f"{event} of {args[0]} by {caller}: go through its Folder")


def _is_bus(directory: str) -> bool:
    return os.path.lexists(os.path.join(directory, "bus.db"))


def _nearest_of_the_package(frame: FrameType | None) -> str:
    """Returns the module of the package that is nearest on the stack; "" where a test is nearer."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("ackbus."):
            return name
        if name.partition(".")[0] in ("tests", "conftest"):
            return ""
        frame = frame.f_back
    return ""


def _guard_databases(event: str, args: tuple[object, ...]) -> None:
    if event not in OPENINGS or not args or not isinstance(args[0], str | bytes | os.PathLike):
        return
    if event == "open" and isinstance(args[2], int) and args[2] & os.O_EXCL:
        return  # it is made by this very opening: SQLite can hold no lock on it
    path = os.fsdecode(args[0])
    if os.path.basename(path) in DATABASE_FILES and _is_called_by_the_package(sys._getframe(1)):
        raise DatabaseOpened(f"{event} of {path}: only apsw may open a database file")


def _is_called_by_the_package(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "ackbus":
            return True
        frame = frame.f_back
    return False
