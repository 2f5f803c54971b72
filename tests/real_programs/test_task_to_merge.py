"""A real program works on a task before a scripted model, from its job to a merged commit.

`make programs` gets the programs from npm, and runs this.
"""

import os
import sysconfig
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.schema.message.draft import Draft
from ackbus.tasks.steps.tasks import Tasks

from ..cli.git import Git, git_env
from ..conftest import RunBus
from ..tasks.conftest import enter
from .person import Person
from .scripted_model import Call, ScriptedModel

BUS = os.path.join(sysconfig.get_path("scripts"), "bus")

WRITTEN = "written by an agent\n"

#: The call by which each program writes the file `new.txt` in its work tree.
CALLS = {
    "claude": Call("Write", {"file_path": "new.txt", "content": WRITTEN}),
    "codex": Call("exec_command", {"cmd": f"echo '{WRITTEN.strip()}' >new.txt"}),
    "gemini": Call("write_file", {"file_path": "new.txt", "content": WRITTEN}),
    "copilot": Call("create", {"path": "new.txt", "file_text": WRITTEN}),
    "opencode": Call("write", {"filePath": "new.txt", "content": WRITTEN}),
}


@pytest.fixture
def call(name: str) -> Call:
    return CALLS[name]


@pytest.fixture
def git(project: Path, bus_dir: Path, bus_env: dict[str, str]) -> Git:
    """The folder `project` as a repository with one commit; its bus is no part of it."""
    git = Git(project, git_env(bus_env))
    git.ok("init", "--quiet", "--initial-branch=main")
    git.ok("config", "user.name", "person")
    git.ok("config", "user.email", "person@example.org")
    (project / ".git" / "info" / "exclude").write_text(f"{bus_dir.name}\n")
    git.commit("first.txt")
    return git


def test_program_takes_a_task_to_a_merged_commit(
    name: str, person: Person, model: ScriptedModel, bus: Bus, run_bus: RunBus, git: Git
) -> None:
    """Its preset is right: what it writes is committed, approved, checked, and lands on main."""
    draft = Draft(
        "task.job", {"prompt": "write new.txt", "task": "t"}, from_agent="me", to_agent="tasks"
    )
    (job,) = enter(bus, draft)
    said = person.run([BUS, "task", "work", "--worker", "w", "--program", name, "--once"])
    task = Tasks(bus).get("t")
    assert (task.state, task.reason) == ("APPROVED", None), said
    assert len(model.asked) == 2, said
    landed = run_bus("integrate", "--once", "--check", "test -e new.txt", "--agent", "integrator")
    assert landed.code == 0, landed
    assert git.ok("show", "main:new.txt") == WRITTEN.strip()
    assert git.ok("status", "--porcelain") == ""
    states = [each.payload["to"] for each in bus.read(type="state_change", conversation=job.id)]  # type: ignore[call-overload, index]
    assert states == ["ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED", "COMPLETED"]
    completions = [each.conversation for each in bus.read(type="task.completion")]
    assert completions == [job.id]
