"""Removal loses no commit and no file: each is merged, kept at a ref, or it keeps its tree."""

import os
import shutil
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.git.trees.removal import Removal, Removed
from ackbus.git.trees.rescue import Rescue
from ackbus.git.trees.tree_list import LinkedTree
from ackbus.git.trees.tree_state import read_state
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.errors import Refused

from ..cli.git import Git
from .conftest import at, repository


@pytest.fixture
def tree(main: Git, trees: WorkTrees) -> Git:
    """The tree of the task `fix`, with one commit on `w/fix`."""
    made = trees.make(NewTree("fix", "w/fix", trees.place.commit("HEAD")))
    git = at(made.path)
    git.commit("mine")
    return git


def remove(trees: WorkTrees, branch: str | None = "w/fix", **more: object) -> Removed:
    return Removal(trees).remove("fix", branch, **more)  # type: ignore[arg-type]


def tree_of(trees: WorkTrees) -> LinkedTree:
    """The same tree, as the repository lists it."""
    tree = trees.of("fix")
    assert tree is not None
    return tree


def reachable(git: Git, commit: str) -> bool:
    """Whether some ref leads to a commit."""
    return commit in git.ok("rev-list", "--all").split()


def test_commits_that_nothing_else_has_are_kept(main: Git, trees: WorkTrees, tree: Git) -> None:
    head = tree.head
    removed = remove(trees)
    assert (removed.path, removed.branch, removed.reason) == (str(tree.path), "w/fix", None)
    assert [kept.commit for kept in removed.kept] == [head]
    assert main.ok("rev-parse", f"refs/ackbus/rescue/fix/{head}") == head
    assert not tree.path.exists()
    assert main("rev-parse", "--verify", "w/fix").code != 0
    assert main.ok("worktree", "list").count("\n") == 0
    assert Rescue(trees.place).kept("fix") == removed.kept
    assert remove(trees) == Removed(None, "w/fix", [])  # safe to repeat


def test_merged_commits_need_no_ref(main: Git, trees: WorkTrees, tree: Git) -> None:
    main.ok("merge", "--quiet", "--no-ff", "w/fix")
    assert remove(trees).kept == []


def test_squashed_branch_goes_when_its_head_has_landed(
    main: Git, trees: WorkTrees, tree: Git
) -> None:
    main.ok("merge", "--quiet", "--squash", "w/fix")
    main.ok("commit", "--quiet", "-m", "squashed")
    removed = remove(trees, landed=[tree.head])
    assert (removed.branch, removed.kept) == ("w/fix", [])


def test_what_came_after_the_landed_head_is_kept(main: Git, trees: WorkTrees, tree: Git) -> None:
    landed = tree.head
    tree.commit("later")
    assert [kept.commit for kept in remove(trees, landed=[landed]).kept] == [tree_head(main)]


def tree_head(main: Git) -> str:
    return main.ok("for-each-ref", "--format=%(objectname)", "refs/ackbus/rescue")


def test_commits_that_were_given_up_are_kept_too(main: Git, trees: WorkTrees, tree: Git) -> None:
    first = tree.head
    tree.ok("commit", "--quiet", "--amend", "-m", "amended")
    second = tree.head
    tree.ok("reset", "--quiet", "--hard", "HEAD~1")
    kept = {each.commit for each in remove(trees).kept}
    assert kept == {first, second}


def test_many_given_up_commits_share_a_ref(main: Git, trees: WorkTrees, tree: Git) -> None:
    commits = [tree.head]
    for n in range(6):
        tree.ok("commit", "--quiet", "--amend", "-m", f"try {n}")
        commits.append(tree.head)
    (kept,) = remove(trees).kept
    assert all(reachable(main, commit) for commit in commits)
    assert main.ok("log", "-1", "--format=%s", kept.ref) == (
        "Commits of task fix that no branch had"
    )


def test_detached_head_is_kept(main: Git, trees: WorkTrees, tree: Git) -> None:
    tree.ok("checkout", "--quiet", "--detach")
    tree.commit("aside")
    head = tree.head
    assert [kept.commit for kept in remove(trees).kept] == [head]


def test_other_branches_are_left_alone(main: Git, trees: WorkTrees, tree: Git) -> None:
    tree.ok("checkout", "--quiet", "-b", "aside")
    tree.commit("aside")
    head = tree.head
    assert remove(trees).kept == []  # the branch `aside` has all of it
    assert main.ok("rev-parse", "aside") == head


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_files_outside_a_sparse_checkout_are_kept_and_those_left_out_are_not_deleted(
    main: Git, trees: WorkTrees, tree: Git, cone: str
) -> None:
    """Issue 31, item 26: git refused to stage them, and so the tree could not go."""
    tree.commit("in/a", "out/b", "out/c", text="1\n")
    tree.ok("sparse-checkout", "set", cone, "in")
    for name in ("in/a", "out/new", "else/new"):
        (tree.path / name).parent.mkdir(exist_ok=True)
        (tree.path / name).write_text("2\n")
    (tree.path / "out" / "c").write_text("changed\n")
    kept = remove(trees, keeps_files=True).kept
    assert not tree.path.exists()
    (files,) = [each.commit for each in kept if "not committed" in _subject(main, each.commit)]
    changed = main.ok("diff", "--name-status", f"{files}^", files).split("\n")
    assert changed == ["A\telse/new", "M\tin/a", "M\tout/c", "A\tout/new"]
    assert main.ok("show", f"{files}:out/b") == "1"


