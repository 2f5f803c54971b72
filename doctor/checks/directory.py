"""Checks of a bus as files: its directory, the bus file, the write-ahead log, the locks."""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import closing

from ...git.bus_files import LET_IN, unignored
from ...git.guard import moved_hooks
from ...git.repository import GitFailed
from ...schema.directory.ignoring import ALL, IGNORING
from ...schema.directory.layout import (
    BUS_DIRECTORY,
    Layout,
    filesystem_kind,
    refuse_network_filesystem,
    remains_of_bus,
)
from ...schema.directory.lock_holders import (
    LockHolder,
    holders,
    kernel_lists_locks,
    readers,
    writers,
)
from ...schema.findings import Finding, bad, ok, warn
from ...schema.sqlite.file_checks import REPAIR, checks_of_database
from ...schema.system_errors import is_mounted_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.findings import Check
    from ...schema.sqlite.database import Database

#: With less room than this on the disk a bus soon stops, or hardly starts, in bytes.
_LITTLE_ROOM, _NO_ROOM = 256 * 1024**2, 8 * 1024**2

#: The bits of a mode that let others do anything, and that let others write.
_ANYTHING, _WRITABLE = 0o077, 0o022

#: How many names a line has.
_NAMED = 5

#: A process that holds a contended lock longer than this is in the way, in seconds: a
#: transaction takes milliseconds.
_LONG_S = 1.0


def checks_of_place(layout: Layout) -> dict[str, Check]:
    """Return the checks that need no bus in the directory."""
    directory: dict[str, Check] = {"directory": lambda: _directory(layout)}
    if not os.path.isdir(layout.directory):
        return directory
    return directory | {
        "modes": lambda: _modes(layout),
        "filesystem": lambda: _filesystem(layout),
        "disk": lambda: _disk(layout),
        "write lock": lambda: _write_lock(layout),
        "git": lambda: _git(layout),
        "guard": lambda: _guard(layout),
    }


def _directory(layout: Layout) -> Finding:
    where = layout.directory
    if not os.path.isdir(where):
        return bad(f"{where} is not a directory", "make a bus with 'bus init', or name another")
    if is_mounted_read_only(where):
        return bad(
            f"{where} is on a filesystem that is mounted read-only", "mount it to be written"
        )
    if not os.access(where, os.R_OK | os.W_OK | os.X_OK):
        return bad(f"{where} can't be read or written by this user", "ask its owner, or chmod it")
    if os.path.exists(layout.database):
        return ok(where)
    inside = os.path.join(where, BUS_DIRECTORY)
    if os.path.exists(Layout(inside).database):
        return bad(f"no bus in {where}", f"did you mean {inside}?")
    if remains := remains_of_bus(layout):
        text, _, advice = remains.partition("; ")
        return bad(text, advice)
    return bad(f"no bus in {where}", "make one with 'bus init', or put a backup there")


def _modes(layout: Layout) -> Finding:
    """Check the modes of the directory and its entries; its folders protect what is in them."""
    open_to_others, foreign = [], []
    for path in (layout.directory, *_entries(layout)):
        status = os.lstat(path)
        name = os.path.basename(path)
        if stat.S_IMODE(status.st_mode) & (_WRITABLE if _may_be_of_git(name) else _ANYTHING):
            open_to_others.append(f"{name} {stat.S_IMODE(status.st_mode):04o}")
        if status.st_uid != os.geteuid():
            foreign.append(f"{name} (user {status.st_uid})")
    if foreign:
        return warn(
            f"of another user: {_names(foreign)}", "let one user have all of it, with chown"
        )
    if open_to_others:
        return warn(
            f"others may read or write what is meant for you: {_names(open_to_others)}",
            "chmod 0700 the directories, 0600 the files",
        )
    return ok("nobody else can read it")


def _entries(layout: Layout) -> list[str]:
    """Return the paths of all that is in the directory, but for links, which are not opened."""
    with os.scandir(layout.directory) as entries:
        return sorted(entry.path for entry in entries if not entry.is_symlink())


def _may_be_of_git(name: str) -> bool:
    """Whether git brings a file of this name, with the mode that it gives to all files."""
    return name in ("blobs", ".gitignore", "bus.index.json") or name.endswith(".jsonl")


