"""A kill at any step of making or removing a tree: a repetition ends it, and nothing is lost."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.repository import OutOfTime
from ackbus.git.trees.removal import Removal
from ackbus.git.trees.tree_list import TreeBusy, admin_folders
from ackbus.git.trees.tree_state import find_leftovers
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.workers.processes.supervisors import Supervisors

from ..cli.git import Git
from ..conftest import wait_until
from ..sizes import size
from .conftest import at, has_ended
from .killing import KILL_ALL, kills


def wish(main: Git, task: str = "fix") -> NewTree:
    """A tree with all that a tree may have."""
    setup = ("sh", "-c", "echo once >>.made")
    return NewTree(task, f"w/{task}", main.head, copies=(".env",), setup=setup)


@pytest.fixture(autouse=True)
def more(main: Git) -> None:
    main.commit("big", "folder/file", ".gitignore", text=".env\n.made\n")
    (main.path / ".env").write_text("X=1\n")


def whole(main: Git, trees: WorkTrees, task: str = "fix") -> None:
    """Asserts that a task has one tree, all of it, and that git and we know of nothing else."""
    tree = trees.of(task)
    assert tree is not None
    assert (tree.is_made, tree.branch, tree.head) == (True, f"w/{task}", main.head)
    git = at(tree.path)
    assert git.ok("status", "--porcelain") == ""
    assert (git.path / ".env").read_text() == "X=1\n"
    assert (git.path / ".made").exists()
    assert find_leftovers(trees) == []
    admins = [Path(admin) for admin in admin_folders(trees.place.common_dir)]
    assert sum((admin / "gitdir").exists() for admin in admins) == len(trees.all())


def gone(main: Git, trees: WorkTrees, task: str = "fix") -> None:
    """Asserts that nothing of a task is left but what is kept."""
    assert trees.of(task) is None
    assert main("rev-parse", "--verify", "--quiet", f"w/{task}").code != 0
    assert find_leftovers(trees) == []


@pytest.mark.slow
def test_making_killed_at_each_git_is_ended_by_a_repetition(
    main: Git, trees: WorkTrees, tmp_path: Path
) -> None:
    new = wish(main)

    def make() -> None:
        WorkTrees(RepositoryPlace.around(str(main.path))).make(new)

    for fatal, when in kills(tmp_path / "bin", make, least=10):
        trees.make(new)
        whole(main, trees)
        Removal(trees).remove("fix", "w/fix")
        gone(main, trees)
        assert main.ok("for-each-ref", "refs/ackbus") == "", (fatal, when)


@pytest.mark.slow
def test_removal_killed_at_each_git_loses_nothing_and_is_ended_by_a_repetition(
    main: Git, trees: WorkTrees, tmp_path: Path
) -> None:
    new = wish(main)

    def remove() -> None:
        trees = WorkTrees(RepositoryPlace.around(str(main.path)))
        Removal(trees).remove("fix", "w/fix", keeps_files=True)

    def prepare() -> tuple[str, str]:
        git = at(trees.make(new).path)
        git.commit("mine", text=f"{time.monotonic_ns()}\n")
        text = f"dirty {time.monotonic_ns()}\n"
        (git.path / "mine").write_text(text)
        return git.head, text

    head, text = prepare()
    for fatal, when in kills(tmp_path / "bin", remove, least=15):
        kept = main.ok("rev-list", "--all").split()
        assert head in kept, (fatal, when)
        remove()
        gone(main, trees)
        kept = main.ok("rev-list", "--all").split()
        assert head in kept
        found = [main("show", f"{commit}:mine").out for commit in kept]
        assert text in found, (fatal, when)
        head, text = prepare()


@pytest.mark.parametrize("ref", ["HEAD", "refs/heads/w/fix"])
@pytest.mark.parametrize("stage", ["prepared", "committed"])
def test_git_killed_in_the_midst_of_a_ref(
    main: Git, trees: WorkTrees, stage: str, ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook `reference-transaction` kills git, and who started it, at one of its refs."""
    monkeypatch.setattr("ackbus.git.trees.tree_state.REF_WAIT_S", 0)
    monkeypatch.setattr("ackbus.git.trees.work_trees._PATIENT", ())
    once = main.path / ".git" / "once"
    hook = main.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        KILL_ALL.format(once=once).replace(
            "#!/bin/sh", f'#!/bin/sh\n[ "$1" = {stage} ] && grep -q " {ref}$" || exit 0'
        )
    )
    hook.chmod(0o755)
    ends_by_a_repetition(main, trees, once)


