"""Child processes whose end is known: no exit code is made up.

Where a program ignores SIGCHLD, or a part of it waits for any child, the kernel does not tell how a
child has ended, and `subprocess` says 0: a failure reads as success.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress

from .errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import IO, Any, Self

#: The longest between two looks at a child that has a limit, in seconds.
_LOOK_S = 0.05

#: How long a child may take to end, in seconds: at its limit after SIGTERM, and after SIGKILL.
_ENDING_S = 5.0

#: How long processes that were asked to end get, in seconds, before they are killed.
_END_WITHIN_S = 10.0


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
        fd = exit_descriptor(self.pid) if self.poll() is None else None
        try:
            while (code := self.poll()) is None:
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise subprocess.TimeoutExpired(self.args, timeout)
                if fd is None:
                    time.sleep(min(nap_s, left_s))
                    nap_s = min(2 * nap_s, _LOOK_S)
                else:
                    _until_readable(fd, left_s)
        finally:
            if fd is not None:
                os.close(fd)
        return code

    def ask_to_end(self) -> None:
        """Ask it to end: by closing its input, or else by SIGTERM."""
        if self.stdin is not None:
            self.stdin.close()
        else:
            self.send_signal(signal.SIGTERM)  # does nothing if it has ended

    def end_group(self, grace_s: float, *, asked: bool = False) -> None:
        """End it and the group that it leads: SIGTERM, after which git removes its locks; SIGKILL.

        Args:
            grace_s: how long it has until SIGKILL, in seconds.
            asked: whether it was asked to end already; then no SIGTERM is sent.
        """
        steps = ((signal.SIGTERM, grace_s), (signal.SIGKILL, _ENDING_S))
        for number, within_s in steps:
            if not (asked and number == signal.SIGTERM):
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.wait(within_s)

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


def exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that is readable when a child has exited; None where none can be had."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox, too many open files
        return None


def _until_readable(fd: int, seconds: float) -> None:
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    ready.poll(seconds * 1000)


class ExitedChild:
    """The end of a child process that ended by itself.

    It is no dataclass: hooks use it, and a commit would wait until `dataclasses` is loaded.

    Attributes:
        code: its exit code; of a signal that ended it, the negative number.
        out, err: what it printed.
        is_too_much: whether it reached the limit of its output; then `out` is empty.
    """

    __slots__ = ("code", "err", "is_too_much", "out")

    def __init__(self, code: int, out: bytes, err: bytes, *, is_too_much: bool = False) -> None:
        self.code, self.out, self.err = code, out, err
        self.is_too_much = is_too_much


def run_child(
    words: Sequence[str],
    *,
    limit_s: float | None,
    stdin: bytes = b"",
    bounds: Mapping[str, int] | None = None,
    starting: Callable[[], AbstractContextManager[object]] = nullcontext,
    **options: Any,
) -> ExitedChild | None:
    """Run a program in a session of its own; None: it reached its limit, and was ended.

    Args:
        words: the program and its arguments.
        limit_s: after how many seconds it is ended, with its group; None: it has no limit.
        stdin: what it may read; there is no terminal.
        bounds: as for `bound`; with `RLIMIT_FSIZE`, of what it prints.
        starting: stands around its start, so that no exception comes in the middle of it.
        options: of `subprocess.Popen`.

    Raises:
        EndUnknown, OSError: as for `ReapedChild`.
    """
    bounds = bounds or {}
    # Files instead of pipes: what it leaves in the background would hold a pipe open.
    with _unnamed_file() as source, _unnamed_file() as out, _unnamed_file() as err:
        source.write(stdin)
        source.seek(0)
        files = {"stdin": source, "stdout": out, "stderr": err}
        child: ReapedChild | None = None
        try:
            with starting():
                child = ReapedChild(words, start_new_session=True, **files, **options)
            bound(child, bounds)
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if child is not None and child.poll() is None:
                child.end_group(_ENDING_S)
        most = bounds.get("RLIMIT_FSIZE")
        is_too_much = most is not None and out.seek(0, os.SEEK_END) >= most
        out.seek(0)
        err.seek(0)
        printed = b"" if is_too_much else out.read()
        return ExitedChild(child.returncode, printed, err.read(), is_too_much=is_too_much)


def _unnamed_file() -> IO[bytes]:
    """Open a file without a name, in memory on Linux: hooks load no `tempfile` for it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("ackbus"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


def bound(child: ReapedChild, bounds: Mapping[str, int]) -> None:
    """Bound resources of a child, by their names in `resource`; only Linux can."""
    if not bounds or sys.platform != "linux":
        return
    import resource

    for name, value in bounds.items():
        kind = getattr(resource, name)
        with suppress(ProcessLookupError):  # it has ended already
            _, most = resource.prlimit(child.pid, kind)
            if most == resource.RLIM_INFINITY or most > value:
                resource.prlimit(child.pid, kind, (value, value))


class PythonProcesses:
    """Processes of this Python, by names. Leaving the `with` block ends them, with their groups."""

    def __init__(self) -> None:
        self._children: dict[str, ReapedChild] = {}

    @property
    def names(self) -> list[str]:
        """The names of the processes that were started, and neither killed nor lost."""
        return list(self._children)

    def __getitem__(self, name: str) -> ReapedChild:
        return self._children[name]

    def start(
        self,
        name: str,
        words: Iterable[str],
        *,
        lifeline: bool = False,
        log: str | Path | None = None,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start this Python with some arguments.

        Args:
            name: its name here.
            words: its arguments, such as `-m` and a module.
            lifeline: ask it to end by closing its standard input, and not by SIGTERM.
            log: the file that its output is appended to; None: nowhere.
            cwd: its working directory; None: that of this process.
            variables: what is added to its environment.
        """
        # -P: a file in the working directory must not pass for a module. A process group of its
        # own: Ctrl-C in a terminal reaches this process alone, which then ends the others.
        with open(log or os.devnull, "ab") as output:
            self._children[name] = ReapedChild(
                [sys.executable, "-P", *words],
                cwd=cwd,
                env={**os.environ, **(variables or {})},
                stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
                stdout=output,
                stderr=None if log is None else output,
                process_group=0,
            )

    def kill(self, name: str) -> int:
        """End a process with SIGKILL, and return its id."""
        child = self._children.pop(name)
        child.kill()
        child.wait()
        child.ask_to_end()  # it has ended: this closes its input
        return child.pid

    def lost(self) -> dict[str, int]:
        """Return the exit codes of processes that ended by themselves since the last call."""
        codes = {name: code for name, c in self._children.items() if (code := c.poll()) is not None}
        for name in codes:
            self._children.pop(name).ask_to_end()  # this closes its input
        return codes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._children.values():
            child.ask_to_end()
        until = time.monotonic() + _END_WITHIN_S
        for child in self._children.values():
            child.end_group(max(0.0, until - time.monotonic()), asked=True)
