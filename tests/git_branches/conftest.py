"""Fixtures of branches: a repository that knows nobody's settings."""

import os
from pathlib import Path

import pytest

from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.work_trees import WorkTrees

from ..cli.git import Git, git_env


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git runs without the settings of whoever runs the tests, here and in all processes."""
    env = git_env(os.environ)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def main(tmp_path: Path, alone: None) -> Git:
    """A repository with one commit on `main`."""
    return repository(tmp_path / "repo")


@pytest.fixture
def trees(main: Git) -> WorkTrees:
    """The work trees of its tasks."""
    return WorkTrees(RepositoryPlace.around(str(main.path)))


def repository(path: Path, *options: str) -> Git:
    """Makes a repository with one commit on `main`."""
    path.mkdir(parents=True)
    git = Git(path, dict(os.environ))
    git.ok("init", "--quiet", *options)
    git.commit("file", text="first\n")
    return git


def at(path: str | Path) -> Git:
    """Git in a work tree."""
    return Git(Path(path), dict(os.environ))


def has_ended(pid: int) -> bool:
    """Whether a process is no more, or waits for nothing but its parent's look at it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
