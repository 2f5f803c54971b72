"""The stage of every demo: its folder, its processes, and waits that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from ..schema.directory.layout import Layout
from ..schema.errors import AckbusError, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    #: Prints one line about the run.
    Say = Callable[[str], object]
    #: Shows how much of a total is done: the context's function takes the amount.
    Progress = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]

#: How long anything may take, in seconds, before the demo gives up; and how often it looks: as
#: often as a person can see a difference.
TIMEOUT_S, LOOK_EVERY_S = 60.0, 0.05

#: How long processes get to end by themselves, in seconds, before they are killed.
_END_WITHIN_S = 10.0


def named_bus(directory: str | None) -> str | None:
    """Return the real path of the directory that a user named for the bus, or None.

    Raises:
        Refused: it holds a bus: its agents could have the names of the demo's.
    """
    if directory is None:
        return None
    if os.path.exists(Layout(directory).database):
        raise Refused(
            f"{directory} holds a bus already, and the demo makes its own; choose another"
            " directory with --dir"
        )
    return os.path.realpath(directory)


def fresh_folder() -> str:
    """Make a temporary folder, and return its real path."""
    return os.path.realpath(tempfile.mkdtemp(prefix="ackbus-demo-"))


def wait_until(is_done: Callable[[], object], what: str, troubles: Callable[[], object]) -> None:
    """Wait until something has happened.

    Args:
        is_done: whether it has happened.
        what: what happens, in words.
        troubles: returns what keeps it from happening; a false value where nothing does.

    Raises:
        AckbusError: there is trouble, or it takes too long.
    """
    ends = time.monotonic() + TIMEOUT_S
    while not is_done():
        if trouble := troubles():
            raise AckbusError(f"this does not happen: {what}; {trouble}")
        if time.monotonic() > ends:
            raise AckbusError(f"this does not happen within {TIMEOUT_S:g} s: {what}")
        time.sleep(LOOK_EVERY_S)


class Processes:
    """The processes of one run. Leaving the `with` block ends them all, with what they started."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def names(self) -> list[str]:
        """The names of the processes that were started, and neither killed nor lost."""
        return list(self._processes)

    def start(
        self,
        name: str,
        words: Iterable[str],
        *,
        lifeline: bool = False,
        log: Path | None = None,
        cwd: str | None = None,
        variables: dict[str, str] | None = None,
    ) -> None:
        """Start this Python with some arguments.

        Args:
            name: its name here.
            words: its arguments, such as `-m` and a module.
            lifeline: ask it to end by closing its standard input, and not by SIGTERM.
            log: the file that its output is appended to; None: nowhere.
            cwd: its working directory; None: that of the demo.
            variables: what is added to its environment.
        """
        # -P: a file in the working directory must not pass for a module. A process group of its
        # own: Ctrl-C in a terminal reaches the demo alone, which then ends its processes.
        with open(log or os.devnull, "ab") as output:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-P", *words],
                cwd=cwd,
                env=os.environ | (variables or {}),
                stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
                stdout=output,
                stderr=None if log is None else output,
                process_group=0,
            )

    def kill(self, name: str) -> int:
        """End a process with SIGKILL, and return its id."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        _ask_to_end(process)
        return process.pid

    def lost(self) -> list[str]:
        """Return the names of processes that ended by themselves since the last call."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        for name in ended:
            _ask_to_end(self._processes.pop(name))
        return ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            _ask_to_end(process)
        for process in self._processes.values():
            try:
                process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, by closing its input or by SIGTERM."""
    if process.stdin is not None:
        process.stdin.close()
    else:
        process.send_signal(signal.SIGTERM)  # does nothing if the process has ended
