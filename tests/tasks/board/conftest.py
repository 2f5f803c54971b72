"""A repository with a bus, and tasks on branches of it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.tasks.records.task import Task
from ackbus.tasks.steps.tasks import Tasks

from ...git_branches.plain_git import commit, git
from ...subscribers.conftest import Clock
from ..conftest import new_task


@dataclass(frozen=True)
class Workshop:
    """A repository whose branch `main` has the files `a` and `b`, and the tasks of a bus."""

    path: Path
    bus: Bus
    tasks: Tasks
    clock: Clock

    def begin(self, name: str, worker: str = "worker-1", **changed: object) -> Task:
        """A task that is WORKING, on a branch at the newest commit of main."""
        base = git(self.path, "rev-parse", "main")
        git(self.path, "branch", "--force", f"{worker}/{name}", base)
        fields: dict[str, object] = {
            "worker": worker,
            "branch": f"{worker}/{name}",
            "path": str(self.path),
            "repository": str(self.path / ".git"),
            "base": base,
        }
        new = new_task(name, **(fields | changed))
        task = self.tasks.assign(new, agent="lead")
        return self.tasks.start(name, agent=worker, token=task.token)

    def commit(self, task: Task, **files: str) -> str:
        """A commit more on the branch of a task."""
        made = commit(self.path, task.branch, task.branch, **files)
        git(self.path, "checkout", "--quiet", "--detach", "main")
        return made

    def finish(self, task: Task, **files: str) -> Task:
        """A commit more, and the task is done."""
        head = self.commit(task, **files)
        return self.tasks.done(task.task, agent=task.worker, token=task.token, head=head)


@pytest.fixture
def workshop(
    tmp_path: Path, bus: Bus, tasks: Tasks, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Workshop:
    """The repository is that of the working directory: git looks into no other one."""
    path = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "-b", "main", str(path))
    (path / "a").write_text("1\n2\n3\n")
    (path / "b").write_text("1\n2\n3\n")
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", "first")
    git(path, "checkout", "--quiet", "--detach")
    monkeypatch.chdir(path)
    return Workshop(path, bus, tasks, clock)
