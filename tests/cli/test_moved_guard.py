"""The guard in a repository that has moved away from its hooks, whose path is absolute."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.git.guard import moved_hooks

from ..conftest import RunBus
from .git import Git, git_env

pytestmark = pytest.mark.slow  # starts many processes


@pytest.fixture
def git(project: Path, bus_dir: Path, bus_env: dict[str, str]) -> Git:
    """A repository with one commit, around a bus."""
    made = Git(project, git_env(bus_env))
    made.ok("init", "--quiet")
    made.commit("file")
    return made


def _moved(folder: Path) -> Path:
    return folder.rename(folder.parent / "moved")


def _copied(folder: Path) -> Path:
    return Path(shutil.copytree(folder, folder.parent / "copied", symlinks=True))


@pytest.mark.parametrize("way", [_moved, _copied])
def test_hooks_that_git_does_not_find_are_told(
    git: Git, run_bus: RunBus, way: Callable[[Path], Path]
) -> None:
    """Issue 31, item 11: git says nothing of a path of hooks that leads to nowhere."""
    assert run_bus("guard", "install").code == 0
    assert moved_hooks(str(git.path)) is None
    there = way(git.path)
    words = f"belong at {there}/.git/ackbus-hooks: it was moved or copied"
    (found,) = _guard_of(run_bus("doctor", "--json", cwd=there).out)
    assert (found["state"], words in found["text"]) == ("warn", True), found
    assert "bus guard install" in found["advice"]
    told = run_bus("guard", "check", cwd=there, env=git.env)
    assert (told.code, words in told.err) == (0, True), told
    assert run_bus("guard", "install", cwd=there, env=git.env).code == 0
    assert [each["state"] for each in _guard_of(run_bus("doctor", "--json", cwd=there).out)] == [
        "ok"
    ]
    assert run_bus("guard", "check", cwd=there, env=git.env).err == ""


def _guard_of(lines: str) -> list[dict[str, str]]:
    return [found for found in map(json.loads, lines.splitlines()) if found["check"] == "guard"]


def _outside(git: Git) -> Path:
    return git.path.parent


def _without_a_guard(git: Git) -> Path:
    return git.path


def _with_hooks_of_others(git: Git) -> Path:
    git.ok("config", "core.hooksPath", "/nowhere/of/another/tool")
    return git.path


def _with_another_tools_since(git: Git) -> Path:
    git.ok("config", "ackbus.guardHooks", str(git.path / ".git" / "ackbus-hooks"))
    return _with_hooks_of_others(git)


def _in_a_linked_tree(git: Git) -> Path:
    own = str(git.path / ".git" / "ackbus-hooks")
    for name in ("core.hooksPath", "ackbus.guardHooks"):
        git.ok("config", name, own)
    git.ok("worktree", "add", "--quiet", "--detach", "../linked")
    (git.path.parent / "linked" / "sub").mkdir()
    return git.path.parent / "linked" / "sub"


@pytest.mark.parametrize(
    "where",
    [
        *(_outside, _without_a_guard, _with_hooks_of_others, _with_another_tools_since),
        _in_a_linked_tree,
    ],
)
def test_nothing_is_told_of_what_is_not_the_guards_or_is_well(
    git: Git, where: Callable[[Git], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in git.env.items():
        monkeypatch.setenv(name, value)
    assert moved_hooks(os.fspath(where(git))) is None
