"""Clean removes what landed or is kept at a ref, and names all else."""

import os
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.remote_target import CheckTree
from ackbus.git.repository import GitFailed
from ackbus.git.trees.rescue import Rescue
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.tasks.finish import Cleaned, Cleaner, leftovers_of
from ackbus.tasks.records.task import Task
from ackbus.tasks.steps.messages import TaskNotFound
from ackbus.tasks.steps.tasks import Tasks

from ...cli.git import Git
from ...git_branches.conftest import at, repository
from .conftest import spawned


def worked(bus: Bus, main: Git, name: str = "fix", more: tuple[str, ...] = ()) -> Task:
    """A task that is done, with one commit and perhaps more."""
    task = spawned(bus, main, name, review="none")
    Tasks(bus).start(name, agent="worker-1", token=task.token)
    for words in (name, *more):
        at(task.path).commit(words)
    return bus.finish_task(name, agent="worker-1", token=task.token)


def landed(bus: Bus, main: Git, name: str = "fix") -> Task:
    """A task that has landed as one commit of its own, squashed."""
    task = worked(bus, main, name)
    main.ok("merge", "--quiet", "--squash", task.branch)
    main.ok("commit", "--quiet", "-m", "squashed")
    return Tasks(bus).land(name, attempt=1, agent="integrator", commit=main.head)


def clean(bus: Bus, *names: str, **more: bool) -> list[Cleaned]:
    return Cleaner(bus).clean(names, **more)


def test_landed_squash_is_cleaned(bus: Bus, main: Git) -> None:
    task = landed(bus, main)
    (cleaned,) = clean(bus)
    assert (cleaned.is_removed, cleaned.refs, cleaned.reason) == (True, [], None)
    assert not Path(task.path).exists()
    assert main("rev-parse", "--verify", task.branch).code != 0
    assert Tasks(bus).get("fix").cleaned_at_ms is not None
    assert clean(bus) == []


def test_landed_picks_are_cleaned(bus: Bus, main: Git) -> None:
    task = worked(bus, main, more=("second",))
    main.commit("of another")
    main.ok("cherry-pick", f"{task.base}..{task.branch}")
    Tasks(bus).land("fix", attempt=1, agent="integrator", commit=main.head)
    (cleaned,) = clean(bus)
    assert (cleaned.is_removed, cleaned.refs) == (True, [])


def test_row_alone_is_no_proof_that_a_head_has_landed(bus: Bus, main: Git) -> None:
    """A row may name any commit that the target has."""
    task = worked(bus, main)
    main.commit("of another")
    Tasks(bus).land("fix", attempt=1, agent="integrator", commit=main.head)
    (cleaned,) = clean(bus)
    assert (cleaned.is_removed, cleaned.refs) == (True, [f"refs/ackbus/rescue/fix/{task.head}"])


def test_commits_after_the_one_that_landed_are_kept(bus: Bus, main: Git) -> None:
    task = landed(bus, main)
    at(task.path).commit("later")
    head = at(task.path).head
    (cleaned,) = clean(bus)
    assert cleaned.refs == [f"refs/ackbus/rescue/fix/{head}"]
    assert main.ok("rev-parse", cleaned.refs[0]) == head


def test_landing_that_the_repository_does_not_have_is_no_landing(bus: Bus, main: Git) -> None:
    """A target that was forced back: its commits are kept."""
    task = worked(bus, main)
    Tasks(bus).land("fix", attempt=1, agent="integrator", commit="1" * 40)
    (cleaned,) = clean(bus)
    assert cleaned.refs == [f"refs/ackbus/rescue/fix/{task.head}"]


def test_landing_that_the_target_has_no_more_is_no_landing(bus: Bus, main: Git) -> None:
    """A target that was reset behind what landed, while git still has the commit."""
    task = landed(bus, main)
    main.ok("reset", "--quiet", "--hard", "HEAD~1")
    (cleaned,) = clean(bus)
    assert cleaned.refs == [f"refs/ackbus/rescue/fix/{task.head}"]


