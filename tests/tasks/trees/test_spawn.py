"""Spawning: a branch, a tree, a lease and a first message, all of them once."""

from pathlib import Path

import pytest

import ackbus
from ackbus import Bus
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.repository import GitFailed
from ackbus.git.trees.work_trees import WorkTrees
from ackbus.schema.errors import InvalidInput, LeaseLost, Refused
from ackbus.tasks.spawn import Spawner
from ackbus.tasks.steps.messages import TaskExists, WrongTaskState
from ackbus.tasks.steps.tasks import Tasks

from ...cli.git import Git
from ...git_branches.conftest import at
from ...subscribers.conftest import Clock
from .conftest import spawned, spec


def test_spawn_makes_branch_tree_lease_and_message(bus: Bus, main: Git) -> None:
    """M-02: spawn makes a task ASSIGNED, with a branch and a tree of its own."""
    task = spawned(bus, main, prompt="mend it")
    assert (task.state, task.branch, task.target) == ("ASSIGNED", "worker-1/fix", "main")
    assert (task.base, task.base_ref, task.repository) == (
        *(main.head, "main"),
        str(main.path / ".git"),
    )
    assert task.path == str(main.path.parent / "repo.trees" / "fix")
    assert at(task.path).ok("symbolic-ref", "HEAD") == "refs/heads/worker-1/fix"
    lease = bus.leases.get("task.fix")
    assert lease is not None
    assert (lease.holder, lease.token) == ("worker-1", task.token)
    types = [message.type for message in bus.read()]
    assert types == ["state_change", "task_assign"]


def test_repetition_changes_nothing(bus: Bus, main: Git) -> None:
    task = spawned(bus, main)
    main.commit("later")
    assert spawned(bus, main) == task
    assert bus.log.newest_seq() == task.last_seq + 1
    tasks = Tasks(bus)
    started = tasks.start("fix", agent="worker-1", token=task.token)
    assert spawned(bus, main) == started


def test_repetition_brings_back_a_tree_that_was_deleted(bus: Bus, main: Git) -> None:
    task = spawned(bus, main)
    git = at(task.path)
    git.commit("mine")
    head = git.head
    main.ok("worktree", "unlock", task.path)
    main.ok("worktree", "remove", task.path)
    spawned(bus, main)
    assert git.head == head
    assert git.ok("symbolic-ref", "HEAD") == "refs/heads/worker-1/fix"


def test_repetition_after_the_lease_ran_out_grants_it_again(
    bus: Bus, main: Git, clock: Clock
) -> None:
    task = Spawner(bus).spawn(spec(main), agent="lead", lease_s=10)
    clock.advance(11)
    assert spawned(bus, main).token > task.token


def test_task_of_another_worker_or_branch_is_refused(bus: Bus, main: Git) -> None:
    spawned(bus, main)
    with pytest.raises(TaskExists, match="worker-1 has it on branch worker-1/fix"):
        spawned(bus, main, worker="worker-2")
    with pytest.raises(TaskExists):
        spawned(bus, main, branch="other")


def test_name_that_another_is_making_is_refused(bus: Bus, main: Git) -> None:
    bus.leases.acquire("task.fix", "worker-2", lease_s=60)
    with pytest.raises(LeaseLost, match="is being made by worker-2"):
        spawned(bus, main)
    assert not Path(main.path.parent / "repo.trees").exists()


def test_failed_spawn_gives_the_name_back(bus: Bus, main: Git) -> None:
    main.ok("branch", "worker-1/fix")
    with pytest.raises(Refused, match="is there already"):
        spawned(bus, main)
    assert bus.leases.list() == []
    assert list(bus.read()) == []
    assert spawned(bus, main, worker="worker-2").branch == "worker-2/fix"


def test_base_is_pinned_and_may_be_any_commit(bus: Bus, main: Git) -> None:
    first = main.head
    main.commit("second")
    assert at(spawned(bus, main, "old", base="HEAD~1").path).head == first
    with pytest.raises(Refused, match="'gone' is no commit of"):
        spawned(bus, main, "new", base="gone")
    assert bus.leases.get("task.new") is None