def _names(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def _filesystem(layout: Layout) -> Finding:
    refuse_network_filesystem(layout.directory)
    if not sys.platform.startswith("linux"):
        return ok("its kind is not known on this system")
    return ok(f"{filesystem_kind(layout.directory)}, on this machine")


def _disk(layout: Layout) -> Finding:
    file_system = os.statvfs(layout.directory)
    free = file_system.f_bavail * file_system.f_frsize
    text = f"{free / 1024**2:,.0f} MiB free"
    if free < _NO_ROOM:
        return bad(text, "make room: publishing is about to fail")
    if free < _LITTLE_ROOM:
        return warn(text, "make room before it is full")
    return ok(text)


def _git(layout: Layout) -> Finding:
    """Look whether git ignores what lives in the directory: else `git clean` deletes it."""
    try:
        names = unignored(layout)
    except GitFailed as error:
        return ok(f"not known: {error}")
    if not names:
        return ok("it leaves alone what lives here")
    path = layout.files.path_of(IGNORING)
    lines = ", ".join(repr(line) for line in (ALL, *LET_IN))
    return warn(
        f"it would take {_names(names)} into commits, and 'git clean' would delete them",
        f"'bus init' writes {path} in its new form, unless people have edited it or git has it:"
        f" then put these lines at its beginning: {lines}",
    )


def _guard(layout: Layout) -> Finding:
    """Check that git finds the guard's hooks: it says nothing of a path that has moved."""
    try:
        moved = moved_hooks(layout.directory)
    except GitFailed as error:
        return ok(f"not known: {error}")
    if moved is None:
        return ok("no hooks of it have moved away")
    return warn(str(moved), "run 'bus guard install' in the repository, or 'bus guard remove'")


def _write_lock(layout: Layout) -> Finding:
    """Look for a process that holds the write lock for too long."""
    if not kernel_lists_locks():
        return ok("this system does not tell who holds locks")
    deadline = time.monotonic() + _LONG_S
    while writing := _writing(layout):
        first = writing[0]
        if first.is_stopped:
            return _in_the_way(first, "is stopped")
        if time.monotonic() > deadline:
            return _in_the_way(first, f"has written for over {_LONG_S:g} s")
        time.sleep(0.02)
        if first.pid not in {writer.pid for writer in _writing(layout)}:
            return ok(f"in use: last by {first}")
    return ok("free")


def _writing(layout: Layout) -> list[LockHolder]:
    """Return the holders of the write lock, or else the writers that bypass it."""
    return holders(layout.write_lock) or writers(layout.database)


def _in_the_way(holder: LockHolder, what: str) -> Finding:
    return warn(
        f"{holder} holds it and {what}; all other writers wait",
        "let it go on, or end it: what it has not committed is undone",
    )


# Checks of the write-ahead log: whether it is whole, and whether a reader keeps it growing.

#: SQLite empties the log into the file every 1,000 pages; so many more show that it can't.
_MANY_PAGES = 8000

#: How long a log is read to its end unless all is to be, in bytes: for half a second.
_QUICK_BYTES = 16 * 1024**2

#: A frame that is being written looks damaged, so only damage seen at every look counts.
_LOOKS, _PAUSE_S = 3, 0.05


def check_log(database: Database, full: bool) -> Finding:
    """Look at the log without a checkpoint: it may hold the only copy of something."""
    _, pages, moved = database.rows("PRAGMA wal_checkpoint(NOOP)")[0]
    path = database.layout.database + "-wal"
    size = os.stat(path).st_size if os.path.exists(path) else 0
    text = f"{max(0, pages):,} pages not yet reused, {size / 1024**2:,.1f} MiB"
    if (full or size <= _QUICK_BYTES) and (harm := damage_of_log(database.layout)):
        return bad(harm, REPAIR)
    reading = readers(database.layout.database)
    if pages - moved < _MANY_PAGES or (kernel_lists_locks() and not reading):
        return ok(text)
    who = ", ".join(map(str, reading)) or "a reader"
    return warn(
        f"{text}; it grows, since {who} has been reading for long",
        "let it end its transaction, or end it",
    )


def damage_of_log(layout: Layout) -> str:
    """Return what is wrong with a log, in words; "" when it is whole."""
    damage = ""
    for _ in range(_LOOKS):
        damage = _look(layout)
        if not damage:
            return ""
        time.sleep(_PAUSE_S)
    return damage


def _look(layout: Layout) -> str:
    from ..recovery.pages import Pages

    with closing(Pages(layout.database, layout.database + "-wal")) as pages:
        log = pages.log
        if log.has_begun_anew():  # all that it had is in the file
            return ""
    if not log.is_header_whole:
        return "the beginning of bus.db-wal is damaged: what was committed last can't be read"
    if damaged := log.damaged():
        behind = len(log.frames) - log.break_at
        return (
            f"bus.db-wal is damaged in {damaged} places, or a power loss cut it short: SQLite"
            f" no longer reads the {behind:,} pages of commits from there on"
        )
    return ""


# All checks of the bus file: those by SQLite itself, and of its write-ahead log.


def checks_of_file(database: Database, *, full: bool = False) -> dict[str, Check]:
    """Return the checks of a file that SQLite can open.

    Args:
        database: opened with `any_version`.
        full: read everything, however long it takes.
    """
    return {
        **checks_of_database(database, full=full),
        "log": lambda: check_log(database, full),
    }


# The readable and the lost content of a damaged file, in words: tables, and seqs of messages.


def check_contents(layout: Layout) -> Finding:
    """Read a file page by page, without SQLite, and report the losses."""
    from ..recovery.salvage import damage_in

    damages = damage_in(layout)
    if not damages:
        return ok("every row of every table can be read page by page")
    losses = [str(damage) for damage in damages if damage.readable]
    empty = [damage.table for damage in damages if not damage.readable]
    losses += [f"nothing is left of {', '.join(empty)}"] if empty else []
    return bad(f"damaged: {'; '.join(losses)}", REPAIR)
