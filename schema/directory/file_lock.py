"""Locks between processes that the kernel frees: the write lock and the exporter's lock.

Writers take the write lock before SQLite's own. SQLite's busy handler sleeps and tries again, so
under many writers an unlucky one waits very long. A queue in the kernel is fair: in the
measurement behind this, the slowest of 32 writers waited 78 ms instead of 730 ms. It is only about
fairness; writers that don't know it (other programs) are kept out by SQLite's lock, as ever.
"""

from __future__ import annotations

import fcntl
import os
import time

from ..errors import BusBusy
from ..processes import start_thread
from .folder import locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from .folder import Folder

#: How long somebody who only looks has a lock at most, and between two tries, in seconds.
_LOOK_S, _NAP_S = 0.2, 0.005

#: The descriptors of this process's locks. A forked child gives its copies back at once: with
#: them it would keep a lock that its parent held when it was killed.
_descriptors: set[int] = set()


def _close_descriptors() -> None:
    while _descriptors:
        os.close(_descriptors.pop())


os.register_at_fork(after_in_child=_close_descriptors)


class FileLock:
    """An exclusive lock on a file, for one thread; freed by the kernel when the process dies.

    Args:
        path: the file; it is made where it is missing.
        folder: the folder that it is in, where that is one within a bus directory.
    """

    __slots__ = ("_fd", "_folder", "_path", "_pid", "_waiter")

    def __init__(self, path: str, folder: Folder | None = None) -> None:
        self._path = path
        self._folder = folder
        self._pid = os.getpid()
        self._fd = -1  # for __del__, in case the next line raises
        self._waiter: _Waiter | None = None
        self._fd = self._open()

    def try_acquire(self) -> bool:
        """Take the lock if it is free, without waiting; say whether it was."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def try_acquire_past_checks(self) -> bool:
        """Take the lock unless somebody keeps it; say whether it was taken.

        A check with `is_locked` has it for a moment, which is waited for.
        """
        end = time.monotonic() + _LOOK_S
        while not self.try_acquire():
            if time.monotonic() > end:
                return False
            time.sleep(_NAP_S)
        return True

    def acquire(self, timeout_s: float) -> None:
        """Wait for the lock.

        Raises:
            BusBusy: it was not free within `timeout_s`.
        """
        waiter = self._waiter
        if waiter is None or not waiter.queued:
            if self.try_acquire():
                return
            if waiter is None and timeout_s > 0:
                waiter = self._waiter = _Waiter(self._fd)
        if waiter is None or not waiter.wait(timeout_s):
            raise BusBusy(
                f"another process has held {self._path} for {timeout_s:g} s;"
                " look for a stopped process, then try again"
            )

    def release(self) -> None:
        """Free the lock for the next in the queue."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file descriptor back; more than once does nothing."""
        fd, self._fd = self._fd, -1
        if fd < 0 or os.getpid() != self._pid:  # in a forked child it is closed already
            return
        if self._waiter is None or self._waiter.end():
            _close(fd)

    def __del__(self) -> None:
        # A thread that ends takes its connection and its lock with it.
        self.close()

    def _open(self) -> int:
        folder, name = locate(self._path)
        fd = (self._folder or folder).change(name)
        _descriptors.add(fd)
        return fd


def is_locked(file: IO[bytes]) -> bool:
    """Whether somebody has the lock on a file. Others who look at the same time are no matter."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _close(fd: int) -> None:
    _descriptors.discard(fd)
    os.close(fd)


class _Waiter:
    """A thread that queues in the kernel for a lock, so that its user can stop waiting.

    flock() has no timeout. A wait that is given up leaves the thread in the queue. If its user
    comes back meanwhile, that place in the queue is taken up again; else the thread gives the lock
    back as soon as it gets it. So one lock never has more than one thread and one descriptor.
    """

    def __init__(self, fd: int) -> None:
        import threading  # loaded only by a process that has to wait

        self._fd = fd
        #: Whether the thread is in the queue; then no other thread may use the descriptor.
        self.queued = False
        self._wanted = self._held = self._ended = False
        self._state = threading.Lock()
        # Two locks as signals: nothing in `threading` wakes a thread faster.
        self._requested, self._granted = threading.Lock(), threading.Lock()
        self._requested.acquire()
        self._granted.acquire()
        start_thread(self._run, "ackbus-lock")

    def wait(self, timeout_s: float) -> bool:
        """Queue for the lock, or go on queueing, and say whether it was had in time."""
        with self._state:
            self._wanted = True
            if not self.queued:
                self.queued = True
                self._requested.release()
        granted = False
        try:
            granted = self._granted.acquire(timeout=timeout_s)
        finally:
            with self._state:
                self._wanted = False
                if self._held and not granted:  # its turn came at this very moment
                    self._granted.acquire(blocking=False)
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
                self._held = False
        return granted

    def end(self) -> bool:
        """End the thread. False: it is in the queue, and closes the descriptor after its turn."""
        with self._state:
            self._ended = True
            if self.queued:
                return False
            self._requested.release()
        return True

    def _run(self) -> None:
        while True:
            self._requested.acquire()
            if self._ended and not self.queued:
                return
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            with self._state:
                self.queued = False
                if self._wanted:
                    self._held = True
                    self._granted.release()
                    continue
                # Closing alone would not free it while a forked child still has the descriptor.
                fcntl.flock(self._fd, fcntl.LOCK_UN)
                if self._ended:
                    _close(self._fd)
                    return
