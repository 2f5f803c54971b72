"""Proofs of what the integrator really did: a batch, a task that was sent back, a failed check."""

import json
from pathlib import Path
from typing import Any

import pytest

from ...conftest import Ended, RunBus
from ...git_branches.plain_git import git

pytestmark = pytest.mark.slow  # starts many processes of git


@pytest.fixture
def shop(project: Path, bus_dir: Path) -> Path:
    """A repository with a bus, whose main work tree is on no branch."""
    git(project, "init", "--quiet", "-b", "main")
    git(project, "config", "user.name", "a")
    git(project, "config", "user.email", "a@example.com")
    (project / "a").write_text("1\n")
    (project / ".gitignore").write_text(".worker-state\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "first")
    return bus_dir.parent


def ok(run_bus: RunBus, *args: str) -> Ended:
    done = run_bus(*args)
    assert done.code == 0, done
    return done


def work(run_bus: RunBus, name: str, **files: str) -> None:
    """Takes a task from its beginning, or its next attempt, to its approval."""
    spawned = ok(
        *(run_bus, "task", "spawn", name, "--worker", f"w-{name}", "--agent", "lead", "--json")
    )
    task = json.loads(spawned.out)
    as_worker = ("--agent", f"w-{name}", "--token", str(task["token"]))
    ok(run_bus, "task", "start", name, *as_worker)
    for file, text in files.items():
        Path(task["path"], file).write_text(text)
    git(Path(task["path"]), "add", "--all")
    git(Path(task["path"]), "commit", "--quiet", "--message", name)
    ok(run_bus, "task", "done", name, *as_worker)
    ok(run_bus, "task", "approve", name, "--agent", "rita")


def proof_of(run_bus: RunBus, name: str) -> dict[str, Any]:
    made = ok(run_bus, "task", "proof", name)
    checked = run_bus("task", "proof", "--verify", "-", stdin=made.out)
    assert (checked.code, checked.out) == (0, "all agrees\n")
    proof: dict[str, Any] = json.loads(made.out)
    return proof


def test_a_batch_has_a_proof_for_each_task(shop: Path, run_bus: RunBus) -> None:
    for name in ("one", "two", "bad", "three"):
        work(run_bus, name, **{name: "x\n"})
    git(shop, "checkout", "--quiet", "--detach")
    said = run_bus("integrate", "--once", "--check", "test ! -e bad", "--json")
    outcomes = {each["task"]: each for each in map(json.loads, said.out.splitlines())}
    assert outcomes["bad"]["outcome"] == "check_failed"
    for name in ("one", "two", "three"):
        proof = proof_of(run_bus, name)
        assert proof["commit"] == outcomes[name]["commit"]
        assert {each["says"]["exit"] for each in proof["checks"]} >= {0}
        assert proof["intent"][0]["says"]["candidate"] == proof["commit"]
    assert run_bus("task", "proof", "bad").code == 3


def test_a_task_that_was_sent_back_has_both_attempts_in_its_proof(
    shop: Path, run_bus: RunBus
) -> None:
    work(run_bus, "one", a="one\n")
    work(run_bus, "two", a="two\n")
    git(shop, "checkout", "--quiet", "--detach")
    said = run_bus("integrate", "--once", "--json")
    outcomes = [json.loads(line)["outcome"] for line in said.out.splitlines()]
    assert outcomes == ["landed", "conflict"]
    tree = Path(json.loads(ok(run_bus, "task", "show", "two", "--json").out)["path"])
    git(tree, "reset", "--quiet", "--hard", "main")
    work(run_bus, "two", b="two\n")
    ok(run_bus, "integrate", "--once")
    proof = proof_of(run_bus, "two")
    assert proof["attempt"] == 2
    assert [each["says"]["to"] for each in proof["attempts"]].count("FAILED") == 1
    assert [each["says"]["outcome"] for each in proof["outcome"]] == ["landed"]