def test_repository_without_a_commit_or_branch_says_what_it_needs(
    bus: Bus, main: Git, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    at(tmp_path / "empty").ok("init", "--quiet")
    with pytest.raises(Refused, match="make a first commit there"):
        spawned(bus, main, folder=str(tmp_path / "empty"))
    main.ok("checkout", "--quiet", "--detach")
    with pytest.raises(Refused, match=r"is on no branch; name the branch .* with --into"):
        spawned(bus, main)
    assert spawned(bus, main, target="main").target == "main"


@pytest.mark.parametrize("branch", ["-x", "a b", "{worker}/..", "HEAD"])
def test_branch_that_git_does_not_take_is_refused(bus: Bus, main: Git, branch: str) -> None:
    with pytest.raises(InvalidInput, match="can be no name of a branch"):
        spawned(bus, main, branch=branch)
    assert bus.leases.list() == []


@pytest.mark.parametrize(
    "target",
    [
        "main:refs/heads/release",
        "main:release",
        "main:refs/tags/v1",
        "*:refs/heads/*",
        "a\nb",
        "-a",
    ],
)
def test_target_of_a_job_is_no_refspec(bus: Bus, main: Git, tmp_path: Path, target: str) -> None:
    """A message chose it, and a fetch would have moved or made any ref."""
    main.ok("clone", "--quiet", ".", tmp_path / "clone")
    clone = at(tmp_path / "clone")
    clone.ok("branch", "release")
    main.commit("newer")
    refs = clone.ok("show-ref", "--heads", "--tags")
    with pytest.raises(InvalidInput, match="can be no name of a branch"):
        spawned(bus, clone, target=target, fetches=True)
    assert clone.ok("show-ref", "--heads", "--tags") == refs


def test_stale_target_is_fetched_first(bus: Bus, main: Git, tmp_path: Path) -> None:
    main.ok("clone", "--quiet", ".", tmp_path / "clone")
    main.commit("newer")
    clone = at(tmp_path / "clone")
    assert spawned(bus, clone, "stale").base == clone.head != main.head
    task = spawned(bus, clone, "fresh", fetches=True)
    assert (task.base, task.base_ref) == (main.head, "refs/remotes/origin/main")
    assert clone.head != main.head  # the local branch is as it was
    clone.ok("remote", "set-url", "origin", str(tmp_path / "gone"))
    with pytest.raises(GitFailed, match="main can't be fetched from origin: "):
        spawned(bus, clone, "gone", fetches=True)


def test_settings_of_git_fill_new_trees(bus: Bus, main: Git) -> None:
    main.commit(".gitignore", text=".env\n.told\n")
    (main.path / ".env").write_text("X=1\n")
    main.ok("config", "ackbus.copy", ".env")
    main.ok("config", "ackbus.setup", 'echo "$BUS_AGENT $BUS_TASK $BUS_TASK_BRANCH" >.told')
    main.ok("config", "ackbus.branch", "agent/{worker}/{task}")
    task = spawned(bus, main)
    assert task.branch == "agent/worker-1/fix"
    assert Path(task.path, ".env").read_text() == "X=1\n"
    assert Path(task.path, ".told").read_text() == "worker-1 fix agent/worker-1/fix\n"


def test_next_attempt_goes_on_in_the_same_tree(bus: Bus, main: Git) -> None:
    task = spawned(bus, main)
    git = at(task.path)
    git.commit("mine")
    tasks = Tasks(bus)
    tasks.start("fix", agent="worker-1", token=task.token)
    tasks.done("fix", agent="worker-1", token=task.token, head=git.head)
    tasks.reject("fix", agent="rita", words="a test is missing")
    again = spawned(bus, main)
    assert (again.state, again.attempt, again.path) == ("ASSIGNED", 2, task.path)
    assert again.token > task.token
    assert at(again.path).head == git.head


def test_other_worker_takes_the_tree_of_a_task_from_the_queue(bus: Bus, main: Git) -> None:
    task = spawned(bus, main, from_queue=True)
    main.ok("worktree", "unlock", task.path)
    main.ok("worktree", "remove", task.path)
    again = spawned(bus, main, worker="worker-2", from_queue=True)
    assert (again.worker, again.branch) == ("worker-1", "worker-1/fix")
    assert Path(again.path, "file").exists()


def test_over_is_over(bus: Bus, main: Git) -> None:
    task = spawned(bus, main)
    Tasks(bus).cancel("fix", agent="lead")
    trees = WorkTrees(RepositoryPlace.around(str(main.path)))
    main.ok("worktree", "unlock", task.path)
    main.ok("worktree", "remove", task.path)
    with pytest.raises(
        WrongTaskState, match=r"is CANCELLED.* 'bus task clean fix' removes its tree"
    ):
        spawned(bus, main)
    assert trees.of("fix") is None
    bus.clean_tasks(["fix"])
    with pytest.raises(WrongTaskState, match=r"choose another name$"):
        spawned(bus, main)


def test_program_of_a_user_needs_public_names_alone(bus: Bus, main: Git) -> None:
    """From a task with its tree to an end that cleans up."""
    spec = ackbus.TaskSpec(task="fix", worker="ann", folder=str(main.path), review="none")
    task = bus.spawn_task(spec, agent="lead")
    tasks = ackbus.Tasks(bus)
    tasks.start("fix", agent="ann", token=task.token)
    with pytest.raises(ackbus.errors.NothingDone):
        bus.finish_task("fix", agent="ann", token=task.token)
    at(task.path).commit("mine")
    done = bus.finish_task("fix", agent="ann", token=task.token)
    assert (done.state, done.head) == ("APPROVED", at(task.path).head)
    tasks.cancel("fix", agent="lead")
    (cleaned,) = bus.clean_tasks()
    assert cleaned.is_removed
    assert cleaned.refs == [f"refs/ackbus/rescue/fix/{done.head}"]
    with pytest.raises(ackbus.errors.GitFailed):
        bus.spawn_task(ackbus.TaskSpec(task="b", worker="ann", folder="/"), agent="lead")
