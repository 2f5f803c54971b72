"""Workers that are killed (kill -9) before each of their calls of git, and begin again."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ...conftest import wait_until
from ...sizes import size
from .conftest import BUS, Jobs, git

#: Kills the worker before the call of git whose number is in KILL_AT; else it is git.
WRAPPER = """#!/bin/sh
n=$(cat "$COUNT"); n=$((n + 1)); echo $n >"$COUNT"
if test $n = "$KILL_AT"; then kill -9 "$WORKER"; exit 1; fi
exec "$GIT" "$@"
"""

#: Notes that it ran, and changes a file.
PROGRAM = 'echo run >>"$RUNS"; head -n 1 >"file-of-$BUS_TASK"'


@pytest.fixture
def counting(repo: Path, tmp_path: Path, bus_env: dict[str, str]) -> dict[str, str]:
    """The environment of a worker whose calls of git are counted."""
    found = shutil.which("git")
    assert found is not None
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    paths = {"COUNT": str(tmp_path / "count"), "RUNS": str(tmp_path / "runs")}
    path = f"{wrapper.parent}{os.pathsep}{bus_env['PATH']}"
    return bus_env | {"GIT": found, "PATH": path, **paths}


def work(repo: Path, env: dict[str, str], kill_at: int) -> bool:
    """Run a worker until nothing is left to do; return whether it was killed before a call."""
    Path(env["COUNT"]).write_text("0\n")
    worker = f"{BUS} task work --worker w1 --drain --lease 5s -- sh -c '{PROGRAM}'"
    line = f"export WORKER=$$; exec {worker}"
    with (repo / "worker.out").open("ab") as out:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=repo,
            env=env | {"KILL_AT": str(kill_at)},
            stdout=out,
            stderr=out,
            check=False,
            timeout=250,
        )
    assert done.returncode in (0, -9), (repo / "worker.out").read_text()
    return done.returncode == -9


def check(repo: Path, jobs: Jobs, task: str) -> None:
    """A task has been done once, whatever happened: one branch, one tree gone, one completion."""
    found = jobs.tasks.get(task)
    assert found.state == "APPROVED", found
    entries = [entry for entry in jobs.completions() if entry["task"] == task]
    assert [entry["head"] for entry in entries] == [found.head]
    assert found.head is not None
    assert git(repo, "diff", "--name-only", "main", found.head) == f"file-of-{task}"
    assert git(repo, "rev-list", "--count", f"main..{found.head}") == "1"
    assert git(repo, "worktree", "list").count("\n") == 0
    running = [lease.name for lease in jobs.bus.leases.list() if lease.name.startswith("task.")]
    assert running == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_u_69_worker_killed_at_any_call_of_git_loses_nothing(
    repo: Path, jobs: Jobs, counting: dict[str, str]
) -> None:
    """U-69, promise 5: kill -9 at each stage, and a restart: nothing is lost or done twice."""
    stride, step, kills = size(sample=20, whole=1), 1, 0
    while True:
        task = f"t{step}"
        jobs.publish("some words\n", task=task)
        is_killed = work(repo, counting, step)
        if is_killed:
            kills += 1
            assert not work(repo, counting, 0)
        check(repo, jobs, task)
        if not is_killed:
            break
        step += stride
    assert step > 20
    assert kills == (step - 1) // stride
    assert set(jobs.states()) == {"succeeded"}
    assert len(jobs.completions()) == kills + 1
    wait_until(lambda: not git(repo, "status", "--porcelain"))
