"""Commits that are done stay until they have landed, whatever becomes of branch and tree."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus.git.target_refs import TargetBusy
from ackbus.git.trees.rescue import ASKED, DONE, DoneHeads
from ackbus.tasks.control.requests import Completions
from ackbus.tasks.finish import Cleaner
from ackbus.tasks.records.task import Task
from ackbus.tasks.spawn import Spawner, TaskSpec
from ackbus.tasks.steps.tasks import Tasks

from ...git_branches.conftest import at
from .conftest import Yard


def _done(yard: Yard, name: str = "fix", review: str = "none") -> Task:
    """A task that is done in a tree of its own."""
    spec = TaskSpec(task=name, worker="w", folder=str(yard.git.path), review=review)  # type: ignore[arg-type]
    task = Spawner(yard.bus).spawn(spec, agent="lead")
    yard.tasks.start(name, agent="w", token=task.token)
    at(task.path).commit(f"of-{name}")
    return yard.bus.finish_task(name, agent="w", token=task.token)


def _sweep(yard: Yard) -> None:
    """Have git delete all that no ref leads to."""
    yard.git.ok("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    yard.git.ok("gc", "--quiet", "--prune=now")


def _amend(yard: Yard, task: Task) -> None:
    at(task.path).ok("commit", "--quiet", "--amend", "-m", "another")


def _delete(yard: Yard, task: Task) -> None:
    yard.git.ok("worktree", "unlock", task.path)
    yard.git.ok("worktree", "remove", "--force", task.path)
    yard.git.ok("branch", "-D", task.branch)


def _reset(yard: Yard, task: Task) -> None:
    at(task.path).ok("reset", "--quiet", "--hard", task.base)


def _take_away(yard: Yard, task: Task) -> None:
    shutil.rmtree(task.path)
    yard.git.ok("update-ref", "-d", f"refs/heads/{task.branch}")


#: What an agent does to its branch after it is done.
HARMS: dict[str, Callable[[Yard, Task], None]] = {
    "amends": _amend,
    "deletes tree and branch": _delete,
    "resets": _reset,
    "takes tree and branch away by hand": _take_away,
}


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_an_approved_head_lands_though_nothing_of_its_branch_is_left(
    yard: Yard, harm: Callable[[Yard, Task], None]
) -> None:
    """Issue 31, item 26: it had no ref of its own, and `git gc` took it."""
    task = _done(yard)
    assert task.head is not None
    harm(yard, task)
    _sweep(yard)
    assert yard.integrate("true") == {"fix": "landed"}
    assert (yard.git.path / "of-fix").exists()
    assert DoneHeads(yard.place).of_task("fix") == []


def test_a_branch_without_a_task_lands_as_it_was_asked_for(yard: Yard) -> None:
    yard.branch("topic", new="x\n")
    yard.ask("topic")
    yard.git.ok("branch", "-D", "topic")
    _sweep(yard)
    assert yard.integrate("true") == {"topic": "landed"}
    assert yard.git.ok("for-each-ref", "refs/ackbus") == ""


def test_a_head_that_is_done_again_takes_the_place_of_the_last(yard: Yard) -> None:
    """Also one that was refused stays until then."""
    first = _done(yard, review="required")
    tasks = Tasks(yard.bus)
    tasks.reject("fix", agent="rita", words="again")
    kept = DoneHeads(yard.place).of_task("fix")
    assert [(each.ref, each.commit) for each in kept] == [(f"{DONE}/fix/{first.head}", first.head)]
    again = Spawner(yard.bus).spawn(
        TaskSpec(task="fix", worker="w", folder=str(yard.git.path), review="required"),
        agent="lead",
    )
    tasks.start("fix", agent="w", token=again.token)
    at(again.path).commit("more")
    second = yard.bus.finish_task("fix", agent="w", token=again.token)
    assert [each.commit for each in DoneHeads(yard.place).of_task("fix")] == [second.head]


def test_a_cancelled_head_is_kept_at_its_rescue_ref_when_its_task_is_cleaned(yard: Yard) -> None:
    task = _done(yard)
    _amend(yard, task)
    _sweep(yard)
    yard.tasks.cancel("fix", agent="lead")
    amended = at(task.path).head
    (cleaned,) = Cleaner(yard.bus, str(yard.git.path)).clean()
    assert cleaned.is_removed, cleaned.reason
    assert sorted(cleaned.refs) == sorted(
        f"refs/ackbus/rescue/fix/{each}" for each in (task.head, amended)
    )
    assert DoneHeads(yard.place).of_task("fix") == []
    _sweep(yard)
    assert yard.git.ok("cat-file", "-t", task.head or "") == "commit"


@pytest.mark.slow
def test_a_landed_head_needs_no_ref_when_its_task_is_cleaned(yard: Yard) -> None:
    _done(yard)
    yard.integrate("true")
    (cleaned,) = Cleaner(yard.bus, str(yard.git.path)).clean()
    assert (cleaned.is_removed, cleaned.refs) == (True, [])


@pytest.mark.parametrize("strategy", ["merge", "cherry-pick", "ff"])
@pytest.mark.parametrize("undo", ["revert", "reset"])
def test_what_a_person_has_undone_lands_again(yard: Yard, strategy: str, undo: str) -> None:
    """By the branch as it is where the target was moved back, by a new commit after a revert."""
    yard.branch("topic", new="x\n")
    yard.ask("topic")
    assert yard.integrate(strategy=strategy) == {"topic": "landed"}
    if undo == "reset":
        yard.git.ok("reset", "--quiet", "--hard", "HEAD~1")
    else:
        parent = ("-m", "1") if strategy == "merge" else ()
        yard.git.ok("revert", "--no-edit", *parent, "HEAD")
        yard.branch("topic", "main", new="x\n")
    assert not (yard.git.path / "new").exists()
    yard.ask("topic")
    assert yard.integrate(strategy=strategy) == {"topic": "landed"}
    assert (yard.git.path / "new").exists()


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_a_commit_outside_the_sparse_checkout_of_the_target_lands(yard: Yard, cone: str) -> None:
    """The files of the tree of the target stay those of its checkout, and clean."""
    yard.git.commit("in/a", "out/b", text="1\n")
    task = yard.task("one", **{"out/b": "2\n", "out/new": "2\n", "in/a": "2\n"})
    yard.git.ok("sparse-checkout", "set", cone, "in")
    assert yard.integrate("test -e in/a") == {"one": "landed"}
    assert yard.git.ok("status", "--porcelain") == ""
    assert (yard.git.path / "in/a").read_text() == "2\n"
    assert not (yard.git.path / "out").exists()
    assert yard.git.ok("diff", "--name-only", "HEAD", task.head or "") == ""


def _by_python(yard: Yard, head: str) -> None:
    yard.approve("fix", head)


def _by_another_review(yard: Yard, head: str) -> None:
    """The worker was elsewhere, so that the head could not be kept when it was done."""
    with yard.bus.transaction():
        yard.approve("fix", head, review="required")
    assert DoneHeads(yard.place).of_task("fix") == []
    yard.tasks.approve("fix", agent="rita")


def _by_merge(yard: Yard, head: str) -> None:
    with yard.bus.transaction():
        yard.approve("fix", head, review="required")
    yard.tasks.merge("fix", agent="rita")


def _by_pushpals(yard: Yard, head: str) -> None:
    body = {"jobId": "j", "sessionId": "s", "message": "m", "branch": "w/fix", "commitSha": head}
    Completions(yard.bus).enqueue(body)


#: The doors by which a head comes that waits to land, besides those above.
DOORS: dict[str, Callable[[Yard, str], None]] = {
    "Tasks.done": _by_python,
    "Tasks.approve": _by_another_review,
    "Tasks.merge": _by_merge,
    "a completion of PushPals": _by_pushpals,
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_head_is_kept_whatever_door_it_came_by(
    yard: Yard, door: Callable[[Yard, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(yard.git.path)
    head = yard.branch("w/fix", new="x\n")
    door(yard, head)
    yard.git.ok("branch", "-D", "w/fix")
    _sweep(yard)
    assert list(yard.integrate("true").values()) == ["landed"]
    assert (yard.git.path / "new").exists()
    assert yard.git.ok("for-each-ref", "refs/ackbus") == ""


def test_an_integrator_keeps_what_could_not_be_kept_before(yard: Yard) -> None:
    """Its user has named the repository; whoever was done was away from it."""
    head = yard.branch("w/fix", new="x\n")
    yard.approve("fix", head)
    assert yard.git.ok("for-each-ref", "refs/ackbus") == ""
    yard.git.write("a", text="dirty\n")
    with pytest.raises(TargetBusy):
        yard.integrate("true")
    assert yard.git.ok("for-each-ref", "refs/ackbus", "--format=%(objectname)") == head


def test_git_runs_in_no_repository_that_only_a_row_names(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither where a step stands in a transaction: git would hold up all writers."""
    head = yard.branch("w/fix", new="x\n")
    hooks = yard.git.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "reference-transaction").chmod(0o755)
    yard.approve("fix", head, review="required")
    yard.tasks.approve("fix", agent="rita")
    monkeypatch.chdir(yard.git.path)
    with yard.bus.transaction():
        yard.approve("other", head)
        _by_pushpals(yard, head)
    assert not (tmp_path / "ran").exists()
    assert yard.git.ok("for-each-ref", "refs/ackbus") == ""


@pytest.mark.parametrize(
    "sha", ["", "main", "--all", "HEAD~0", "0" * 40, "1" * 39, "e\0", "é" * 40]
)
def test_a_completion_names_its_commit_by_its_whole_id(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, sha: str
) -> None:
    monkeypatch.chdir(yard.git.path)
    _by_pushpals(yard, sha)
    assert yard.git.ok("for-each-ref", "refs/ackbus") == ""


def test_the_ref_of_a_completion_goes_once_it_is_processed(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has failed keeps it: no commit is lost."""
    monkeypatch.chdir(yard.git.path)
    completions = Completions(yard.bus)
    heads = [yard.branch("one", new="x\n"), yard.branch("two", new="y\n")]
    for head in heads:
        _by_pushpals(yard, head)
    ids = [str(found[0]["id"]) for _ in heads if (found := completions.claim("p"))]
    completions.processed(ids[0])
    completions.fail(ids[1], "conflict")
    kept = yard.git.ok("for-each-ref", "refs/ackbus", "--format=%(refname)")
    assert kept == f"{ASKED}/-/{heads[1]}"
