"""Work trees are made for tasks, in every form of repository, and nothing of others is touched."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.repository import GitFailed, OutOfTime
from ackbus.git.trees.removal import Removal
from ackbus.git.trees.tree_list import LinkedTree, safe_name, usage_of
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.errors import AckbusError, InvalidInput, Refused

from ..cli.git import Git
from ..conftest import wait_until
from ..fault.conftest import mounted
from ..sizes import size
from .conftest import at, has_ended, repository


def make(trees: WorkTrees, task: str = "fix", branch: str = "w/fix", **more: object) -> LinkedTree:
    base = trees.place.commit("HEAD")
    return trees.make(NewTree(task, branch, base, **more))  # type: ignore[arg-type]


def test_new_tree_is_on_its_branch_at_the_base_and_marked(main: Git, trees: WorkTrees) -> None:
    base = main.head
    tree = make(trees)
    git = at(tree.path)
    assert (git.head, git.ok("symbolic-ref", "HEAD")) == (base, "refs/heads/w/fix")
    assert git.ok("status", "--porcelain") == main.ok("status", "--porcelain") == ""
    assert (tree.lock, tree.is_made, tree.is_there) == ("ackbus task fix", True, True)
    assert Path(tree.path) == main.path.parent / "repo.trees" / "fix"
    assert main("config", "--get-regexp", r"^branch\.").out == ""  # tracks nothing
    assert trees.of("fix") == tree
    assert trees.all() == [tree]


def test_repetition_leaves_work_as_it_is(main: Git, trees: WorkTrees) -> None:
    tree = make(trees)
    git = at(tree.path)
    git.commit("mine")
    git.write("staged")
    Path(tree.path, "file").write_text("changed\n")
    before = git.ok("status", "--porcelain"), git.head
    again = make(trees)
    assert (git.ok("status", "--porcelain"), git.head) == before
    assert again.head == git.head


def test_pruning_by_others_leaves_a_tree_that_they_do_not_see(main: Git, trees: WorkTrees) -> None:
    tree = make(trees)
    os.rename(tree.path, tree.path + ".hidden")
    main.ok("worktree", "prune", "--expire=now")
    os.rename(tree.path + ".hidden", tree.path)
    assert at(tree.path).ok("status", "--porcelain") == ""


def test_tree_deleted_by_hand_comes_back_as_it_was_staged(main: Git, trees: WorkTrees) -> None:
    tree = make(trees)
    git = at(tree.path)
    git.commit("mine")
    git.write("staged")
    head = git.head
    subprocess.run(["rm", "-rf", tree.path], check=True)
    assert not trees.all()[0].is_there
    make(trees)
    assert git.head == head
    assert git.ok("status", "--porcelain") == "A  staged"


@pytest.mark.parametrize(
    "name", ["a b", "ünï", "new\nline", "-C", "--git-dir=x", "%", "a'b\"c$(d)", "x.git"]
)
def test_repository_of_any_name(tmp_path: Path, name: str) -> None:
    main = repository(tmp_path / name)
    trees = WorkTrees(RepositoryPlace.around(str(main.path)))
    tree = make(trees)
    assert at(tree.path).ok("status", "--porcelain") == ""
    assert main.ok("status", "--porcelain") == ""
    assert trees.all() == [tree]


@pytest.mark.parametrize(
    "task", ["--force", "..", ".hidden", "a/b", "a b", "ü", "new\nline", "x" * 300, "a.lock", "~^:"]
)
def test_task_of_any_name(main: Git, trees: WorkTrees, task: str) -> None:
    tree = make(trees, task)
    assert os.path.dirname(tree.path) == trees.folder
    assert at(tree.path).ok("status", "--porcelain") == ""
    assert trees.of(task) == tree
    assert main("check-ref-format", f"refs/x/{safe_name(task)}").code == 0


def test_no_two_tasks_share_a_name() -> None:
    tasks = ["a/b", "a%2fb", "a%2Fb", ".a", "%2ea", "x" * 300, "x" * 301, "a.lock", "a"]
    assert len({safe_name(task) for task in tasks}) == len(tasks)


@pytest.mark.parametrize(
    "branch", ["", "-x", "--force", "a..b", "a b", "HEAD", "a\nb", "x.lock", "@{-1}"]
)
def test_name_that_git_takes_for_no_branch_is_refused(trees: WorkTrees, branch: str) -> None:
    with pytest.raises(InvalidInput, match="can be no name of a branch"):
        make(trees, branch=branch)
    assert trees.all() == []


@pytest.mark.parametrize("base", ["--all", "-x", "nothing", "0" * 40, "a\0b", ""])
def test_base_that_is_no_commit_is_refused(trees: WorkTrees, base: str) -> None:
    with pytest.raises(Refused, match="is no commit of"):
        trees.place.commit(base)


def test_repository_without_a_commit_says_what_it_needs(tmp_path: Path) -> None:
    git = Git(tmp_path, dict(os.environ))
    git.ok("init", "--quiet")
    with pytest.raises(Refused, match="has no commit at HEAD yet; make a first commit"):
        RepositoryPlace.around(str(tmp_path)).commit("HEAD")


class TestForms:
    """Repositories of all forms."""

    def test_bare(self, main: Git, tmp_path: Path) -> None:
        main.ok("clone", "--quiet", "--bare", ".", tmp_path / "bare.git")
        trees = WorkTrees(RepositoryPlace.around(str(tmp_path / "bare.git")))
        assert trees.place.is_bare
        tree = make(trees)
        assert Path(tree.path) == tmp_path / "bare.trees" / "fix"
        assert at(tree.path).ok("status", "--porcelain") == ""

    def test_shallow(self, main: Git, tmp_path: Path) -> None:
        old = main.head
        main.commit("second")
        main.ok("clone", "--quiet", "--depth=1", f"file://{main.path}", tmp_path / "clone")
        trees = WorkTrees(RepositoryPlace.around(str(tmp_path / "clone")))
        assert trees.place.is_shallow
        assert at(make(trees).path).head == main.head
        with pytest.raises(Refused, match="or a commit that a shallow clone left out; fetch it"):
            trees.place.commit(old)

    def test_partial(self, main: Git, tmp_path: Path) -> None:
        main.ok("config", "uploadpack.allowFilter", "true")
        main.ok("config", "uploadpack.allowAnySHA1InWant", "true")
        options = ("--quiet", "--filter=blob:none", "--no-checkout")
        main.ok("clone", *options, f"file://{main.path}", tmp_path / "clone")
        trees = WorkTrees(RepositoryPlace.around(str(tmp_path / "clone")))
        assert Path(make(trees).path, "file").read_text() == "first\n"

    def test_symlinked(self, main: Git, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(main.path)
        trees = WorkTrees(RepositoryPlace.around(str(tmp_path / "link")))
        tree = make(trees)
        assert make(WorkTrees(RepositoryPlace.around(str(main.path)))) == tree

    def test_detached_and_dirty(self, main: Git, trees: WorkTrees) -> None:
        main.ok("checkout", "--quiet", "--detach")
        main.write("staged")
        (main.path / "file").write_text("changed\n")
        tree = make(trees)
        assert Path(tree.path, "file").read_text() == "first\n"
        assert main.ok("status", "--porcelain") == " M file\nA  staged"

    def test_seen_from_a_linked_tree_and_from_a_folder(self, main: Git, trees: WorkTrees) -> None:
        tree = make(trees)
        (Path(tree.path) / "inner").mkdir()
        place = RepositoryPlace.around(str(Path(tree.path) / "inner"))
        assert (place.common_dir, place.main) == (trees.place.common_dir, str(main.path))

    def test_with_submodules(self, main: Git, trees: WorkTrees, tmp_path: Path) -> None:
        inner = repository(tmp_path / "inner")
        main.ok("submodule", "--quiet", "add", str(inner.path), "sub")
        main.ok("commit", "--quiet", "-m", "with a submodule")
        plain = make(trees, "plain", "w/plain")
        assert os.listdir(Path(plain.path, "sub")) == []
        filled = make(trees, "filled", "w/filled", has_submodules=True)
        assert Path(filled.path, "sub", "file").read_text() == "first\n"
        assert at(filled.path).ok("status", "--porcelain") == ""

    def test_of_a_submodule(self, main: Git, tmp_path: Path) -> None:
        inner = repository(tmp_path / "inner")
        main.ok("submodule", "--quiet", "add", str(inner.path), "sub")
        trees = WorkTrees(RepositoryPlace.around(str(main.path / "sub")))
        assert trees.place.main == str(main.path / "sub")
        tree = make(trees)
        assert at(tree.path).ok("status", "--porcelain") == ""
        assert "trees" not in main.ok("status", "--porcelain")

    def test_with_its_git_folder_elsewhere(self, tmp_path: Path) -> None:
        main = repository(tmp_path / "repo", f"--separate-git-dir={tmp_path / 'elsewhere'}")
        trees = WorkTrees(RepositoryPlace.around(str(main.path)))
        assert at(make(trees).path).ok("status", "--porcelain") == ""

    def test_a_tag_of_the_same_name_as_the_branch(self, main: Git, trees: WorkTrees) -> None:
        main.ok("tag", "w/fix")
        main.commit("second")
        assert at(make(trees).path).head == main.head


def test_folder_of_all_trees_is_a_setting_and_ignored_in_a_work_tree(
    main: Git, trees: WorkTrees
) -> None:
    main.ok("config", "ackbus.trees", "sub/trees")
    tree = make(trees)
    assert Path(tree.path) == main.path / "sub" / "trees" / "fix"
    assert main.ok("status", "--porcelain") == ""


class TestOthers:
    """Branches, paths and trees of others stay, and the error says so."""

    @pytest.mark.parametrize("known", ["w/fix", "w"])
    def test_branch_that_exists(self, main: Git, trees: WorkTrees, known: str) -> None:
        main.ok("branch", known)
        with pytest.raises((Refused, GitFailed), match=r"branch 'w/fix' (is there|can't be made)"):
            make(trees)
        assert main.ok("rev-parse", known) == main.head

    def test_branch_that_is_checked_out(self, main: Git, trees: WorkTrees, tmp_path: Path) -> None:
        main.ok("worktree", "add", "--quiet", "-b", "w/fix", tmp_path / "theirs")
        with pytest.raises(Refused, match=f"is checked out at {tmp_path}/theirs"):
            make(trees, is_known=True)
        with pytest.raises(Refused, match=f"is checked out at {main.path}"):
            make(trees, branch="main", is_known=True)

    @pytest.mark.parametrize("what", ["file", "link", "folder", "tree"])
    def test_path_that_exists(self, main: Git, trees: WorkTrees, what: str) -> None:
        path = Path(trees.path_of("fix"))
        path.parent.mkdir()
        if what == "tree":
            main.ok("worktree", "add", "--quiet", "--detach", path)
        elif what == "link":
            path.symlink_to("/nowhere/at/all")
        else:
            (path / "x" if what == "folder" else path).parent.mkdir(exist_ok=True)
            (path / "x" if what == "folder" else path).write_text("mine")
        with pytest.raises(Refused, match=r"name another path|somebody else"):
            make(trees)
        assert os.path.lexists(path)
        assert main("rev-parse", "--verify", "w/fix").code != 0

    def test_a_branch_of_the_task_is_known_by_the_caller_alone(
        self, main: Git, trees: WorkTrees
    ) -> None:
        main.ok("branch", "w/fix")
        main.commit("second")
        tree = make(trees, is_known=True)
        assert at(tree.path).head == main.ok("rev-parse", "w/fix") != main.head

    def test_another_branch_for_the_same_task(self, trees: WorkTrees) -> None:
        make(trees)
        with pytest.raises(Refused, match="has its tree on branch 'w/fix'"):
            make(trees, branch="w/other")

    def test_too_many_trees(self, main: Git, trees: WorkTrees) -> None:
        main.ok("config", "ackbus.maxTrees", "1")
        make(trees)
        with pytest.raises(Refused, match="has 1 work trees of tasks, which is the limit"):
            make(trees, "two", "w/two")
        make(trees)

    def test_too_many_bytes(self, main: Git, trees: WorkTrees) -> None:
        """Promise 6: disk has a budget."""
        tree = make(trees)
        Path(tree.path, "large").write_bytes(os.urandom(2_000_000))
        os.link(Path(tree.path, "large"), Path(tree.path, "same"))
        taken = usage_of([tree])
        assert (taken.trees, 2_000_000 <= taken.bytes < 2_200_000) == (1, True)
        main.ok("config", "ackbus.maxTreesBytes", "1m")
        again = WorkTrees(RepositoryPlace.around(str(main.path)))
        with pytest.raises(Refused, match=r"take 2\d{6} bytes, of at most 1048576; clean some"):
            make(again, "two", "w/two")
        main.ok("config", "ackbus.maxTreesBytes", "much")
        with pytest.raises(
            InvalidInput, match=r"ackbus.maxTreesBytes must be a number, not 'much'"
        ):
            make(WorkTrees(RepositoryPlace.around(str(main.path))), "two", "w/two")

    def test_files_that_go_while_they_are_counted(self, trees: WorkTrees) -> None:
        """Agents work in the trees: here the descriptor of the listing itself is gone by then."""
        if not os.path.isdir("/proc/self/fd"):
            pytest.skip("the system has no such folder")
        tree = replace(make(trees), path="/proc/self/fd")
        assert usage_of([tree]).trees == 1

    def test_folder_that_cannot_be_made(self, main: Git, trees: WorkTrees) -> None:
        main.ok("config", "ackbus.trees", str(main.path / "file" / "below"))
        with pytest.raises(Refused, match="can't be made for work trees: Not a directory"):
            make(trees)


class TestHooks:
    """`post-checkout` runs as git runs it in a new tree."""

    def hook(self, folder: Path, text: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "post-checkout").write_text(f"#!/bin/sh\n{text}\n")
        (folder / "post-checkout").chmod(0o755)

    @pytest.mark.parametrize("setting", [None, "of-tree", "absolute"])
    def test_it_is_found_where_git_finds_it(
        self, main: Git, trees: WorkTrees, tmp_path: Path, setting: str | None
    ) -> None:
        folder = main.path / ".git" / "hooks"
        if setting == "absolute":
            folder = tmp_path / "hooks"
            main.ok("config", "core.hooksPath", str(folder))
        elif setting:
            main.ok("config", "core.hooksPath", "of-tree")  # of each tree, as git reads it
            folder = main.path / "of-tree"
        self.hook(folder, 'echo "$PWD $*" >"$(git rev-parse --git-dir)/told"')
        if setting == "of-tree":
            main.ok("add", "of-tree")
            main.ok("commit", "--quiet", "-m", "hooks")
        tree = make(trees)
        assert Path(tree.admin, "told").read_text() == f"{tree.path} {'0' * 40} {main.head} 1\n"

    def test_one_that_fails_is_named_and_run_again(self, main: Git, trees: WorkTrees) -> None:
        self.hook(main.path / ".git" / "hooks", "echo no node here >&2; exit 3")
        with pytest.raises(GitFailed, match="the hook post-checkout failed: no node here"):
            make(trees)
        tree = trees.of("fix")
        assert tree is not None
        assert not tree.is_made
        with pytest.raises(GitFailed, match="post-checkout"):
            make(trees)
        assert make(trees, has_hooks=False).is_made

    def test_one_that_hangs_is_ended(self, main: Git, trees: WorkTrees) -> None:
        self.hook(main.path / ".git" / "hooks", "sleep 600")
        with pytest.raises(OutOfTime, match="post-checkout has not ended within 1 s"):
            make(trees, limit_s=1.0)
        assert make(trees, has_hooks=False).is_made


class TestFilling:
    """Copied files, a set-up command, large files."""

    def test_files_are_copied_but_for_those_of_git(self, main: Git, trees: WorkTrees) -> None:
        main.commit(".gitignore", text=".env\nlocal\n")
        (main.path / ".env").write_text("SECRET=1\n")
        (main.path / ".env").chmod(0o600)
        (main.path / "local" / "deep").mkdir(parents=True)
        (main.path / "local" / "deep" / "x").write_text("x")
        (main.path / "file").write_text("changed\n")
        tree = Path(make(trees, copies=(".env", "local/**", "file", "none*")).path)
        assert (tree / ".env").read_text() == "SECRET=1\n"
        assert (tree / ".env").stat().st_mode & 0o777 == 0o600
        assert (tree / "local" / "deep" / "x").read_text() == "x"
        assert (tree / "file").read_text() == "first\n"

    def test_copy_leaves_the_files_beside_it(self, main: Git, trees: WorkTrees) -> None:
        main.commit("beside", "x.new", text="first\n")
        (main.path / "x").write_text("x")
        tree = Path(make(trees, copies=("x",)).path)
        assert ((tree / "x").read_text(), (tree / "x.new").read_text()) == ("x", "first\n")

    @pytest.mark.parametrize("pattern", ["../*", "/etc/passwd", ".git/config", "a/../../b", ""])
    def test_no_file_from_elsewhere(self, trees: WorkTrees, pattern: str) -> None:
        with pytest.raises(InvalidInput, match="is no glob of files below"):
            make(trees, copies=(pattern,))

    def test_setup_that_fails_is_run_again(self, main: Git, trees: WorkTrees) -> None:
        command = ("sh", "-c", 'echo "$WHO" >>made; [ -e "$OK" ] || { echo broken >&2; exit 4; }')
        given = {"WHO": "me", "OK": str(main.path / "ok")}
        with pytest.raises(GitFailed, match=r"failed with exit code 4: broken"):
            make(trees, setup=command, environment=given)
        (main.path / "ok").touch()
        tree = make(trees, setup=command, environment=given)
        assert Path(tree.path, "made").read_text() == "me\nme\n"
        make(trees, setup=command, environment=given)
        assert Path(tree.path, "made").read_text() == "me\nme\n"

    def test_setup_that_hangs_is_ended_with_what_it_started(
        self, main: Git, trees: WorkTrees
    ) -> None:
        command = ("sh", "-c", "sleep 600 & echo $! >pid; wait")
        with pytest.raises(GitFailed, match="has not ended within 1 s"):
            make(trees, setup=command, limit_s=1.0)
        pid = int(Path(trees.path_of("fix"), "pid").read_text())
        wait_until(lambda: has_ended(pid))

    def test_setup_that_is_not_there(self, trees: WorkTrees) -> None:
        with pytest.raises(GitFailed, match="can't be started: there is no command"):
            make(trees, setup=("no-such-program",))

    @pytest.mark.parametrize(("has_large_files", "told"), [(True, ""), (False, "1")])
    def test_large_files_can_be_left_out(
        self, main: Git, trees: WorkTrees, has_large_files: bool, told: str
    ) -> None:
        main.ok("config", "filter.lfs.smudge", 'cat >/dev/null; echo "<$GIT_LFS_SKIP_SMUDGE>"')
        main.ok("config", "filter.lfs.clean", "cat")
        main.commit(".gitattributes", text="*.bin filter=lfs\n")
        main.commit("big.bin")
        tree = make(trees, has_large_files=has_large_files)
        assert Path(tree.path, "big.bin").read_text() == f"<{told}>\n"


FULL = """
import resource, signal, sys
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.errors import AckbusError
place = RepositoryPlace.around(sys.argv[1])
base = place.commit("HEAD")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    WorkTrees(place).make(NewTree("fix", "w/fix", base))
except AckbusError as error:
    print(error)
