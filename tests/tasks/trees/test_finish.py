"""Done: only a clean head of the right branch, beyond the base, under a token that still counts."""

import shutil
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.errors import LeaseLost, Refused
from ackbus.tasks.finish import NothingDone, TaskDiff
from ackbus.tasks.records.task import Task
from ackbus.tasks.steps.messages import WrongTaskState
from ackbus.tasks.steps.tasks import Tasks

from ...cli.git import Git
from ...git_branches.conftest import at
from ...subscribers.conftest import Clock
from .conftest import spawned


@pytest.fixture
def task(bus: Bus, main: Git) -> Task:
    """A task that is WORKING."""
    made = spawned(bus, main)
    return Tasks(bus).start("fix", agent="worker-1", token=made.token)


@pytest.fixture
def tree(task: Task) -> Git:
    """Its tree."""
    return at(task.path)


def done(bus: Bus, task: Task) -> Task:
    return bus.finish_task("fix", agent="worker-1", token=task.token)


def test_clean_head_is_pinned(bus: Bus, task: Task, tree: Git) -> None:
    """M-02, M-05: done makes it IN_REVIEW; `task_done` shows branch and commit."""
    tree.commit("mine")
    ended = done(bus, task)
    assert (ended.state, ended.head) == ("IN_REVIEW", tree.head)
    (told,) = [message.payload for message in bus.read() if message.type == "task_done"]
    assert isinstance(told, dict)
    assert (told["branch"], told["commit"]) == ("worker-1/fix", tree.head)
    assert bus.leases.list() == []


def test_repetition_keeps_the_first_head(bus: Bus, task: Task, tree: Git) -> None:
    tree.commit("mine")
    ended = done(bus, task)
    tree.commit("later")
    assert done(bus, task) == ended


def test_nothing_beyond_the_base_is_not_done(bus: Bus, task: Task) -> None:
    with pytest.raises(
        NothingDone, match=r"has no commit beyond its base, .*'bus task cancel fix'"
    ):
        done(bus, task)
    assert Tasks(bus).get("fix").state == "WORKING"


def test_dirt_is_named(bus: Bus, task: Task, tree: Git) -> None:
    tree.commit("mine")
    tree.write("staged")
    (tree.path / "mine").write_text("changed\n")
    (tree.path / "new").touch()
    told = "is not clean: not committed: mine, staged; unknown to git: new; commit that"
    with pytest.raises(Refused, match=told):
        done(bus, task)
    assert Tasks(bus).get("fix").state == "WORKING"


def test_operation_under_way_is_not_done(bus: Bus, main: Git, task: Task, tree: Git) -> None:
    tree.commit("mine")
    main.commit("mine", text="theirs\n")
    tree("rebase", "main")
    with pytest.raises(Refused, match="is on no branch, and task 'fix' on worker-1/fix"):
        done(bus, task)
    tree.ok("rebase", "--abort")
    tree("merge", "main")
    with pytest.raises(Refused, match="a merge is under way"):
        done(bus, task)


def test_other_branch_is_refused_with_the_way_back(bus: Bus, task: Task, tree: Git) -> None:
    tree.ok("checkout", "--quiet", "-b", "aside")
    tree.commit("mine")
    with pytest.raises(Refused, match=r"is on branch aside, .*: git switch worker-1/fix"):
        done(bus, task)


def test_tree_that_is_gone_says_how_it_comes_back(bus: Bus, task: Task, tree: Git) -> None:
    shutil.rmtree(tree.path)
    with pytest.raises(Refused, match="'bus task spawn fix --worker worker-1' brings it back"):
        done(bus, task)


def test_late_holder_changes_nothing(bus: Bus, task: Task, tree: Git, clock: Clock) -> None:
    """The token has moved: not even the tree is looked at."""
    tree.commit("mine")
    clock.advance(4000)
    assert [lost.attempt for lost in Tasks(bus).settle_lost()] == [2]
    again = spawned(bus, at(Path(task.repository).parent))
    with pytest.raises(WrongTaskState, match="is ASSIGNED in attempt 2"):
        done(bus, task)
    Tasks(bus).start("fix", agent="worker-1", token=again.token)
    shutil.rmtree(tree.path)
    with pytest.raises(LeaseLost, match=f"with token {task.token}"):
        done(bus, task)
    assert Tasks(bus).get("fix").state == "WORKING"


class TestDiff:
    """The changes of a task, while it works and later."""

    def test_only_its_own_changes(self, bus: Bus, main: Git, task: Task, tree: Git) -> None:
        tree.commit("mine", text="one\ntwo\n")
        main.commit("theirs")
        tree.ok("merge", "--quiet", "main")
        found = TaskDiff.of(bus, Tasks(bus).get("fix"))
        counts = [(each.file, each.added, each.removed) for each in found.files()]
        assert counts == [("mine", 2, 0)]
        assert "+two\n" in found.text()
        assert "theirs" not in found.text()

    def test_renames_and_files_that_are_no_text(self, bus: Bus, task: Task, tree: Git) -> None:
        tree.ok("mv", "file", "moved ü\n")
        (tree.path / "raw").write_bytes(b"\0\1")
        tree.ok("add", "raw")
        tree.ok("commit", "--quiet", "-m", "changes")
        counts = {each.file: (each.added, each.removed) for each in TaskDiff.of(bus, task).files()}
        assert counts == {"moved ü\n": (0, 0), "raw": (None, None)}
