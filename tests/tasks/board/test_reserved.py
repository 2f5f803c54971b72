"""Files that a task changes, and that others have reserved: told when it is done."""

import json
import re
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.tasks.board.forecast import TaskRepositories, changed_by, reserved_by_others

from ...conftest import RunBus
from ...git_branches.plain_git import commit, git
from ...server.mcp_clients import Agent, in_process
from .conftest import Workshop


def test_only_what_a_task_changed_itself_counts(workshop: Workshop) -> None:
    task = workshop.begin("one")
    workshop.commit(task, **{"mine": "x", "deep/inner": "y"})
    commit(workshop.path, "main", "main", other="z")
    git(workshop.path, "checkout", "--quiet", task.branch)
    git(workshop.path, "merge", "--quiet", "--no-edit", "main")
    assert set(changed_by([task], TaskRepositories(workshop.bus))["one"]) == {"mine", "deep/inner"}
    workshop.bus.reservations.reserve(["other", "deep"], "alice")
    workshop.bus.reservations.reserve(["mine"], "worker-1")
    found = reserved_by_others(workshop.bus, [task])
    assert [(each.conflict.path, each.conflict.held.agent) for each in found] == [
        ("deep/inner", "alice")
    ]


@pytest.mark.parametrize("door", ["command", "MCP"])
def test_done_tells_of_files_that_others_have_reserved(
    bus_dir: Path, project: Path, run_bus: RunBus, tmp_path: Path, door: str
) -> None:
    git(project, "init", "--quiet", "-b", "main")
    (project / "a").write_text("1\n")
    (project / ".gitignore").write_text(".worker-state\n")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "first")
    made = run_bus("task", "spawn", "fix", "--worker", "me", "--agent", "lead", "--json")
    assert made.code == 0, made.err
    task = json.loads(made.out)
    run_bus("task", "start", "fix", "--agent", "me", "--token", str(task["token"]))
    tree = Path(task["path"])
    (tree / "a").write_text("2\n")
    git(tree, "commit", "--quiet", "--all", "--message", "change")
    with Bus.open(bus_dir) as bus:
        bus.reservations.reserve(["a"], "alice")
    if door == "command":
        done = run_bus("task", "done", "fix", "--agent", "me", "--token", str(task["token"]))
        assert done.code == 0
        assert "task fix changes a file that is not its own: a is reserved by alice" in done.err
        assert "; it may live, silent since 2" in done.err
    else:

        async def act(me: Agent) -> str:
            return await me.read("bus_task", action="done", task="fix", token=task["token"])

        told = in_process(bus_dir, act)
        words = r"a is reserved by alice \(it may live, silent since \S+\): tell it\."
        assert re.search(words, told)
    with Bus.open(bus_dir) as bus:
        assert json.loads(run_bus("task", "show", "fix", "--json").out)["state"] == "IN_REVIEW"
