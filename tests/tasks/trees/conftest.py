"""A bus, and a repository for its tasks."""

import os
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.tasks.records.task import Task
from ackbus.tasks.spawn import Spawner, TaskSpec

from ...cli.git import Git, git_env
from ...git_branches.conftest import repository


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git runs without the settings of whoever runs the tests, here and in all processes."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in git_env(os.environ).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def main(tmp_path: Path, alone: None) -> Git:
    """A repository with one commit on `main`."""
    return repository(tmp_path / "repo")


def spec(main: Git, task: str = "fix", **more: object) -> TaskSpec:
    """The specification of a task of `worker-1`."""
    return TaskSpec(**({"task": task, "worker": "worker-1", "folder": str(main.path)} | more))  # type: ignore[arg-type]


def spawned(bus: Bus, main: Git, task: str = "fix", **more: object) -> Task:
    return Spawner(bus).spawn(spec(main, task, **more), agent="lead")
