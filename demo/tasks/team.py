"""The roles of the demo as processes of `bus`: planner, workers, integrator."""

from __future__ import annotations

from pathlib import Path

from ..stage import Processes
from .project import CHECK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .project import Project

#: The agents.
WORKERS = ("ada", "bob", "cleo")

#: For how long a job is a worker's without a renewal: so soon another one has that of a killed one.
_LEASE = "6s"

#: The command `bus`, whatever of that name is on the PATH.
_BUS = "import sys; from {package}.cli import main; sys.exit(main())"


class Team(Processes):
    """The roles, each from its start; leaving the `with` block ends them.

    Args:
        directory: the bus.
        project: their project.
    """

    def __init__(self, directory: str, project: Project) -> None:
        super().__init__()
        self._directory = directory
        self._project = project

    def begin(self) -> None:
        """Start all roles."""
        for name in ("planner", "integrator", *WORKERS):
            code = _BUS.format(package=str(__package__).partition(".")[0])
            self.start(
                name,
                ("-c", code, *self._command(name)),
                log=self._log(name),
                cwd=self._project.repository,
                variables={"DEMO": self._project.meeting},
            )

    def ends(self) -> str:
        """Return the roles that ended by themselves since the last call, with their last lines."""
        return "; ".join(f"{name} has ended: {self._last_line(name)}" for name in self.lost())

    def _command(self, name: str) -> tuple[str, ...]:
        """Return the command of a role: a worker by its name, `planner` or `integrator`."""
        place = ("--dir", self._directory)
        if name == "planner":
            return ("task", "plan", *place, "--", self._project.planner)
        if name == "integrator":
            return ("integrate", "--into", "main", "--check", CHECK, *place)
        tree = ("--lease", _LEASE, "--into", "main")
        return ("task", "work", "--worker", name, *tree, *place, "--", self._project.agent)

    def _last_line(self, name: str) -> str:
        text = self._log(name).read_text("utf-8", "replace")
        return (text.splitlines() or ["it printed nothing"])[-1]

    def _log(self, name: str) -> Path:
        return Path(self._project.meeting, f"{name}.log")