def _subject(main: Git, commit: str) -> str:
    return main.ok("log", "-1", "--format=%s", commit)


class TestNotClean:
    """A tree that has more than commits."""

    @pytest.fixture(autouse=True)
    def dirt(self, tree: Git) -> None:
        (tree.path / "mine").write_text("staged\n")
        tree.ok("add", "mine")
        (tree.path / "mine").write_text("changed\n")
        (tree.path / "new file\n").write_text("untracked\n")
        (tree.path / "file").unlink()

    def test_it_stays_and_the_files_are_named(self, trees: WorkTrees, tree: Git) -> None:
        head = tree.head
        told = r"is not clean: not committed: file, mine; unknown to git: 'new file\\n'; commit"
        with pytest.raises(Refused, match=told):
            remove(trees)
        assert (tree.head, (tree.path / "mine").read_text()) == (head, "changed\n")
        assert Rescue(trees.place).kept() == []

    def test_ten_files_are_named_and_the_others_counted(self, trees: WorkTrees, tree: Git) -> None:
        for n in range(20):
            (tree.path / f"x{n:02}").touch()
        with pytest.raises(Refused, match=r"x00.*x08 and 11 more; commit"):
            remove(trees)

    def test_its_files_are_kept_by_choice(self, main: Git, trees: WorkTrees, tree: Git) -> None:
        head = tree.head
        kept = remove(trees, keeps_files=True).kept
        files = next(each.ref for each in kept if each.commit != head)
        assert main.ok("show", f"{files}:mine") == "changed"
        assert main.ok("show", f"{files}:new file\n") == "untracked"
        assert main("show", f"{files}:file").code != 0
        assert main.ok("show", f"{files}^2:mine") == "staged"
        assert main.ok("rev-parse", f"{files}^1") == head
        assert not tree.path.exists()

    def test_hidden_changes_are_kept(self, main: Git, trees: WorkTrees, tree: Git) -> None:
        tree.ok("update-index", "--assume-unchanged", "mine")
        kept = remove(trees, keeps_files=True).kept
        assert any(main("show", f"{each.ref}:mine").out == "changed\n" for each in kept)

    def test_repository_inside_keeps_the_tree(self, trees: WorkTrees, tree: Git) -> None:
        repository(tree.path / "inner")
        with pytest.raises(Refused, match="repositories by themselves, which can't be kept here: "):
            remove(trees, keeps_files=True)
        assert (tree.path / "inner" / "file").exists()

    def test_deleted_by_hand_what_was_staged_is_brought_back(
        self, main: Git, trees: WorkTrees, tree: Git
    ) -> None:
        shutil.rmtree(tree.path)
        with pytest.raises(Refused, match="is not clean: not committed: mine"):
            remove(trees)
        assert (tree.path / "mine").read_text() == "staged\n"
        kept = remove(trees, keeps_files=True).kept
        assert any(main("show", f"{each.ref}:mine").out == "staged\n" for each in kept)


def test_tree_deleted_by_hand_is_forgotten_and_its_commits_kept(
    main: Git, trees: WorkTrees, tree: Git
) -> None:
    tree.ok("checkout", "--quiet", "--detach")
    tree.commit("aside")
    head = tree.head
    shutil.rmtree(tree.path)
    assert [kept.commit for kept in remove(trees).kept] == [head]
    assert trees.all() == []


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_index_that_never_ends_keeps_the_tree(trees: WorkTrees, tree: Git, kind: str) -> None:
    """Its copy filled the disk: of a tree whose files are gone, the index is all there is."""
    index = Path(tree_of(trees).admin, "index")
    shutil.rmtree(tree.path)
    index.unlink()
    os.mkfifo(index) if kind == "pipe" else index.symlink_to("/dev/zero")
    with pytest.raises(Refused, match="is no plain file"):
        remove(trees)


@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_operation_under_way_keeps_the_tree_and_all_commits(
    main: Git, trees: WorkTrees, tree: Git, operation: str
) -> None:
    main.commit("mine", text="theirs\n")
    begin = {
        "merge": ("merge", "main"),
        "rebase": ("rebase", "main"),
        "cherry-pick": ("cherry-pick", "main"),
        "revert": ("revert", "--no-commit", "HEAD"),
        "bisect": ("bisect", "start", "HEAD", "HEAD~1"),
    }
    head = tree.head
    tree(*begin[operation])
    assert read_state(tree_of(trees)).operation == operation
    with pytest.raises(Refused, match=f"a {operation} is under way"):
        remove(trees)
    remove(trees, keeps_files=True)
    assert reachable(main, head)
    assert not tree.path.exists()