def test_dry_run_says_what_a_run_would_do_and_changes_nothing(bus: Bus, main: Git) -> None:
    task = landed(bus, main)
    assert [each.is_removed for each in clean(bus, is_dry=True)] == [True]
    at(task.path).write("note", text="not committed\n")
    (dry,) = clean(bus, is_dry=True)
    assert not dry.is_removed
    assert clean(bus) == [dry]
    assert [each.is_removed for each in clean(bus, is_dry=True, keeps_files=True)] == [True]
    assert Path(task.path, "note").exists()
    assert not main.ok("for-each-ref", "refs/ackbus/rescue")


@pytest.mark.parametrize("end", ["cancel", "fail"])
def test_work_of_a_task_that_did_not_land_is_kept_at_a_ref(bus: Bus, main: Git, end: str) -> None:
    task = worked(bus, main)
    if end == "cancel":
        Tasks(bus).cancel("fix", agent="lead")
    else:
        Tasks(bus).fail("fix", agent="lead", reason="no")
    (cleaned,) = clean(bus)
    assert cleaned.refs == [f"refs/ackbus/rescue/fix/{task.head}"]
    assert not Path(task.path).exists()


def test_live_lease_keeps_a_tree_whatever_the_state_says(bus: Bus, main: Git) -> None:
    task = landed(bus, main)
    bus.leases.acquire("task.fix", "worker-1", lease_s=60)
    (cleaned,) = clean(bus)
    assert cleaned.reason == "worker-1 has the lease on it"
    assert Path(task.path).exists()


def test_tree_in_which_a_process_works_is_kept(bus: Bus, main: Git) -> None:
    task = landed(bus, main)
    with subprocess.Popen(["sleep", "60"], cwd=task.path) as process:
        (cleaned,) = clean(bus)
        assert cleaned.reason == f"process {process.pid} works in it"
        process.kill()
    assert clean(bus)[0].is_removed


def test_live_tasks_are_no_matter_of_clean(bus: Bus, main: Git) -> None:
    worked(bus, main)
    assert clean(bus) == []
    (cleaned,) = clean(bus, "fix")
    assert cleaned.reason == "the task is APPROVED"


@pytest.mark.slow
def test_dirty_tree_is_named_and_others_are_cleaned(bus: Bus, main: Git) -> None:
    dirty, tidy = landed(bus, main), landed(bus, main, "other")
    Path(dirty.path, "new").write_text("mine\n")
    first, second = clean(bus)
    assert not first.is_removed
    assert "unknown to git: new" in (first.reason or "")
    assert second.is_removed
    assert not Path(tidy.path).exists()
    (kept,) = clean(bus, keeps_files=True)
    assert main.ok("show", f"{kept.refs[0]}:new") == "mine"


def test_dry_run_changes_nothing(bus: Bus, main: Git) -> None:
    task = landed(bus, main)
    (cleaned,) = clean(bus, is_dry=True)
    assert cleaned.is_removed
    assert Path(task.path).exists()
    assert Tasks(bus).get("fix").cleaned_at_ms is None


def test_repository_that_is_gone_is_said(bus: Bus, main: Git) -> None:
    landed(bus, main)
    os.rename(main.path, str(main.path) + ".moved")
    (cleaned,) = clean(bus)
    assert cleaned.reason == f"its repository {main.path}/.git is not there"


def test_leftovers_are_named_by_what_they_are(bus: Bus, main: Git, tmp_path: Path) -> None:
    landed(bus, main)
    live = spawned(bus, main, "live")
    gone = spawned(bus, main, "gone")
    subprocess.run(["rm", "-rf", gone.path], check=True)
    main.ok("worktree", "add", "--quiet", "--detach", tmp_path / "theirs")
    main.ok("worktree", "lock", "--reason", "agent (pid 4000000)", tmp_path / "theirs")
    Path(live.path).parent.joinpath("strange").mkdir()
    found = {(each.kind, each.task) for each in leftovers_of(bus)}
    assert found == {("over", "fix"), ("deleted", "gone"), ("dead_lock", None), ("folder", None)}


