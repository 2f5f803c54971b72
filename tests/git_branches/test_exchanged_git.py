"""The `.git` of a tree, or of a folder in it, may have been exchanged: nothing of it is run.

A task's agent may write its tree, but not the repository. What acts there afterwards, perhaps as
another user, goes by what the repository itself says.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackbus.git.remote_target import CheckTree
from ackbus.git.repository import GitFailed
from ackbus.git.trees.removal import Removal
from ackbus.git.trees.rescue import Rescue
from ackbus.git.trees.tree_list import LinkedTree
from ackbus.git.trees.tree_state import TreeState, read_state
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.errors import Refused
from ackbus.tasks.roles.job_tree import Author, commit_leftovers

from ..cli.git import Git
from .conftest import at, repository

Exchange = Callable[[Path, Path], None]


def _set_trap(git: Git, command: Path) -> None:
    """Has git run a command when it reads the files around a repository."""
    git.ok("config", "filter.f.clean", str(command))
    git.ok("config", "filter.f.process", str(command))
    git.ok("config", "core.fsmonitor", str(command))
    git.ok("config", "core.hooksPath", str(command.parent))
    (git.path / ".gitattributes").write_text("* filter=f\n")


def _by_folder(tree: Path, command: Path) -> None:
    other = repository(tree.parent / "other")
    other.ok("checkout", "--quiet", "-b", "w/fix")
    (tree / ".git").unlink()
    shutil.move(other.path / ".git", tree / ".git")
    _set_trap(at(tree), command)


def _by_file(tree: Path, command: Path) -> None:
    other = repository(tree.parent / "other")
    other.ok("checkout", "--quiet", "-b", "w/fix")
    _set_trap(other, command)
    (tree / ".gitattributes").write_text("* filter=f\n")
    (tree / ".git").write_text(f"gitdir: {other.path}/.git\n")


def _in_a_folder(tree: Path, command: Path) -> None:
    """A repository by itself, of which the tree's one has the commit."""
    inner = repository(tree / "inner")
    at(tree).ok("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    at(tree).ok("commit", "--quiet", "-m", "inner")
    _set_trap(inner, command)
    (inner.path / "file").write_text("changed\n")


def _in_a_folder_by_file(tree: Path, command: Path) -> None:
    _in_a_folder(tree, command)
    shutil.move(tree / "inner" / ".git", tree.parent / "elsewhere")
    (tree / "inner" / ".git").write_text(f"gitdir: {tree.parent}/elsewhere\n")


EXCHANGES = (_by_folder, _by_file, _in_a_folder, _in_a_folder_by_file)


def _commit(trees: WorkTrees, tree: LinkedTree) -> TreeState:
    base = trees.place.commit("main")
    task = SimpleNamespace(task="fix", attempt=1, base=base, branch="w/fix")
    return commit_leftovers(tree, task, "prompt", Author("a", "a@example.com"))  # type: ignore[arg-type]


ACTS: dict[str, Callable[[WorkTrees, LinkedTree], object]] = {
    "look": lambda trees, tree: read_state(tree, "HEAD"),
    "commit": _commit,
    "keep": lambda trees, tree: Rescue(trees.place).files_of("fix", tree, tree.head or ""),
    "remove": lambda trees, tree: Removal(trees).remove("fix", "w/fix"),
    "remove-and-keep": lambda trees, tree: Removal(trees).remove("fix", None, keeps_files=True),
}


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A command that leaves a mark."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for name in ("command", "pre-commit", "post-index-change", "reference-transaction"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
        (folder / name).chmod(0o755)
    return folder / "command"


def prepare(trees: WorkTrees, exchange: Exchange, command: Path) -> LinkedTree:
    """Makes the tree of a task, in which something is exchanged and something changed."""
    made = trees.make(NewTree("fix", "w/fix", trees.place.commit("HEAD")))
    exchange(Path(made.path), command)
    (Path(made.path) / "file").write_text("changed\n")
    (Path(made.path) / "new").write_text("new\n")
    tree = trees.of("fix")
    assert tree is not None
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_what_acts_in_a_tree_runs_nothing_that_was_put_there(
    exchange: Exchange, act: str, trees: WorkTrees, command: Path, tmp_path: Path
) -> None:
    tree = prepare(trees, exchange, command)
    (tmp_path / "ran").unlink(missing_ok=True)
    with suppress(Refused, GitFailed):
        ACTS[act](trees, tree)
    assert not (tmp_path / "ran").exists()
    assert (Path(tree.path) / "new").exists()  # nothing is lost either


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_plain_git_runs_what_was_put_there(
    exchange: Exchange, trees: WorkTrees, command: Path, tmp_path: Path
) -> None:
    """Else the test above would show nothing."""
    tree = prepare(trees, exchange, command)
    (tmp_path / "ran").unlink(missing_ok=True)
    at(tree.path)("status")
    assert (tmp_path / "ran").exists()


def test_commit_goes_to_the_repository_that_lists_the_tree(
    main: Git, trees: WorkTrees, command: Path
) -> None:
    tree = prepare(trees, _by_folder, command)
    head = _commit(trees, tree).head
    assert main.ok("rev-parse", "w/fix") == head
    assert set(main.ok("ls-tree", "--name-only", head).split()) == {".gitattributes", "file", "new"}
    assert os.path.isdir(os.path.join(tree.path, ".git"))


@pytest.mark.parametrize("act", ["restore", "put"])
@pytest.mark.parametrize("exchange", EXCHANGES[:2], ids=lambda exchange: exchange.__name__[1:])
def test_check_that_exchanges_the_git_of_its_tree_runs_nothing_afterwards(
    main: Git, trees: WorkTrees, exchange: Exchange, act: str, command: Path, tmp_path: Path
) -> None:
    """A check runs what a candidate has, perhaps where it can write that tree alone."""
    check = CheckTree(trees, "main")
    tree = Path(check.put(main.head))
    exchange(tree, command)
    (tree / "file").write_text("changed\n")
    (tmp_path / "ran").unlink(missing_ok=True)  # to exchange it may run the command
    with suppress(GitFailed):
        check.restore(main.head) if act == "restore" else check.put(main.head)
    assert not (tmp_path / "ran").exists()
    assert at(check.put(main.head)).ok("status", "--porcelain") == ""
