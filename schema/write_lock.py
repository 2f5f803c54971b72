"""The write lock: a kernel file lock that writers take before SQLite's own.

SQLite's busy handler sleeps and tries again, so under many writers an unlucky one waits very
long. A queue in the kernel is fair: in the measurement behind this, the slowest of 32 writers
waited 78 ms instead of 730 ms. The lock is only about fairness; writers that don't know it (other
programs) are kept out by SQLite's lock, as ever.
"""

from __future__ import annotations

import fcntl
import os

from .errors import BusBusy


class WriteLock:
    """One thread's handle on the write lock of a bus. The kernel frees it if the process dies."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self, timeout_s: float) -> None:
        """Wait for the lock.

        Raises:
            BusBusy: it was not free within `timeout_s`.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(timeout_s)

    def release(self) -> None:
        """Free the lock for the next writer."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file descriptor back; more than once does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # A thread that ends takes its connection and its lock with it.
        self.close()

    def _wait(self, timeout_s: float) -> None:
        """Queue in the kernel. flock() has no timeout, so a thread waits that may be left behind.

        A thread that is left behind keeps the old descriptor, and closes it when its turn comes.
        """
        import threading  # loaded only by a process that has to wait

        fd, ended, state = self._fd, threading.Event(), threading.Lock()
        granted = abandoned = False

        def wait() -> None:
            nonlocal granted
            fcntl.flock(fd, fcntl.LOCK_EX)
            with state:
                granted = True
                if abandoned:
                    os.close(fd)
            ended.set()

        threading.Thread(target=wait, name="ackbus-write-lock", daemon=True).start()
        if ended.wait(timeout_s):
            return
        with state:  # it may have been granted at this very moment
            if not granted:
                abandoned = True
        if abandoned:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            raise BusBusy(
                f"another process has held the write lock of the bus for {timeout_s:g} s;"
                " look for a stopped process, then try again"
            )