"""


def test_full_disk_is_one_line_and_a_repetition_goes_on(main: Git, trees: WorkTrees) -> None:
    """A limit of the size of files stands for the disk; git hears the same kind of error."""
    main.commit("large", text="x" * 1_000_000)
    command = [sys.executable, "-c", FULL, main.path]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("git reset failed: ")
    assert said.count("\n") == 1
    assert make(trees).is_made
    assert at(trees.path_of("fix")).ok("status", "--porcelain") == ""


def test_disk_without_room_is_one_line_and_a_repetition_goes_on(
    tmp_path: Path, main: Git, trees: WorkTrees
) -> None:
    """A filesystem of its own that is full in the midst of the checkout."""
    main.commit("large", text="x" * 3_000_000)
    main.commit("larger", text="y" * 3_000_000)
    disk = tmp_path / "disk"
    disk.mkdir()
    main.ok("config", "ackbus.trees", str(disk / "trees"))
    with mounted(disk, 4096):
        with pytest.raises(GitFailed, match=r"git reset failed: error: unable to write file large"):
            make(trees)
        Removal(trees).remove("fix", "w/fix")
        assert trees.all() == []
        assert main("rev-parse", "--verify", "w/fix").code != 0
    main.ok("config", "ackbus.trees", "../enough")
    assert make(WorkTrees(trees.place)).is_made


ONE = """
import sys
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.work_trees import NewTree, WorkTrees
_, folder, task, base = sys.argv
sys.stdin.read()
WorkTrees(RepositoryPlace.around(folder)).make(NewTree(task, f"w/{task}", base))
"""


@pytest.mark.slow
def test_many_at_once_of_which_none_fails(main: Git, trees: WorkTrees) -> None:
    count = size(sample=16, whole=48)
    gate, opener = os.pipe()
    command = (sys.executable, "-c", ONE, main.path)
    started = [
        subprocess.Popen([*command, f"t{n}", main.head], stdin=gate, close_fds=True)
        for n in range(count)
    ]
    os.close(opener)  # all have their imports done by then, or nearly
    os.close(gate)
    assert [process.wait() for process in started] == [0] * count
    assert sorted(tree.head or "" for tree in trees.all()) == [main.head] * count
    assert len({tree.branch for tree in trees.all()}) == count


def test_two_makers_of_one_tree_make_one(main: Git, trees: WorkTrees) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", ONE, main.path, "fix", main.head], stdin=-3)
        for _ in range(4)
    ]
    assert [process.wait() for process in started] == [0] * 4
    assert [tree.branch for tree in trees.all()] == ["w/fix"]


def test_variables_of_a_hook_lead_nowhere_else(
    main: Git, trees: WorkTrees, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
    tree = make(WorkTrees(RepositoryPlace.around(str(main.path))))
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert trees.all() == [tree]
    assert other.ok("worktree", "list").count("\n") == 0


@pytest.mark.skipif(shutil.which("git-lfs") is not None, reason="git-lfs is here")
def test_large_files_without_git_lfs_are_said(main: Git, trees: WorkTrees) -> None:
    main.commit("a.bin")
    main.commit(".gitattributes", text="*.bin filter=lfs\n")
    main.ok("config", "filter.lfs.process", "git-lfs filter-process")
    main.ok("config", "filter.lfs.required", "true")
    with pytest.raises(GitFailed, match="git-lfs is not installed; install it"):
        make(trees)
    main.ok("config", "--remove-section", "filter.lfs")
    assert make(trees).is_made


def test_no_repository_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(AckbusError, match="is in no git repository"):
        RepositoryPlace.around(str(tmp_path))
