"""The demo's agents as processes: started, watched, killed, and never left behind."""

from __future__ import annotations

import subprocess
import sys

from .protocol import COORDINATOR, WORKERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

#: How long agents get to end by themselves, in seconds, before they are killed.
END_WITHIN_S = 10.0


class Crew:
    """The processes of one run. Leaving the `with` block ends them all.

    Args:
        directory: the bus.
        root: the real path of the directory that is examined.
    """

    def __init__(self, directory: str, root: str) -> None:
        self._common = (directory, root)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lost: set[str] = set()

    def start_coordinator(self) -> None:
        """Start the agent that assigns the tasks."""
        self._start(COORDINATOR, "coordinator", *self._common)

    def start_workers(self, hold_at_grant: int) -> None:
        """Start the workers; the one whose lease has this token will hold still."""
        for agent in WORKERS:
            self._start(agent, "worker", *self._common, agent, str(hold_at_grant))

    def kill(self, agent: str) -> int:
        """End an agent with SIGKILL, and return the id of the process that it was."""
        process = self._processes.pop(agent)
        _kill(process)
        return process.pid

    def newly_lost(self) -> list[str]:
        """Return the agents that ended with an error since the last call."""
        failed = {name for name, process in self._processes.items() if process.poll()}
        lost = sorted(failed - self._lost)
        self._lost |= failed
        return lost

    def can_go_on(self) -> bool:
        """Whether the remaining agents can finish the run."""
        workers = self._processes.keys() & set(WORKERS)  # none before they are started
        return COORDINATOR not in self._lost and (not workers or bool(workers - self._lost))

    def wait(self) -> None:
        """Wait until every agent has ended by itself.

        Raises:
            subprocess.TimeoutExpired: one did not.
        """
        for process in self._processes.values():
            process.wait(END_WITHIN_S)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            _cut_lifeline(process)
        for process in self._processes.values():
            try:
                process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                _kill(process)

    def _start(self, agent: str, module: str, *args: str) -> None:
        # -P: a file in the working directory must not pass for a module. A process group of its
        # own: Ctrl-C in a terminal reaches the demo alone, which then ends its agents.
        self._processes[agent] = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.{module}", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    _cut_lifeline(process)


def _cut_lifeline(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
