"""The roles of the demo as processes of `bus`: planner, workers, integrator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from .project import CHECK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from .project import Project

#: The agents.
WORKERS = ("ada", "bob", "cleo")

#: For how long a job is a worker's without a renewal: so soon another one has that of a killed one.
_LEASE = "6s"

#: How long roles get to end by themselves, in seconds, before they are killed.
_END_WITHIN_S = 10.0

#: The command `bus`, whatever of that name is on the PATH.
_BUS = "import sys; from {package}.cli import main; sys.exit(main())"


class Team:
    """The roles, running; leaving the `with` block ends them.

    Args:
        directory: the bus.
        project: their project.
    """

    def __init__(self, directory: str, project: Project) -> None:
        self._directory = directory
        self._project = project
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a role: a worker by its name, `planner` or `integrator`."""
        place = ("--dir", self._directory)
        words: tuple[str, ...]
        if name == "planner":
            words = ("task", "plan", *place, "--", self._project.planner)
        elif name == "integrator":
            words = ("integrate", "--into", "main", "--check", CHECK, *place)
        else:
            tree = ("--lease", _LEASE, "--into", "main")
            words = ("task", "work", "--worker", name, *tree, *place, "--", self._project.agent)
        package = __package__.partition(".")[0] if __package__ else ""
        log = Path(self._project.meeting, f"{name}.log")
        with log.open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-c", _BUS.format(package=package), *words],
                cwd=self._project.repository,
                env=os.environ | {"DEMO": self._project.meeting},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )

    def kill(self, name: str) -> int:
        """End a role with SIGKILL, and return the id of the process that it was."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        return process.pid

    def ended(self) -> list[str]:
        """Return the roles that ended by themselves, each with the last line that it printed."""
        return [
            f"{name}: {self._last_line(name)}"
            for name, process in self._processes.items()
            if process.poll() is not None
        ]

    def _last_line(self, name: str) -> str:
        text = Path(self._project.meeting, f"{name}.log").read_text("utf-8", "replace")
        return (text.splitlines() or ["it printed nothing"])[-1]

    def __enter__(self) -> Team:
        for name in ("planner", "integrator", *WORKERS):
            self.start(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