def test_check_tree_of_a_killed_integrator_is_named(bus: Bus, main: Git) -> None:
    spawned(bus, main)
    trees = WorkTrees(RepositoryPlace.around(str(main.path)))
    tree = CheckTree(trees, "main")
    tree.put(main.head)
    with trees.locks.of_target("main"):  # as an integrator that is at work has it
        assert leftovers_of(bus) == []
    assert [(each.kind, each.path) for each in leftovers_of(bus)] == [("check", tree.path)]
    tree.remove()
    assert leftovers_of(bus) == []


def test_trees_of_tasks_that_this_bus_does_not_know_are_kept_and_named(
    bus: Bus, main: Git, tmp_path: Path
) -> None:
    spawned(bus, main)
    with Bus.init(tmp_path / "other") as other:
        spawned(other, main, "own")
        assert clean(other) == []
        found = [(each.kind, each.task) for each in leftovers_of(other)]
    assert found == [("unknown_task", "fix")]
    assert Rescue(RepositoryPlace.around(str(main.path))).kept() == []


def test_unknown_task_is_named_in_each_repository(bus: Bus, main: Git, tmp_path: Path) -> None:
    for git in (main, repository(tmp_path / "second")):
        spawned(bus, git, f"of-{git.path.name}")
        trees = WorkTrees(RepositoryPlace.around(str(git.path)))
        trees.make(NewTree("theirs", "them/theirs", git.head))
    found = [(each.kind, each.task) for each in leftovers_of(bus)]
    assert found == [("unknown_task", "theirs")] * 2


def unfinished(bus: Bus, main: Git) -> Path:
    hook = main.path / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\nexit 3\n")
    hook.chmod(0o755)
    with pytest.raises(GitFailed, match="post-checkout failed"):
        spawned(bus, main)
    return Path(WorkTrees(RepositoryPlace.around(str(main.path))).path_of("fix"))


class TestUnfinished:
    """A tree whose making was cut off before it had a task, as by a hook that failed."""

    @pytest.fixture
    def tree(self, bus: Bus, main: Git) -> Path:
        return unfinished(bus, main)

    def test_it_is_named_and_goes_by_its_name_alone(
        self, bus: Bus, main: Git, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(main.path)
        assert clean(bus) == []
        (dry,) = clean(bus, "fix", is_dry=True)
        assert (dry.is_removed, dry.path, tree.exists()) == (True, str(tree), True)
        (cleaned,) = clean(bus, "fix")
        assert (cleaned.is_removed, cleaned.reason, cleaned.refs) == (True, None, [])
        assert not tree.exists()
        assert main("rev-parse", "--verify", "worker-1/fix").code != 0
        with pytest.raises(TaskNotFound):
            clean(bus, "fix")

    def test_doctor_finds_it_in_the_repository_of_the_bus(self, main: Git) -> None:
        """No task names this repository yet."""
        with Bus.init(main.path / ".worker-state") as own:
            unfinished(own, main)
            assert [(each.kind, each.task) for each in leftovers_of(own)] == [("unfinished", "fix")]
            (cleaned,) = clean(own, "fix")
            assert cleaned.is_removed

    def test_one_in_which_a_process_works_stays(
        self, bus: Bus, main: Git, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(main.path)
        with subprocess.Popen(["sleep", "600"], cwd=tree) as process:
            (cleaned,) = clean(bus, "fix")
            process.kill()
        assert cleaned.reason == f"process {process.pid} works in it; end it first"
        assert tree.exists()

    def test_what_a_program_has_left_in_it_is_kept_at_a_ref(
        self, bus: Bus, main: Git, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(main.path)
        (tree / "made").write_text("precious\n")
        (cleaned,) = clean(bus, "fix")
        (ref,) = cleaned.refs
        assert main.ok("show", f"{ref}:made") == "precious"