def test_lock_of_an_index_is_left_to_its_owner(trees: WorkTrees, tree: Git) -> None:
    lock = Path(tree.ok("rev-parse", "--absolute-git-dir"), "index.lock")
    lock.touch()
    with pytest.raises(Refused, match=r"a git is at work in .*, or was killed there; wait, or"):
        remove(trees)
    assert lock.exists()
    lock.unlink()
    assert remove(trees).branch == "w/fix"


def test_branch_that_is_checked_out_elsewhere_stays(
    main: Git, trees: WorkTrees, tree: Git, tmp_path: Path
) -> None:
    tree.ok("checkout", "--quiet", "--detach")
    main.ok("worktree", "add", "--quiet", tmp_path / "theirs", "w/fix")
    removed = remove(trees)
    assert (removed.branch, removed.reason) == (None, f"it is checked out at {tmp_path}/theirs")
    assert at(tmp_path / "theirs").ok("status", "--porcelain") == ""


def test_branch_that_another_moves_meanwhile_stays(
    main: Git, trees: WorkTrees, tree: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Rescue.keep

    def keep_then_move(self: Rescue, task: str, commits: list[str]) -> list[object]:
        kept = keep(self, task, commits)
        if not tree.path.exists():
            main.ok("update-ref", "refs/heads/w/fix", main.head)
        return list(kept)

    monkeypatch.setattr(Rescue, "keep", keep_then_move)
    removed = remove(trees)
    assert removed.branch is None
    assert "it was moved meanwhile" in (removed.reason or "")
    assert main.ok("rev-parse", "w/fix") == main.head


def test_branch_stays_where_only_the_tree_goes(main: Git, trees: WorkTrees, tree: Git) -> None:
    head = tree.head
    assert remove(trees, branch=None).kept == []
    assert main.ok("rev-parse", "w/fix") == head
    again = trees.make(NewTree("fix", "w/fix", main.head, is_known=True))
    assert again.head == head


def test_settings_of_a_branch_go_with_it(main: Git, trees: WorkTrees, tree: Git) -> None:
    main.ok("config", "branch.w/fix.merge", "refs/heads/main")
    remove(trees)
    assert main("config", "--get-regexp", r"^branch\.").out == ""


def test_unpushed_commits_of_a_submodule_keep_the_tree(
    main: Git, trees: WorkTrees, tmp_path: Path
) -> None:
    inner = repository(tmp_path / "inner")
    main.ok("submodule", "--quiet", "add", str(inner.path), "sub")
    main.ok("commit", "--quiet", "-m", "with a submodule")
    base = main.head
    made = trees.make(NewTree("fix", "w/fix", base, has_submodules=True))
    sub = at(Path(made.path, "sub"))
    sub.commit("mine")
    with pytest.raises(Refused, match=r"submodule 'sub' of .* has commits that no remote has"):
        remove(trees, keeps_files=True)
    sub.ok("push", "--quiet", "origin", "HEAD:refs/heads/mine")
    sub.ok("fetch", "--quiet")
    with pytest.raises(Refused, match="is not clean: not committed: sub"):
        remove(trees)
    sub.ok("checkout", "--quiet", "--detach", "origin/main")
    assert remove(trees).branch == "w/fix"
    assert not Path(made.path).exists()


def test_commits_of_a_repository_inside_keep_the_tree(
    main: Git, trees: WorkTrees, tree: Git
) -> None:
    """`git add` makes a submodule of it, of which the branch has but an id."""
    inner = repository(tree.path / "inner")
    tree.ok("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    tree.ok("commit", "--quiet", "-m", "all")
    with pytest.raises(Refused, match=r"submodule 'inner' of .* has commits that no remote has"):
        remove(trees, keeps_files=True)
    assert inner.head
    inner.ok("update-ref", "refs/remotes/origin/main", "HEAD")
    assert remove(trees).path == str(tree.path)


def test_state_counts_what_is_ahead_and_unpushed(main: Git, trees: WorkTrees, tree: Git) -> None:
    base = main.head
    state = read_state(tree_of(trees), base)
    assert (state.ahead, state.unpushed, state.is_clean) == (1, 2, True)
    assert (state.head, state.branch, state.operation) == (tree.head, "w/fix", None)
    assert state.dirt() == ""


def test_tree_with_a_bus_of_its_own_stays(trees: WorkTrees, tree: Git) -> None:
    """Git ignores what lives there, and would delete it with the tree."""
    with Bus.init(tree.path / ".worker-state") as bus:
        bus.publish("note", from_agent="ann")
    with pytest.raises(Refused, match="has a bus of its own"):
        remove(trees, keeps_files=True)
    with Bus.open(tree.path / ".worker-state") as bus:
        assert [message.type for message in bus.read()] == ["note"]
