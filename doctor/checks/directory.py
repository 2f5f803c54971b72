"""Checks of where a bus is: its directory, the modes of its files, the disk, the locks."""

from __future__ import annotations

import os
import stat
import sys
import time

from ...git.guard.moved_hooks import moved_hooks
from ...git.ignored_bus import LET_IN, unignored
from ...git.repository import GitFailed
from ...schema.directory.ignoring import ALL, IGNORING
from ...schema.directory.layout import (
    BUS_DIRECTORY,
    Layout,
    filesystem_kind,
    refuse_network_filesystem,
    remains_of_bus,
)
from ...schema.directory.lock_holders import Holder, holders, is_known, writers
from ...schema.findings import Finding, bad, ok, warn
from ...schema.system_errors import is_mounted_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.findings import Check

#: With less room than this on the disk a bus soon stops, or hardly starts, in bytes.
_LITTLE_ROOM, _NO_ROOM = 256 * 1024**2, 8 * 1024**2

#: The bits of a mode that let others do anything, and that let others write.
_ANYTHING, _WRITABLE = 0o077, 0o022

#: How many names a line has.
_NAMED = 5

#: A process that has a lock which is wanted all the time for longer than this is in the way, in
#: seconds: a transaction takes milliseconds.
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
    """Look at what is directly in the directory; what is in its folders, those keep from others."""
    open_to_others, foreign = [], []
    for path in (layout.directory, *_entries(layout)):
        found = os.lstat(path)
        name = os.path.basename(path)
        if stat.S_IMODE(found.st_mode) & (_WRITABLE if _may_be_of_git(name) else _ANYTHING):
            open_to_others.append(f"{name} {stat.S_IMODE(found.st_mode):04o}")
        if found.st_uid != os.geteuid():
            foreign.append(f"{name} (user {found.st_uid})")
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


def _names(found: list[str]) -> str:
    return ", ".join(found[:_NAMED]) + (" …" if len(found) > _NAMED else "")


def _filesystem(layout: Layout) -> Finding:
    refuse_network_filesystem(layout.directory)
    if not sys.platform.startswith("linux"):
        return ok("its kind is not known on this system")
    return ok(f"{filesystem_kind(layout.directory)}, on this machine")


def _disk(layout: Layout) -> Finding:
    found = os.statvfs(layout.directory)
    free = found.f_bavail * found.f_frsize
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
    """Look whether git finds the guard's hooks: their path is absolute, and it misses none."""
    try:
        moved = moved_hooks(layout.directory)
    except GitFailed as error:
        return ok(f"not known: {error}")
    if moved is None:
        return ok("no hooks of it have moved away")
    return warn(str(moved), "run 'bus guard install' in the repository, or 'bus guard remove'")


def _write_lock(layout: Layout) -> Finding:
    """Look at who writes, and again for a moment: nobody should for long."""
    if not is_known():
        return ok("this system does not tell who holds locks")
    deadline = time.monotonic() + _LONG_S
    while found := _writing(layout):
        first = found[0]
        if first.is_stopped:
            return _in_the_way(first, "is stopped")
        if time.monotonic() > deadline:
            return _in_the_way(first, f"has written for over {_LONG_S:g} s")
        time.sleep(0.02)
        if first.pid not in {each.pid for each in _writing(layout)}:
            return ok(f"in use: last by {first}")
    return ok("free")


def _writing(layout: Layout) -> list[Holder]:
    """Return who has the write lock, or else who writes without knowing of it."""
    return holders(layout.write_lock) or writers(layout.database)


def _in_the_way(holder: Holder, what: str) -> Finding:
    return warn(
        f"{holder} holds it and {what}; all other writers wait",
        "let it go on, or end it: what it has not committed is undone",
    )
