"""The tree for checks, and the target, beside trees that a kill left half made."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.remote_target import CheckTree
from ackbus.git.target_refs import LocalTarget
from ackbus.git.trees.tree_list import admin_folders
from ackbus.git.trees.work_trees import NewTree, WorkTrees

from ..cli.git import Git
from .conftest import at


def cut_off(trees: WorkTrees, empty: Sequence[str]) -> None:
    """Leaves the only tree as a kill in the midst of `git worktree add` does."""
    (admin,) = map(Path, admin_folders(trees.place.common_dir))
    for name in ("index", "ackbus.json"):
        (admin / name).unlink(missing_ok=True)
    for name in empty:
        (admin / name).write_bytes(b"")


@pytest.mark.parametrize("empty", [["commondir"], ["commondir", "HEAD"]])
def test_check_tree_that_a_kill_left_half_made_is_made_afresh(
    main: Git, trees: WorkTrees, empty: list[str]
) -> None:
    check = CheckTree(trees, "main")
    check.put(main.head)
    cut_off(trees, empty)
    assert trees.make(NewTree("fix", "w/fix", main.head)).is_made
    assert at(check.put(main.head)).ok("status", "--porcelain") == ""
    check.remove()
    assert [tree.branch for tree in trees.read()] == ["w/fix"]


def test_target_moves_beside_a_tree_that_a_kill_left_half_made(main: Git, trees: WorkTrees) -> None:
    trees.make(NewTree("fix", "w/fix", main.head))
    cut_off(trees, ["commondir", "HEAD"])
    onto = main.head
    candidate = main.ok("commit-tree", f"{onto}^{{tree}}", "-p", onto, "-m", "next")
    LocalTarget(RepositoryPlace.around(str(main.path)), "main").move(candidate, onto, "test")
    assert main.head == candidate
