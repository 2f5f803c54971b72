"""How much does the bus add to an integration, beside git and the check?

Each round lands the same number of approved tasks one by one, each with a candidate, a check in a
work tree, and the move of the target. The time that processes of git and checks take is measured
where they are run, and taken off.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forecast import commit, name, text
from measure import Contender, at_most, compare, options, record, spreads, summary

from ackbus import Bus
from ackbus.git.repository import Repository
from ackbus.tasks.integrate import lander
from ackbus.tasks.integrate.checks import CheckCommand
from ackbus.tasks.integrate.integrator import Integrator, IntegratorRules
from ackbus.tasks.records.task import NewTask
from ackbus.tasks.steps.tasks import Tasks

_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "b"), ("EMAIL", "b@example.com"))
}


class Beside:
    """Adds up the seconds that processes of git and checks take."""

    def __init__(self) -> None:
        self.seconds = 0.0
        Repository.run = self._timed(Repository.run)  # type: ignore[method-assign]
        lander.run_check = self._timed(lander.run_check)

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            begun = time.perf_counter()
            try:
                return call(*args, **more)
            finally:
                self.seconds += time.perf_counter() - begun

        return timed


class Work:
    """A repository, and tasks on branches of it, which are made as they are needed."""

    def __init__(self, folder: Path, bus: Bus, files: int) -> None:
        self.folder, self.bus = folder, bus
        self._files, self._made = files, 0
        subprocess.run(["git", "init", "--quiet", "-b", "main", folder], check=True)
        self._load(commit("main", None, {name(number): text(number) for number in range(files)}))
        self._git("checkout", "--quiet", "--detach", "main")

    def approve(self, tasks: int) -> None:
        """Make tasks that are approved, each with one file of its own changed."""
        steps, base = Tasks(self.bus), self._git("rev-parse", "main")
        for _ in range(tasks):
            self._made += 1
            own, branch = f"task-{self._made}", f"w/task-{self._made}"
            self._load(commit(branch, "refs/heads/main^0", {f"new/{own}": own}))
            new = NewTask(
                task=own,
                worker="w",
                branch=branch,
                path=str(self.folder),
                repository=os.path.realpath(self.folder / ".git"),
                base_ref="main",
                base=base,
                target="main",
                review="none",
            )
            task = steps.assign(new, agent="lead")
            steps.start(own, agent="w", token=task.token)
            steps.done(own, agent="w", token=task.token, head=self._git("rev-parse", branch))

    def _load(self, stream: Any) -> None:
        command = ["git", "fast-import", "--quiet"]
        subprocess.run(command, cwd=self.folder, input="".join(stream).encode(), check=True)

    def _git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()


def landing(work: Work, beside: Beside, tasks: int, *, own: bool) -> Contender:
    """The seconds of one integration: of the bus alone, or all of it."""

    def run() -> float:
        work.approve(tasks)
        results: list[object] = []
        rules = IntegratorRules(checks=(CheckCommand("test -d new"),), batch=1)
        integrator = Integrator(work.bus, str(work.folder), rules, tell=results.append)
        before, begun = beside.seconds, time.perf_counter()
        integrator.run(once=True)
        took = time.perf_counter() - begun
        assert len(results) == tasks
        return (took - (beside.seconds - before if own else 0.0)) / tasks

    return run


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    files, tasks = settings.scaled(2_000, 50), settings.scaled(20, 2)
    os.environ.update(_IDENTITY)
    beside = Beside()
    with (
        tempfile.TemporaryDirectory(prefix="ackbus-bench-") as temporary,
        Bus.init(Path(temporary, "bus")) as bus,
    ):
        work = Work(Path(temporary, "repository"), bus, files)
        contenders = {
            "the bus": landing(work, beside, tasks, own=True),
            "bus, git and check": landing(work, beside, tasks, own=False),
        }
        times = compare(contenders, settings.rounds)
    record(
        f"an integration, {files} files",
        spreads(times),
        settings,
        targets=[
            at_most(
                "milliseconds that the bus adds",
                30,
                summary([1000 * seconds for seconds in times["the bus"]]),
            )
        ],
        conditions={"tasks in a round": tasks},
    )


if __name__ == "__main__":
    main()
