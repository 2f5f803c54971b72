"""Jobs whose tree-making was cut off: whoever has the job next does it, and nothing is lost."""

import json
import os
import signal
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.git.branches.repositories import RepositoryPlace
from ackbus.git.trees.rescue import RESCUED
from ackbus.git.trees.work_trees import NewTree, WorkTrees
from ackbus.schema.errors import Refused
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.tasks.spawn import Spawner, TaskSpec

from ...conftest import RunBus, wait_until
from .conftest import Jobs, RunWorker, git
from .test_work import trees

PROGRAM = 'cat >"$BUS_TASK.txt"'


def cut_off(repo: Path, branch: str, *, is_made: bool = False, bus: str | None = None) -> str:
    """Make the tree of task `j1` as a killed worker had it, without a task; return its path."""
    wanted = NewTree("j1", branch, git(repo, "rev-parse", "main"), bus=bus)
    made = WorkTrees(RepositoryPlace.around(str(repo))).make(wanted)
    note = Path(made.admin, "ackbus.json")
    note.write_text(json.dumps(json.loads(note.read_text()) | {"is_made": is_made}))
    return made.path


def is_done_by(jobs: Jobs, worker: str) -> None:
    task = jobs.tasks.get("j1")
    assert (task.state, task.worker) == ("APPROVED", worker)
    assert jobs.states()[-1] == "succeeded"


@pytest.mark.slow
def test_job_whose_set_up_failed_is_done_by_another_worker(
    jobs: Jobs, repo: Path, start_worker: RunWorker
) -> None:
    """Item 21: worker A's `--setup false` left its tree; B found it on a branch of A's."""
    change_policy(jobs.bus, "jobs", by="me", backoff_s=0.01)
    jobs.publish("x", task="j1")
    start_worker(PROGRAM, "--once", "--setup", "echo half >half; false", worker="a")
    assert jobs.states() == ["queued"]
    start_worker(PROGRAM, "--once", worker="b")
    is_done_by(jobs, "b")
    assert git(repo, "branch", "--list", "agent/a/*") == ""
    kept = git(repo, "for-each-ref", "--format=%(refname)", RESCUED).splitlines()
    assert [git(repo, "show", f"{ref}:half") for ref in kept] == ["half"]
    assert all(ref in (repo / "b.out").read_text() for ref in kept)


@pytest.mark.slow
def test_stop_ends_a_set_up_and_counts_no_attempt(
    jobs: Jobs, repo: Path, start_worker: RunWorker, tmp_path: Path
) -> None:
    """Item 21: a stop during set-up hands the job back, and the set-up ends with it."""
    jobs.publish("x", task="j1")
    began = tmp_path / "began"
    line = f"echo $$ >{began}; exec sleep 600"
    stopped = start_worker(PROGRAM, "--once", "--setup", line, worker="a", wait=False)
    wait_until(lambda: began.exists() and began.read_text().strip() != "")
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(60) == 0
    assert not Path(f"/proc/{began.read_text().strip()}").exists()
    assert jobs.queue.jobs.get(1).attempt == 1
    assert jobs.bus.leases.get("task.j1") is None
    start_worker(PROGRAM, "--once", worker="b")
    is_done_by(jobs, "b")


@pytest.mark.slow
@pytest.mark.parametrize("is_made", [False, True], ids=["unfinished", "finished"])
def test_tree_of_a_killed_worker_goes_to_the_next(
    jobs: Jobs, repo: Path, start_worker: RunWorker, is_made: bool
) -> None:
    """Its commits and files are kept at refs first."""
    path = Path(cut_off(repo, "agent/a/x", is_made=is_made, bus=jobs.bus.layout.directory))
    (path / "mine").write_text("mine\n")
    git(path, "add", "mine")
    git(path, "commit", "-qm", "mine")
    head = git(path, "rev-parse", "HEAD")
    jobs.publish("x", task="j1")
    start_worker(PROGRAM, "--once", worker="b")
    is_done_by(jobs, "b")
    kept = git(repo, "for-each-ref", "--format=%(objectname)", RESCUED).splitlines()
    assert head in kept
    assert trees(repo) == []


@pytest.mark.slow
def test_same_worker_goes_on_after_the_base_has_moved(
    jobs: Jobs, repo: Path, start_worker: RunWorker
) -> None:
    id = jobs.publish("x", task="j1")
    cut_off(repo, f"agent/a/{id}")
    git(repo, "commit", "-q", "--allow-empty", "-m", "later")
    start_worker(PROGRAM, "--once", worker="a")
    is_done_by(jobs, "a")
    assert git(repo, "merge-base", "main", f"agent/a/{id}") == git(repo, "rev-parse", "main")


def test_finished_tree_of_another_bus_stays(bus: Bus, jobs: Jobs, repo: Path) -> None:
    """Live trees are not reaped: what another bus has finished is its own, on any branch."""
    path = cut_off(repo, "other/j1", is_made=True, bus="/elsewhere/.worker-state")
    for branch in ("other/{task}", "mine/{task}"):
        spec = TaskSpec(task="j1", worker="b", folder=str(repo), branch=branch)
        with pytest.raises(Refused, match="which this bus did not make; choose another name"):
            Spawner(bus).spawn(spec, agent="lead")
    assert trees(repo) == [path]
    assert bus.leases.get("task.j1") is None


def test_tree_in_which_a_process_works_stays(
    bus: Bus, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(cut_off(repo, "agent/a/j1"))
    with pytest.raises(Refused, match=f"process {os.getpid()} works in"):
        Spawner(bus).spawn(TaskSpec(task="j1", worker="b", folder=str(repo)), agent="lead")


@pytest.mark.parametrize("there", ["agent", "agent/w1/j1/more"], ids=["above", "below"])
def test_branch_above_or_below_refuses_a_job_at_once(
    jobs: Jobs, repo: Path, start_worker: RunWorker, there: str
) -> None:
    """Item 15: nothing is half made, and what can't succeed is not tried again."""
    git(repo, "branch", there)
    jobs.publish("x", task="j1")
    start_worker(PROGRAM, "--drain", "--branch", "agent/{worker}/{task}")
    job = jobs.queue.jobs.get(1)
    assert (job.state, job.attempt) == ("failed", 1)
    assert "beside branch" in str(job.error)
    assert trees(repo) == []


def test_dependency_must_be_a_task_or_a_job(
    bus: Bus, jobs: Jobs, repo: Path, run_bus: RunBus
) -> None:
    """Item 21: `--after nosuch` was accepted, and waited for ever."""

    def spawn(name: str, *after: str) -> None:
        spec = TaskSpec(task=name, worker="w", folder=str(repo), depends_on=after)
        Spawner(bus).spawn(spec, agent="lead")

    for name in ("nosuch", "t1"):
        with pytest.raises(ValueError, match=f"task 't1' depends on '{name}', which is no task"):
            spawn("t1", name)
    assert (trees(repo), bus.leases.list()) == ([], [])
    id = jobs.publish("x")
    jobs.publish("x", task="queued")
    spawn("t1", "queued", id)
    spawn("t2", "t1")
    added = run_bus("task", "add", "plan", "--prompt", "x", "--after", "t1", "--agent", "a")
    assert added.code == 0
    spawn("t3", "plan")
    jobs.tasks.cancel("t1", agent="lead")
    with pytest.raises(ValueError, match="depends on 't1', which is CANCELLED"):
        spawn("t4", "t1")
