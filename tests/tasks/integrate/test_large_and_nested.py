"""Repositories with submodules, and with files that Git LFS keeps, through the integrator."""

import shutil
from pathlib import Path

import pytest

from ...cli.git import Git
from .conftest import Yard, repository

#: Fetches submodules from a folder, as git does only where it is told to.
UPDATE = "git -c protocol.file.allow=always submodule update --init --quiet"


@pytest.fixture
def library(yard: Yard, tmp_path: Path) -> Git:
    """A repository that is the submodule `lib` of the other, on `main`, at its first commit."""
    library = repository(tmp_path / "library")
    allow = ("-c", "protocol.file.allow=always")
    yard.git.ok(*allow, "submodule", "--quiet", "add", library.path, "lib")
    yard.git.ok("commit", "--quiet", "-m", "lib")
    return library


def moved(yard: Yard, library: Git, name: str) -> str:
    """A task whose commit moves the submodule to a new commit, which is returned."""
    assert library.commit(name).code == 0
    aside = yard.git.path.parent / "aside"
    yard.git.ok("worktree", "add", "--quiet", "--detach", aside, "main")
    there = Git(aside, yard.git.env)
    there.ok("update-index", "--cacheinfo", f"160000,{library.head},lib")
    there.ok("commit", "--quiet", "-m", name)
    commit = there.head
    yard.git.ok("worktree", "remove", "--force", aside)
    yard.git.ok("branch", f"w/{name}", commit)
    yard.approve(name, commit)
    return library.head


@pytest.mark.slow
def test_moved_submodule_lands_and_is_checked_at_its_new_commit(yard: Yard, library: Git) -> None:
    """The target is checked out, and its submodule stays as it was before."""
    for name in ("one", "two"):
        head = moved(yard, library, name)
        assert yard.integrate(f"{UPDATE} && git -C lib rev-parse HEAD") == {name: "landed"}
        assert yard.said("check_result")[-1].payload["output"].split()[-1] == head
        assert yard.git.ok("rev-parse", "main:lib") == head


@pytest.mark.slow
def test_what_a_check_does_in_a_submodule_is_not_there_for_the_next(
    yard: Yard, library: Git
) -> None:
    """Its changed files are taken back for the next check, all is for the next candidate."""
    moved(yard, library, "one")
    spoil = f"{UPDATE} && echo spoilt > lib/a && touch lib/left"
    assert yard.integrate(spoil, "! grep -q spoilt lib/a") == {"one": "landed"}
    yard.task("two", b="two\n")
    assert yard.integrate(f"test ! -e lib/left && {UPDATE} && test ! -e lib/left") == {
        "two": "landed"
    }


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_files_that_git_lfs_keeps_are_whole_for_checks_and_after_the_landing(yard: Yard) -> None:
    yard.git.ok("lfs", "install", "--local")
    yard.git.write(".gitattributes", text="*.bin filter=lfs diff=lfs merge=lfs -text\n")
    yard.git.ok("add", ".gitattributes")
    yard.git.ok("commit", "--quiet", "-m", "large")
    content = "large\n" * 100
    yard.task("one", **{"data.bin": content})
    yard.task("two", b="two\n")
    assert yard.integrate("cat data.bin || true", batch=1) == {"one": "landed", "two": "landed"}
    assert [each.payload["output"] for each in yard.said("check_result")] == [content, content]
    assert "oid sha256:" in yard.git.ok("show", "main:data.bin")
    assert (yard.git.path / "data.bin").read_text() == content
    assert yard.git.ok("status", "--porcelain") == ""
