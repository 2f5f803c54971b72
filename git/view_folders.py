"""The temporary folders of views: they go with their process, or are swept by a later one.

A process has one folder, and holds a lock on it. At its end it removes the folder; where it was
killed before that, the kernel has released the lock, which tells the next process that makes a
folder here. Nobody else's folder, and none in use, is ever touched.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress

from .repository import GitFailed

_PREFIX = "ackbus-git-"

#: How many folders are made at most, until one is ours.
_TRIES = 10

#: How a folder is opened to be locked: no link is followed.
_TO_LOCK = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

#: The folder of this process, its descriptor, which holds the lock, and the number of the process.
_own: tuple[str, int, int] | None = None


def new_folder() -> str:
    """Make an empty folder that lasts as long as this process; the caller has a lock of threads."""
    return tempfile.mkdtemp(dir=own_folder())


def remove_folder() -> None:
    """Remove the folder of this process; that of its parent stays, where it was forked."""
    global _own
    if _own is not None and _own[2] == os.getpid():
        path, descriptor, _ = _own
        _own = None
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def own_folder() -> str:
    """Return the folder of this process, for temporary folders in it."""
    global _own
    if _own is None or _own[2] != os.getpid():
        if _own is None:
            atexit.register(remove_folder)
        _sweep(tempfile.gettempdir())
        _own = (*_made(), os.getpid())
    return _own[0]


def _made() -> tuple[str, int]:
    """Make a folder and lock it; where a sweep of another process was faster, make another."""
    for _ in range(_TRIES):
        path = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            descriptor = os.open(path, _TO_LOCK)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(descriptor), os.lstat(path))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        except OSError:  # a filesystem without locks, where nobody sweeps either
            is_ours = True
        if is_ours:
            return path, descriptor
        os.close(descriptor)
    raise GitFailed(f"no folder can be kept in {tempfile.gettempdir()}: something removes each")


def _sweep(above: str) -> None:
    """Remove the folders of this user's processes that are gone."""
    with suppress(OSError), os.scandir(above) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):
                    _sweep_one(entry.path)


def _sweep_one(path: str) -> None:
    descriptor = os.open(path, _TO_LOCK)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its process is gone
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
