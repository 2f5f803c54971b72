"""A repository with branches to integrate, as tasks and without."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ackbus import Bus, Message
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.tasks.integrate.checks import Check
from ackbus.tasks.integrate.entries import Result
from ackbus.tasks.integrate.integrator import Integrator, Rules
from ackbus.tasks.integrate.requests import request
from ackbus.tasks.records.task import Task
from ackbus.tasks.records.task_table import Landing, Landings
from ackbus.tasks.steps.tasks import Tasks

from ...cli.git import Git, git_env
from ..conftest import new_task


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git runs without the settings of whoever runs the tests, here and in all processes."""
    env = git_env(os.environ)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)


@dataclass
class Yard:
    """A repository whose `main` has a file `a` of 30 lines and a file `b`, and the tasks of a bus.

    Attributes:
        git: its main work tree, which is on `main`.
        bus: its bus, by the real clock.
        results: what integrators told, in order.
        warnings: what they warned of.
    """

    git: Git
    bus: Bus
    results: list[Result] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> Tasks:
        return Tasks(self.bus)

    @property
    def place(self) -> RepositoryPlace:
        return RepositoryPlace.around(str(self.git.path))

    @property
    def main(self) -> str:
        """The commit that `main` is at."""
        return self.git.ok("rev-parse", "main")

    def branch(self, name: str, base: str = "main", **files: str) -> str:
        """A branch with one commit beyond a base; returns that. The main work tree stays."""
        aside = self.git.path.parent / "aside"
        self.git.ok("worktree", "add", "--quiet", "--detach", aside, base)
        there = Git(aside, self.git.env)
        for file, text in files.items():
            there.write(file, text=text)
        there.ok("commit", "--quiet", "--allow-empty", "-m", f"work of {name}")
        head = there.head
        self.git.ok("worktree", "remove", "--force", aside)
        self.git.ok("branch", "--force", name, head)
        return head

    def task(self, name: str, base: str = "main", **files: str) -> Task:
        """A task that is APPROVED, with one commit beyond a base."""
        head = self.branch(f"w/{name}", base, **files)
        return self.approve(name, head)

    def approve(self, name: str, head: str, **changed: object) -> Task:
        """A task that is APPROVED, at a commit."""
        new = new_task(
            name,
            **{
                "worker": "w",
                "branch": f"w/{name}",
                "path": str(self.git.path),
                "repository": self.place.common_dir,
                "base": self.main,
                "review": "none",
                **changed,
            },
        )
        task = self.tasks.assign(new, agent="lead")
        task = self.tasks.start(name, agent="w", token=task.token)
        return self.tasks.done(name, agent="w", token=task.token, head=head)

    def integrator(self, *checks: str | Check, **rules: object) -> Integrator:
        """An integrator into `main`."""
        made = Rules(
            checks=tuple(each if isinstance(each, Check) else Check(each) for each in checks),
            **rules,  # type: ignore[arg-type]
        )
        return Integrator(
            self.bus,
            str(self.git.path),
            made,
            tell=self.results.append,
            warn=self.warnings.append,
        )

    def integrate(self, *checks: str | Check, **rules: object) -> dict[str, str]:
        """Integrates what waits; returns the outcomes of this run, by task or branch."""
        before = len(self.results)
        self.integrator(*checks, **rules).run(once=True)
        return {each.entry.name: each.outcome for each in self.results[before:]}

    def ask(self, *branches: str, **rules: object) -> None:
        """Puts branches without tasks into the queue."""
        request(self.bus, self.place, Rules(**rules), branches)  # type: ignore[arg-type]

    def said(self, type: str) -> list[Message]:
        """The messages of a type, in order."""
        return list(self.bus.read(type=type))

    def landings(self, task: str) -> list[Landing]:
        return Landings.of(self.bus).of_task(task)

    def subjects(self) -> list[str]:
        """The commits of main's own line, the newest first."""
        return self.git.ok("log", "--first-parent", "--format=%s", "main").splitlines()


def lines(**changed: str) -> str:
    """The text of a file of 30 lines, some of them changed: `l5="five"`."""
    return "".join(f"{changed.get(f'l{number}', number)}\n" for number in range(1, 31))


def repository(path: Path) -> Git:
    """A repository with a commit on `main`."""
    path.mkdir()
    git = Git(path, dict(os.environ))
    git.ok("init", "--quiet")
    git.ok("config", "user.name", "Integra Tor")
    git.ok("config", "user.email", "integra@example.org")
    git.write("a", text=lines())
    git.commit("b", text="b\n")
    return git


def bare_remote(yard: Yard) -> Git:
    """A bare repository that is `origin`, with the same `main`."""
    path = yard.git.path.parent / "origin.git"
    yard.git.ok("clone", "--quiet", "--bare", yard.git.path, path)
    yard.git.ok("remote", "add", "origin", path)
    return Git(path, yard.git.env)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with Bus.init(tmp_path / "bus") as bus:
        yield Yard(repository(tmp_path / "repo"), bus)
