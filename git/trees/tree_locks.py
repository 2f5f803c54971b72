"""Locks on a repository's work trees, which git processes of ours hold with us.

Git inherits the descriptor. So when a process of ours is killed, its lock is free only when the git
that it had started has ended, and what it left is final.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import contextmanager

from ...schema.directory.file_lock import is_locked
from ...schema.directory.lock_holders import holders, is_inherited
from ...schema.errors import Refused, TimedOut
from ..repository import GitFailed
from .tree_names import safe_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The folder of the locks, in the one that all work trees share.
FOLDER = "ackbus"

#: How long a lock is waited for, in seconds: 48 trees at once are made within it.
WAIT_S = 120.0

#: How long a waiter sleeps between two looks, in seconds: at first, and at most.
_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05

#: A link could lead out of the repository, and nobody writes to a pipe.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

#: Errors of the system for a folder, a link and a socket.
_NO_FILE = (errno.EISDIR, errno.ELOOP, errno.ENXIO)


class TreeBusy(TimedOut):
    """Another process is making or removing the tree, or integrates into the branch.

    Attributes:
        is_left: whether that process has ended, and a git that it had started has not.
    """

    def __init__(self, text: str, *, is_left: bool = False) -> None:
        self.is_left = is_left
        super().__init__(text)


class NameTaken(Refused):
    """A branch or a path is somebody else's: another try by the same name would end likewise."""


class TreeLocks:
    """The locks of a repository.

    Args:
        common_dir: the folder that all its work trees share.
        wait_s: how long a lock is waited for.
        is_looking: whether no lock is made: one that is not there is held by nobody.
    """

    def __init__(
        self, common_dir: str, wait_s: float = WAIT_S, *, is_looking: bool = False
    ) -> None:
        self._folder = os.path.join(common_dir, FOLDER)
        self._wait_s = wait_s
        self._is_looking = is_looking

    @contextmanager
    def of_all(self) -> Iterator[int]:
        """Hold the list of work trees; yields the descriptor, for git to inherit."""
        with self._held("trees.lock") as descriptor:
            yield descriptor

    @contextmanager
    def of_task(self, task: str) -> Iterator[int]:
        """Hold the tree of one task; yields the descriptor, for git to inherit."""
        with self._held(f"task-{safe_name(task)}.lock") as descriptor:
            yield descriptor

    @contextmanager
    def of_target(self, target: str) -> Iterator[int]:
        """Hold a branch that is integrated into; yields the descriptor, for git to inherit."""
        with self._held(f"target-{safe_name(target)}.lock") as descriptor:
            yield descriptor

    def is_integrated(self, name: str) -> bool:
        """Whether somebody holds a branch that is integrated into, by its `safe_name`.

        What is no file at its place, and a name that leads elsewhere, nobody can hold.
        """
        if "/" in name or "\0" in name:
            return False
        path = os.path.join(self._folder, f"target-{name}.lock")
        try:
            with open(os.open(path, _SAFE | os.O_RDONLY), "rb") as file:
                return is_locked(file)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno in _NO_FILE:
                return False
            raise GitFailed(f"{path} can't be opened: {error.strerror}") from error

    def forget(self, task: str) -> None:
        """Remove the lock of a task whose tree is gone; the caller holds it."""
        os.unlink(os.path.join(self._folder, f"task-{safe_name(task)}.lock"))

    @contextmanager
    def _held(self, name: str) -> Iterator[int]:
        path = os.path.join(self._folder, name)
        if self._is_looking and not os.path.exists(path):
            yield -1
            return
        self._make_folder()
        deadline = time.monotonic() + self._wait_s
        while (descriptor := self._locked(path, deadline)) is None:
            pass
        try:
            yield descriptor
        finally:
            os.close(descriptor)  # a git that goes on keeps it

    def _make_folder(self) -> None:
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise GitFailed(f"{self._folder} can't be made: {error.strerror}") from error

    def _locked(self, path: str, deadline: float) -> int | None:
        """Return a descriptor with the lock; None: the file was removed while we waited."""
        try:
            descriptor = os.open(path, self._flags(), 0o666)
        except OSError as error:
            raise GitFailed(f"{path} can't be opened: {error.strerror}") from error
        try:
            self._wait(descriptor, path, deadline)
            if _is_at(descriptor, path):
                held, descriptor = descriptor, -1
                return held
            return None
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _flags(self) -> int:
        return _SAFE | (os.O_RDONLY if self._is_looking else os.O_RDWR | os.O_CREAT)

    def _wait(self, descriptor: int, path: str, deadline: float) -> None:
        pause_s = _PAUSE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TreeBusy(
                        f"{path} has been held for {self._wait_s:g} s by {holders_of(path)}; wait,"
                        " or end that if it hangs",
                        is_left=is_inherited(path),
                    ) from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def holders_of(path: str) -> str:
    """Return who holds a lock, in words: a git may that was started by a process which is gone."""
    return ", ".join(map(str, holders(path))) or "another process, or a git that it started"


def _is_at(descriptor: int, path: str) -> bool:
    """Whether a path still leads to the file of a descriptor."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
