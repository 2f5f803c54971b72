"""`bus demo --tasks` as a person runs it: real processes, real git, counts from log and git."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.demo.tasks import CELLAR, CHECK, PLAN, PLUMS, Project, read_proof

from ..conftest import RunBus

pytestmark = pytest.mark.slow


def test_all_lands_and_main_was_never_red(run_bus: RunBus, tmp_path: Path) -> None:
    """U-01: from a request to merged and checked commits, all ids linked.

    The proof can fail: it does where main moves past the check.
    """
    done = run_bus("demo", "--tasks", "--dir", tmp_path / "bus", "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)["summary"]
    proof = summary["proof"]
    assert proof["holds"]
    assert sorted(proof["landed"]) == sorted(PLAN)
    assert proof["attempts"][CELLAR] > 1 < proof["attempts"][PLUMS]
    assert "no price for stock/plums.txt" in str(proof["ended"][PLUMS])
    repository = summary["repository"]
    project = Project(str(Path(repository).parent))
    for commit in project.positions():
        tree = tmp_path / commit
        _git(repository, "worktree", "add", "--detach", str(tree), commit)
        subprocess.run(shlex.split(CHECK), cwd=tree, check=True)
    assert project.read("stock/cherries.txt") == "80\n"
    assert project.read("prices/cherries.txt") in ("4\n", "6\n")
    with Bus.open(tmp_path / "bus") as bus:
        (request,) = bus.read(type="task.request")
        conversation = {message.type for message in bus.read(conversation=request.id)}
        assert {"task.job", "state_change", "task.completion", "check_result"} <= conversation
        assert read_proof(bus, project).holds
        _git(repository, "commit", "--allow-empty", "-qm", "past the check")
        assert not read_proof(bus, project).holds


def test_the_commands_of_the_report_show_what_happened(run_bus: RunBus) -> None:
    done = run_bus("demo", "--tasks")
    assert (done.code, "it holds" in done.out) == (0, True), done.err
    _, _, below = done.out.partition("Look around:\n")
    looks, _, last = below.partition("See it all in the browser:\n")
    for line in looks.splitlines():
        program, *words = shlex.split(line)
        if program == "git":
            subprocess.run([program, *words], check=True, capture_output=True)
        else:
            assert run_bus(*words).code == 0
    page, _, removal = last.splitlines()
    directory = shlex.split(page)[-1]
    assert shlex.split(page)[-3:-1] == ["ui", "--dir"]
    assert Path(directory, "bus.db").exists()
    subprocess.run(shlex.split(removal), check=True)
    assert not Path(directory).parent.exists()


def _git(folder: str, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout
