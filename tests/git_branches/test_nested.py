"""A repository or a tree within a tree goes with it only when nothing is lost by that."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.git.trees import removal
from ackbus.git.trees.removal import Removal, Removed
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.errors import Refused

from ..cli.git import Git
from .conftest import at, repository


@pytest.fixture
def tree(main: Git, trees: WorkTrees) -> Git:
    """The tree of the task `fix`, in which `vendor/` and `.claude/` are ignored."""
    main.commit("ignored", ".gitignore", text="vendor/\n.claude/\n")
    return at(trees.make(NewTree("fix", "w/fix", main.head)).path)


def remove(trees: WorkTrees, **more: bool) -> Removed:
    return Removal(trees).remove("fix", "w/fix", **more)


def inner_tree(tree: Git) -> Git:
    """A work tree of the same repository, with a commit of its own."""
    tree.ok("worktree", "add", "--quiet", "--detach", ".claude/worktrees/x")
    inner = at(str(tree.path / ".claude" / "worktrees" / "x"))
    inner.commit("inner")
    return inner


def vendored(tree: Git, name: str = "lib") -> Git:
    """A repository by itself, with a commit."""
    return repository(tree.path / "vendor" / name)


def stays(trees: WorkTrees, tree: Git, words: str, **more: bool) -> None:
    """Asserts that the tree stays, whether one only looks or not, and that no ref is made."""
    for act in (lambda: Removal(trees).check("fix", **more), lambda: remove(trees, **more)):
        with pytest.raises(Refused, match=words):
            act()
    assert tree.path.exists()
    assert trees.place.git.run("for-each-ref", "refs/ackbus") == b""


def test_commit_of_a_work_tree_within_is_kept(main: Git, trees: WorkTrees, tree: Git) -> None:
    """Item 22: `git worktree add --detach .claude/worktrees/x`, and a commit there."""
    head = inner_tree(tree).head
    removed = remove(trees)
    assert [kept.commit for kept in removed.kept] == [head]
    assert not tree.path.exists()
    assert main.ok("worktree", "list").count("\n") == 0
    main.ok("fsck", "--connectivity-only")
    assert main.ok("cat-file", "-t", head) == "commit"


def test_commit_of_a_repository_within_is_kept(main: Git, trees: WorkTrees, tree: Git) -> None:
    """Item 22: a repository that was made in an ignored folder."""
    lib = vendored(tree)
    lib.commit("one", "a file", text="words\n")
    lib.ok("checkout", "--quiet", "-b", "other")
    lib.commit("two")
    heads = {lib.head}
    lib.ok("checkout", "--quiet", "--detach", "HEAD~1")
    lib.commit("three")
    heads.add(lib.head)
    lib.ok("checkout", "--quiet", "main")
    removed = remove(trees)
    assert {kept.commit for kept in removed.kept} == heads
    assert not tree.path.exists()
    main.ok("fsck", "--strict")
    for kept in removed.kept:
        assert main.ok("show", f"{kept.ref}:a file") == "words"


def bare(tree: Git) -> Git:
    lib = vendored(tree)
    lib.ok("clone", "--quiet", "--bare", ".", "../bare.git")
    lib.ok("remote", "add", "origin", "../bare.git")
    lib.ok("fetch", "--quiet", "origin")
    return lib


def test_bare_repository_within_is_kept(main: Git, trees: WorkTrees, tree: Git) -> None:
    """A remote within the tree goes with it: what it has counts as its own."""
    head = bare(tree).head
    assert [kept.commit for kept in remove(trees).kept] == [head]


def test_stash_of_a_repository_within_is_kept(main: Git, trees: WorkTrees, tree: Git) -> None:
    lib = vendored(tree)
    lib.commit("one", "file", text="one\n")
    (lib.path / "file").write_text("stashed\n")
    lib.ok("stash", "--quiet")
    refs = [kept.ref for kept in remove(trees).kept]
    assert "stashed" in [main("show", f"{ref}:file").out.strip() for ref in refs]


def test_clone_whose_commits_are_on_its_remote_may_go(
    main: Git, trees: WorkTrees, tree: Git, tmp_path: Path
) -> None:
    repository(tmp_path / "origin").ok("clone", "--quiet", ".", str(tree.path / "vendor" / "lib"))
    Removal(trees).check("fix")
    assert remove(trees).kept == []
    assert not tree.path.exists()


def dirty(lib: Git) -> None:
    (lib.path / "new").write_text("x")


def shallow(lib: Git) -> None:
    lib.commit("two")
    lib.ok("clone", "--quiet", "--depth", "1", lib.path.as_uri(), str(lib.path.parent / "shallow"))
    at(str(lib.path.parent / "shallow")).commit("mine")


def linked(lib: Git) -> None:
    lib.ok("worktree", "add", "--quiet", "--detach", str(lib.path.parents[2] / "elsewhere"))


def unreadable(lib: Git) -> None:
    (lib.path / ".git" / "config").write_text("[core\n")


def strange(lib: Git) -> None:
    lib.ok("config", "core.repositoryFormatVersion", "1")
    lib.ok("config", "extensions.new", "1")


def alternates(lib: Git) -> None:
    """Its branch is that of a repository that who wrote the tree may not be able to read."""
    _lead_branch_to(lib, private(lib) / ".git")
    objects = private(lib) / ".git" / "objects"
    (lib.path / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n")


def linked_objects(lib: Git) -> None:
    _lead_branch_to(lib, private(lib) / ".git")
    (lib.path / ".git" / "objects").rename(lib.path.parent / "aside")
    (lib.path / ".git" / "objects").symlink_to(private(lib) / ".git" / "objects")


def linked_pack(lib: Git) -> None:
    at(private(lib)).ok("repack", "--quiet", "-ad")
    _lead_branch_to(lib, private(lib) / ".git")
    pack = lib.path / ".git" / "objects" / "pack"
    pack.rmdir()
    pack.symlink_to(private(lib) / ".git" / "objects" / "pack")


def private(lib: Git) -> Path:
    path = lib.path.parents[2] / "private"
    if not path.exists():
        repository(path).commit("mine", "file", text="secret\n")
    return path


def _lead_branch_to(lib: Git, git_dir: Path) -> None:
    """Nothing of its own is left, so that all of it is whole."""
    for name in ("refs/heads/main", "index"):
        (lib.path / ".git" / name).unlink()
        (lib.path / ".git" / name).symlink_to(git_dir / name)
    shutil.rmtree(lib.path / ".git" / "logs")
    for path in git_dir.parent.iterdir():
        if path.is_file():
            shutil.copy(path, lib.path)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        *((harm, "taken from elsewhere") for harm in (alternates, linked_objects, linked_pack)),
        (dirty, "is not clean: unknown to git: new"),
        (shallow, "it is a shallow clone"),
        (linked, "it has work trees elsewhere"),
        (unreadable, "can't be looked into"),
        (strange, "can't be looked into"),
    ],
)
def test_repository_that_can_not_be_kept_whole_keeps_the_tree(
    trees: WorkTrees, tree: Git, harm: Callable[[Git], None], words: str
) -> None:
    harm(vendored(tree))
    stays(trees, tree, words, keeps_files=True)


def test_work_tree_within_that_is_not_clean_keeps_the_tree(
    main: Git, trees: WorkTrees, tree: Git
) -> None:
    """With its files kept at a ref it may go."""
    (inner_tree(tree).path / "new").write_text("x\n")
    stays(trees, tree, "is not clean: unknown to git: new")
    removed = remove(trees, keeps_files=True)
    assert "x" in [main("show", f"{kept.ref}:new").out.strip() for kept in removed.kept]
    assert main.ok("worktree", "list").count("\n") == 0


def test_locked_work_tree_within_keeps_the_tree(trees: WorkTrees, tree: Git) -> None:
    tree.ok("worktree", "lock", str(inner_tree(tree).path))
    stays(trees, tree, "a locked work tree")


def test_work_tree_of_another_repository_keeps_the_tree(
    trees: WorkTrees, tree: Git, tmp_path: Path
) -> None:
    there = str(tree.path / "vendor" / "other")
    repository(tmp_path / "other").ok("worktree", "add", "--quiet", "--detach", there)
    stays(trees, tree, "is a work tree of")


def test_search_is_bounded(trees: WorkTrees, tree: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is not clean: a tree with too much to look through stays."""
    monkeypatch.setattr(removal, "MAX_ENTRIES", 10)
    (tree.path / "vendor").mkdir()
    for number in range(10):
        (tree.path / "vendor" / str(number)).touch()
    stays(trees, tree, "too many to look for repositories")


