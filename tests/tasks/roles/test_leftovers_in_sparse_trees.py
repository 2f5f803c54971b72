"""Files that a program leaves in a work tree of which git has a part alone."""

import os
from pathlib import Path

import pytest

from ackbus.git.trees.tree_list import LinkedTree
from ackbus.tasks.roles.job_tree import Author, commit_leftovers
from ackbus.tasks.steps.tasks import Tasks

from ...cli.git import Git
from ..conftest import new_task


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_files_outside_a_sparse_checkout_are_committed(
    tasks: Tasks, tmp_path: Path, cone: str
) -> None:
    """Git refuses them by default; what is not checked out stays as it is."""
    (tmp_path / "repo").mkdir()
    git = Git(tmp_path / "repo", dict(os.environ))
    git.ok("init", "--quiet")
    for name in ("in/a", "out/b"):
        git.write(name, text="1\n")
    git.ok("add", ".")
    git.ok("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "x")
    git.ok("checkout", "--quiet", "-b", "w/fix")
    git.ok("sparse-checkout", "set", cone, "in")
    task = tasks.assign(
        new_task("fix", branch="w/fix", path=str(git.path), base=git.head, worker="w"),
        agent="lead",
    )
    tree = LinkedTree(str(git.path), str(git.path / ".git"), None, None, None, None)
    for name in ("in/a", "out/new", "else/new"):
        (git.path / name).parent.mkdir(exist_ok=True)
        (git.path / name).write_text("2\n")
    state = commit_leftovers(tree, task, "Fix it", Author.of("w"))
    assert state.is_clean
    changed = git.ok("diff", "--name-status", "HEAD~1", "HEAD").split("\n")
    assert changed == ["A\telse/new", "M\tin/a", "A\tout/new"]
    assert git.ok("show", "HEAD:out/b") == "1"
