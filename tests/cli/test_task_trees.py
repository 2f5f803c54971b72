"""bus task spawn, done, diff, attach, clean: their forms, exit codes and lines."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import Ended, RunBus
from .conftest import assert_error
from .git import Git, git_env

ME = {"BUS_AGENT": "worker-1"}

RunTask = Callable[..., Ended]


@pytest.fixture
def main(project: Path, bus_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Git:
    """A repository with one commit, in which the bus is."""
    git = Git(project, git_env(bus_env))
    git.ok("init", "--quiet")
    git.commit("file", ".gitignore", text=".worker-state/\n")
    for name, value in git_env(os.environ).items():
        monkeypatch.setenv(name, value)
    return git


@pytest.fixture
def task(run_bus: RunBus, bus_env: dict[str, str], main: Git, bus: Bus) -> RunTask:
    """Runs `bus task`."""
    env = git_env(bus_env)

    def run(*args: str | Path, cwd: Path | None = None) -> Ended:
        return run_bus("task", *args, env={**env, **ME}, cwd=cwd)

    return run


def spawn(task: RunTask, *more: str) -> dict[str, object]:
    ended = task("spawn", "fix", "--worker", "worker-1", *more, "--json")
    assert ended.code == 0, ended.err
    record: dict[str, object] = json.loads(ended.out)
    return record


def test_spawn_prints_the_fixed_form(task: RunTask, main: Git, project: Path) -> None:
    """M-02, M-05: a branch for each worker, and the fields that programs rely on."""
    record = spawn(task)
    assert {name: record[name] for name in ("task", "attempt", "worker", "branch", "state")} == {
        "task": "fix",
        "attempt": 1,
        "worker": "worker-1",
        "branch": "worker-1/fix",
        "state": "ASSIGNED",
    }
    assert (record["base"], record["path"]) == (main.head, f"{project}.trees/fix")
    assert isinstance(record["token"], int)
    assert spawn(task) == record


def test_spawn_makes_no_worker_its_own_requester(run_bus: RunBus, main: Git, bus: Bus) -> None:
    """Item 24: without an agent the worker was asked for the review of its own work."""
    ended = run_bus("task", "spawn", "fix", "--worker", "w", env=dict(main.env))
    assert_error(ended, 2, "no agent is named: give --agent AGENT, or set BUS_AGENT")
    assert list(bus.read()) == []


@pytest.mark.slow
def test_whole_way_of_a_task_by_commands(task: RunTask, main: Git) -> None:
    record = spawn(task, "--prompt", "mend it", "--review", "none")
    token, path = str(record["token"]), Path(str(record["path"]))
    assert task("start", "fix", "--token", token).code == 0
    assert_error(task("done", "fix", "--token", token), 3, "has no commit beyond its base")
    git = Git(path, main.env)
    git.commit("mine", text="one\n")
    (path / "mine").write_text("two\n")
    assert_error(task("done", "fix", "--token", token), 3, "is not clean: not committed: mine")
    git.ok("checkout", "--quiet", "--", "mine")
    diff = task("diff", "fix")
    assert (diff.code, "+one\n" in diff.out) == (0, True)
    assert json.loads(task("diff", "fix", "--json").out) == {
        "file": "mine",
        "added": 1,
        "removed": 0,
    }
    ended = task("done", "fix", "--token", token, "--json", cwd=path)
    assert json.loads(ended.out)["state"] == "APPROVED"
    assert_error(task("done", "fix", "--token", "99"), 3, "the next step is merge")


def test_attach_runs_a_command_in_the_tree(task: RunTask, main: Git) -> None:
    """Q-25: each shell has a work tree of its own, and all have one bus."""
    record = spawn(task)
    told = task("attach", "fix", "--", "sh", "-c", 'echo "$PWD $BUS_TASK $BUS_TASK_TOKEN"; exit 7')
    assert (told.code, told.out) == (7, f"{record['path']} fix {record['token']}\n")
    assert_error(task("attach", "fix", "--", "no-such-program"), 2, "can't be run in")


@pytest.mark.slow
def test_clean_prints_what_keeps_the_work(task: RunTask, main: Git) -> None:
    record = spawn(task)
    git = Git(Path(str(record["path"])), main.env)
    git.commit("mine")
    head = git.head
    assert task("clean").code == 4
    assert task("cancel", "fix").code == 0
    (git.path / "new").touch()
    dirty = task("clean")
    assert (dirty.code, "unknown to git: new" in dirty.out) == (3, True)
    cleaned = task("clean", "--rescue", "--json")
    assert cleaned.code == 0, cleaned
    (line,) = cleaned.out.splitlines()
    refs = json.loads(line)["refs"]
    assert [main.ok("rev-parse", f"{ref}^{{commit}}") for ref in refs]
    assert head in main.ok("rev-list", "--all").split()
    assert not git.path.exists()
    assert not git.path.parent.exists()


@pytest.mark.parametrize("own", [".gitignore", "notes"])
def test_clean_leaves_a_folder_with_what_somebody_put_there(
    task: RunTask, main: Git, own: str
) -> None:
    folder = Path(str(spawn(task)["path"])).parent
    (folder / own).write_text("mine\n")
    assert task("cancel", "fix").code == 0
    assert task("clean").code == 0
    assert (folder / own).read_text() == "mine\n"


@pytest.mark.parametrize(
    ("args", "code", "line"),
    [
        (["--branch", "main"], 3, "branch 'main' is there already"),
        (["--base", "--all"], 3, "'--all' is no commit of"),
        (["--branch", "-x"], 2, "'-x' can be no name of a branch"),
        (["--branch", "@"], 2, "'@' can be no name of a branch"),
        (["--branch", "refs/heads/main"], 2, "'refs/heads/main' can be no name of a branch"),
        (["--copy", "../x"], 2, "is no glob of files below"),
        (["--review", "maybe"], 2, "--review must be none, required or other"),
        (["--priority", "urgent"], 2, "--priority must be interactive, normal or background"),
        (["-C", "/"], 1, "/ is in no git repository"),
        (["--setup", "echo broken >&2; exit 3"], 1, "failed with exit code 3: broken"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    task: RunTask, main: Git, bus: Bus, args: list[str], code: int, line: str
) -> None:
    ended = task("spawn", "fix", "--worker", "worker-1", *args)
    assert_error(ended, code, line)
    assert task("list").code == 4
    assert bus.leases.list() == []


@pytest.mark.slow
def test_doctor_names_what_is_left(task: RunTask, run_bus: RunBus, main: Git) -> None:
    """Promise 6: doctor names the trees of tasks that are over."""
    spawn(task)
    task("cancel", "fix")
    told = run_bus("doctor", env=dict(main.env)).out
    assert "is of task 'fix', which is CANCELLED" in told
    task("clean")
    assert "nothing left behind" in run_bus("doctor", "-v", env=dict(main.env)).out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--prompt", "other"), "its prompt is 'mend it', not 'other'"),
        (("--priority", "normal"), "its priority is background, not normal"),
        (("--review", "required"), "its review is 'none', not 'required'"),
        (("--reviewer", "rita"), "its reviewer is none, not 'rita'"),
        (("--max-attempts", "3"), "its attempts in all is 2, not 3"),
        (("--after", "first", "--after", "second"), "its dependencies is first, not first, second"),
        (("--into", "other"), "its target is main, not other"),
        (("--base", "other"), "its base is main, not other"),
        (("--branch", "other"), "worker-1 has it on branch worker-1/fix"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_repeated_spawn_refuses_an_option_that_differs(
    task: RunTask, main: Git, option: tuple[str, ...], words: str
) -> None:
    """Item 24: it was dropped without a word. A default that is given counts as given."""
    for name in ("first", "second"):
        assert task("spawn", name, "--worker", "w").code == 0
    main.ok("branch", "-M", "main")
    more = ("--prompt", "mend it", "--priority", "background", "--review", "none")
    record = spawn(task, *more, "--max-attempts", "2", "--after", "first", "--into", "main")
    main.commit("later")
    main.ok("branch", "other")
    assert_error(task("spawn", "fix", "--worker", "worker-1", *option), 3, words)
    assert spawn(task) == record  # what is left out, and a base that has moved, are the same task
    assert spawn(task, *more, "--base", "main") == record


def test_spawn_of_a_task_that_was_cancelled_says_what_to_do(task: RunTask, main: Git) -> None:
    spawn(task)
    assert task("cancel", "fix").code == 0
    ended = task("spawn", "fix", "--worker", "worker-1")
    assert_error(ended, 3, "is CANCELLED, which is final; choose another name")


@pytest.mark.parametrize("there", ["worker-1", "worker-1/fix/more"])
def test_branch_above_or_below_is_refused_before_anything_is_made(
    task: RunTask, main: Git, project: Path, there: str
) -> None:
    """Item 15: `git branch ann; bus task spawn fix-login --worker ann` left half a tree."""
    main.ok("branch", there)
    ended = task("spawn", "fix", "--worker", "worker-1")
    assert_error(ended, 3, f"can't be made beside branch '{there}'")
    assert main.ok("worktree", "list").count("\n") == 0
    assert not Path(f"{project}.trees").exists()


def test_hook_that_refuses_the_branch_does_so_before_anything_is_made(
    task: RunTask, main: Git, project: Path
) -> None:
    """Item 15: git's own refusals come first too, by a transaction that is only prepared."""
    hook = project / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntest $1 != prepared || ! grep -q refs/heads/worker-1\n")
    hook.chmod(0o755)
    ended = task("spawn", "fix", "--worker", "worker-1")
    assert_error(ended, 1, "branch 'worker-1/fix' can't be made")
    assert main.ok("worktree", "list").count("\n") == 0
    hook.unlink()
    assert spawn(task)["state"] == "ASSIGNED"