def test_looking_runs_nothing_of_a_repository_within(
    trees: WorkTrees, tree: Git, tmp_path: Path
) -> None:
    """Its configuration names programs, of which none is started; a link to itself ends."""
    lib = vendored(tree)
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\nexec cat\n")
    script.chmod(0o755)
    (lib.path / "file").write_text("x\n")
    (lib.path / ".gitattributes").write_text("* filter=evil diff=evil\n")
    lib.ok("add", ".")
    lib.ok("commit", "--quiet", "-m", "mine")
    head = lib.head
    for name in ("core.fsmonitor", "filter.evil.clean", "diff.evil.textconv", "core.pager"):
        lib.ok("config", name, str(script))
    for name in ("uploadpack.packObjectsHook", "remote.origin.uploadpack"):
        lib.ok("config", name, str(script))
    os.utime(lib.path / "file", (1, 1))
    os.symlink(lib.path, lib.path.parent / "loop")
    ran.unlink(missing_ok=True)
    removed = remove(trees)
    assert [kept.commit for kept in removed.kept] == [head]
    assert not ran.exists()


def test_a_link_to_a_file_of_git_is_followed_as_git_does(
    main: Git, trees: WorkTrees, tree: Git
) -> None:
    lib = vendored(tree)
    (lib.path / ".git").rename(tree.path / "vendor" / "kept.git")
    (tree.path / "vendor" / "names").write_text("gitdir: ../kept.git\n")
    (lib.path / ".git").symlink_to("../names")
    head = lib.head
    assert head
    assert [kept.commit for kept in remove(trees).kept] == [head]


@pytest.mark.parametrize("kind", ["pipe", "endless", "nothing"])
def test_what_is_no_file_of_git_holds_no_removal_up(trees: WorkTrees, tree: Git, kind: str) -> None:
    place = tree.path / "vendor" / ".git"
    place.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero" if kind == "endless" else "nowhere")
    assert remove(trees).kept == []
    assert not tree.path.exists()


def test_a_file_of_git_that_is_too_long_keeps_the_tree(trees: WorkTrees, tree: Git) -> None:
    """Nobody knows what it names."""
    place = tree.path / "vendor" / ".git"
    place.parent.mkdir()
    place.touch()
    os.truncate(place, 1 << 40)
    stays(trees, tree, r"\.git, in a tree that is to go, can't be looked into")
