"""Errors of the system, in one line with advice: no room, no right, no descriptor."""

from __future__ import annotations

import errno
import os

import apsw

from .errors import BusUnusable, DiskFull

#: The files of a bus that SQLite opens.
_FILES = ("bus.db", "bus.db-wal", "bus.db-shm")


def disk_full(directory: str) -> DiskFull:
    """Return the error for a disk without room, where nothing of what was begun is left."""
    return DiskFull(
        f"the disk under {directory} is full; nothing was stored; make room, then try again"
    )


def unwritable(path: str, error: OSError) -> BusUnusable:
    """Return the error for a file beside the log that the system refuses to write."""
    if isinstance(error, BusUnusable):  # it says itself what stands where
        return error
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BusUnusable(
            f"the disk under {os.path.dirname(path)} is full: {os.path.basename(path)} can't be"
            " written; make room, then try again"
        )
    return BusUnusable(f"{path} can't be written: {error.strerror}")


def unreachable(directory: str, error: OSError) -> BusUnusable:
    """Return the error for a bus that the system does not let this process see."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "close some, or raise the limit (ulimit -n)"
    else:
        advice = "ask its owner, or chmod it"
    return BusUnusable(f"the bus in {directory} can't be reached: {error.strerror}; {advice}")


def read_only(directory: str) -> BusUnusable | None:
    """Return the error for a bus that this user may not write, or None where it may."""
    paths = [directory, *(os.path.join(directory, name) for name in _FILES)]
    closed = [path for path in paths if os.path.exists(path) and not os.access(path, os.W_OK)]
    if not closed:
        return None
    if is_mounted_read_only(directory):
        return BusUnusable(
            f"the bus in {directory} is on a filesystem that is mounted read-only; a bus needs"
            " write access even for reading; mount it to be written, or copy the bus elsewhere"
        )
    return BusUnusable(
        f"the bus in {directory} is read-only for this user; a bus needs write access even for"
        f" reading; ask its owner, or chmod {', '.join(map(os.path.basename, closed))}"
    )


def is_mounted_read_only(directory: str) -> bool:
    """Whether a directory is on a read-only filesystem."""
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


def without_log(directory: str) -> BusUnusable:
    """Return the error for a place where SQLite can't keep a write-ahead log."""
    return BusUnusable(
        f"{directory} is on a filesystem without shared memory for SQLite's write-ahead log;"
        " put the bus on a local disk (--dir, or BUS_DIR)"
    )


def means_full(error: Exception, directory: str) -> bool:
    """Whether an error of SQLite's is that the disk under a directory is full.

    It calls that an I/O error when it has no room for its shared memory.
    """
    if isinstance(error, apsw.IOError):
        try:
            return os.statvfs(directory).f_bavail == 0
        except OSError:
            return False
    return isinstance(error, apsw.FullError)


def why_not_opened(directory: str) -> BusUnusable | None:
    """Return why SQLite can't open its files in a directory, or None where nothing is seen.

    It says "unable to open" or "disk I/O error" of everything, so the system is asked again.
    """
    try:
        os.close(os.open(directory, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return unreachable(directory, error)
    return read_only(directory)
