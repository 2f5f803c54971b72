"""Child processes whose end is known: no exit code is made up.

Where a program ignores SIGCHLD, or a part of it waits for any child, the kernel does not tell how a
child has ended, and `subprocess` says 0: a failure reads as success.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

from .errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: The longest between two looks at a child that has a limit, in seconds.
_LOOK_S = 0.05


class EndUnknown(AckbusError):
    """The end of a child process can't be known: this program keeps it from the library.

    Attributes:
        program: the child's program.
    """

    def __init__(self, program: str) -> None:
        self.program = program
        super().__init__(
            f"how {program} ends can't be known: this program ignores SIGCHLD, or waits for all"
            " children; set SIGCHLD to signal.SIG_DFL, and wait for your own children only"
        )


class ReapedChild(subprocess.Popen[bytes]):
    """A child process that is reaped here, or nowhere.

    Args:
        words: the program and its arguments.
        options: of `subprocess.Popen`, for bytes.

    Raises:
        EndUnknown: the kernel would not tell how it ends; it is not started.
        OSError: it can't be started.
    """

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            raise EndUnknown(words[0])
        self._program = words[0]
        self._reaping = threading.Lock()
        super().__init__(words, **options)

    def poll(self) -> int | None:
        """Return the exit code, as `subprocess` has it, or None while the child runs.

        Raises:
            EndUnknown: another part of this program has reaped it.
        """
        if self.returncode is None and self._reaping.acquire(blocking=False):
            try:
                self._reap(os.WNOHANG)
            finally:
                self._reaping.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code.

        Raises:
            EndUnknown: another part of this program has reaped it.
            TimeoutExpired: it runs on after so many seconds.
        """
        if timeout is None:
            with self._reaping:
                self._reap(0)
            return self.returncode
        until, nap_s = time.monotonic() + timeout, 0.0005
        while (code := self.poll()) is None:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(min(nap_s, left_s))
            nap_s = min(2 * nap_s, _LOOK_S)
        return code

    def _reap(self, options: int) -> None:
        """Take the exit code from the kernel, which gives it once."""
        if self.returncode is not None:
            return
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError as error:
            raise EndUnknown(self._program) from error
        if pid == self.pid:
            self.returncode = os.waitstatus_to_exitcode(status)


def run_child(
    words: Sequence[str], *, limit_s: float, stdin: bytes = b"", **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, and return its exit code and what it printed.

    Args:
        words: the program and its arguments.
        limit_s: after how many seconds it is killed.
        stdin: what it may read.
        options: of `subprocess.Popen`.

    Raises:
        EndUnknown, OSError: as for `ReapedChild`.
        TimeoutExpired: it reached the limit.
    """
    pipe = subprocess.PIPE
    with ReapedChild(words, stdin=pipe, stdout=pipe, stderr=pipe, **options) as child:
        try:
            out, err = child.communicate(stdin, limit_s)
        except BaseException:
            child.kill()
            raise
    return subprocess.CompletedProcess(words, child.returncode, out, err)