@pytest.mark.parametrize("name", ["file", "big"])
def test_git_killed_in_the_midst_of_a_checkout(main: Git, trees: WorkTrees, name: str) -> None:
    once = main.path / ".git" / "once"
    kill = main.path / ".git" / "kill"
    kill.write_text(KILL_ALL.format(once=once))
    kill.chmod(0o755)
    main.commit(".gitattributes", text=f"{name} filter=kill\n")
    main.ok("config", "filter.kill.smudge", f"{kill}; cat")
    main.ok("config", "filter.kill.clean", "cat")
    ends_by_a_repetition(main, trees, once)


MAKE = """
import sys
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.work_trees import NewTree, WorkTrees
_, folder, base, *given = sys.argv
setup = given or ("sh", "-c", "echo once >>.made")
new = NewTree("fix", "w/fix", base, copies=(".env",), setup=setup)
WorkTrees(RepositoryPlace.around(folder)).make(new)
"""


def ends_by_a_repetition(main: Git, trees: WorkTrees, once: Path) -> None:
    once.touch()
    command = [sys.executable, "-c", MAKE, main.path, main.head]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not once.exists()
    trees.make(wish(main))
    whole(main, trees)


def parts(admin: Path, path: Path) -> dict[str, Callable[[], object]]:
    """The states in which `git worktree add` can be killed, from the last to the first."""
    return {
        "empty commondir": lambda: (admin / "commondir").write_bytes(b""),
        "no commondir": (admin / "commondir").unlink,
        "empty head": lambda: (admin / "HEAD").write_bytes(b""),
        "no head": (admin / "HEAD").unlink,
        "no file .git": (path / ".git").unlink,
        "no folder": lambda: shutil.rmtree(path),
        "empty gitdir": lambda: (admin / "gitdir").write_bytes(b""),
        "no gitdir": (admin / "gitdir").unlink,
    }


@pytest.mark.parametrize("missing", range(1, 9))
def test_tree_that_git_had_just_begun(main: Git, trees: WorkTrees, missing: int) -> None:
    path = Path(trees.path_of("fix"))
    options = ("--detach", "--no-checkout", "--lock", "--reason=ackbus task fix")
    main.ok("worktree", "add", "--quiet", *options, path)
    admin = Path(admin_folders(trees.place.common_dir)[0])
    for undo in [*parts(admin, path).values()][:missing]:
        undo()
    if missing >= 7:
        (admin / "commondir").unlink(missing_ok=True)
        shutil.rmtree(admin / "logs")
    trees.make(wish(main))
    whole(main, trees)


def test_folder_that_a_failing_git_had_begun_to_remove(main: Git, trees: WorkTrees) -> None:
    path = Path(trees.path_of("fix"))
    main.ok("worktree", "add", "--quiet", "--detach", path)
    shutil.rmtree(admin_folders(trees.place.common_dir)[0])
    with pytest.raises(Exception, match="has something in it"):
        trees.make(wish(main))
    for name in ("file", "big", ".gitignore"):
        (path / name).unlink()
    shutil.rmtree(path / "folder")
    trees.make(wish(main))
    whole(main, trees)


def test_branch_alone_that_a_kill_left_is_not_taken_from_others(
    main: Git, trees: WorkTrees
) -> None:
    """The tree comes first, so a branch without a tree is never one of a killed making."""
    main.ok("branch", "w/fix")
    with pytest.raises(Exception, match="branch 'w/fix' is there already"):
        trees.make(wish(main))


@pytest.mark.slow
def test_groups_killed_at_any_moment(main: Git, trees: WorkTrees) -> None:
    """Maker and git are killed together, later each time, until one is done before."""
    main.commit(*(f"many/{n}" for n in range(60)))
    rounds = size(sample=5, whole=60)
    for n in range(rounds):
        command = [sys.executable, "-c", MAKE, main.path, main.head]
        process = subprocess.Popen(command, start_new_session=True)
        time.sleep(0.05 + 0.4 * n / rounds)  # a moment, not a condition: any will do
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        trees.make(wish(main))
        whole(main, trees)
        Removal(trees).remove("fix", "w/fix")
        gone(main, trees)


