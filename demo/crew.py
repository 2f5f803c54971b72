"""The demo's workers as processes: started, watched, killed, and never left behind."""

from __future__ import annotations

import subprocess
import sys

from .protocol import WORKERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

#: How long workers get to end by themselves, in seconds, before they are killed.
END_WITHIN_S = 10.0


class Crew:
    """The workers of one run. Leaving the `with` block ends them all.

    Args:
        directory: the bus.
        root: the real path of the directory that is examined.
        held_seq: the task with which a worker holds still.
    """

    def __init__(self, directory: str, root: str, held_seq: int) -> None:
        self._arguments = (directory, root)
        self._held_seq = held_seq
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def kill(self, name: str) -> int:
        """End a worker with SIGKILL, and return the id of the process that it was."""
        process = self._processes.pop(name)
        _kill(process)
        return process.pid

    def lost(self) -> list[str]:
        """Return the workers that ended by themselves since the last call."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        for name in ended:
            _kill(self._processes.pop(name))
        return ended

    @property
    def names(self) -> list[str]:
        """The workers that are left."""
        return list(self._processes)

    def __enter__(self) -> Crew:
        for name in WORKERS:
            # -P: a file in the working directory must not pass for a module. A process group of its
            # own: Ctrl-C in a terminal reaches the demo alone, which then ends its workers.
            self._processes[name] = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", f"{__package__}.worker"),
                    *(*self._arguments, name, str(self._held_seq)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                process_group=0,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            _close(process)
        for process in self._processes.values():
            try:
                process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