def test_list_that_another_holds_is_not_waited_for_for_ever(trees: WorkTrees) -> None:
    hasty = WorkTrees(trees.place, wait_s=0.1)
    with (
        trees.locks.of_all(),
        pytest.raises(TreeBusy, match=rf"has been held for 0.1 s by process {os.getpid()} \("),
    ):
        hasty.read()


def test_lock_is_held_as_long_as_a_git_of_a_dead_maker_runs(main: Git, trees: WorkTrees) -> None:
    """A maker is killed while git checks out; the repetition waits for that git to end."""
    started, go_on = main.path / ".git" / "started", main.path / ".git" / "go-on"
    main.commit(".gitattributes", text="file filter=slow\n")
    waits = f"touch {started}; while [ ! -e {go_on} ]; do sleep 0.02; done; cat"
    main.ok("config", "filter.slow.smudge", waits)
    main.ok("config", "filter.slow.clean", "cat")
    process = subprocess.Popen([sys.executable, "-c", MAKE, main.path, main.head])
    while not started.exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    again = subprocess.Popen([sys.executable, "-c", MAKE, main.path, main.head])
    with pytest.raises(subprocess.TimeoutExpired):
        again.wait(1)
    go_on.touch()
    assert again.wait(60) == 0
    whole(main, trees)


@pytest.mark.skipif(not Supervisors.exist, reason="only Linux ends what a killed process started")
@pytest.mark.parametrize("what", ["hook", "setup"])
def test_program_that_hangs_ends_with_a_maker_that_is_killed(
    main: Git, trees: WorkTrees, tmp_path: Path, what: str
) -> None:
    """Nobody else knows of it; what it has started itself ends, too."""
    told = tmp_path / "pid"
    hangs = f"setsid sleep 600 & echo $! >{told}.new; mv {told}.new {told}; wait"
    if what == "hook":
        hook = main.path / ".git" / "hooks" / "post-checkout"
        hook.write_text(f"#!/bin/sh\n{hangs}\n")
        hook.chmod(0o755)
    setup = ["sh", "-c", hangs] if what == "setup" else []
    maker = subprocess.Popen([sys.executable, "-c", MAKE, main.path, main.head, *setup])
    wait_until(told.exists)
    maker.kill()
    maker.wait()
    wait_until(lambda: has_ended(int(told.read_text())))
    if what == "hook":
        hook.unlink()
    trees.make(wish(main))
    whole(main, trees)


def hook_of_refs(main: Git, script: str) -> Path:
    """A hook that git runs whenever it changes a ref."""
    hook = main.path / ".git" / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    return hook


def test_git_that_hangs_after_its_maker_was_killed_is_named(
    main: Git, trees: WorkTrees, tmp_path: Path
) -> None:
    """It holds the lock of all trees: whoever waits is told which process that is."""
    told = tmp_path / "pid"
    hook = hook_of_refs(main, f"echo $PPID >{told}.new; mv {told}.new {told}; exec sleep 600")
    maker = subprocess.Popen([sys.executable, "-c", MAKE, main.path, main.head])
    wait_until(told.exists)
    maker.kill()
    maker.wait()
    git = int(told.read_text())
    hasty = WorkTrees(trees.place, wait_s=0.1)
    with pytest.raises(TreeBusy, match=rf"process {git} \(\S*git .*; wait, or end that"):
        hasty.read()
    os.killpg(os.getpgid(git), signal.SIGKILL)  # with its hook, which holds it, too
    hook.unlink()
    trees.make(wish(main))
    whole(main, trees)


@pytest.mark.slow
def test_hook_of_refs_that_hangs_is_ended(main: Git, trees: WorkTrees) -> None:
    """Not only where git makes a tree: also where its branch is made."""
    hook = hook_of_refs(main, "read old new ref; [ $ref != refs/heads/w/fix ] || exec sleep 600")
    new = dataclasses.replace(wish(main), limit_s=5.0)  # enough for all other gits
    with pytest.raises(OutOfTime, match="git update-ref has not ended within 5 s"):
        trees.make(new)
    hook.unlink()
    trees.make(wish(main))
    whole(main, trees)
